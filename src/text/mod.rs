//! Strings to tokens and back: the tokenizer, the chat template, and what turns a stream of tokens into text that may be shown.
//!
//! Everything that comes in (`tokenizer.json`, templates, messages) is untrusted: it gives a typed error, never a panic, and
//! a user's text never becomes a special token through [`ChatTemplate::encode`].

mod chat;
mod filters;
mod jinja;
mod message;
mod python;
mod stop;
mod stream;
mod template;
mod tokenizer;
mod translate;
mod vocabulary;

pub use chat::Chat;
pub use message::Message;
pub use stop::StopStrings;
pub use stream::TextStream;
pub use template::{ChatTemplate, ToolFormat};
pub(crate) use template::{DEFAULT, NAMED, named_file};
pub use tokenizer::Tokenizer;
pub use translate::Translator;
pub use vocabulary::Vocabulary;
