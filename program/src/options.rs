//! Flags of the options, made from their declarations.

use super::flag;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use foretoken::internals::json;
use foretoken::internals::options::{Declared, Kind, Options, generate_options, load_options};
use foretoken::{Error, GenerateOptions, LoadOptions, ResponseFormat, Result};
use serde_json::{Map, Value};

/// Options of a generation, except those of other groups.
const GENERATION: usize = 0;
/// Options of loading, except those of other groups: capacity and number types of the models.
const CAPACITY: usize = 1;
const DEVICE: usize = 2;
/// Options for texts only: models that compute at the same time, and the memory of the suffix lookup.
const PARALLEL: usize = 3;
/// Policy for chats that are longer than the context.
const LONG_CHATS: usize = 4;

/// Returns the options of a group.
fn members(group: usize) -> impl Iterator<Item = Declared> {
    let others = load_options().into_iter().map(|option| (CAPACITY, option));
    let all = others.chain(generate_options().into_iter().map(|option| (GENERATION, option)));
    all.filter_map(move |(usual, option)| {
        let own = match option.name {
            // Files are part of the models' names, a form has its own flags, and the program has one conversation at a time.
            "file" | "assistant_file" | "response_format" | "prompt_cache_bytes" => return None,
            "device" | "threads" => DEVICE,
            "sp_degree" | "draft_device" | "lookup_memory" => PARALLEL,
            "context" => LONG_CHATS,
            _ => usual,
        };
        (own == group).then_some(option)
    })
}

/// Flags that turn something off: the option, the flag, and its description.
const NEGATED: [(&str, &str, &str); 3] = [
    (
        "overlap",
        "no-overlap",
        "Decode text and prepare the next round only after the device is done. The text is the same",
    ),
    ("skip_special_tokens", "keep-special-tokens", "Print special tokens too"),
    ("add_generation_prompt", "no-generation-prompt", "Chats: do not end the prompt with the start of an answer"),
];

/// The given flags of a group: options and their texts.
pub(super) struct Flags<const GROUP: usize>(Vec<(Declared, Vec<String>)>);

pub(super) type CapacityFlags = Flags<CAPACITY>;
pub(super) type DeviceFlags = Flags<DEVICE>;
pub(super) type ParallelFlags = Flags<PARALLEL>;
pub(super) type LongChatFlags = Flags<LONG_CHATS>;

impl<const GROUP: usize> Flags<GROUP> {
    /// Sets the given options.
    pub fn set<T: Options>(&self, mut options: T) -> Result<T> {
        for (Declared { name, kind, .. }, texts) in &self.0 {
            let bad = |allowed| Error::BadOption { option: (*name).into(), value: texts.join(" "), allowed };
            let value = value(kind, texts).map_err(|reason| bad(format!("{}{reason}", syntax(kind).1)))?;
            options.set(name, &value).transpose().map_err(|error| match error {
                Error::BadOption { allowed, .. } => bad(allowed),
                other => other,
            })?;
        }
        Ok(options)
    }
}

impl CapacityFlags {
    /// Returns validated load options.
    pub fn options(&self) -> Result<LoadOptions> {
        let options = self.set(LoadOptions::new())?;
        options.validate()?;
        Ok(options)
    }
}

