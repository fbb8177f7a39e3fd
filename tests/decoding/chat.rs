//! Conversations: a turn reuses what both caches hold of earlier turns, and a chat that outgrows the context is shifted.
//! Neither changes the text.

use common::{gpu, path, run};
use foretoken::internals::backend::Device;
use foretoken::internals::session::{Progress, Session};
use foretoken::internals::text::{ChatInput, ChatTemplate, Tokenizer};
use foretoken::internals::weights::Folder;
use foretoken::{
    ContextPolicy, Error, GenerateOptions, Generation, LoadOptions, Message, Prompt, Schedule, Speculation,
};
use serde_json::json;
use std::ops::ControlFlow;

fn load(target: &str, draft: &str, max_context: usize) -> Session {
    load_on(&gpu(), target, draft, max_context, 0)
}

fn load_on(
    device: impl Into<Device>,
    target: &str,
    draft: &str,
    max_context: usize,
    prompt_cache_bytes: u64,
) -> Session {
    let open = |folder: &str| Folder::open(path(folder)).unwrap();
    let options = LoadOptions::new().max_context(max_context).prompt_cache_bytes(prompt_cache_bytes);
    run(Session::load(device, Box::new(open(target)), Some(Box::new(open(draft))), &options, &mut |_, _| ())).unwrap()
}

fn messages(texts: &[&str]) -> Vec<Message> {
    texts.iter().enumerate().map(|(at, text)| Message::new(["user", "assistant"][at % 2], *text)).collect()
}

/// Generates an answer and stops it after `most` tokens.
fn answer(session: &mut Session, chat: &[Message], options: &GenerateOptions, most: usize) -> Generation {
    let mut left = most;
    let mut count = |progress: Progress<'_>| {
        left -= usize::from(matches!(progress, Progress::Token(_)));
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    run(session.generate(&Prompt::Chat(chat.to_vec()), options, &mut count)).unwrap()
}

