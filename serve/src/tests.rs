//! Tests of answers and tools: the cases of `tests/browser/tools.mjs`.

use crate::answers::{AnswerFormat, AnswerReader, read_answer};
use crate::calls::FoundCall;
use crate::tools::{CallMarks, calling};
use foretoken::Error;
use foretoken::internals::text::{ReasoningFormat, ToolFormat};
use serde_json::{Value, json};

fn cases() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/answers.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn tool_format(name: &str) -> ToolFormat {
    use ToolFormat::*;
    let all = [Hermes, Xml, Llama, Mistral, MistralArgs, Gemma, Gemma4, Lfm2, Harmony];
    all.into_iter().find(|format| json!(format) == name).unwrap()
}

/// Returns how answers of a format of calls, or else of thoughts, are read.
fn format_of(name: &str, is_thought: bool, tools: &Value) -> AnswerFormat {
    use ReasoningFormat::*;
    let reasoning = [Think, Brackets, Channel, Harmony].into_iter().find(|format| json!(format) == name);
    AnswerFormat {
        tools: tools.as_object().unwrap().clone(),
        tool_format: (!is_thought).then(|| tool_format(name)),
        reasoning_format: reasoning,
        is_open: false,
        most: usize::MAX,
    }
}

fn apart(calls: &[FoundCall]) -> Value {
    calls.iter().map(|call| json!([call.name, call.arguments])).collect()
}

/// Returns thoughts, content and calls of an answer that is read in pieces of `size` characters.
fn in_pieces(text: &str, format: &AnswerFormat, size: usize) -> (String, String, Value) {
    let mut reader = AnswerReader::new(format.clone());
    let letters: Vec<char> = text.chars().collect();
    let mut deltas: Vec<Value> =
        letters.chunks(size).flat_map(|piece| reader.push(&piece.iter().collect::<String>(), false)).collect();
    deltas.extend(reader.push("", true));
    let joined = |key: &str| deltas.iter().filter_map(|delta| delta[key].as_str()).collect::<String>();
    let mut calls: Vec<(String, String)> = Vec::new();
    for delta in deltas.iter().flat_map(|delta| delta["tool_calls"].as_array().into_iter().flatten()) {
        let (index, function) = (delta["index"].as_u64().unwrap() as usize, &delta["function"]);
        let is_new = index == calls.len();
        let has = ["id", "type"].map(|name| delta.get(name).is_some());
        assert_eq!((has, function.get("name").is_some()), ([is_new; 2], is_new), "a call's head comes once: {text}");
        if is_new {
            let id = delta["id"].as_str().unwrap();
            assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()), "{id}");
            calls.push((function["name"].as_str().unwrap().into(), String::new()));
        }
        calls[index].1.push_str(function["arguments"].as_str().unwrap());
    }
    let known: Value =
        reader.calls.iter().map(|call| json!([call["function"]["name"], call["function"]["arguments"]])).collect();
    let calls = json!(calls);
    assert_eq!(calls, known, "calls of the reader: {text}");
    (joined("reasoning_content"), joined("content"), calls)
}

#[test]
fn answers_in_every_format_are_read_whole_and_piece_by_piece() {
    let cases = cases();
    let mut count = 0;
    for (group, is_thought) in [("answers", false), ("thoughts", true)] {
        for (name, answers) in cases[group].as_object().unwrap() {
            for case in answers.as_array().unwrap() {
                let text = case[0].as_str().unwrap();
                let is_open = case[4] == true;
                let format = AnswerFormat { is_open, ..format_of(name, is_thought, &cases["tools"]) };
                let whole = read_answer(text, &format, true);
                let expected =
                    (case[3].as_str().unwrap_or("").to_owned(), case[1].as_str().unwrap().to_owned(), case[2].clone());
                assert_eq!((whole.reasoning, whole.content, apart(&whole.calls)), expected, "{name}: {text}");
                for size in [1, 2, 3, 7] {
                    assert_eq!(in_pieces(text, &format, size), expected, "{name}, by {size}: {text}");
                }
                count += 1;
            }
        }
    }
    assert!(count > 55, "{count} answers");
}

#[test]
fn no_answer_however_broken_panics_or_takes_back_a_part() {
    let cases = cases();
    let pieces: Vec<&str> = cases["pieces"].as_array().unwrap().iter().map(|piece| piece.as_str().unwrap()).collect();
    let mut seed = 7u64;
    let mut random = |below: usize| {
        seed = seed * 48271 % 2147483647;
        seed as usize % below
    };
    for _ in 0..4000 {
        let text: String = (0..1 + random(14)).map(|_| pieces[random(pieces.len())]).collect();
        for name in cases["answers"].as_object().unwrap().keys() {
            let format = AnswerFormat { is_open: random(2) == 1, ..format_of(name, false, &cases["tools"]) };
            let whole = read_answer(&text, &format, true);
            let expected = (whole.reasoning, whole.content, apart(&whole.calls));
            assert_eq!(in_pieces(&text, &format, 5), expected, "{name}: {text:?}");
        }
        // Letters of several bytes at every place.
        let wide = text.replace([' ', ',', '1'], "\u{e9}\u{1f98a}\u{feff}");
        for name in cases["answers"].as_object().unwrap().keys() {
            in_pieces(&wide, &format_of(name, false, &cases["tools"]), 1);
        }
    }
}

#[test]
fn tools_of_a_request_are_checked_and_required_ones_make_a_grammar() {
    let cases = cases();
    let call = |case: &Value| {
        let body = &case["body"];
        let format = case["format"].as_str().map(tool_format);
        let is_parallel = body["parallel_tool_calls"] != false;
        calling(body.get("tools"), body.get("tool_choice"), is_parallel, format, &CallMarks::default())
    };
    for case in cases["refused"].as_array().unwrap() {
        let error = call(case).unwrap_err();
        let Error::BadOption { option, .. } = &error else { panic!("{error}") };
        assert_eq!(**option, case["option"], "{error}");
        assert!(error.to_string().contains(case["words"].as_str().unwrap()), "{error}");
    }
    let grammars = cases["grammars"].as_array().unwrap();
    for case in grammars {
        let form = call(case).unwrap().unwrap().response_format.unwrap();
        let lines: Vec<_> = form.0["grammar"].as_str().unwrap().split('\n').collect();
        assert_eq!(json!(lines), case["grammar"], "{}", case["format"]);
    }
    let tools = &grammars[0]["body"]["tools"];
    let free = |tools: &Value, choice: Value, is_parallel, format| {
        calling(Some(tools), Some(&choice), is_parallel, format, &CallMarks::default()).unwrap()
    };
    assert!(free(tools, "none".into(), true, Some(ToolFormat::Hermes)).is_none());
    assert!(free(&json!([]), "auto".into(), true, Some(ToolFormat::Hermes)).is_none());
    assert!(free(tools, "auto".into(), true, None).is_none());
    assert_eq!(free(tools, "auto".into(), false, Some(ToolFormat::Llama)).unwrap().most, 1);
}
