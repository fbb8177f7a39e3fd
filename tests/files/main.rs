//! Files of models: reading, checking, converting, downloading.

mod convert;
mod gguf;
mod hub;
mod weights;
