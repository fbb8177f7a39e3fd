//! Tests of `options`.

use super::*;
use crate::error::{Error, Result};
use serde_json::json;

#[test]
fn values_replace_defaults_by_name() {
    let options = GenerateOptions::from_json(json!({
        "max_new_tokens": 7,
        "num_assistant_tokens_schedule": "constant",
        "stop": ["."],
        "logit_bias": { "300": -5 },
        "speculation": null,
    }));
    let expected = GenerateOptions::new()
        .max_new_tokens(7)
        .num_assistant_tokens_schedule(Schedule::Constant)
        .stop([".".into()])
        .logit_bias([(300, -5.0)]);
    assert_eq!(options, Ok(expected));
    assert_eq!(LoadOptions::from_json(json!({ "kv_dtype": "f16" })).unwrap().context.kv_dtype, Some(KvDtype::F16));
}

#[track_caller]
fn assert_bad(read: Result<GenerateOptions>, option: &str, value: &str, allowed: &str) {
    match read {
        Err(Error::BadOption { option: named, value: found, allowed: says }) => {
            assert_eq!((&*named, found.as_str()), (option, value));
            assert!(says.starts_with(allowed), "{says}");
        }
        other => panic!("{option}: {other:?}"),
    }
}

#[test]
fn unknown_names_and_other_types_are_refused() {
    for (given, option, value, allowed) in [
        (json!({ "max_new_token": 7 }), "options", "max_new_token", "max_new_tokens, min_new_tokens, stop, "),
        (json!({ "max_new_tokens": -1 }), "max_new_tokens", "-1", "a whole number, 0 or more"),
        (json!({ "max_new_tokens": "7" }), "max_new_tokens", "\"7\"", "a whole number, 0 or more"),
        (json!({ "stop": "." }), "stop", "\".\"", "a list of texts"),
        (json!({ "seed": 1.5 }), "seed", "1.5", "a whole number, 0 or more"),
        (json!({ "temperature": "hot" }), "temperature", "\"hot\"", "a number"),
        (json!({ "do_sample": 1 }), "do_sample", "1", "auto, true, false, model"),
        (json!({ "logit_bias": [1] }), "logit_bias", "[1]", "an object"),
        (json!({ "logit_bias": { "a": 1 } }), "logit_bias", "{\"a\":1}", "an object with numbers by token id"),
        (json!({ "tools": [5] }), "tools", "[5]", "a list of objects"),
        (json!({ "chat_template_kwargs": "x" }), "chat_template_kwargs", "\"x\"", "an object"),
        (json!({ "speculation": "on" }), "speculation", "\"on\"", "auto, off"),
        (json!({ "drafter": 5 }), "drafter", "5", "auto, draft_model, lookup, suffix, prediction, chain"),
    ] {
        assert_bad(GenerateOptions::from_json(given), option, value, allowed);
    }
    assert!(
        matches!(GenerateOptions::from_json(json!([])), Err(Error::BadOption { option, .. }) if option == "options")
    );
}

#[test]
fn values_outside_their_range_are_refused_by_name() {
    #[track_caller]
    fn assert_refused(options: GenerateOptions, name: &str) {
        match options.validate() {
            Err(Error::BadOption { option, .. }) => assert_eq!(option, name),
            other => panic!("{name}: {other:?}"),
        }
    }
    let options = GenerateOptions::new;
    for value in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        assert_refused(options().do_sample(true).temperature(value), "temperature");
        assert_refused(options().top_p(value), "top_p");
        assert_refused(options().repetition_penalty(value), "repetition_penalty");
    }
    assert_refused(options().temperature(-1.0), "temperature");
    assert_refused(options().top_p(1.01), "top_p");
    assert_refused(options().min_p(-0.1), "min_p");
    assert_refused(options().assistant_confidence_threshold(2.0), "assistant_confidence_threshold");
    assert_refused(options().min_new_tokens(257), "min_new_tokens");
    assert_refused(options().seed(1 << 53), "seed");
    assert_refused(options().logit_bias([(3, 101.0)]), "logit_bias");
    assert_refused(options().bad_words_ids([vec![]]), "bad_words_ids");
    assert_refused(options().max_new_tokens(0), "max_new_tokens");
    assert_refused(options().max_matching_ngram_size(65), "max_matching_ngram_size");
    assert_refused(options().prompt_lookup_num_tokens(0), "prompt_lookup_num_tokens");
    assert_refused(options().logprobs(true).top_logprobs(21), "top_logprobs");
    assert_refused(options().drafter(DrafterChoice::Prediction), "drafter");
    assert_eq!(options().validate(), Ok(()));
}
