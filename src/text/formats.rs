//! Formats of tool calls and thoughts, recognised by the source of a model's chat template.

use serde::Serialize;

/// Mark of a message's channel in Harmony.
pub(super) const HARMONY: &str = "<|channel|>";

/// Format of a model's tool calls, recognised by its chat template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolFormat {
    /// `<tool_call>{"name", "arguments"}</tool_call>`: Hermes, Qwen, SmolLM.
    Hermes,
    /// `<tool_call><function=name><parameter=key>value</parameter></function></tool_call>`: Qwen3.5, Qwen3-Coder.
    Xml,
    /// `{"name", "parameters"}`, optionally after `<|python_tag|>`: Llama 3.
    Llama,
    /// `[TOOL_CALLS][{"name", "arguments"}]`.
    Mistral,
    /// `[TOOL_CALLS]name[ARGS]{}`: later Mistral models.
    MistralArgs,
    /// `<start_function_call>call:name{key:<escape>text<escape>}<end_function_call>`: FunctionGemma.
    Gemma,
    /// `<|tool_call>call:name{key:<|"|>text<|"|>}<tool_call|>`: Gemma 4.
    Gemma4,
    /// `<|tool_call_start|>[name(key="text")]<|tool_call_end|>`, or JSON between the marks: LFM2.
    Lfm2,
    /// A message `<|channel|>commentary to=functions.name <|constrain|>json<|message|>{}`: gpt-oss.
    Harmony,
}

/// Text in a template that identifies a format. The first match counts.
const TOOL_FORMATS: [(&str, ToolFormat); 10] = [
    (HARMONY, ToolFormat::Harmony),
    ("<|tool_call>", ToolFormat::Gemma4),
    ("<|tool_call_start|>", ToolFormat::Lfm2),
    ("<|tool_list_start|>", ToolFormat::Lfm2),
    ("<start_function_call>", ToolFormat::Gemma),
    ("[ARGS]", ToolFormat::MistralArgs),
    ("[TOOL_CALLS]", ToolFormat::Mistral),
    ("<parameter=", ToolFormat::Xml),
    ("<tool_call>", ToolFormat::Hermes),
    ("\"parameters\": ", ToolFormat::Llama),
];

/// Format of a model's thoughts before its answer, recognised by its chat template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningFormat {
    /// `<think>...</think>`.
    Think,
    /// `[THINK]...[/THINK]`: Ministral 3.
    Brackets,
    /// `<|channel>thought ... <channel|>`: Gemma 4.
    Channel,
    /// Messages, each with a channel: gpt-oss.
    Harmony,
}

/// Text in a template that identifies a format. The first match counts.
const REASONING_FORMATS: [(&str, ReasoningFormat); 4] = [
    (HARMONY, ReasoningFormat::Harmony),
    ("<|channel>", ReasoningFormat::Channel),
    ("[THINK]", ReasoningFormat::Brackets),
    ("think>", ReasoningFormat::Think),
];

impl ToolFormat {
    /// Returns the format that a template's source uses.
    pub(super) fn find(source: &str) -> Option<Self> {
        find(&TOOL_FORMATS, source)
    }
}

impl ReasoningFormat {
    /// Returns the format that a template's source mentions.
    pub(super) fn find(source: &str) -> Option<Self> {
        find(&REASONING_FORMATS, source)
    }
}

fn find<F: Copy>(formats: &[(&str, F)], source: &str) -> Option<F> {
    formats.iter().find_map(|(words, format)| source.contains(words).then_some(*format))
}
