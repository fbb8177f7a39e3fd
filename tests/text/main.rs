//! Tokenizers, chat templates, streams of text, and structured output.

mod grammar;
mod schemas;
mod templates;
mod text;
mod tokenizers;
mod translate;
