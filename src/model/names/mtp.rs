//! Names of the tensors of MTP layers.

use super::Naming;

/// Prefixes of the tensors of an MTP layer. `{i}` stands for the number of layers of its target.
#[derive(Debug, Clone, Copy)]
pub(in crate::model) struct MtpNames {
    /// The layer's own tensors, which are named as those of the target's layers.
    pub layer: &'static str,
    /// Projection of an embedding and a hidden state to the residual stream [hidden, 2 hidden].
    pub fc: &'static str,
    pub embedding_norm: &'static str,
    pub hidden_norm: &'static str,
    pub final_norm: &'static str,
}

impl Naming {
    /// Returns the names of the tensors of MTP layers: those of the Qwen team, or llama.cpp's.
    pub(in crate::model) fn mtp(self) -> MtpNames {
        match self {
            Self::HuggingFace => MtpNames {
                layer: "mtp.layers.0",
                fc: "mtp.fc",
                embedding_norm: "mtp.pre_fc_norm_embedding",
                hidden_norm: "mtp.pre_fc_norm_hidden",
                final_norm: "mtp.norm",
            },
            Self::Gguf => MtpNames {
                layer: "blk.{i}",
                fc: "blk.{i}.nextn.eh_proj",
                embedding_norm: "blk.{i}.nextn.enorm",
                hidden_norm: "blk.{i}.nextn.hnorm",
                final_norm: "blk.{i}.nextn.shared_head_norm",
            },
        }
    }
}
