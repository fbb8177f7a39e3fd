//! Rounds and sessions: speculation changes no token, whatever happens on the way.

mod assistants;
mod chat;
mod engine;
mod foreign;
mod growth;
mod lossless;
mod options;
mod overlap;
mod pard;
mod prefill;
mod range;
mod recovery;
mod rejection;
mod several;
mod shift;
mod trained;
