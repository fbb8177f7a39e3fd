//! Properties of drafters that were trained for a target, and of their targets.

use super::keys::Keys;
use super::spec::{AttentionSpec, Mixer, ModelSpec};
use crate::error::{Error, Result};
use serde::Serialize;

/// Use of the hidden states of a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HiddenStates {
    /// They are not kept.
    Unkept,
    /// A target keeps those of the latest positions for a drafter.
    Kept {
        /// Layers after which they are kept, side by side; without layers, after the final norm.
        after: Vec<usize>,
    },
    /// An MTP layer reads those after the final norm: it predicts a token from the token before it and the hidden state before that one, and
    /// then from its own output (multi-token prediction).
    Read {
        /// Layers of the target.
        layers: usize,
    },
    /// A block drafter makes its keys and values of those after several layers ("DFlash", Chen et al. 2026). Its rows alone have
    /// queries.
    Context {
        /// These layers.
        after: Vec<usize>,
    },
    /// An assistant of Gemma 4 reads the one after the final norm before the pending token, then its own, and always attends from there to keys
    /// and values of its target. It keeps none.
    Latest {
        /// Width of the target's residual stream.
        width: usize,
    },
}

/// Pass in which a drafter guesses several tokens: rows after the pending token's read a mask token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct AtOnce {
    /// Token that stands for one to guess.
    pub mask_token: u32,
    /// Most tokens that a pass guesses.
    pub most: usize,
    /// `true`: the rows see each other, so each pass has those of `most` tokens; `false`: they see those before them (An et al. 2025,
    /// "PARD").
    pub is_block: bool,
    /// Rows that guess nothing: 1 if the row of the pending token does not.
    pub skipped: usize,
}

impl AtOnce {
    /// Returns the rows, from the pending token's on, of a pass that guesses `tokens` tokens.
    pub fn rows(&self, tokens: usize) -> usize {
        self.skipped + if self.is_block { self.most } else { tokens }
    }
}

/// Correction of the logits of each token by the token before it ("DSpark", DeepSeek 2026), which ends a draft where the drafter expects
/// that its target disagrees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Markov {
    /// Numbers that stand for the token before.
    pub rank: usize,
    /// `true`: the drafter has weights for its confidence in each token.
    pub has_confidence: bool,
}

/// Reads how a drafter guesses several tokens in a pass, and the hidden states that it reads.
pub(super) fn drafter(keys: &Keys, vocab_size: usize) -> Result<(HiddenStates, Option<AtOnce>, Option<Markov>)> {
    let mask_token = |keys: &Keys, key| Ok(keys.count(key, 0..=vocab_size - 1)? as u32);
    if keys.optional("pard_token").is_some() {
        let mask_token = mask_token(keys, "pard_token")?;
        let at_once = AtOnce { mask_token, most: 1 << 16, is_block: false, skipped: 0 };
        return Ok((HiddenStates::Unkept, Some(at_once), None));
    }
    if keys.optional("backbone_hidden_size").is_some() {
        let width = keys.count("backbone_hidden_size", 4..=1 << 16)?;
        return Ok((HiddenStates::Latest { width }, None, None));
    }
    if keys.optional("dflash_config").is_none() {
        return Ok((HiddenStates::Unkept, None, None));
    }
    let own = keys.object("dflash_config")?;
    let layers = own.required("target_layer_ids")?.as_array().filter(|layers| !layers.is_empty());
    let layers = layers.and_then(|layers| layers.iter().map(|layer| Some(layer.as_u64()? as usize)).collect());
    let Some(after) = layers else { return own.bad("target_layer_ids", "it is not a list of layers".into()) };
    let block = keys.count("block_size", 2..=32)?;
    let is_block = !own.flag("is_causal", false)?;
    let sequel = keys.object("dspark_config")?;
    let markov = match sequel.optional("markov_rank") {
        Some(_) => Some(Markov { rank: sequel.count("markov_rank", 4..=4096)?, has_confidence: false }),
        None => None,
    };
    let skipped = usize::from(sequel.is_empty() || !sequel.flag("sample_from_anchor", true)?);
    let at_once = AtOnce { mask_token: mask_token(&own, "mask_token_id")?, most: block - skipped, is_block, skipped };
    Ok((HiddenStates::Context { after }, Some(at_once), markov))
}

fn bad(key: &str, reason: String) -> Error {
    Error::BadConfig { file: "config.json".into(), key: key.into(), reason }
}

impl ModelSpec {
    /// Returns the name of a tensor of the model's MTP layer.
    pub(super) fn mtp_tensor(&self, name: &str) -> String {
        let layers = match self.hidden_states {
            HiddenStates::Read { layers } => layers,
            _ => self.layers.len(),
        };
        name.replace("{i}", &layers.to_string())
    }

    /// Returns the MTP layer of the model's checkpoint; `None`: it has none. `contains(tensor)`: true if the checkpoint has it.
    pub fn mtp(&self, contains: impl FnOnce(&str) -> bool) -> Option<Self> {
        let mark = self.mtp_tensor(self.naming.mtp().fc) + ".weight";
        let layer = self.layers.iter().rev().find(|layer| layer.attention().is_some())?;
        let hidden_states = HiddenStates::Read { layers: self.layers.len() };
        let has_one = self.architecture.facts().mtp && contains(&mark);
        has_one.then(|| Self { layers: vec![layer.clone()], hidden_states, at_once: None, ..self.clone() })
    }

