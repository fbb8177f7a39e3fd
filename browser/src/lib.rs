//! JavaScript bindings, without logic of their own. Options and results are plain values with the names of the Rust API; errors are
//! `{code, message, detail}`. Each feature adds exports: `engine` the engine, `grammar` grammars and `simulator` the demo
//! page's simulator. The build makes a module of each.

use foretoken::Error;
use js_sys::Reflect;
use serde::Serialize;
use serde_wasm_bindgen::Serializer;
use wasm_bindgen::prelude::*;

#[cfg(feature = "engine")]
mod engine;
#[cfg(feature = "grammar")]
mod grammar;
#[cfg(feature = "simulator")]
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

/// Value thrown by an export: an error of the engine as `{code, message, detail}`, or an exception of the page.
pub struct Exception(JsValue);

impl From<Error> for Exception {
    fn from(error: Error) -> Self {
        Self(to_value(&error))
    }
}

impl From<JsValue> for Exception {
    fn from(thrown: JsValue) -> Self {
        Self(thrown)
    }
}

impl From<Exception> for JsValue {
    fn from(Exception(thrown): Exception) -> Self {
        thrown
    }
}
