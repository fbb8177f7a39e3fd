//! The suffix lookup, and what it remembers of earlier texts.

use foretoken::internals::speculate::{Drafter, SuffixLookup, TokenLog};
use foretoken::internals::target::Draft;
use std::cell::RefCell;
use std::rc::Rc;

/// End of a text.
const END: u32 = 0;

struct Texts(Rc<RefCell<TokenLog>>);

impl Texts {
    fn new(limit: usize) -> Self {
        Self(Rc::new(RefCell::new(TokenLog::new(limit))))
    }

    /// Remembers texts that have ended.
    fn after(limit: usize, texts: &[&[u32]]) -> Self {
        let log = Self::new(limit);
        texts.iter().for_each(|text| log.0.borrow_mut().remember(text));
        log
    }

    fn lookup(&self) -> SuffixLookup {
        SuffixLookup::new(self.0.clone(), 31, &[END])
    }

    /// Returns the draft for another text.
    fn draft(&self, text: &[u32]) -> Vec<u32> {
        draft(&mut self.lookup(), text)
    }
}

fn draft(lookup: &mut SuffixLookup, text: &[u32]) -> Vec<u32> {
    match lookup.draft(text, 100) {
        Draft::Tokens(tokens) => tokens,
        Draft::Model(_) => panic!("a lookup has no model"),
    }
}

/// Returns tokens that are not repeated.
fn fresh(from: u32, count: u32) -> Vec<u32> {
    (from..from + count).collect()
}

const NONE: [u32; 0] = [];

#[test]
fn a_text_is_proposed_from_an_earlier_one() {
    let story = fresh(100, 60);
    let log = Texts::after(1000, &[&story]);
    let mut lookup = log.lookup();
    let mut text = vec![7, 8];
    text.extend(&story[..20]);
    assert_eq!(draft(&mut lookup, &text), story[20..49]);
    // Tokens of the current text count as well.
    text.extend([9, 7, 8]);
    assert_eq!(draft(&mut lookup, &text)[..3], story[..3]);
    assert_eq!(log.draft(&[5, 6]), NONE);
}

#[test]
fn the_most_frequent_continuation_wins_over_the_latest() {
    let texts: [&[u32]; 4] = [&[3, 1, 2, 5, END], &[4, 1, 2, 5, END], &[5, 1, 2, 5, END], &[6, 1, 2, 6, END]];
    assert_eq!(Texts::after(100, &texts).draft(&[9, 1, 2]), [5]);
    // Of two with as many votes, the latest.
    assert_eq!(Texts::after(100, &[texts[2], texts[3]]).draft(&[9, 1, 2]), [6]);
    // A longer match counts more than several short ones that disagree.
    let exact: [&[u32]; 3] = [&[7, 8, 1, 2, 4, END], texts[0], texts[3]];
    assert_eq!(Texts::after(100, &exact).draft(&[7, 8, 1, 2]), [4]);
}

#[test]
fn a_draft_is_as_long_as_it_is_certain() {
    let [long, short] = [16, 2].map(|matched| {
        let story = fresh(100, 60);
        Texts::after(1000, &[&story]).draft(&story[20 - matched..20]).len()
    });
    assert_eq!((short, long), (3, 29));
    // The more places agree, the longer.
    let story = fresh(100, 60);
    let texts: Vec<Vec<u32>> = (0..3).map(|i| [&fresh(i, 1)[..], &story].concat()).collect();
    let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
    assert!(Texts::after(1000, &texts).draft(&story[18..20]).len() > short + 6);
    // It ends where they disagree too much.
    let texts: Vec<Vec<u32>> = (0..8).map(|i| vec![30 + i, 1, 2, 3, 10 + i, 20 + i]).collect();
    let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
    assert_eq!(Texts::after(1000, &texts).draft(&[1, 2]), [3]);
}

#[test]
fn a_repetition_is_continued() {
    assert_eq!(Texts::new(0).draft(&[9, 5, 5, 5, 5])[..4], [5; 4]);
    assert_eq!(Texts::new(0).draft(&[1, 2, 3, 1, 2, 3, 1])[..5], [2, 3, 1, 2, 3]);
}

