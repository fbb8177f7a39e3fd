//! Unit tests of the library's private parts, `src/**/tests.rs`: compiles the files that they test, not the whole library once more.

#![allow(dead_code, unused_imports, reason = "each file has more than its tests use")]

use foretoken::internals::{constraint, target, weights};
use src::options;

mod error {
    pub use foretoken::{Error, Result};
}

#[path = "../src"]
mod src {
    pub mod options;
}

#[path = "../src/backend/cpu"]
mod cpu {
    mod attention;
    mod codes;
    mod floats;
    mod instructions;
    mod integers;
    mod parts;
    mod rows;
    mod simd;
}

#[path = "../src/backend/server"]
mod server {
    mod events;
    mod tries;
}

#[path = "../src/model"]
mod model {
    mod rope;
    mod rope_spec;
}

#[path = "../src/sample"]
mod sample {
    mod noise;
    pub use noise::threefry2x32;
}

#[path = "../src/speculate"]
mod speculate {
    mod acceptance;
    mod budget;
    mod choice;
    mod costs;
    mod decide;
    mod estimates;

    use foretoken::Origin;
    use foretoken::internals::speculate::Round;

    const DRAFTERS: usize = Origin::Target as usize;
}

#[path = "../src/text"]
mod text {
    mod stream;

    use foretoken::internals::text::Tokenizer;
}
