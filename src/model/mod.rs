//! Translation of `config.json` into an ordered list of kernel calls: data only, printable without a GPU.

mod architecture;
mod blueprint;
mod config;
mod config_experts;
mod config_layers;
mod config_rope;
mod drafter;
mod elements;
mod history;
mod keys;
mod layout;
mod names;
mod op;
mod plan;
mod rope;
mod rope_spec;
mod spec;
mod stored;
mod table;

pub use architecture::{Architecture, NormKind, Residual, is_assistant, is_block_drafter};
pub use blueprint::{Blueprint, Capacity, Memory, Section, adjacent};
pub use config::{parse_config, parse_tokens, spec_of_gguf};
pub use config_rope::yarn_growth;
pub use drafter::{AtOnce, HiddenStates, Markov};
pub use elements::Elements;
pub use history::{CHECKPOINT, ConvHistory, DeltaHistory};
pub use layout::{Layout, Part};
pub use names::{DeltaNames, ExpertNames, Names, Naming};
pub use op::{HiddenRows, Input, Op, Output, Table};
pub use plan::{MatrixId, MatrixPlan, Plan, VectorId, VectorPlan};
pub use rope::rotary_table;
pub use rope_spec::{QueryGrowth, RopeScaling, RopeSpec};
pub use spec::{
    Activation, AttentionGate, AttentionSpec, DeltaSpec, ExpertScores, Experts, LayerSpec, Mixer, ModelSpec, QkNorm,
    TokenSpec,
};
pub(crate) use stored::{stored_rows, vector};
