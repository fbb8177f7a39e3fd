//! What JavaScript sees: a surface without logic. Options and results cross as JSON, so that their names are those of the
//! native face; errors cross as `{code, message, detail}`. The demo page's simulator is a module of its own (the feature
//! `simulator`), so that nobody else downloads it.

use crate::error::Error;
use js_sys::{JSON, Reflect};
use serde::Serialize;
use wasm_bindgen::prelude::*;

#[cfg(not(feature = "simulator"))]
mod parallel;
#[cfg(not(feature = "simulator"))]
mod session;
#[cfg(feature = "simulator")]
mod simulate;

/// Keeps the words of a panic: all that JS sees of it otherwise is `unreachable`.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|info| {
        let text = info.to_string();
        // A global and not an export, because nothing in here may be called after a panic.
        let _ = Reflect::set(&js_sys::global(), &"foretoken_panic".into(), &text.into());
    }));
}

fn to_value(value: &impl Serialize) -> JsValue {
    let text = serde_json::to_string(value).unwrap_or_default();
    JSON::parse(&text).unwrap_or(JsValue::UNDEFINED)
}

fn to_error(error: Error) -> JsValue {
    to_value(&error.to_json())
}
