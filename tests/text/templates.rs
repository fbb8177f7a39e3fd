//! Chat templates of published models render as in Python's jinja2, in the environment that transformers sets up.
//!
//! `tests/golden/templates/` has the templates and their renderings by its `templates.py`. `FORETOKEN_TEMPLATES_DIR` selects another
//! folder of this kind.

use foretoken::internals::text::{ChatInput, ChatTemplate, ReasoningFormat, ToolFormat};
use foretoken::{Error, Message};
use serde_json::{Map, Value};
use std::path::PathBuf;

fn folder() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/templates");
    std::env::var_os("FORETOKEN_TEMPLATES_DIR").map_or(here, Into::into)
}

fn objects(value: Option<Value>) -> Vec<Map<String, Value>> {
    value.map(|list| serde_json::from_value(list).unwrap()).unwrap_or_default()
}

/// Renders a chat of the goldens, where it is a single object.
fn rendered(template: &ChatTemplate, chat: &Value) -> Result<String, Error> {
    let mut kwargs = chat.as_object().unwrap().clone();
    let messages =
        objects(kwargs.remove("messages")).into_iter().map(|fields| Message::try_from(Value::Object(fields)));
    let messages = messages.collect::<Result<Vec<_>, _>>()?;
    let [tools, documents] = ["tools", "documents"].map(|name| objects(kwargs.remove(name)));
    let mut flag = |name: &str, default| kwargs.remove(name).map_or(default, |value| value == true);
    template.render(&ChatInput {
        messages: &messages,
        tools: &tools,
        documents: &documents,
        add_generation_prompt: flag("add_generation_prompt", true),
        continue_final_message: flag("continue_final_message", false),
        kwargs: Some(&kwargs),
    })
}

fn golden() -> Value {
    serde_json::from_slice(&std::fs::read(folder().join("templates.json")).unwrap()).unwrap()
}

