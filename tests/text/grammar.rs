//! Constrained texts of real models: the same with every drafter and on every device, without a forbidden token.

use common::{gpu, gpus, path, run};
use foretoken::internals::backend::Device;
use foretoken::internals::constraint::{Constrained, Grammars};
use foretoken::internals::grammar::Llguidance;
use foretoken::internals::session::Session;
use foretoken::internals::text::Tokenizer;
use foretoken::internals::weights::Folder;
use foretoken::{
    Acceptance, ContextPolicy, DrafterChoice, Error, FinishReason, GenerateOptions, Generation, LoadOptions, Message,
    Origin, Prompt, ResponseFormat, Schedule, Speculating, Speculation,
};
use serde_json::{Value, json};
use std::ops::ControlFlow;

fn load(device: impl Into<Device>) -> Session {
    let open = |folder: &str| Folder::open(path(folder)).unwrap();
    let (target, draft) = (open("models/tales/target"), open("models/tales/draft"));
    let options = LoadOptions::new().max_context(512);
    run(Session::load(device, Box::new(target), Some(Box::new(draft)), &options, &mut |_, _| ())).unwrap()
}

fn write(session: &mut Session, options: &GenerateOptions) -> (Generation, Vec<Origin>) {
    let prompt = Prompt::Chat(vec![Message::new("user", "Continue the tale: The fox met a wolf.")]);
    let mut origins = Vec::new();
    let generation = run(session.generate(&prompt, options, &mut |progress| {
        if let foretoken::internals::session::Progress::Token(token) = progress {
            origins.push(token.origin);
        }
        ControlFlow::Continue(())
    }));
    (generation.unwrap(), origins)
}

fn tale() -> ResponseFormat {
    ResponseFormat::json_schema(json!({
        "type": "object",
        "properties": {
            "title": { "type": "string", "maxLength": 24 },
            "kind": { "enum": ["tale", "song"] },
            "animals": { "type": "array", "items": { "type": "string", "maxLength": 8 }, "minItems": 1, "maxItems": 2 },
            "length": { "type": "integer", "minimum": 1, "maximum": 99 },
        },
        "required": ["title", "kind", "animals", "length"],
        "additionalProperties": false,
    }))
}

fn options(format: ResponseFormat) -> GenerateOptions {
    GenerateOptions::new().max_new_tokens(120).response_format(format)
}

fn drafters() -> Vec<GenerateOptions> {
    let constant = options(tale()).num_assistant_tokens_schedule(Schedule::Constant).num_assistant_tokens(4);
    let with = |drafter| constant.clone().drafter(drafter);
    vec![
        options(tale()),
        with(DrafterChoice::Lookup),
        with(DrafterChoice::Suffix),
        with(DrafterChoice::DraftModel),
        with(DrafterChoice::Chain),
        constant.clone().prediction("{\"title\": \"The wolf\", \"kind\": \"song\"".to_owned()),
        with(DrafterChoice::DraftModel).assistant_confidence_threshold(0.4),
        with(DrafterChoice::DraftModel).overlap(false),
    ]
}

