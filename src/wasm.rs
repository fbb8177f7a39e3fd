//! What JavaScript sees: a surface without logic. Options and results cross as plain values whose names are those of the
//! native face; errors cross as `{code, message, detail}`. Two parts are modules of their own instead, so that nobody else
//! downloads them: the demo page's simulator (the feature `simulator`), and grammars (`grammar`), which most texts do without.

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
mod served;
#[cfg(not(any(feature = "grammar", feature = "simulator")))]
mod session;
#[cfg(feature = "simulator")]
mod simulate;
#[cfg(not(any(feature = "grammar", feature = "simulator")))]
mod team;

/// Keeps the words of a panic: all that JS sees of it otherwise is `unreachable`.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|info| {
        let text = info.to_string();
        // A global and not an export, because nothing in here may be called after a panic.
        let _ = Reflect::set(&js_sys::global(), &"foretoken_panic".into(), &text.into());
    }));
}

/// As JSON would have it; numbers that JSON lacks stay what they are.
fn to_value(value: &impl Serialize) -> JsValue {
    value.serialize(&Serializer::json_compatible()).unwrap_or_else(JsValue::from)
}

impl From<Error> for JsValue {
    fn from(error: Error) -> Self {
        to_value(&error)
    }
}
