//! Chat completions, completions and embeddings.

use super::{DRAFT, Running, TARGET, text_of};
use serde_json::{Value, json};
use std::path::Path;

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

fn user(text: &str) -> Value {
    json!([{ "role": "user", "content": text }])
}

/// Returns the body with more fields.
fn with(body: &Value, more: Value) -> Value {
    let mut body = body.clone();
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn a_chat_is_answered_whole_and_as_a_stream() {
    let server = Running::start(&["--model", TARGET, "--assistant-model", DRAFT]);
    let body = json!({ "messages": user("Continue the tale: The fox went into the wood."), "max_tokens": 24 });
    let whole = server.answer(CHAT, &body);
    let choice = &whole["choices"][0];
    let text = choice["message"]["content"].as_str().unwrap();
    assert_eq!((&whole["object"], &whole["model"]), (&json!("chat.completion"), &json!("target")));
    assert_eq!((&choice["message"]["role"], &choice["logprobs"]), (&json!("assistant"), &Value::Null));
    let usage = &whole["usage"];
    let number = |name: &str| usage[name].as_u64().unwrap();
    assert!(!text.is_empty() && (1..=24).contains(&number("completion_tokens")));
    assert_eq!(number("total_tokens"), number("prompt_tokens") + number("completion_tokens"));

    let events = server.events(CHAT, &with(&body, json!({ "stream_options": { "include_usage": true } })));
    assert_eq!(text_of(&events), text);
    assert_eq!(events[0]["choices"][0]["delta"], json!({ "role": "assistant", "content": "" }));
    let [.., end, last] = &events[..] else { panic!("{events:?}") };
    assert_eq!(end["choices"][0]["finish_reason"], choice["finish_reason"]);
    assert_eq!((&last["choices"], &last["usage"]["completion_tokens"]), (&json!([]), &usage["completion_tokens"]));
    assert!(last["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap() > 0, "{last}");
    assert!(events.iter().all(|event| event["id"] == events[0]["id"]));

    // Options of the engine, and of OpenAI without effect; null keeps the default.
    let plain = with(&body, json!({ "speculation": "off", "user": "me", "store": true, "stop": null, "tools": [] }));
    assert_eq!(server.answer(CHAT, &plain)["choices"][0]["message"]["content"], text);
    // A prediction is drafted from.
    let predicted =
        with(&body, json!({ "prediction": { "type": "content", "content": text }, "drafter": "prediction" }));
    let predicted = server.answer(CHAT, &predicted);
    assert_eq!(predicted["choices"][0]["message"]["content"], text);
    let details = &predicted["usage"]["completion_tokens_details"];
    assert!(details["accepted_prediction_tokens"].as_u64().unwrap() > 4, "{details}");
    // Stop strings end the text before them.
    let word = text.split_whitespace().nth(2).unwrap();
    let stopped = &server.answer(CHAT, &with(&body, json!({ "stop": word })))["choices"][0];
    assert_eq!(stopped["message"]["content"], text[..text.find(word).unwrap()]);
    assert_eq!(stopped["finish_reason"], "stop");
}

#[test]
fn several_choices_are_drawn_with_seeds() {
    let server = Running::start(&["--model", DRAFT]);
    let body = json!({ "messages": user("Tell a tale"), "max_tokens": 8, "temperature": 1, "seed": 5 });
    let several = server.answer(CHAT, &with(&body, json!({ "n": 3 })));
    let texts: Vec<_> =
        several["choices"].as_array().unwrap().iter().map(|choice| &choice["message"]["content"]).collect();
    for (index, text) in texts.iter().enumerate() {
        assert_eq!(several["choices"][index]["index"], index);
        let one = server.answer(CHAT, &with(&body, json!({ "seed": 5 + index })));
        assert_eq!(one["choices"][0]["message"]["content"], **text);
    }
    let events = server.events(CHAT, &with(&body, json!({ "n": 3 })));
    for (index, text) in texts.iter().enumerate() {
        let own: Vec<_> = events.iter().filter(|event| event["choices"][0]["index"] == index).cloned().collect();
        assert_eq!(text_of(&own), **text);
    }
    let greedy = server.post(CHAT, &json!({ "messages": user("Tell a tale"), "n": 2 }));
    assert_eq!(greedy.refusal(), (400, "bad-option".into(), "n".into()));
    let high = server.post(CHAT, &with(&body, json!({ "n": 2, "seed": (1u64 << 53) - 1 })));
    assert_eq!(high.refusal(), (400, "bad-option".into(), "seed".into()));
}

#[test]
fn log_probabilities_are_reported_for_each_token() {
    let server = Running::start(&["--model", DRAFT]);
    let body = json!({ "messages": user("Tell a tale"), "max_tokens": 6, "logprobs": true, "top_logprobs": 2 });
    let whole = server.answer(CHAT, &body);
    let content = whole["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert_eq!(content.len() as u64, whole["usage"]["completion_tokens"].as_u64().unwrap());
    for each in content {
        assert_eq!(each["top_logprobs"].as_array().unwrap().len(), 2);
        assert!(each["logprob"].as_f64().unwrap() <= each["top_logprobs"][0]["logprob"].as_f64().unwrap());
        assert!(each["bytes"].is_array() && each["token"].is_string());
    }
    let events = server.events(CHAT, &body);
    let streamed =
        events.iter().flat_map(|event| event["choices"][0]["logprobs"]["content"].as_array().into_iter().flatten());
    assert_eq!(streamed.collect::<Vec<_>>(), content.iter().collect::<Vec<_>>());

    let body = json!({ "prompt": "Once upon a", "max_tokens": 3, "logprobs": 2 });
    let text = server.answer(TEXT, &body);
    let logprobs = &text["choices"][0]["logprobs"];
    assert_eq!(logprobs["tokens"].as_array().unwrap().len(), 3);
    assert_eq!(logprobs["top_logprobs"][0].as_object().unwrap().len(), 2);
    assert_eq!((&logprobs["text_offset"][0], logprobs["token_logprobs"][0].is_number()), (&json!(0), true));
}

#[test]
fn conversations_that_alternate_stay_cached() {
    let server = Running::start(&["--model", DRAFT]);
    let mut conversations =
        ["The fox and the hen went to the market to buy bread", "A wolf lived by the old mill and counted his stones"]
            .map(|text| user(&format!("Tell this again: {text}, and then they came home again in the evening.")));
    let cached = |answer: &Value| answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    for turn in 0..3 {
        for messages in &mut conversations {
            let answer = server.answer(CHAT, &json!({ "messages": messages, "max_tokens": 8 }));
            assert!(turn == 0 || cached(&answer) >= 16, "turn {turn}: {answer}");
            let list = messages.as_array_mut().unwrap();
            list.push(answer["choices"][0]["message"].clone());
            list.push(json!({ "role": "user", "content": "And then?" }));
        }
    }
}

#[test]
fn forms_are_kept() {
    let server = Running::start(&["--model", DRAFT]);
    let body = json!({ "messages": user("Which animal?"), "max_tokens": 40 });
    let content = |form: Value| {
        let answer = server.answer(CHAT, &with(&body, json!({ "response_format": form })));
        answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
    };
    let schema = json!({ "enum": ["fox", "wolf"] });
    let animal = content(
        json!({ "type": "json_schema", "json_schema": { "name": "animal", "strict": true, "schema": schema } }),
    );
    assert!(["\"fox\"", "\"wolf\""].contains(&&*animal), "{animal}");
    assert!(content(json!({ "type": "json_object" })).starts_with('{'));
    assert!(["yes", "no"].contains(&&*content(json!({ "type": "regex", "regex": "yes|no" }))));
    assert!(!content(json!({ "type": "text" })).is_empty());
    let bad = server.post(CHAT, &with(&body, json!({ "response_format": { "type": "poem" } })));
    assert_eq!(bad.refusal(), (400, "bad-option".into(), "response_format".into()));
}

/// Makes a copy of the draft model with another chat template. Returns its folder.
fn with_template(place: &Path, template: &str) -> String {
    let folder = place.join("calling");
    std::fs::create_dir(&folder).unwrap();
    for file in std::fs::read_dir(DRAFT).unwrap() {
        let file = file.unwrap().path();
        std::fs::copy(&file, folder.join(file.file_name().unwrap())).unwrap();
    }
    let path = folder.join("tokenizer_config.json");
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    config["chat_template"] = template.into();
    std::fs::write(&path, config.to_string()).unwrap();
    folder.to_str().unwrap().to_owned()
}

#[test]
fn tools_are_called_whole_and_as_a_stream() {
    let place = tempfile::tempdir().unwrap();
    let template = "{{ tools | tojson if tools }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for call in m.tool_calls or [] %}\
                    <tool_call>{{ call.function.arguments | tojson }}</tool_call>{% endfor %}{% endfor %}";
    let server = Running::start(&["--model", &with_template(place.path(), template)]);
    let parameters = json!({
        "type": "object", "properties": { "place": { "enum": ["Bern", "Basel"] } }, "required": ["place"],
        "additionalProperties": false,
    });
    let tool = json!({ "type": "function", "function": { "name": "get_weather", "parameters": parameters } });
    let body = json!({
        "messages": user("The weather?"), "tools": [tool], "tool_choice": "required", "parallel_tool_calls": false,
        "max_tokens": 80,
    });
    let whole = server.answer(CHAT, &body);
    let choice = &whole["choices"][0];
    assert_eq!((&choice["finish_reason"], &choice["message"]["content"]), (&json!("tool_calls"), &Value::Null));
    let call = &choice["message"]["tool_calls"][0];
    let arguments = call["function"]["arguments"].as_str().unwrap();
    let given: Value = serde_json::from_str(arguments).unwrap();
    assert!(["Bern", "Basel"].contains(&given["place"].as_str().unwrap()), "{given}");
    assert_eq!((&call["type"], &call["function"]["name"]), (&json!("function"), &json!("get_weather")));

    let events = server.events(CHAT, &body);
    let calls =
        events.iter().flat_map(|event| event["choices"][0]["delta"]["tool_calls"].as_array().into_iter().flatten());
    let streamed: String = calls.map(|call| call["function"]["arguments"].as_str().unwrap()).collect();
    assert_eq!(streamed, arguments);
    assert_eq!(events.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");

    let named = json!({ "type": "function", "function": { "name": "get_weather" } });
    let named = server.answer(CHAT, &with(&body, json!({ "tool_choice": named })));
    assert_eq!(named["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "get_weather");
    let none = server.answer(CHAT, &with(&body, json!({ "tool_choice": "none", "max_tokens": 4 })));
    assert!(none["choices"][0]["message"].get("tool_calls").is_none());
    // The answer of the tool follows.
    let mut messages = body["messages"].clone();
    messages.as_array_mut().unwrap().push(choice["message"].clone());
    messages.as_array_mut().unwrap().push(json!({ "role": "tool", "content": "rain", "tool_call_id": call["id"] }));
    server.answer(CHAT, &with(&body, json!({ "messages": messages, "tool_choice": "auto", "max_tokens": 4 })));
    let refused = server.post(CHAT, &with(&body, json!({ "tool_choice": "always" })));
    assert_eq!(refused.refusal(), (400, "bad-option".into(), "tool_choice".into()));
}

#[test]
fn thoughts_are_apart_from_the_content() {
    let place = tempfile::tempdir().unwrap();
    let template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{{ 'Once upon a time there was <think>' if add_generation_prompt }}";
    let server = Running::start(&["--model", &with_template(place.path(), template)]);
    let body = json!({ "messages": user("The weather?"), "max_tokens": 12 });
    let message = server.answer(CHAT, &body)["choices"][0]["message"].clone();
    let thought = message["reasoning_content"].as_str().unwrap();
    assert_eq!((&message["content"], thought.is_empty()), (&json!(""), false));
    let events = server.events(CHAT, &body);
    let streamed: String =
        events.iter().filter_map(|event| event["choices"][0]["delta"]["reasoning_content"].as_str()).collect();
    assert_eq!((text_of(&events), &*streamed), (String::new(), thought));
    let raw = server.answer(CHAT, &with(&body, json!({ "skip_special_tokens": true })));
    assert_eq!(raw["choices"][0]["message"]["content"].as_str().unwrap().trim(), thought);
    let effort = server.post(CHAT, &with(&body, json!({ "reasoning_effort": "high" })));
    assert_eq!(effort.refusal(), (400, "bad-option".into(), "reasoning_effort".into()));
}

#[test]
fn prompts_are_completed_one_or_several() {
    let server = Running::start(&["--model", DRAFT]);
    let body = json!({ "prompt": "Once upon a time", "max_tokens": 8 });
    let whole = server.answer(TEXT, &body);
    let text = whole["choices"][0]["text"].as_str().unwrap();
    assert_eq!(
        (&whole["object"], &whole["choices"][0]["finish_reason"]),
        (&json!("text_completion"), &json!("length"))
    );
    assert_eq!(text_of(&server.events(TEXT, &body)), text);
    let short = server.answer(TEXT, &json!({ "prompt": "Once upon a time" }));
    assert_eq!(short["usage"]["completion_tokens"], 16);
    let several = server.answer(TEXT, &with(&body, json!({ "prompt": ["Once upon a time", [1, 2, 3]] })));
    assert_eq!((several["choices"].as_array().unwrap().len(), &several["choices"][0]["text"]), (2, &json!(text)));
    assert_eq!(several["choices"][1]["index"], 1);
    // What prompts share is read once, in any order.
    let prompts = ["a king and his daughter", "x", "a king and his son", "a queen"].map(|of| {
        let beginning =
            if of == "x" { "The fox and the wolf went into the forest" } else { "There lived in old times, when" };
        format!("{beginning} wishing still helped, behind the mountains, {of}")
    });
    let alone = prompts.iter().map(|prompt| server.answer(TEXT, &with(&body, json!({ "prompt": prompt }))));
    let alone: Vec<_> = alone.map(|answer| answer["choices"][0]["text"].clone()).collect();
    let server = Running::start(&["--model", DRAFT]);
    let several = server.answer(TEXT, &with(&body, json!({ "prompt": prompts })));
    let texts: Vec<_> = several["choices"].as_array().unwrap().iter().map(|choice| choice["text"].clone()).collect();
    assert_eq!(texts, alone);
    let tokens = |name: &str| several["usage"].pointer(name).and_then(Value::as_u64).unwrap();
    assert!(3 * tokens("/prompt_tokens_details/cached_tokens") > tokens("/prompt_tokens"), "{}", several["usage"]);
    for (prompt, more) in [
        (json!(null), json!({})),
        (json!([]), json!({})),
        (json!({}), json!({})),
        (json!([[]]), json!({})),
        (json!(["a", 1]), json!({})),
        (json!("a"), json!({ "echo": true })),
        (json!("a"), json!({ "best_of": 2 })),
    ] {
        let refused = server.post(TEXT, &with(&json!({ "prompt": prompt }), more));
        assert_eq!(refused.refusal().0, 400, "{prompt}");
    }
}

#[test]
fn texts_are_embedded() {
    let server = Running::start(&["--model", DRAFT]);
    let embed = |body: Value| server.answer("/v1/embeddings", &body);
    let list = embed(json!({ "input": ["The fox went into the wood.", "A stone"], "user": "me" }));
    let vector =
        |value: &Value| value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect::<Vec<_>>();
    let first = vector(&list["data"][0]["embedding"]);
    assert!((first.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-4);
    assert_eq!((list["data"].as_array().unwrap().len(), &list["data"][1]["index"]), (2, &json!(1)));
    assert_eq!(list["usage"]["total_tokens"], list["usage"]["prompt_tokens"]);
    let one = embed(json!({ "input": "The fox went into the wood.", "encoding_format": "base64" }));
    use base64::Engine as _;
    let bytes =
        base64::engine::general_purpose::STANDARD.decode(one["data"][0]["embedding"].as_str().unwrap()).unwrap();
    let decoded: Vec<f32> = bytes.chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect();
    assert_eq!(decoded, first);
    let last =
        vector(&embed(json!({ "input": [1, 2, 3], "pooling": "last", "normalize": false }))["data"][0]["embedding"]);
    assert!(last.len() == first.len() && (last.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() > 1e-3);
    for (body, param) in [
        (json!({ "input": [] }), "input"),
        (json!({ "input": "a", "encoding_format": "int8" }), "encoding_format"),
        (json!({ "input": "a", "pooling": "sum" }), "pooling"),
        (json!({ "input": "a", "dimensions": 4 }), "options"),
    ] {
        assert_eq!(server.post("/v1/embeddings", &body).refusal(), (400, "bad-option".into(), param.into()));
    }
}

#[test]
fn options_out_of_range_are_refused_with_their_name() {
    let server = Running::start(&["--model", DRAFT]);
    let body = json!({ "messages": user("Tell a tale"), "max_tokens": 4 });
    for (more, param) in [
        (json!({ "temperature": -1 }), "temperature"),
        (json!({ "temperature": "warm" }), "temperature"),
        (json!({ "max_tokens": 0 }), "max_new_tokens"),
        (json!({ "max_tokens": 1e300 }), "max_new_tokens"),
        (json!({ "n": 0 }), "n"),
        (json!({ "n": 1000 }), "n"),
        (json!({ "stream": 1 }), "stream"),
        (json!({ "stream_options": [] }), "stream_options"),
        (json!({ "stop": [""] }), "stop"),
        (json!({ "prediction": 5 }), "prediction"),
        (json!({ "logprobs": false, "top_logprobs": 2 }), "top_logprobs"),
        (json!({ "messages": [] }), "messages"),
        (json!({ "messages": "Hello" }), "messages"),
        (json!({ "messages": [{ "role": "user" }] }), "messages"),
        (json!({ "messages": [{ "role": "user", "content": [{ "type": "image_url" }] }] }), "messages"),
        (json!({ "model": 5 }), "model"),
        (json!({ "functions": [1] }), "functions"),
        (json!({ "parallel_tool_calls": "no" }), "parallel_tool_calls"),
        (json!({ "top_a": 1 }), "options"),
    ] {
        let refused = server.post(CHAT, &with(&body, more.clone()));
        assert_eq!(refused.refusal(), (400, "bad-option".into(), param.into()), "{more}");
    }
    let long = server.post(CHAT, &with(&body, json!({ "messages": user(&"the fox ".repeat(2000)) })));
    assert_eq!(long.refusal(), (400, "context_length_exceeded".into(), "messages".into()));
    let streamed =
        server.post(CHAT, &with(&body, json!({ "messages": user(&"the fox ".repeat(2000)), "stream": true })));
    assert_eq!(streamed.status, 400);
    assert_eq!(
        server.answer(CHAT, &with(&body, json!({ "max_completion_tokens": 2, "max_tokens": 9 })))["usage"]["completion_tokens"],
        2
    );
}
