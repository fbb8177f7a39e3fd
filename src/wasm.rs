//! JavaScript bindings, without logic of their own. Options and results are plain values with the names of the Rust API; errors are
//! `{code, message, detail}`. Two parts are separate modules, downloaded only if needed: the demo page's simulator (feature `simulator`),
//! and grammars (`grammar`).

use crate::error::Error;
use js_sys::Reflect;
use serde::Serialize;
use serde_wasm_bindgen::Serializer;
use wasm_bindgen::prelude::*;

#[cfg(not(any(feature = "grammar", feature = "simulator")))]
mod constraint;
#[cfg(not(any(feature = "grammar", feature = "simulator")))]
mod files;
#[cfg(feature = "grammar")]
mod grammar;
#[cfg(not(any(feature = "grammar", feature = "simulator")))]
mod parallel;
#[cfg(not(any(feature = "grammar", feature = "simulator")))]
mod read;
#[cfg(not(any(feature = "grammar", feature = "simulator")))]
mod served;
#[cfg(not(any(feature = "grammar", feature = "simulator")))]
mod session;
#[cfg(feature = "simulator")]
mod simulate;
#[cfg(not(any(feature = "grammar", feature = "simulator")))]
mod threads;

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