fn the_text_is_that_of_plain_decoding(device: Device) {
    let mut session = load(device);
    for seed in [None, Some(3), Some(4)] {
        let sampled =
            |options: &GenerateOptions| options.clone().do_sample(seed.is_some()).top_p(seed.map(|_| 0.9)).seed(seed);
        let off = options(tale()).speculation(Speculation::Off);
        let (plain, origins) = write(&mut session, &sampled(&off));
        assert!(origins.iter().all(|origin| *origin == Origin::Target));
        assert_eq!(plain.finish_reason, FinishReason::Stop, "{}", plain.text);
        let value: Value = serde_json::from_str(&plain.text).unwrap();
        assert!(value["title"].is_string() && value["length"].as_u64().is_some_and(|length| length < 100), "{value}");
        for options in drafters() {
            let (found, origins) = write(&mut session, &sampled(&options));
            assert_eq!((&found.text, &found.token_ids), (&plain.text, &plain.token_ids), "{options:?}");
            assert_eq!(found.finish_reason, FinishReason::Stop);
            let forced = origins.iter().filter(|origin| **origin == Origin::Grammar).count();
            let adaptive = options.drafting.num_assistant_tokens_schedule == Schedule::Adaptive;
            // A suffix lookup remembers the text, so it drafts forced tokens with those before them.
            let least = if adaptive || options.drafting.drafter == DrafterChoice::Suffix { 1 } else { 9 };
            assert!(forced >= least, "{forced} of {} tokens are forced", origins.len());
            let (rounds, plain) = (found.stats.num_spec_steps, plain.token_ids.len());
            assert!(rounds * 10 < plain * 8, "{rounds} rounds for {plain} tokens");
            assert!(found.stats.times.masks > 0.0);
            assert_eq!(found.stats.speculating.is_some(), adaptive);
            if let Some(Speculating { rounds: by, .. }) = &found.stats.speculating {
                assert!(by.grammar > 0);
                assert_eq!(by.plain + by.prediction + by.lookup + by.suffix + by.draft_model + by.grammar, rounds);
            }
        }
        // The constraint ends with the text.
        let free = GenerateOptions::new().max_new_tokens(8);
        assert!(!write(&mut session, &free).0.text.starts_with('{'));
    }
}

#[test]
fn on_the_gpu_the_text_is_that_of_plain_decoding() {
    the_text_is_that_of_plain_decoding((&gpu()).into());
}

#[test]
fn on_the_cpu_the_text_is_that_of_plain_decoding() {
    the_text_is_that_of_plain_decoding(Device::cpu());
}

/// Tokens that the grammar forces are drafted. At the end of the context there is no room for all of them.
#[test]
fn a_form_whose_forced_tokens_have_no_room_ends_with_the_context() {
    let form = " old woman went into the wood to gather wood for the winter and then she came home";
    let prompt = Prompt::Tokens((100..194).collect());
    for gpu in gpus() {
        let target = Folder::open(path("models/tales/target")).unwrap();
        let load = LoadOptions::new().max_context(100);
        let mut session = run(Session::load(&gpu, Box::new(target), None, &load, &mut |_, _| ())).unwrap();
        let drafted = options(ResponseFormat::regex(form));
        let [plain, drafted] = [drafted.clone().speculation(Speculation::Off), drafted].map(|options| {
            let ended = run(session.generate(&prompt, &options, &mut |_| ControlFlow::Continue(()))).unwrap();
            assert_eq!((ended.token_ids.len(), ended.finish_reason), (7, FinishReason::Length));
            ended
        });
        assert_eq!(plain.token_ids, drafted.token_ids);
        assert!(drafted.stats.num_spec_steps < 3, "{:?}", drafted.stats);
    }
}

/// The text depends on the drafter, but a forbidden token is never generated.
#[test]
fn rejection_sampling_keeps_to_the_form() {
    for device in [(&gpu()).into(), Device::cpu()] {
        let mut session = load(device);
        for (seed, drafter) in (0..6).zip([DrafterChoice::DraftModel, DrafterChoice::Lookup].into_iter().cycle()) {
            let options = options(tale())
                .drafter(drafter)
                .do_sample(true)
                .acceptance(Acceptance::Rejection)
                .num_assistant_tokens_schedule(Schedule::Constant)
                .seed(seed);
            let (found, _) = write(&mut session, &options);
            assert_eq!(found.finish_reason, FinishReason::Stop, "{}", found.text);
            assert!(serde_json::from_str::<Value>(&found.text).is_ok(), "{}", found.text);
        }
    }
}

