//! From `config.json` to an ordered list of kernel calls: data only, printable without a GPU.

mod config;
mod names;
mod plan;
mod rope;
mod spec;

pub use config::parse_config;
pub use names::Names;
pub use plan::{Layout, MatrixId, MatrixPlan, Op, Output, Part, Plan, RowOrder, VectorId, VectorPlan};
pub use rope::rotary_table;
pub use spec::{Activation, Architecture, LayerSpec, Mlp, ModelSpec, RopeScaling, RopeSpec};
