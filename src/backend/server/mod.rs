//! Targets on servers. A verification is one request to vLLM or SGLang. The response has the most likely token after each of the last
//! tokens of a text.
//!
//! ```text
//!  ServerBackend: Backend ──> draft model, here
//!     └──> Server: Target ──> Client: replicas, tries again ──> Dialect: what is asked and answered, pure
//!                                └──> Transport: natively threads with ureq, in a page fetch
//! ```
//!
//! A lost connection loses nothing. A verification changes nothing on the server, so it is repeated there or on another server. Only
//! verified tokens are emitted.

mod client;
mod dialect;
mod endpoint;
mod engine;
mod events;
#[cfg(all(feature = "remote", not(target_arch = "wasm32")))]
mod http;
mod stream;
mod target;
mod transport;
mod tries;
mod vocabulary;

pub use dialect::Dialect;
pub use endpoint::{Endpoint, Key};
pub use engine::{ServerBackend, lacks};
#[cfg(all(feature = "remote", not(target_arch = "wasm32")))]
pub use http::Http;
pub use target::ServerTarget;
pub use transport::{Incoming, Later, Piece, Request, Transport};
pub use vocabulary::VocabularyProbe;
