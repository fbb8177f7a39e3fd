//! Options: their names, types and ranges, and which come before those that a model recommends.

use foretoken::{
    DrafterChoice, Error, GenerateOptions, KvDtype, LoadOptions, Result, SamplingOptions, SamplingValues, Schedule,
};
use serde_json::{Value, json};

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

fn defaults(config: Value) -> Result<SamplingOptions> {
    SamplingOptions::recommended(config.to_string().as_bytes())
}

fn values(options: Value, model: &SamplingOptions) -> Value {
    let options = GenerateOptions::from_json(options).unwrap();
    options.validate().unwrap();
    let values = serde_json::to_value(options.sampling.values(model).unwrap()).unwrap();
    let given = serde_json::to_value(SamplingValues::default()).unwrap();
    // Only values other than the defaults, rounded to two decimals.
    let changed = values.as_object().unwrap().iter().filter(|(name, value)| given[*name] != **value);
    let short = |value: &Value| value.as_f64().map_or(value.clone(), |value| json!((value * 100.0).round() / 100.0));
    changed.map(|(name, value)| (name.clone(), short(value))).collect::<serde_json::Map<_, _>>().into()
}

#[test]
fn options_come_before_the_model_and_the_model_before_nothing() {
    let model = json!({ "do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": null,
        "repetition_penalty": 1.1, "eos_token_id": [1, 2], "transformers_version": "4.51.0" });
    let model = defaults(model).unwrap();
    let all = json!({ "do_sample": true, "temperature": 0.6, "top_k": 20.0, "top_p": 0.95, "repetition_penalty": 1.1 });
    assert_eq!(values(json!({ "do_sample": "model" }), &model), all);
    let given = json!({ "do_sample": "model", "temperature": 1, "top_k": 0, "repetition_penalty": 1 });
    assert_eq!(values(given, &model), json!({ "do_sample": true, "top_p": 0.95 }));
    assert_eq!(values(json!({}), &model), json!({}));
    assert_eq!(values(json!({ "do_sample": true, "min_p": 0.1 }), &model), json!({ "do_sample": true, "min_p": 0.1 }));
    let all = defaults(json!({ "do_sample": true, "top_k": -1 })).unwrap();
    assert_eq!(values(json!({ "do_sample": "model" }), &all), json!({ "do_sample": true }));
    // As in transformers, sampling is off unless the file turns it on; penalties apply without sampling.
    let greedy = defaults(json!({ "temperature": 0, "repetition_penalty": 1.1 })).unwrap();
    assert_eq!(values(json!({ "do_sample": "model" }), &greedy), json!({ "repetition_penalty": 1.1 }));
    assert_eq!(values(json!({ "do_sample": "model" }), &SamplingOptions::default()), json!({}));
}

#[test]
fn a_temperature_above_0_draws_and_0_does_not() {
    let plain = SamplingOptions::default();
    let greedy = json!({});
    for (given, expected) in [
        (json!({ "temperature": 0.5 }), json!({ "do_sample": true, "temperature": 0.5 })),
        (json!({ "temperature": 0.5, "do_sample": "auto" }), json!({ "do_sample": true, "temperature": 0.5 })),
        (json!({ "temperature": 1 }), json!({ "do_sample": true })),
        (json!({ "temperature": 0 }), greedy.clone()),
        (json!({ "temperature": 0, "top_p": 0.5, "seed": 1 }), greedy.clone()),
        (json!({ "temperature": 0, "do_sample": false }), greedy.clone()),
        (json!({ "temperature": 0.5, "do_sample": false }), greedy.clone()),
        (json!({ "top_p": 0.5 }), json!({ "do_sample": true, "top_p": 0.5 })),
        (json!({ "top_k": 0 }), json!({ "do_sample": true })),
        (json!({ "min_p": 0.5 }), json!({ "do_sample": true, "min_p": 0.5 })),
        (json!({ "seed": 1 }), json!({ "do_sample": true })),
        (json!({ "seed": 1, "do_sample": false }), greedy.clone()),
        (json!({ "temperature": 0.5, "do_sample": "model" }), greedy.clone()),
        (json!({ "repetition_penalty": 2 }), json!({ "repetition_penalty": 2.0 })),
    ] {
        assert_eq!(values(given.clone(), &plain), expected, "{given}");
    }
}

#[test]
fn what_a_model_may_not_recommend_is_refused() {
    for wrong in [json!({ "temperature": "hot" }), json!({ "top_k": -2 }), json!({ "do_sample": 1 })] {
        assert_eq!(defaults(wrong).unwrap_err().code(), "bad-config");
    }
    assert_eq!(SamplingOptions::recommended(b"{").unwrap_err().code(), "bad-config");
    let cold = defaults(json!({ "do_sample": true, "temperature": 0 })).unwrap();
    let sampling = |options| GenerateOptions::from_json(options).unwrap().sampling.values(&cold);
    assert!(matches!(sampling(json!({ "do_sample": "model" })),
        Err(Error::BadOption { option, .. }) if option == "temperature"));
    assert!(sampling(json!({ "do_sample": "model", "temperature": 0.5 })).is_ok());
    assert!(sampling(json!({ "do_sample": true })).is_ok());
}
