//! Conversion between strings and tokens: the tokenizer, chat templates, and decoding of token streams to displayable text.
//!
//! All input (`tokenizer.json`, templates, messages) is untrusted. Invalid input returns a typed error and never panics. User text never
//! becomes a special token through [`ChatTemplate::encode`].

mod chat;
mod filters;
mod formats;
mod jinja;
mod message;
mod python;
mod stop;
mod stream;
mod template;
mod tokenizer;
mod translate;
mod vocabulary;

pub use chat::ChatInput;
pub use formats::{ReasoningFormat, ToolFormat};
pub use message::Message;
pub use stop::StopStrings;
pub use stream::TextStream;
pub use template::ChatTemplate;
pub use template::{DEFAULT, NAMED, named_file};
pub use tokenizer::Tokenizer;
pub use translate::Translator;
pub use vocabulary::Vocabulary;