#[test]
fn the_oldest_tokens_are_forgotten() {
    let texts: Vec<Vec<u32>> = (1..=40).map(|i| fresh(100 * i, 50)).collect();
    let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
    for (i, text) in texts.iter().enumerate() {
        assert_eq!(Texts::after(520, &texts).draft(&text[10..20]).is_empty(), i < 30, "text {i}");
    }
    let log = Texts::after(520, &texts);
    // The newest text is kept even if it is longer.
    let long = [fresh(100, 3000), vec![100, 101]].concat();
    assert_eq!(log.draft(&long)[0], 102);
    assert_eq!(log.draft(texts[39]), NONE);
}

#[test]
fn a_memory_of_0_tokens_remembers_nothing() {
    let log = Texts::after(0, &[&fresh(100, 50)]);
    assert_eq!(log.draft(&fresh(100, 20)), NONE);
    assert_eq!(log.draft(&[1, 2, 3, 4, 1, 2])[0], 3);
    assert_eq!(log.draft(&[1, 2]), NONE);
}

#[test]
fn a_draft_ends_before_an_end_and_at_the_end_of_a_text() {
    let log = Texts::after(100, &[&[1, 2, 3, END, 4], &[5, 6, 7], &[8, 9]]);
    assert_eq!(log.draft(&[1, 2]), [3]);
    assert_eq!(log.draft(&[2, 3]), NONE);
    assert_eq!(log.draft(&[5, 6]), [7]);
    assert_eq!(log.draft(&[6, 7]), NONE);
    let mut lookup = log.lookup();
    assert!(lookup.draft(&[1, 2], 1).is_empty(), "no draft before the last token");
}

/// A shared beginning is stored once, so a remembered conversation of any number of turns takes the memory of its tokens.
#[test]
fn a_shared_beginning_is_stored_once() {
    let mut conversation = fresh(1, 3);
    let log = Texts::after(600, &[&fresh(1000, 40)]);
    for turn in 0..40 {
        conversation.extend(fresh(100 + 10 * turn, 10));
        log.0.borrow_mut().remember(&conversation);
    }
    // Other answers to the same prompt, and then the prompt once more.
    let prompt = &conversation[..300];
    for answer in 0..3 {
        log.0.borrow_mut().remember(&[prompt, &fresh(2000, 10), &[answer + 1]].concat());
    }
    assert_eq!(log.draft(prompt)[..5], fresh(2000, 5));
    assert_eq!(log.draft(&fresh(1000, 20))[..3], [1020, 1021, 1022]);
    assert_eq!(log.draft(&conversation[398..400])[..3], conversation[400..403]);
}

/// Compares with a search of all remembered texts: a token of a draft followed the last tokens somewhere, with the draft so far.
#[test]
fn a_draft_consists_of_tokens_that_followed_its_context() {
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((state >> 33) % below) as u32
    };
    for (tokens, limit) in [(2, 0), (3, 50), (5, 300), (40, 2000)] {
        let (log, mut all) = (Texts::new(limit), Vec::<Vec<u32>>::new());
        let mut drafted = 0;
        for _ in 0..40 {
            // A beginning of the text before, or a new one.
            let kept = all.last().map_or(0, |text| random(2) as usize * random(text.len() as u64 + 1) as usize);
            let mut text = all.last().map_or(Vec::new(), |text| text[..kept].to_vec());
            let mut lookup = log.lookup();
            for _ in 0..random(60) {
                text.extend((0..=random(4)).map(|_| random(tokens)));
                let found = draft(&mut lookup, &text);
                let continued = [&text[..], &found].concat();
                drafted += found.len();
                assert!(found.len() <= 31 && !found.contains(&END));
                for end in text.len()..continued.len() {
                    let context = &continued[text.len() - 2..=end];
                    let earlier = continued[..end].windows(context.len()).any(|each| each == context);
                    let known = all.iter().any(|text| text.windows(context.len()).any(|each| each == context));
                    assert!(earlier || known, "{found:?} after {text:?}");
                }
            }
            log.0.borrow_mut().remember(&text);
            all.push(text);
        }
        assert!(drafted > 100, "{drafted} tokens of {tokens}");
    }
}
