//! Files written from the declarations of the options: the TypeScript types and the settings of the demo page.

use crate::command;
use foretoken::internals::options::{Declared, Kind, generate_options, load_options};

/// Command that writes the files.
const COMMAND: &str = "GENERATE=1 cargo test --release --test program options";
/// Longest line of a comment in TypeScript.
const WIDTH: usize = 130;

/// Compares a file with its generated text, or writes it.
fn assert_current(file: &str, generate: impl FnOnce(&str) -> String) {
    let path = common::path(file);
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let text = generate(&found);
    if std::env::var_os("GENERATE").is_some() {
        std::fs::write(path, text).unwrap();
    } else {
        assert!(found == text, "{file} is not what src/options declares; write it with: {COMMAND}");
    }
}

/// Returns the type of an option in TypeScript.
fn typed(kind: &Kind) -> String {
    match kind {
        Kind::Flag => "boolean".into(),
        Kind::Count | Kind::Number => "number".into(),
        Kind::Text => "string".into(),
        Kind::Texts => "readonly string[]".into(),
        Kind::Choice(choices) => {
            let is_flag = |name: &str| ["true", "false"].contains(&name);
            let flag = choices.iter().any(|(name, _)| is_flag(name)).then(|| "boolean".to_owned());
            let names = choices.iter().filter(|(name, _)| !is_flag(name)).map(|(name, _)| format!("\"{name}\""));
            flag.into_iter().chain(names).collect::<Vec<_>>().join(" | ")
        }
        Kind::Biases => "Readonly<Record<number, number>>".into(),
        Kind::Sequences => "readonly (readonly number[])[]".into(),
        Kind::Objects => "readonly object[]".into(),
        Kind::Object => "Readonly<Record<string, unknown>>".into(),
        Kind::Format => "ResponseFormat".into(),
    }
}

/// Returns the description with the meanings of names.
fn about(option: &Declared) -> String {
    let meanings = option.meanings().map(|(name, meaning)| format!(" `{name}`: {meaning}"));
    option.about.clone() + &meanings.collect::<String>()
}

/// Returns the fields of options, with comments.
fn fields(options: &[Declared]) -> String {
    let field = |option: &Declared| {
        let mut text = about(option);
        if option.default != "none" {
            text += &format!(" Default: {}.", option.default);
        }
        text.extend(option.allowed.iter().map(|allowed| format!(" Allowed: {allowed}.")));
        let mut lines = vec![String::new()];
        for word in text.split(' ') {
            if lines[lines.len() - 1].len() + word.len() > WIDTH {
                lines.push(String::new());
            }
            let line = lines.last_mut().unwrap();
            *line += if line.is_empty() { "" } else { " " };
            *line += word;
        }
        let comment = match &lines[..] {
            [line] => format!("  /** {line} */\n"),
            lines => format!("  /**\n   * {}\n   */\n", lines.join("\n   * ")),
        };
        format!("{comment}  {}?: {};\n", option.name, typed(&option.kind))
    };
    options.iter().map(field).collect()
}

/// Replaces the fields of a type that stand between two marks.
fn with_fields(file: &str, name: &str, options: &[Declared]) -> String {
    let (begin, end) = (format!("  // Written by: {COMMAND}\n"), "  // End of what is written\n");
    let head = format!("export type {name} = {{\n{begin}");
    let (before, rest) = file.split_once(&head).unwrap_or_else(|| panic!("{name} begins with {begin}"));
    let (_, after) = rest.split_once(end).unwrap_or_else(|| panic!("the fields of {name} end with {end}"));
    format!("{before}{head}{}{end}{after}", fields(options))
}

#[test]
fn the_types_of_the_package_are_those_of_the_options() {
    assert_current("www/api.ts", |file| {
        let file = with_fields(file, "LoadOptions", &load_options());
        with_fields(&file, "GenerateOptions", &generate_options())
    });
}

/// Returns a text in JavaScript, with the quotes that need no backslash.
fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\");
    if text.contains('"') { format!("'{}'", text.replace('\'', "\\'")) } else { format!("\"{text}\"") }
}

#[test]
fn the_settings_of_the_demo_are_those_of_the_options() {
    let setting = |group: &str, option: &Declared| {
        let (kind, values) = match &option.kind {
            Kind::Flag => ("choice", vec!["true", "false"]),
            Kind::Choice(choices) => ("choice", choices.iter().map(|(name, _)| *name).collect()),
            Kind::Count | Kind::Number => ("number", Vec::new()),
            Kind::Text => ("text", Vec::new()),
            Kind::Texts => ("texts", Vec::new()),
            _ => ("json", Vec::new()),
        };
        let values: Vec<_> = values.into_iter().map(quoted).collect();
        let values = if values.is_empty() { String::new() } else { format!("    values: [{}],\n", values.join(", ")) };
        let range =
            option.allowed.iter().map(|allowed| format!("    range: {},\n", quoted(allowed))).collect::<String>();
        format!(
            "  {{\n    name: {},\n    group: {},\n    kind: {},\n{values}    default: {},\n{range}    hint: {},\n  }},\n",
            quoted(option.name),
            quoted(group),
            quoted(kind),
            quoted(&option.default),
            quoted(&about(option).replace('`', "")),
        )
    };
    assert_current("www/demo/options.js", |_| {
        let generation: String = generate_options().iter().map(|option| setting("generation", option)).collect();
        let loading: String = load_options().iter().map(|option| setting("loading", option)).collect();
        format!(
            "/** The engine's options. Written by: {COMMAND} */\nexport const OPTIONS = [\n{generation}{loading}];\n"
        )
    });
}

#[test]
fn the_help_of_the_program_describes_the_options() {
    let run = command(&["chat", "--help"]).output().unwrap();
    let help = String::from_utf8(run.stdout).unwrap();
    for option in generate_options().iter().chain(&load_options()) {
        let flag = match option.name {
            // Files are part of the models' names, and the program has one conversation at a time.
            "file" | "assistant_file" | "prompt_cache_bytes" => continue,
            "response_format" => "json-schema".into(),
            "skip_special_tokens" => "keep-special-tokens".into(),
            "add_generation_prompt" => "no-generation-prompt".into(),
            "overlap" => "no-overlap".into(),
            name => name.replace('_', "-"),
        };
        assert!(help.contains(&format!("  --{flag}")), "{flag} is missing in {help}");
        let names = option.meanings().map(|(name, _)| format!("  {name}: "));
        let has_default = option.kind != Kind::Flag && option.default != "none";
        let default = has_default.then(|| format!("[default: {}]", option.default));
        let allowed = option.allowed.iter().map(|allowed| format!("[allowed: {allowed}]"));
        for part in names.chain(default).chain(allowed) {
            assert!(help.contains(&part), "{part} of {flag} is missing in {help}");
        }
    }
}