fn common_prefix(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

const TURNS: [&str; 3] = [
    "Tell this again: The king had a daughter who was very proud.",
    "Continue the tale: The fox went into the wood and met a wolf.",
    "Put \"miller\" for \"king\": The king rode home.",
];

#[test]
fn a_turn_reuses_both_caches_and_its_text_is_that_of_a_fresh_session() {
    // Another schedule may leave the draft model's cache shorter.
    let num_assistant_tokens_schedule = Schedule::Constant;
    let greedy = GenerateOptions::new().max_new_tokens(24).num_assistant_tokens_schedule(num_assistant_tokens_schedule);
    let sampled = greedy.clone().do_sample(true).temperature(0.7).seed(5);
    check_turns(&Device::cpu(), &[(&greedy, 1000), (&sampled, 1000), (&greedy, 9)]);
    // A software GPU takes long.
    check_turns(&Device::from(&gpu()), &[(&sampled, 9)]);
}

/// Writes conversations with these options and numbers of tokens, after which an answer is stopped.
fn check_turns(device: &Device, ways: &[(&GenerateOptions, usize)]) {
    let begin = || load_on(device.clone(), "models/tales/target", "models/tales/draft", 512, 0);
    let (mut session, mut fresh) = (begin(), begin());
    for &(options, most) in ways {
        let (mut chat, mut read, mut cached) = (Vec::new(), 0, Vec::new());
        for text in TURNS {
            chat.push(Message::new("user", text));
            let prompt = session.encode(&Prompt::Chat(chat.clone()), options).unwrap();
            let turn = answer(&mut session, &chat, options, most);
            // Nothing to reuse: this prompt replaces the cached one.
            answer(&mut fresh, &messages(&["x"]), options, 1);
            let expected = answer(&mut fresh, &chat, options, most);
            assert_eq!((&turn.text, &turn.token_ids), (&expected.text, &expected.token_ids));

            let stats = &turn.stats;
            if !cached.is_empty() {
                assert_eq!(stats.num_cached_tokens, common_prefix(&cached, &prompt));
                assert!(stats.num_cached_tokens >= read, "{stats:?}");
                assert!(stats.num_cached_draft_tokens <= stats.num_cached_tokens, "{stats:?}");
                // It lacks the last token of a draft, and the token of a last round without a draft.
                assert!(stats.num_cached_draft_tokens + 2 >= stats.num_cached_tokens, "{stats:?}");
                assert_eq!(stats.num_dropped_messages, 0);
            }
            // The last token is never read.
            read = prompt.len();
            cached = [&prompt[..], &turn.token_ids[..turn.token_ids.len() - 1]].concat();
            chat.push(Message::new("assistant", turn.text));
        }
    }
}

/// Runs a first turn of three conversations, then their second turns. Returns the cached tokens and texts of the second turns.
fn taking_turns(device: impl Into<Device>, prompt_cache_bytes: u64) -> (Vec<usize>, Vec<String>, Session) {
    let mut session = load_on(device, "models/tales/target", "models/tales/draft", 512, prompt_cache_bytes);
    let options = GenerateOptions::new().max_new_tokens(12);
    let mut chats = TURNS.map(|text| messages(&[text]));
    for chat in &mut chats {
        let turn = answer(&mut session, chat, &options, 1000);
        chat.extend([Message::new("assistant", turn.text), Message::new("user", TURNS[0])]);
    }
    let turns: Vec<_> = chats.iter().map(|chat| answer(&mut session, chat, &options, 1000)).collect();
    let cached = turns.iter().map(|turn| turn.stats.num_cached_tokens).collect();
    (cached, turns.into_iter().map(|turn| turn.text).collect(), session)
}

#[test]
fn conversations_that_take_turns_are_not_read_again() {
    for device in [Device::from(&gpu()), Device::cpu()] {
        let (nothing, alone, _) = taking_turns(device.clone(), 0);
        let (all, together, mut session) = taking_turns(device.clone(), 64 << 20);
        assert_eq!(together, alone);
        // Without a prompt cache only the first tokens of the chat template are cached.
        assert!(nothing.iter().all(|cached| *cached < 16), "{nothing:?}");
        assert!(all.iter().all(|cached| *cached > 24), "{all:?}");
        // A branch of a conversation keeps the original cached.
        let options = GenerateOptions::new().max_new_tokens(4);
        let chat = messages(&[TURNS[0], "No.", TURNS[1]]);
        let branch = answer(&mut session, &chat, &options, 1000);
        assert!(branch.stats.num_cached_tokens > 16, "{:?}", branch.stats);
        // With a budget for one text the oldest copies are evicted.
        let one = session.engine().snapshot_bytes().unwrap() * 3 / 2;
        let (some, _, _) = taking_turns(device, one);
        assert!(some.iter().filter(|cached| **cached > 24).count() < 3, "{some:?}");
    }
}

/// A cached copy is kept if the longer text that begins with it is too large to be cached.
#[test]
fn a_conversation_that_outgrows_the_budget_keeps_its_beginning() {
    let mut session = load_on(Device::cpu(), "models/tales/draft", "models/tales/draft", 512, 0);
    // How much of a text the draft model has read depends on the machine's speed.
    let plain = GenerateOptions::new().speculation(Speculation::Off);
    let (long, short) = (plain.clone().max_new_tokens(40), plain.max_new_tokens(1));
    let mut chat = messages(&[TURNS[1]]);
    let first = answer(&mut session, &chat, &long, 1000);
    let budget = session.engine().snapshot_bytes().unwrap() * 3 / 2;
    let mut session = load_on(Device::cpu(), "models/tales/draft", "models/tales/draft", 512, budget);
    let other = messages(&["x"]);
    // The copy is made when the other conversation begins, and kept when the same answer is generated again.
    for _ in 0..2 {
        assert_eq!(answer(&mut session, &chat, &long, 1000).token_ids, first.token_ids);
        answer(&mut session, &other, &short, 1000);
    }
    answer(&mut session, &chat, &long, 1000);
    let kept = session.engine().cached().len();
    chat.extend([Message::new("assistant", first.text), Message::new("user", TURNS[0])]);
    answer(&mut session, &chat, &long, 1000);
    assert!(session.engine().snapshot_bytes().unwrap() > budget);
    answer(&mut session, &other, &short, 1000);
    let again = answer(&mut session, &chat, &long, 1000);
    assert!(again.stats.num_cached_tokens + 8 > kept, "{} of {kept}", again.stats.num_cached_tokens);
}

#[test]
fn a_saved_conversation_goes_on_in_another_session() {
    let options = GenerateOptions::new().max_new_tokens(12);
    let begin = |device: Device, target: &str| load_on(device, target, "models/tales/draft", 512, 0);
    for device in [Device::from(&gpu()), Device::cpu()] {
        let mut session = begin(device.clone(), "models/tales/target");
        let mut chat = messages(&[TURNS[0]]);
        let turn = answer(&mut session, &chat, &options, 1000);
        chat.push(Message::new("assistant", turn.text));
        let mut layers = Vec::new();
        let mut keep = async |layer: usize, bytes: Vec<u8>| {
            assert_eq!(layer, layers.len());
            layers.push(bytes);
            Ok(())
        };
        let tokens = run(session.save(&Prompt::Chat(chat.clone()), &options, &mut keep)).unwrap();
        assert!(tokens.len() > 24, "{tokens:?}");
        chat.push(Message::new("user", TURNS[1]));
        let expected = answer(&mut session, &chat, &options, 1000);

        let restore = |session: &mut Session, tokens: &[u32], layers: &[Vec<u8>]| {
            run(session.restore(tokens, &mut async |layer| Ok(layers[layer].clone()))).unwrap()
        };
        let mut other = begin(device.clone(), "models/tales/target");
        assert!(restore(&mut other, &tokens, &layers));
        let again = answer(&mut other, &chat, &options, 1000);
        assert_eq!(again.token_ids, expected.token_ids);
        assert_eq!(again.stats.num_cached_tokens, tokens.len());

        // Refused: another model, damaged bytes, another last token, other sizes.
        assert!(!restore(&mut begin(device.clone(), "models/tales/draft"), &tokens, &layers));
        let mut fresh = begin(device.clone(), "models/tales/target");
        let mut damaged = layers.clone();
        damaged[0].iter_mut().step_by(7).for_each(|byte| *byte ^= 1);
        assert!(!restore(&mut fresh, &tokens, &damaged));
        let (last, before) = tokens.split_last().unwrap();
        assert!(!restore(&mut fresh, &[before, &[last ^ 1]].concat(), &layers));
        assert!(!restore(&mut fresh, &[&tokens[..], &[0; 300]].concat(), &layers));
        assert!(!restore(&mut fresh, &[u32::MAX], &layers));
        assert!(fresh.engine().cached().is_empty());
        assert_eq!(answer(&mut fresh, &chat, &options, 1000).token_ids, expected.token_ids);
    }
}

#[test]
fn a_chat_that_outgrows_the_context_goes_on_as_if_it_had_begun_later() {
    let mut session = load("models/tales/draft", "models/tales/draft", 128);
    let mut fresh = load("models/tales/draft", "models/tales/draft", 128);
    let error = GenerateOptions::new().max_new_tokens(24);
    let shift = error.clone().context(ContextPolicy::Shift);
    let turn = ["Tell this again: The king had a daughter.", "The king had a daughter."];
    let turns = messages(&[turn, turn, turn, turn, turn, turn].concat());
    let chat = [&[Message::new("system", "You tell tales.")], &turns[..], &messages(&["Once more."])].concat();

    let full = run(session.generate(&Prompt::Chat(chat.clone()), &error, &mut |_| ControlFlow::Continue(())));
    assert!(matches!(full, Err(Error::ContextFull { limit: 128, .. })), "{full:?}");
    let shifted = answer(&mut session, &chat, &shift, 1000);
    let dropped = shifted.stats.num_dropped_messages;
    assert!(dropped > 0 && dropped < turns.len() && dropped.is_multiple_of(2), "{dropped}");
    assert!(shifted.stats.num_prompt_tokens + 24 <= 128);
    let kept = [&chat[..1], &chat[1 + dropped..]].concat();
    let expected = answer(&mut fresh, &kept, &error, 1000);
    assert_eq!((&shifted.text, &shifted.token_ids), (&expected.text, &expected.token_ids));
    let one_more = [&chat[..1], &chat[dropped - 1..]].concat();
    let one_more = session.encode(&Prompt::Chat(one_more), &error).unwrap().len();
    assert!(one_more > (128 - 24) / 2, "half of the room stays in use: {one_more} tokens with one turn more");

    // A chat that fits is not shortened.
    assert_eq!(answer(&mut session, &kept, &shift, 1000).stats.num_dropped_messages, 0);
    // The last turn cannot be dropped, and a text has no turns.
    let long = "Once upon a time there was a king. ".repeat(20);
    let last = [&turns[..], &messages(&[&long])].concat();
    for prompt in [Prompt::Chat(last), Prompt::Text(long)] {
        let full = run(session.generate(&prompt, &shift, &mut |_| ControlFlow::Continue(())));
        assert!(matches!(full, Err(Error::ContextFull { .. })), "{full:?}");
    }
}

/// A chat that has outgrown the context loses many turns at a time, so most answers find all earlier tokens in the cache. This holds
/// even if each call passes the whole chat again.
#[test]
fn most_turns_of_a_shifted_chat_are_cached() {
    let mut session = load_on(Device::cpu(), "models/tales/draft", "models/tales/draft", 384, 0);
    let shift = GenerateOptions::new().max_new_tokens(16).context(ContextPolicy::Shift);
    let mut chat = vec![Message::new("system", "You tell tales.")];
    let (mut read_again, mut shifts, mut dropped) = (0, 0, 0);
    for turn in 0..40 {
        chat.push(Message::new("user", format!("Tell this again: The king had {turn} daughters who were proud.")));
        let stats = answer(&mut session, &chat, &shift, 1000).stats;
        shifts += usize::from(stats.num_dropped_messages != dropped);
        dropped = stats.num_dropped_messages;
        read_again += usize::from(turn > 0 && 2 * stats.num_cached_tokens < stats.num_prompt_tokens);
        chat.push(Message::new("assistant", "The king had daughters who were proud."));
    }
    assert!(dropped > 40, "{dropped}");
    assert!(shifts < 10 && read_again <= shifts, "{shifts} shifts, {read_again} prompts of 40 were read again");
}

/// Templates as the families of chat models render earlier turns. Text that they omit or strip is read again; the text before it
/// is not.
#[test]
fn templates_render_earlier_turns_as_they_were() {
    let chatml = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}";
    let cases = [
        // SmolLM2, Qwen 2.
        (format!("{chatml}{{% if add_generation_prompt %}}<|im_start|>assistant\n{{% endif %}}"), "A fox. ", true),
        // Llama 3.
        (
            "{{ bos_token }}{% for m in messages %}<H>{{ m.role }}</H>\n\n{{ m.content | trim }}<E>{% endfor %}\
             {% if add_generation_prompt %}<H>assistant</H>\n\n{% endif %}"
                .into(),
            "A fox.",
            true,
        ),
        // Llama 2, Mistral.
        (
            "{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% else %}\
             {{ m.content }}</s>{% endif %}{% endfor %}"
                .into(),
            " A fox.",
            true,
        ),
        // Qwen 3: the thoughts of earlier turns are removed.
        (
            "{% for m in messages %}<|im_start|>{{ m.role }}\n\
             {{ m.content.split('</think>')[-1].lstrip('\\n') }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
                .into(),
            "<think>\nFoxes?\n</think>\n\nA fox.",
            false,
        ),
    ];
    let bytes = std::fs::read(path("models/tales/target/tokenizer.json")).unwrap();
    let tokenizer = Tokenizer::from_json("tokenizer.json", &bytes).unwrap();
    for (source, answer, whole) in cases {
        let template = ChatTemplate::from_files(None, Some(source.as_bytes())).unwrap().unwrap();
        let encode = |texts: &[&str]| template.encode(&tokenizer, &ChatInput::new(&messages(texts))).unwrap();
        let (first, second) = (encode(&["Who comes?"]), encode(&["Who comes?", answer, "And then?"]));
        let cached = [first.clone(), tokenizer.encode(answer, false).unwrap()].concat();
        let reused = common_prefix(&cached, &second);
        // At the end of an answer, the next token may have merged with the following text.
        let expected = if whole { cached.len() - 1 } else { first.len() };
        assert!(reused >= expected, "{reused} of {}: {source}", cached.len());
    }
}

