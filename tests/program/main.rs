//! The program and the public handle, as users run them.

mod engine;
mod options;
mod program;
