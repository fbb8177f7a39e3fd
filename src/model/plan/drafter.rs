//! Steps of drafters that read hidden states of their target, and of targets that keep them.

use super::{Builder, MatrixId, STORED, suffixed};
use crate::model::drafter::{HiddenStates, Markov};
use crate::model::layout::{Part, RowOrder};
use crate::model::op::{HiddenRows, Input, Op, Output, Table};
use std::ops::Range;

impl Builder<'_> {
    /// Adds the input of an MTP layer: residual with the embedding, and the kept hidden states -> residual.
    pub(super) fn mtp_input(&mut self) {
        let (spec, hidden, names) = (self.spec, self.spec.hidden_size, self.spec.naming.mtp());
        let halves = [
            ("embedding norm", names.embedding_norm, HiddenRows::Residual, HiddenRows::JoinedEmbedding),
            ("hidden norm", names.hidden_norm, HiddenRows::Kept, HiddenRows::JoinedHidden),
        ];
        for (label, tensor, from, to) in halves {
            let gain = self.hidden_gain(label, &spec.mtp_tensor(tensor));
            self.body.push(Op::Norm { from, to, gain, bias: None, head: false });
        }
        let part = [Part::whole(spec.mtp_tensor(names.fc), hidden)];
        let matrix = self.matrix("fc", 2 * hidden, &part, RowOrder::Stacked);
        self.body.push(Op::Matmul { input: Input::Joined, matrix, output: Output::Start });
    }

    /// Adds the input of an assistant: joined embedding of the target and hidden state -> residual.
    pub(super) fn assistant_input(&mut self) {
        let (spec, names) = (self.spec, self.spec.naming.assistant());
        let part = [Part::whole(names.before.into(), spec.hidden_size)];
        let matrix = self.matrix("projection before", spec.joined_width(), &part, RowOrder::Stacked);
        self.body.push(Op::TakeHidden);
        self.body.push(Op::Matmul { input: Input::Joined, matrix, output: Output::Start });
    }

    /// Returns the last steps of an assistant: normed -> the hidden state that it reads next.
    pub(super) fn assistant_output(&mut self) -> [Op; 2] {
        let (spec, names) = (self.spec, self.spec.naming.assistant());
        let part = [Part::whole(names.after.into(), spec.kept_width())];
        let matrix = self.matrix("projection after", spec.hidden_size, &part, RowOrder::Stacked);
        [Op::Matmul { input: Input::Normed, matrix, output: Output::Projected }, Op::KeepProjected]
    }

    /// Returns the head of an MTP layer. Its normalised output takes the place of the target's next hidden state.
    pub(super) fn mtp_head(&mut self, matrix: MatrixId, output: Output) -> Vec<Op> {
        let tensor = self.spec.mtp_tensor(self.spec.naming.mtp().final_norm);
        let gain = self.hidden_gain("final norm", &tensor);
        let norm = |to| Op::Norm { from: HiddenRows::Residual, to, gain, bias: None, head: true };
        let logits = Op::Matmul { input: Input::Normed, matrix, output };
        vec![norm(HiddenRows::KeptNext), norm(HiddenRows::Normed), logits]
    }

    /// Returns the steps of a Markov head.
    pub(super) fn markov(&mut self, markov: &Markov) -> Vec<Op> {
        let (names, vocab) = (self.spec.naming.markov(), self.spec.vocab_size);
        let table = self.table("Markov table", names.table, vocab, markov.rank);
        let head = self.table("Markov head", names.head, vocab, markov.rank);
        let confide = markov.has_confidence.then(|| {
            let width = self.spec.hidden_size + markov.rank;
            let weights = suffixed(&[Part::whole(names.confidence.into(), width)], "weight");
            let weights = self.vector("confidence".into(), weights, RowOrder::Stacked, STORED);
            self.vectors[weights.0].cols = width;
            let part = [Part::whole(names.confidence.into(), 1)];
            Op::Confide { weights, bias: self.bias(true, "confidence", &part, RowOrder::Stacked) }
        });
        let output = Output::MoreLogits { bias: self.constant("zeros", vocab, 0.0) };
        let embed = Op::Embed { table, of: Table::Markov };
        let more = Op::Matmul { input: Input::Markov, matrix: head, output };
        [Some(embed), confide, Some(more)].into_iter().flatten().collect()
    }

    /// Adds the copy of the hidden states before a layer, if they are kept.
    pub(super) fn keep_before(&mut self, layer: usize) {
        self.body.extend(layer.checked_sub(1).and_then(|layer| self.keep_after(layer)));
    }

    /// Returns the step that keeps the hidden states after a layer; `None`: they are not kept.
    pub(super) fn keep_after(&self, layer: usize) -> Option<Op> {
        let HiddenStates::Kept { after } = &self.spec.hidden_states else { return None };
        after.iter().position(|kept| *kept == layer).map(|part| Op::KeepHidden { part })
    }

    /// Returns the steps from kept hidden states to keys and values: the same rows, fused and normalised, for all layers.
    pub(super) fn context(&mut self, layers: &[Range<usize>]) -> Vec<Op> {
        let (hidden, names) = (self.spec.hidden_size, self.spec.naming.context());
        let part = [Part::whole(names.fc.into(), hidden)];
        let matrix = self.matrix("fc", self.spec.kept_width(), &part, RowOrder::Stacked);
        let gain = self.hidden_gain("hidden norm", names.hidden_norm);
        let (from, to) = (HiddenRows::Residual, HiddenRows::Normed);
        let fused = [
            Op::TakeHidden,
            Op::Matmul { input: Input::Joined, matrix, output: Output::Start },
            Op::Norm { from, to, gain, bias: None, head: false },
        ];
        let is_of_keys = |op: &&Op| {
            matches!(op, Op::Matmul { output: Output::Projected | Output::Rotary { .. }, .. } | Op::QkNorm { .. })
        };
        let of_layers = layers.iter().flat_map(|layer| self.body[layer.clone()].iter().filter(is_of_keys));
        fused.into_iter().chain(of_layers.cloned()).collect()
    }
}