#[test]
fn a_text_ends_where_its_form_is_complete_or_its_room() {
    let mut session = load(Device::cpu());
    let of = |format: ResponseFormat, room| options(format).max_new_tokens(room);
    let (found, _) = write(&mut session, &of(ResponseFormat::regex("(the fox|the wolf)"), 50));
    assert!(["the fox", "the wolf"].contains(&found.text.as_str()), "{}", found.text);
    assert_eq!(found.finish_reason, FinishReason::Stop);
    // The text may end after each word: the model decides by an end token.
    let (found, _) = write(&mut session, &of(ResponseFormat::regex("the fox( [a-z]+)*[.]?"), 200));
    let ends = &session.engine().spec().unwrap().eos_token_id;
    assert!(found.text.starts_with("the fox"), "{}", found.text);
    let by_point = found.text.ends_with('.');
    assert_eq!(found.finish_reason, if by_point { FinishReason::Stop } else { found.finish_reason });
    assert_eq!(
        found.token_ids.iter().any(|id| ends.contains(id)),
        found.finish_reason == FinishReason::Stop && !by_point
    );
    let (found, _) = write(&mut session, &of(ResponseFormat::grammar("start: \"fox\" (\" and \" \"fox\")*"), 9));
    assert!(found.text.starts_with("fox"), "{}", found.text);
    let (cut, _) = write(&mut session, &of(tale(), 10));
    assert_eq!((cut.finish_reason, cut.token_ids.len()), (FinishReason::Length, 10));
    assert!(serde_json::from_str::<Value>(&cut.text).is_err());
    let (found, _) = write(&mut session, &of(ResponseFormat::json_object(), 400));
    assert!(found.text.starts_with('{'));
    if found.finish_reason == FinishReason::Stop {
        assert!(serde_json::from_str::<Value>(&found.text).unwrap().is_object());
    }
}

#[test]
fn a_special_token_is_written_as_one() {
    let mut session = load(Device::cpu());
    // `<|im_start|>`, by its id and by its name.
    let form = ResponseFormat::grammar("start: <[1]> \"fox \" /[a-c]/ <|im_start|> \"wolf\"");
    let written = |more: GenerateOptions| more.response_format(form.clone());
    let (plain, _) = write(&mut session, &written(GenerateOptions::new().speculation(Speculation::Off)));
    assert_eq!((plain.token_ids[0], plain.token_ids.iter().filter(|id| **id == 1).count()), (1, 2));
    assert!(plain.text.starts_with("fox ") && plain.text.ends_with("wolf") && plain.text.len() == 9, "{}", plain.text);
    let (drafted, _) = write(&mut session, &written(GenerateOptions::new().drafter(DrafterChoice::DraftModel)));
    assert_eq!(drafted.token_ids, plain.token_ids);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let mut session = load(Device::cpu());
    let mut refused = |format: Value, more: GenerateOptions| {
        let response_format = Some(ResponseFormat(format.as_object().unwrap().clone()));
        let options = more.response_format(response_format);
        match run(session.generate(&Prompt::Text("x".into()), &options, &mut |_| ControlFlow::Continue(()))) {
            Err(Error::BadOption { option, value, .. }) => {
                assert_eq!(option, "response_format");
                value
            }
            other => panic!("{format}: {other:?}"),
        }
    };
    let free = GenerateOptions::default;
    for (format, words) in [
        (json!({ "type": "json_schema", "json_schema": { "schema": { "not": {} } } }), "\"not\""),
        (
            json!({ "type": "json_schema", "json_schema": { "schema": { "type": "array", "uniqueItems": true } } }),
            "\"uniqueItems\"",
        ),
        (
            json!({ "type": "json_schema", "json_schema": { "schema": { "oneOf": [{}, { "type": "null" }] } } }),
            "\"oneOf\"",
        ),
        (json!({ "type": "json_schema", "json_schema": { "schema": { "type": "sting" } } }), "sting"),
        (json!({ "type": "json_schema", "json_schema": { "schema": 5 } }), "5"),
        (json!({ "type": "json_schema" }), "json_schema"),
        (json!({ "type": "regex", "regex": "(a" }), "unclosed group"),
        (json!({ "type": "grammar", "grammar": "start: /(a/" }), "unclosed group"),
        (json!({ "type": "regex", "regex": 5 }), "5"),
        (json!({ "type": "regex", "regex": "" }), "empty"),
        (json!({ "type": "grammar", "grammar": "start: nothing" }), "nothing"),
        (json!({ "type": "json" }), "json"),
        (json!({}), "no type"),
    ] {
        let value = refused(format.clone(), free());
        assert!(value.contains(words) && !value.contains('\n'), "{format}: {value}");
    }
    let every: Vec<Vec<u32>> = (0..4096).map(|id| vec![id]).collect();
    let none_left = free().bad_words_ids(every[..2000].to_vec());
    refused(json!({ "type": "regex", "regex": "[\\n]{9}" }), none_left);
    let repeats = json!({ "type": "regex", "regex": "(the king and ){9}" });
    assert!(refused(repeats, free().no_repeat_ngram_size(1)).contains("no next token"));
    let (text, _) = write(&mut session, &free().max_new_tokens(3).context(ContextPolicy::Shift));
    assert_eq!(text.token_ids.len(), 3, "the session stays usable");
}

