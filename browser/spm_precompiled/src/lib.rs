//! The normalizer `Precompiled` of `tokenizers`, which no tokenizer has that is supported: there is none.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// One that cannot be.
#[derive(Debug, Clone, PartialEq)]
pub enum Precompiled {}

impl Precompiled {
    /// What takes the place of a piece of text.
    pub fn transform(&self, _: &str) -> Option<&str> {
        match *self {}
    }
}

impl<'de> Deserialize<'de> for Precompiled {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(D::Error::custom("the normalizer Precompiled is not supported"))
    }
}

impl Serialize for Precompiled {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        match *self {}
    }
}
