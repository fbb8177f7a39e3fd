//! Names of the tensors of MTP layers.

use super::Naming;

/// Tensors of an MTP layer: names without `.weight`. `{i}` stands for the number of layers of its target.
#[derive(Debug, Clone, Copy)]
pub struct MtpNames {
    /// Prefix of the layer's own tensors, which are named as those of the target's layers.
    pub layer: &'static str,
    /// Projection of the embedding and the hidden state of a row to the residual stream [hidden, 2 hidden].
    pub fc: &'static str,
    /// Norm of the embedding [hidden].
    pub embedding_norm: &'static str,
    /// Norm of the hidden state [hidden].
    pub hidden_norm: &'static str,
    /// Norm before the LM head [hidden].
    pub final_norm: &'static str,
}

/// Names of the Qwen team.
const HUGGING_FACE: MtpNames = MtpNames {
    layer: "mtp.layers.0",
    fc: "mtp.fc",
    embedding_norm: "mtp.pre_fc_norm_embedding",
    hidden_norm: "mtp.pre_fc_norm_hidden",
    final_norm: "mtp.norm",
};

const GGUF: MtpNames = MtpNames {
    layer: "blk.{i}",
    fc: "blk.{i}.nextn.eh_proj",
    embedding_norm: "blk.{i}.nextn.enorm",
    hidden_norm: "blk.{i}.nextn.hnorm",
    final_norm: "blk.{i}.nextn.shared_head_norm",
};

impl Naming {
    /// Returns the names of the tensors of MTP layers.
    pub(in crate::model) fn mtp(self) -> &'static MtpNames {
        match self {
            Self::HuggingFace => &HUGGING_FACE,
            Self::Gguf => &GGUF,
        }
    }
}