#[test]
fn a_form_that_is_complete_early_is_told() {
    let mut session = load(Device::cpu());
    let form = |least| GenerateOptions::new().min_new_tokens(least).response_format(ResponseFormat::regex("x"));
    for least in [0, 4] {
        let (found, _) = write(&mut session, &form(least));
        assert_eq!(found.text, "x");
        let told = found.stats.warnings.iter().filter(|warning| warning.contains("min_new_tokens")).count();
        assert_eq!(told, usize::from(least > found.token_ids.len()), "{:?}", found.stats.warnings);
    }
}

/// Each bit of a mask equals the result of consuming that token, independent of the text tried before.
#[test]
fn masks_are_what_may_be_consumed() {
    let file = std::fs::read(path("models/tales/target/tokenizer.json")).unwrap();
    let tokenizer = Tokenizer::from_json("tokenizer.json", &file).unwrap();
    let (vocab, ends) = (tokenizer.vocab_size(), [2]);
    let grammars = Llguidance::new(tokenizer.vocabulary(vocab), &ends).unwrap();
    let text =
        tokenizer.encode("{\"title\": \"The \u{e9} wolf\", \"kind\": \"song\", \"animals\": [\"fox\"]", false).unwrap();
    let followed = Constrained::new(grammars.compile(&tale()).unwrap(), Box::new(|_, _| Vec::new()), 1, vocab, &ends);
    let mut followed = followed.borrow_mut();
    let whole = [&[0], &text[..]].concat();
    let masks = followed.masks(&[0], &text).unwrap();
    let words = vocab.div_ceil(32);
    for at in (0..=text.len()).rev().chain([3, 1, 2]) {
        // Calls of `forced`, and masks of other drafts, change nothing.
        followed.forced(&whole[..1 + at]).unwrap();
        followed.allowed(&whole[..1 + at], &[40, 41]).unwrap();
        let again = followed.masks(&whole[..1 + at], &[]).unwrap();
        assert_eq!(again, masks[at * words..][..words], "at {at}");
    }
    let mut form = grammars.compile(&tale()).unwrap();
    for (at, token) in text.iter().enumerate() {
        if at % 5 == 0 {
            for id in (0..vocab as u32).filter(|id| !ends.contains(id)) {
                let may_come = form.consume(id).unwrap();
                if may_come {
                    form.rollback(1).unwrap();
                }
                let bit = (masks[at * words + id as usize / 32] >> (id % 32)) & 1 == 1;
                assert_eq!(may_come, bit, "{id} at {at}: {:?}", tokenizer.id_to_token(id));
            }
        }
        assert!(form.consume(*token).unwrap());
    }
}