impl<const GROUP: usize> Args for Flags<GROUP> {
    fn augment_args(command: Command) -> Command {
        command.args(members(GROUP).map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const GROUP: usize> FromArgMatches for Flags<GROUP> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = members(GROUP).filter_map(|option| {
            if option.kind == Kind::Flag {
                let is_negated = NEGATED.iter().any(|(name, ..)| *name == option.name);
                return matches.get_flag(option.name).then(|| (option, vec![(!is_negated).to_string()]));
            }
            let texts = matches.get_many::<String>(option.name)?.cloned().collect();
            Some((option, texts))
        });
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns the name of a flag's value, and the allowed texts, if not all texts can be read.
fn syntax(kind: &Kind) -> (String, &'static str) {
    let (name, allowed) = match kind {
        Kind::Flag => ("", ""),
        Kind::Count => ("N", "a whole number, 0 or more"),
        Kind::Number => ("X", "a number"),
        Kind::Text | Kind::Texts => ("TEXT", ""),
        Kind::Choice(choices) => {
            return (choices.iter().map(|(name, _)| *name).collect::<Vec<_>>().join("|"), "");
        }
        Kind::Biases => ("ID=BIAS", "ID=BIAS, for example 17=-2.5"),
        Kind::Sequences => ("ID,ID,...", "token ids, separated by commas"),
        Kind::Objects => ("JSON-FILE", "a file with a JSON list of objects"),
        Kind::Object | Kind::Format => ("JSON", "a JSON object"),
    };
    (name.into(), allowed)
}

/// Returns true if the flag may be given several times.
fn repeats(kind: &Kind) -> bool {
    matches!(kind, Kind::Texts | Kind::Biases | Kind::Sequences)
}

/// Returns the flag of an option.
fn arg(option: Declared) -> Arg {
    let arg = Arg::new(option.name);
    if let Some((_, long, help)) = NEGATED.iter().find(|(name, ..)| *name == option.name) {
        return arg.long(*long).help(*help).action(ArgAction::SetTrue);
    }
    let arg = arg.long(option.name.replace('_', "-")).help(help(&option));
    if option.kind == Kind::Flag {
        return arg.action(ArgAction::SetTrue);
    }
    // OpenAI's name.
    let arg = if option.name == "max_new_tokens" { arg.visible_alias("max-tokens") } else { arg };
    let (value_name, _) = syntax(&option.kind);
    let is_flag_too = value_name.contains("true|false");
    let arg = arg.value_name(value_name).allow_negative_numbers(true);
    let arg = arg.action(if repeats(&option.kind) { ArgAction::Append } else { ArgAction::Set });
    if is_flag_too { arg.num_args(0..=1).require_equals(true).default_missing_value("true") } else { arg }
}

/// Returns a flag's description, with the names of flags for those of options.
fn help(option: &Declared) -> String {
    let names: Vec<_> = load_options().into_iter().chain(generate_options()).map(|option| option.name).collect();
    let with_flags = |text: &str| -> String {
        let parts = text.trim_end_matches('.').split('`');
        parts.map(|part| if names.contains(&part) { flag(part) } else { part.to_owned() }).collect()
    };
    let mut text = with_flags(&option.about);
    if repeats(&option.kind) {
        text += " [may be repeated]";
    }
    if option.kind != Kind::Flag && option.default != "none" {
        text += &format!(" [default: {}]", option.default);
    }
    text.extend(option.allowed.iter().map(|allowed| format!(" [allowed: {allowed}]")));
    text.extend(option.meanings().map(|(name, meaning)| format!("\n  {name}: {}", with_flags(meaning))));
    text
}

/// Reads the value of a flag; an error is the reason, if more is known than the syntax.
fn value(kind: &Kind, texts: &[String]) -> Result<Value, String> {
    let text = texts.last().map_or("", String::as_str);
    let number = |text: &str| text.trim().parse::<f32>().ok().filter(|number| number.is_finite()).map(Value::from);
    let reason = |error: &dyn std::fmt::Display| format!(" ({error})");
    let found = match kind {
        Kind::Flag => Some((text == "true").into()),
        Kind::Count => text.parse::<u64>().ok().map(Value::from),
        Kind::Number => number(text),
        Kind::Text | Kind::Choice(_) => Some(text.into()),
        Kind::Texts => Some(texts.into()),
        Kind::Biases => {
            let id = |id: &str| id.trim().parse::<u32>().ok();
            let pair =
                |text: &String| text.split_once('=').and_then(|(key, x)| Some((id(key)?.to_string(), number(x)?)));
            texts.iter().map(pair).collect::<Option<Map<_, _>>>().map(Value::Object)
        }
        Kind::Sequences => {
            let ids = |text: &String| text.split(',').map(|id| id.trim().parse().ok()).collect::<Option<Vec<u32>>>();
            texts.iter().map(ids).collect::<Option<Vec<_>>>().map(Value::from)
        }
        Kind::Objects => {
            let list = std::fs::read_to_string(text).map_err(|error| reason(&error))?;
            let is_list = |list: &Value| list.as_array().is_some_and(|list| list.iter().all(Value::is_object));
            Some(json::parse(&list).map_err(|error| reason(&error))?).filter(is_list)
        }
        Kind::Object | Kind::Format => {
            Some(json::parse(text).map_err(|error| reason(&error))?).filter(Value::is_object)
        }
    };
    found.ok_or_else(String::new)
}

/// Flags of a generation.
#[derive(Args)]
pub(super) struct GenerateFlags {
    #[command(flatten)]
    options: Flags<GENERATION>,
    #[command(flatten)]
    form: FormFlags,
}

impl GenerateFlags {
    /// Returns validated options.
    pub fn options(&self) -> Result<GenerateOptions> {
        let options = self.options.set(GenerateOptions::new().response_format(self.form.response_format()?))?;
        options.validate()?;
        Ok(options)
    }
}

/// Required form of the text.
#[derive(Args)]
#[group(multiple = false)]
struct FormFlags {
    /// Generate JSON that matches this schema
    #[arg(long, value_name = "FILE")]
    json_schema: Option<String>,
    /// Generate a JSON object
    #[arg(long)]
    json_object: bool,
    /// Generate text that matches this regular expression as a whole
    #[arg(long, value_name = "PATTERN")]
    regex: Option<String>,
    /// Generate text that this grammar derives from `start`, in llguidance's variant of Lark
    #[arg(long, value_name = "FILE")]
    grammar: Option<String>,
}

impl FormFlags {
    fn response_format(&self) -> Result<Option<ResponseFormat>> {
        let bad = |option: &'static str, path: &str, allowed: String| Error::BadOption {
            option: option.into(),
            value: path.into(),
            allowed,
        };
        let open = |option, path| {
            std::fs::read_to_string(path)
                .map_err(|error| bad(option, path, format!("a file that can be read ({error})")))
        };
        if let Some(path) = &self.json_schema {
            let schema = json::parse(&open("json_schema", path)?);
            let refuse = |error| bad("json_schema", path, format!("a file with a JSON schema ({error})"));
            return schema.map(ResponseFormat::json_schema).map_err(refuse).map(Some);
        }
        if let Some(path) = &self.grammar {
            return Ok(Some(ResponseFormat::grammar(&open("grammar", path)?)));
        }
        let regex = self.regex.as_deref().map(ResponseFormat::regex);
        Ok(regex.or(self.json_object.then(ResponseFormat::json_object)))
    }
}
