//! JavaScript bindings for the engine: models, generation, and workers.

mod constraint;
mod files;
mod parallel;
mod read;
mod served;
mod session;
mod threads;