#[test]
fn expressions_mean_what_they_mean_in_python() {
    let golden = golden();
    let mut chat = golden["chats"]["turns"].clone();
    let mut wrong = Vec::new();
    for pair in golden["expressions"].as_array().unwrap() {
        // Tools that a template does not show are refused.
        let source = format!("{{% if tools %}}tools: {{% endif %}}\n{}", pair[0].as_str().unwrap());
        if source.matches("tools").count() > 2 {
            chat["tools"] = golden["chats"]["tools"]["tools"].clone();
        } else {
            chat.as_object_mut().unwrap().remove("tools");
        }
        let ours = ChatTemplate::from_files(None, Some(source.as_bytes())).and_then(|template| {
            let mut template = template.unwrap();
            template.set_now(golden["now"].as_i64().unwrap());
            rendered(&template, &chat)
        });
        let ours = ours.map(|text| text.strip_prefix("tools: ").unwrap_or(&text).to_owned());
        if ours.as_deref().ok() != pair[1].as_str() {
            wrong.push(format!("{}\n   {ours:?}\n   {:?}", pair[0].as_str().unwrap(), pair[1].as_str()));
        }
    }
    assert!(wrong.is_empty(), "{} are not:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn templates_tell_how_calls_are_written() {
    let format = |name: &str| {
        let source = std::fs::read(folder().join(format!("{name}.jinja"))).unwrap();
        ChatTemplate::from_files(None, Some(&source)).unwrap().unwrap().tool_format()
    };
    assert_eq!(format("qwen2.5"), Some(ToolFormat::Hermes));
    assert_eq!(format("qwen3"), Some(ToolFormat::Hermes));
    assert_eq!(format("like-llama-3.2"), Some(ToolFormat::Llama));
    assert_eq!(format("mistral-nemo"), Some(ToolFormat::Mistral));
    assert_eq!(format("gemma-4"), Some(ToolFormat::Gemma4));
    assert_eq!(format("lfm2"), Some(ToolFormat::Lfm2));
    assert_eq!(format("qwen3.5"), Some(ToolFormat::Xml));
    assert_eq!(format("like-gpt-oss"), Some(ToolFormat::Harmony));
    assert_eq!(format("smollm2"), None);
    let named = br#"{"chat_template": [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "<tool_call>"}]}"#;
    let template = ChatTemplate::from_files(Some(named), None).unwrap().unwrap();
    assert_eq!(template.tool_format(), Some(ToolFormat::Hermes));
}

#[test]
fn formats_of_thoughts_are_recognised_by_the_template() {
    let format = |source: &[u8]| ChatTemplate::from_files(None, Some(source)).unwrap().unwrap().reasoning_format();
    let of_file = |name: &str| format(&std::fs::read(folder().join(format!("{name}.jinja"))).unwrap());
    assert_eq!(of_file("qwen3"), Some(ReasoningFormat::Think));
    assert_eq!(of_file("qwen3.5"), Some(ReasoningFormat::Think));
    assert_eq!(of_file("smollm3"), Some(ReasoningFormat::Think));
    assert_eq!(of_file("gemma-4"), Some(ReasoningFormat::Channel));
    assert_eq!(of_file("like-gpt-oss"), Some(ReasoningFormat::Harmony));
    assert_eq!(of_file("qwen2.5"), None);
    assert_eq!(format(b"{{ '[THINK]' + messages[0].content + '[/THINK]' }}"), Some(ReasoningFormat::Brackets));
}

/// An answer from the API can be a message again, whatever its template calls thoughts.
#[test]
fn thoughts_of_earlier_answers_reach_templates_under_their_name() {
    let call = serde_json::json!({ "type": "function", "function": { "name": "clock", "arguments": "{}" } });
    let answer = serde_json::json!({
        "role": "assistant", "content": null, "reasoning_content": "Hm.", "refusal": null, "tool_calls": [call],
    });
    let messages = [Message::new("user", "The time?"), Message::try_from(answer).unwrap()];
    let with_source = |source: &[u8]| {
        let template = ChatTemplate::from_files(None, Some(source)).unwrap().unwrap();
        template.render(&ChatInput { add_generation_prompt: false, ..ChatInput::new(&messages) }).unwrap()
    };
    let of_file = |name: &str| with_source(&std::fs::read(folder().join(format!("{name}.jinja"))).unwrap());
    assert!(of_file("qwen3.5").contains("<think>\nHm.\n</think>"));
    let harmony = of_file("like-gpt-oss");
    let wanted = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant to=functions.clock<|channel|>commentary json<|message|>{}";
    assert!(harmony.contains(wanted), "{harmony}");
    let none = with_source(b"{% for m in messages %}{{ m.role }} {{ m.tool_calls }};{% endfor %}");
    assert!(!none.contains("Hm."), "{none}");
}

#[test]
fn templates_render_as_in_python() {
    let folder = folder();
    let golden = golden();
    let (mut equal, mut wrong) = (0, Vec::new());
    for (name, texts) in golden["rendered"].as_object().unwrap() {
        let source = std::fs::read(folder.join(format!("{name}.jinja"))).unwrap();
        let config = golden["tokens"].to_string();
        let template = ChatTemplate::from_files(Some(config.as_bytes()), Some(&source));
        let mut template = match template {
            Ok(template) => template.unwrap(),
            Err(error) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        template.set_now(golden["now"].as_i64().unwrap());
        for (case, text) in texts.as_object().unwrap() {
            match (rendered(&template, &golden["chats"][case]), text.as_str()) {
                (Ok(ours), Some(theirs)) if ours == theirs => equal += 1,
                (Err(_), None) => equal += 1,
                // Refused here; Python silently drops input that the template does not show.
                (Err(Error::BadOption { option, .. }), Some(_)) if option != "continue_final_message" => {}
                (Ok(ours), Some(theirs)) => {
                    let same = ours.bytes().zip(theirs.bytes()).take_while(|(a, b)| a == b).count();
                    let cut = |text: &str| {
                        String::from_utf8_lossy(&text.as_bytes()[same.min(text.len())..])
                            .chars()
                            .take(60)
                            .collect::<String>()
                    };
                    wrong.push(format!("{name}, {case}: {:?} instead of {:?}", cut(&ours), cut(theirs)));
                }
                (ours, theirs) => wrong.push(format!("{name}, {case}: {ours:?} instead of {theirs:?}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{equal} equal, {} not:\n{}", wrong.len(), wrong.join("\n"));
    println!("{equal} texts");
    assert!(equal >= 60, "{equal}");
}
