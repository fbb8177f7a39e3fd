//! Tests of `sampling`.

use super::*;
use serde_json::json;

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
