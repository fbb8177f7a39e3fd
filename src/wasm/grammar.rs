//! What JavaScript sees of grammars, in a module of their own: `wasm/constraint.rs` calls them from the engine's.

use super::to_error;
use crate::constraint::{Constraint, Ending, Grammars, ResponseFormat};
use crate::error::Error;
use crate::grammar::Llguidance;
use wasm_bindgen::prelude::*;

/// Compiles forms for a vocabulary.
#[wasm_bindgen(js_name = Grammars)]
pub struct JsGrammars(Llguidance);

/// A text under a form.
#[wasm_bindgen(js_name = Grammar)]
pub struct JsGrammar(Box<dyn Constraint>);

#[wasm_bindgen(js_class = Grammars)]
impl JsGrammars {
    /// For tokens that have these bytes, one behind the other, and these lengths, of which `ends` end a text.
    ///
    /// # Errors
    /// As [`Llguidance::new`].
    #[wasm_bindgen(constructor)]
    pub fn new(bytes: &[u8], lengths: &[u32], ends: &[u32]) -> Result<Self, JsValue> {
        let mut rest = bytes;
        let token = |&length: &u32| rest.split_off(..length as usize).unwrap_or_default().to_vec();
        let tokens = lengths.iter().map(token).collect();
        Llguidance::new(tokens, ends).map(Self).map_err(to_error)
    }

    /// A form, as JSON.
    ///
    /// # Errors
    /// As [`Grammars::compile`].
    pub fn compile(&self, format: &str) -> Result<JsGrammar, JsValue> {
        let format: ResponseFormat =
            serde_json::from_str(format).map_err(|error| to_error(Error::Internal { reason: error.to_string() }))?;
        self.0.compile(&format).map(JsGrammar).map_err(to_error)
    }
}

#[wasm_bindgen(js_class = Grammar)]
#[allow(clippy::missing_errors_doc, reason = "as the methods of Constraint")]
impl JsGrammar {
    /// As [`Constraint::consume`].
    pub fn consume(&mut self, token: u32) -> Result<bool, JsValue> {
        self.0.consume(token).map_err(to_error)
    }

    /// As [`Constraint::rollback`].
    pub fn rollback(&mut self, count: usize) -> Result<(), JsValue> {
        self.0.rollback(count).map_err(to_error)
    }

    /// As [`Constraint::mask`].
    pub fn mask(&mut self, words: &mut [u32]) -> Result<(), JsValue> {
        self.0.mask(words).map_err(to_error)
    }

    /// As [`Constraint::forced`].
    pub fn forced(&mut self) -> Result<Vec<u8>, JsValue> {
        self.0.forced().map_err(to_error)
    }

    /// As [`Constraint::ending`]: whether the text may end here; undefined where it must.
    pub fn ending(&mut self) -> Result<Option<bool>, JsValue> {
        let ending = self.0.ending().map_err(to_error)?;
        Ok((ending != Ending::Must).then_some(ending == Ending::May))
    }
}