    /// Returns the numbers of hidden states of a position that the model keeps, or that it reads; 0: none.
    pub fn kept_width(&self) -> usize {
        match &self.hidden_states {
            HiddenStates::Unkept => 0,
            HiddenStates::Kept { after } => after.len().max(1) * self.hidden_size,
            HiddenStates::Read { .. } => self.hidden_size,
            HiddenStates::Context { after } => after.len() * self.hidden_size,
            HiddenStates::Latest { width } => *width,
        }
    }

    /// Returns the numbers of rows that are read side by side: an embedding and a hidden state, or hidden states; 0: none.
    pub fn joined_width(&self) -> usize {
        match &self.hidden_states {
            HiddenStates::Unkept | HiddenStates::Kept { .. } => 0,
            HiddenStates::Context { .. } => self.kept_width(),
            HiddenStates::Read { .. } | HiddenStates::Latest { .. } => 2 * self.kept_width(),
        }
    }

    /// Returns true if the model attends to keys and values of its target.
    pub fn shares_kv(&self) -> bool {
        matches!(self.hidden_states, HiddenStates::Latest { .. })
    }

    /// Returns the numbers that stand for a token in the correction of logits; 0: there is none.
    pub fn markov_rank(&self) -> usize {
        self.markov.map_or(0, |markov| markov.rank)
    }

    /// Returns true if the model is a drafter that only its target's hidden states make complete.
    pub fn needs_target(&self) -> bool {
        !matches!(self.hidden_states, HiddenStates::Unkept | HiddenStates::Kept { .. })
    }

    /// Returns the drafter with the embedding and the head of `target`, which it was trained with. `contains(tensor)`: true if its checkpoint
    /// has it.
    ///
    /// # Errors
    /// [`Error::BadConfig`] if it was made for another target.
    pub fn for_target(self, target: &Self, contains: impl FnOnce(&str) -> bool) -> Result<Self> {
        if let HiddenStates::Latest { width } = self.hidden_states {
            return self.assistant_of(target, width);
        }
        let (own, theirs) = (self.hidden_size, target.hidden_size);
        if own != theirs {
            let reason = format!("{own} is not {theirs}, that of the target: this drafter was made for another one");
            return Err(bad("hidden_size", reason));
        }
        let HiddenStates::Context { after } = &self.hidden_states else { return Ok(self) };
        if let Some(layer) = after.iter().find(|layer| **layer >= target.layers.len()) {
            let reason = format!("the target has no layer {layer}, only {}", target.layers.len());
            return Err(bad("dflash_config.target_layer_ids", reason));
        }
        if let Some(token) =
            self.at_once.map(|at_once| at_once.mask_token as usize).filter(|id| *id >= target.vocab_size)
        {
            let reason = format!("the target has no token {token}, only {}", target.vocab_size);
            return Err(bad("dflash_config.mask_token_id", reason));
        }
        let confidence = format!("{}.weight", self.naming.markov().confidence);
        let has_confidence = self.markov.is_some() && contains(&confidence);
        Ok(Self {
            markov: self.markov.map(|markov| Markov { has_confidence, ..markov }),
            vocab_size: target.vocab_size,
            embedding_scale: target.embedding_scale,
            embedding_norm: target.embedding_norm,
            learned_positions: false,
            tie_word_embeddings: target.tie_word_embeddings,
            head_bias: false,
            logit_scale: target.logit_scale,
            logit_cap: target.logit_cap,
            bos_token_id: target.bos_token_id,
            eos_token_id: target.eos_token_id.clone(),
            ..self
        })
    }

    /// Returns the assistant, each of whose layers attends to the last layer of its kind that has keys and values in `target`.
    fn assistant_of(mut self, target: &Self, width: usize) -> Result<Self> {
        for (key, own, theirs) in [
            ("backbone_hidden_size", width, target.hidden_size),
            ("text_config.vocab_size", self.vocab_size, target.vocab_size),
        ] {
            if own != theirs {
                return Err(bad(
                    key,
                    format!("{own} is not {theirs}, that of the target: it was made for another one"),
                ));
            }
        }
        for layer in &mut self.layers {
            let Mixer::Attention(own) = &mut layer.mixer else { continue };
            let is_source = |source: &AttentionSpec| {
                let sizes = (source.kv_heads, source.head_dim) == (own.kv_heads, own.head_dim);
                sizes && source.kv_layer.is_none() && source.window.is_some() == own.window.is_some()
            };
            own.kv_layer = target.layers.iter().rposition(|layer| layer.attention().is_some_and(is_source));
            if own.kv_layer.is_none() {
                let reason = "the target has no keys and values of this size: the assistant was made for another one";
                return Err(bad("text_config.layer_types", reason.into()));
            }
            // Its window begins before the pending token, whose keys and values are not there yet.
            own.window = own.window.map(|window| window + 1);
        }
        Ok(Self { embedding_scale: target.embedding_scale, ..self })
    }
}
