//! Translation between two tokenizers: incremental translation equals that of the whole text, and drafts come back whole.

use common::foreign;
use common::tokenizers::{Random, built, byte_fallback, metaspace, tales};
use foretoken::internals::text::{Tokenizer, Translator};
use std::rc::Rc;

/// Returns byte-level tokenizers that can encode every text and have the same special tokens, then other kinds.
fn kinds() -> [(&'static str, Rc<Tokenizer>); 4] {
    [
        ("tales", tales()),
        ("fewer merges", built(&foreign::tokenizer(1_500))),
        ("byte fallback", built(&byte_fallback())),
        ("metaspace", built(&metaspace())),
    ]
    .map(|(name, tokenizer)| (name, Rc::new(tokenizer)))
}

fn pair(target: usize, draft: usize) -> (Rc<Tokenizer>, Rc<Tokenizer>, Translator) {
    let kinds = kinds();
    let (target, draft) = (kinds[target].1.clone(), kinds[draft].1.clone());
    let translator = Translator::new(target.clone(), draft.clone());
    (target, draft, translator)
}

#[test]
fn piece_by_piece_gives_what_the_whole_text_gives() {
    let mut random = Random(1);
    for (from, target) in kinds() {
        for (to, draft) in kinds() {
            for _ in 0..30 {
                let text: String = (0..6).map(|_| random.text()).collect();
                let tokens = target.encode(&text, true).unwrap();
                let mut translator = Translator::new(target.clone(), draft.clone());
                let mut at = 0;
                while at < tokens.len() {
                    at = (at + 1 + random.below(4)).min(tokens.len());
                    let pieces = translator.for_draft(&tokens[..at]).unwrap();
                    let whole = Translator::new(target.clone(), draft.clone()).for_draft(&tokens[..at]).unwrap();
                    assert_eq!(pieces, whole, "{from} -> {to}: {:?}", target.decode(&tokens[..at], false));
                }
            }
        }
    }
}

#[test]
fn what_the_draft_model_writes_comes_back_as_the_targets_tokens() {
    let mut random = Random(2);
    for (from, target) in &kinds()[..3] {
        for (to, draft) in &kinds()[..2] {
            let mut came_back = 0;
            for _ in 0..60 {
                let text: String = (0..6).map(|_| random.text()).collect();
                let tokens = target.encode(&text, true).unwrap();
                let mut translator = Translator::new(target.clone(), draft.clone());
                let whole = translator.for_draft(&tokens).unwrap();
                let mut translator = Translator::new(target.clone(), draft.clone());
                for at in 1..tokens.len() {
                    let known = translator.for_draft(&tokens[..at]).unwrap();
                    if known.is_empty() {
                        continue;
                    }
                    let Some(rest) = whole.strip_prefix(&known[..]) else { continue };
                    let what = format!("{from} -> {to}: {:?}", target.decode(&tokens[..at], false));
                    let guess = translator.for_target(rest).unwrap();
                    assert!(tokens[at..].starts_with(&guess), "{what} {guess:?}");
                    let ended = rest.iter().any(|&id| draft.is_special(id));
                    assert!(ended || guess == tokens[at..], "{what} {guess:?}");
                    came_back += guess.len();
                    // All whole characters of a truncated draft come back.
                    let some = &rest[..random.below(rest.len() + 1)];
                    if !some.iter().any(|&id| draft.is_special(id)) {
                        let guess = translator.for_target(some).unwrap();
                        let written = draft.decode(&[&known[..], some].concat(), false).unwrap();
                        let read = target.decode(&[&tokens[..at], &guess].concat(), false).unwrap();
                        assert!(read.ends_with(written.trim_end_matches('\u{FFFD}')), "{what}: {written:?}, {read:?}");
                    }
                }
            }
            assert!(came_back > 10_000, "{from} -> {to}: {came_back}");
        }
    }
}

#[test]
fn repetitions_do_not_mislead() {
    let (target, draft, mut translator) = pair(0, 1);
    let text = " la".repeat(60);
    let tokens = target.encode(&text, false).unwrap();
    for at in 1..=tokens.len() {
        let part = target.decode(&tokens[..at], false).unwrap();
        assert_eq!(translator.for_draft(&tokens[..at]).unwrap(), draft.encode(&part, false).unwrap());
    }
}

#[test]
fn nothing_is_drafted_inside_a_character() {
    let (target, draft, mut translator) = pair(0, 1);
    let tokens = target.encode("King 👩", false).unwrap();
    let king = target.encode("King ", false).unwrap().len();
    for at in king + 1..tokens.len() {
        assert_eq!(translator.for_draft(&tokens[..at]).unwrap(), [0u32; 0]);
    }
    assert_eq!(translator.for_draft(&tokens).unwrap(), draft.encode("King 👩", false).unwrap());
    let woman = draft.encode("👩", false).unwrap();
    let next = target.encode("👩", false).unwrap();
    assert_eq!(translator.for_target(&woman).unwrap(), next);
    // An incomplete character does not come back; the text before it does.
    assert_eq!(translator.for_target(&woman[..2]).unwrap(), [0u32; 0]);
    let more = draft.encode(" the 👩", false).unwrap();
    let the = target.encode(" the ", false).unwrap();
    assert_eq!(translator.for_target(&more[..more.len() - 1]).unwrap(), the);
}

#[test]
fn a_guess_inside_a_token_is_none() {
    let (target, draft, mut translator) = pair(0, 1);
    assert_eq!(target.encode(" king", false).unwrap().len(), 1);
    let split = ["Ġk", "i"].map(|token| target.token_to_id(token).unwrap());
    translator.for_draft(&split).unwrap();
    assert_eq!(translator.for_target(&draft.encode("ng was", false).unwrap()).unwrap(), [0u32; 0]);
    // Another text is translated from its beginning.
    let king = target.encode(" king", false).unwrap();
    assert_eq!(translator.for_draft(&king).unwrap(), draft.encode(" king", false).unwrap());
    let was = target.encode(" was", false).unwrap();
    assert_eq!(translator.for_target(&draft.encode(" was", false).unwrap()).unwrap(), was);
}

#[test]
fn special_tokens_are_those_with_the_same_string() {
    let (target, draft, mut translator) = pair(0, 1);
    let (end, theirs) = (target.token_to_id("<|im_end|>").unwrap(), draft.token_to_id("<|im_end|>").unwrap());
    assert_ne!(end, theirs);
    let tokens = target.encode("The king<|im_end|> and", false).unwrap();
    assert_eq!(translator.for_draft(&tokens).unwrap(), draft.encode("The king<|im_end|> and", false).unwrap());
    let drafted = draft.encode(" his<|im_end|>so", false).unwrap();
    assert_eq!(translator.for_target(&drafted).unwrap(), target.encode(" his<|im_end|>", false).unwrap());

    // Special tokens that the other side lacks are omitted, and end a draft. The draft model's text begins as its file requires.
    let (target, draft, mut translator) = pair(0, 2);
    let tokens = target.encode("<|im_end|>ab c", false).unwrap();
    let known = translator.for_draft(&tokens).unwrap();
    assert_eq!(known, draft.encode("ab c", true).unwrap());
    assert_eq!(known[0], draft.token_to_id("<s>").unwrap());
    let drafted = [draft.encode("ab", false).unwrap(), vec![2, known[1]]].concat();
    assert_eq!(translator.for_target(&drafted).unwrap(), target.encode(" ab", false).unwrap());
    let (target, _, mut translator) = pair(2, 2);
    let tokens = target.encode("ab c", true).unwrap();
    assert_eq!(translator.for_draft(&tokens).unwrap(), tokens);
}

#[test]
fn bytes_that_may_go_on_count_as_what_they_are_now() {
    let (target, draft, mut translator) = pair(2, 0);
    let text = "ab\n\nc";
    let tokens = target.encode(text, true).unwrap();
    for at in 2..=tokens.len() {
        let part = target.decode(&tokens[..at], true).unwrap();
        assert_eq!(translator.for_draft(&tokens[..at]).unwrap(), draft.encode(&part, false).unwrap(), "{part:?}");
    }
}
