//! Names of the tensors of drafters that were trained for a target.

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

/// Tensors of a block drafter that other models lack.
#[derive(Debug, Clone, Copy)]
pub(in crate::model) struct ContextNames {
    /// Projection of the target's hidden states, side by side, to one [hidden, layers hidden].
    pub fc: &'static str,
    /// Gain of the norm of the result [hidden].
    pub hidden_norm: &'static str,
}

/// Tensors of an assistant of Gemma 4 that other models lack.
#[derive(Debug, Clone, Copy)]
pub(in crate::model) struct AssistantNames {
    /// Projection of an embedding and a hidden state of the target to the residual stream [hidden, 2 width].
    pub before: &'static str,
    /// Projection to the hidden state that it reads next [width, hidden].
    pub after: &'static str,
}

/// Tensors of a Markov head.
#[derive(Debug, Clone, Copy)]
pub(in crate::model) struct MarkovNames {
    /// Numbers that stand for a token [vocab, rank].
    pub table: &'static str,
    /// Projection to what is added to the next logits [vocab, rank].
    pub head: &'static str,
    /// Projection of a normalised hidden state and of these numbers to the confidence [1, hidden + rank].
    pub confidence: &'static str,
}

impl Naming {
    /// Returns the names of the tensors of assistants.
    pub(in crate::model) fn assistant(self) -> AssistantNames {
        match self {
            Self::HuggingFace => AssistantNames { before: "pre_projection", after: "post_projection" },
            Self::Gguf => AssistantNames { before: "nextn.pre_projection", after: "nextn.post_projection" },
        }
    }

    /// Returns the names of the tensors of Markov heads.
    pub(in crate::model) fn markov(self) -> MarkovNames {
        match self {
            Self::HuggingFace => MarkovNames {
                table: "markov_head.markov_w1",
                head: "markov_head.markov_w2",
                confidence: "confidence_head.proj",
            },
            Self::Gguf => MarkovNames { table: "markov_w1", head: "markov_w2", confidence: "conf_proj" },
        }
    }

    /// Returns the names of the tensors of block drafters: z-lab's, or llama.cpp's.
    pub(in crate::model) fn context(self) -> ContextNames {
        match self {
            Self::HuggingFace => ContextNames { fc: "fc", hidden_norm: "hidden_norm" },
            Self::Gguf => ContextNames { fc: "fc", hidden_norm: "enc.output_norm" },
        }
    }

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