#[test]
fn prompts_are_read_or_refused_by_what_is_wrong() {
    assert!(matches!(Prompt::from_json(json!("Once")), Ok(Prompt::Text(text)) if text == "Once"));
    assert!(matches!(Prompt::from_json(json!([1, 2])), Ok(Prompt::Tokens(ids)) if ids == [1, 2]));
    let chat = json!([{ "role": "user", "content": "Who comes?" }]);
    assert!(matches!(Prompt::from_json(chat), Ok(Prompt::Chat(chat)) if chat == messages(&["Who comes?"])));
    for (given, option, value) in [
        (json!(null), "prompt", "null"),
        (json!({ "role": "user" }), "prompt", r#"{"role":"user"}"#),
        (json!([1, -2]), "prompt", "-2"),
        (json!([1, 1u64 << 32]), "prompt", "4294967296"),
        (json!([1, 1.5]), "prompt", "1.5"),
        (json!([{ "role": "user", "content": "a" }, null]), "messages", "message 1: null"),
        (json!([{ "role": "user", "content": "a" }, 5]), "messages", "message 1: a number"),
    ] {
        match Prompt::from_json(given) {
            Err(Error::BadOption { option: named, value: found, .. }) => {
                assert_eq!((&*named, found.as_str()), (option, value));
            }
            other => panic!("{value}: {other:?}"),
        }
    }
}
