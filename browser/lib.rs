//! Nothing: this package says what the engine is built with.
