//! JavaScript bindings for grammars, in a separate module that `engine/constraint.rs` calls.

use crate::Exception;
use foretoken::Error;
use foretoken::internals::constraint::{Constraint, Ending, Grammars, ResponseFormat};
use foretoken::internals::grammar::Llguidance;
use wasm_bindgen::prelude::*;

/// A compiler of response formats for a vocabulary.
#[wasm_bindgen(js_name = Grammars)]
pub struct JsGrammars(Llguidance);

/// A compiled grammar with the state of a text.
#[wasm_bindgen(js_name = Grammar)]
pub struct JsGrammar(Box<dyn Constraint>);

#[wasm_bindgen(js_class = Grammars)]
impl JsGrammars {
    /// Creates a compiler for tokens with these concatenated bytes and these lengths. `ends`: the tokens that end a text.
    #[wasm_bindgen(constructor)]
    pub fn new(bytes: &[u8], lengths: &[u32], ends: &[u32]) -> Result<Self, Exception> {
        let mut rest = bytes;
        let token = |&length: &u32| rest.split_off(..length as usize).unwrap_or_default().to_vec();
        let tokens = lengths.iter().map(token).collect();
        Ok(Self(Llguidance::new(tokens, ends)?))
    }

    /// Compiles a response format, given as JSON.
    pub fn compile(&self, format: &str) -> Result<JsGrammar, Exception> {
        let format: ResponseFormat =
            serde_json::from_str(format).map_err(|error| Error::Internal { reason: error.to_string() })?;
        Ok(JsGrammar(self.0.compile(&format)?))
    }
}

#[wasm_bindgen(js_class = Grammar)]
#[allow(clippy::missing_errors_doc, reason = "as the methods of Constraint")]
impl JsGrammar {
    /// As [`Constraint::consume`].
    pub fn consume(&mut self, token: u32) -> Result<bool, Exception> {
        Ok(self.0.consume(token)?)
    }

    /// As [`Constraint::rollback`].
    pub fn rollback(&mut self, count: usize) -> Result<(), Exception> {
        Ok(self.0.rollback(count)?)
    }

    /// As [`Constraint::mask`].
    pub fn mask(&mut self, words: &mut [u32]) -> Result<(), Exception> {
        Ok(self.0.mask(words)?)
    }

    /// As [`Constraint::forced`].
    pub fn forced(&mut self) -> Result<Vec<u8>, Exception> {
        Ok(self.0.forced()?)
    }

    /// As [`Constraint::ending`]: true if the text may end here; undefined if it must.
    pub fn ending(&mut self) -> Result<Option<bool>, Exception> {
        let ending = self.0.ending()?;
        Ok((ending != Ending::Must).then_some(ending == Ending::May))
    }
}
