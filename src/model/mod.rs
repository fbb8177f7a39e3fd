//! Translation of `config.json` into an ordered list of kernel calls: data only, printable without a GPU.

mod architecture;
mod blueprint;
mod config;
mod config_rope;
mod keys;
mod layout;
mod names;
mod plan;
mod rope;
mod spec;
mod stored;
mod table;

pub use architecture::{Architecture, NormKind, Residual};
pub use blueprint::{Blueprint, Capacity, Memory, Section};
pub use config::{parse_config, parse_tokens, spec_of_gguf};
pub use config_rope::yarn_growth;
pub use layout::{Layout, Part};
pub use names::{Names, Naming};
pub use plan::{Input, MatrixId, MatrixPlan, Op, Output, Plan, Table, VectorId, VectorPlan};
pub use rope::rotary_table;
pub use spec::{Activation, LayerSpec, ModelSpec, QkNorm, QueryGrowth, RopeScaling, RopeSpec, TokenSpec};
pub(crate) use stored::{stored_rows, vector};
