//! Files of models: reading, checking, downloading.

mod gguf;
mod hub;
mod weights;
