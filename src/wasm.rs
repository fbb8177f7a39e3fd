//! JavaScript bindings, without logic of their own. Options and results are plain values with the names of the Rust API; errors are
//! `{code, message, detail}`. Each feature adds exports: `wasm-engine` the engine, `wasm-grammar` grammars and `wasm-simulator` the demo
//! page's simulator. The build makes a module of each.

use crate::error::Error;
use js_sys::Reflect;
use serde::Serialize;
use serde_wasm_bindgen::Serializer;
use wasm_bindgen::prelude::*;

#[cfg(feature = "wasm-engine")]
mod engine;
#[cfg(feature = "wasm-grammar")]
mod grammar;
#[cfg(feature = "wasm-simulator")]
mod simulate;

/// Stores the message of a panic: otherwise JavaScript only gets `unreachable`.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|info| {
        let text = info.to_string();
        // A global and not an export, because nothing in this module may be called after a panic.
        let _ = Reflect::set(&js_sys::global(), &"foretoken_panic".into(), &text.into());
    }));
}

/// Converts a value as JSON does, but keeps numbers that JSON lacks.
fn to_value(value: &impl Serialize) -> JsValue {
    value.serialize(&Serializer::json_compatible()).unwrap_or_else(JsValue::from)
}

impl From<Error> for JsValue {
    fn from(error: Error) -> Self {
        to_value(&error)
    }
}
