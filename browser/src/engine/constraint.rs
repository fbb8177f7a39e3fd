//! Constraints of the JavaScript module `grammar.js`, which is loaded when a text needs a grammar.

use super::files::Thrown;
use foretoken::internals::constraint::{Constraint, Ending, Grammars, ResponseFormat};
use foretoken::{Error, Result};
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    /// `Grammars` of `grammar.rs`.
    pub type ForeignGrammars;
    #[wasm_bindgen(method, catch)]
    fn compile(this: &ForeignGrammars, format: &str) -> Result<ForeignGrammar, JsValue>;

    /// `Grammar` of `grammar.rs`.
    type ForeignGrammar;
    #[wasm_bindgen(method, catch)]
    fn consume(this: &ForeignGrammar, token: u32) -> Result<bool, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn rollback(this: &ForeignGrammar, count: usize) -> Result<(), JsValue>;
    #[wasm_bindgen(method, catch)]
    fn mask(this: &ForeignGrammar, words: &mut [u32]) -> Result<(), JsValue>;
    #[wasm_bindgen(method, catch)]
    fn forced(this: &ForeignGrammar) -> Result<Vec<u8>, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn ending(this: &ForeignGrammar) -> Result<Option<bool>, JsValue>;
    #[wasm_bindgen(method)]
    fn free(this: &ForeignGrammar);
}

/// Keeps an exception of the other module, which the caller gets instead of this error.
fn put_aside(thrown: &Thrown, error: JsValue) -> Error {
    thrown.keep(error);
    Error::Internal { reason: "the grammar failed".into() }
}

/// Grammars of the other module.
pub(super) struct PageGrammars {
    pub grammars: ForeignGrammars,
    pub thrown: Thrown,
}

struct PageGrammar {
    grammar: ForeignGrammar,
    thrown: Thrown,
}

impl Grammars for PageGrammars {
    fn compile(&self, format: &ResponseFormat) -> Result<Box<dyn Constraint>> {
        let format = serde_json::to_string(format).unwrap_or_default();
        let grammar = self.grammars.compile(&format).map_err(|error| put_aside(&self.thrown, error))?;
        Ok(Box::new(PageGrammar { grammar, thrown: self.thrown.clone() }))
    }
}

impl PageGrammar {
    fn told<T>(&self, answer: Result<T, JsValue>) -> Result<T> {
        answer.map_err(|error| put_aside(&self.thrown, error))
    }
}

impl Constraint for PageGrammar {
    fn consume(&mut self, token: u32) -> Result<bool> {
        self.told(self.grammar.consume(token))
    }

    fn rollback(&mut self, count: usize) -> Result<()> {
        self.told(self.grammar.rollback(count))
    }

    fn mask(&mut self, words: &mut [u32]) -> Result<()> {
        self.told(self.grammar.mask(words))
    }

    fn forced(&mut self) -> Result<Vec<u8>> {
        self.told(self.grammar.forced())
    }

    fn ending(&mut self) -> Result<Ending> {
        Ok(match self.told(self.grammar.ending())? {
            None => Ending::Must,
            Some(true) => Ending::May,
            Some(false) => Ending::No,
        })
    }
}

impl Drop for PageGrammar {
    fn drop(&mut self) {
        self.grammar.free();
    }
}
