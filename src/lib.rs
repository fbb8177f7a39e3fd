//! foretoken
pub mod decode;
pub mod error;
pub mod gpu;
pub mod model;
pub mod weights;
pub use error::{Error, Result};
