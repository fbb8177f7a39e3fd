//! Steps of an MTP layer around those of a usual layer.

use super::{Builder, MatrixId};
use crate::model::layout::{Part, RowOrder};
use crate::model::op::{HiddenRows, Input, Op, Output};

impl Builder<'_> {
    /// Adds the input of an MTP layer: residual with the embedding, and the kept hidden states -> residual.
    pub(super) fn mtp_input(&mut self) {
        let (spec, hidden, names) = (self.spec, self.spec.hidden_size, self.spec.naming.mtp());
        let halves = [
            ("embedding norm", names.embedding_norm, HiddenRows::Residual, HiddenRows::PairEmbedding),
            ("hidden norm", names.hidden_norm, HiddenRows::Kept, HiddenRows::PairHidden),
        ];
        for (label, tensor, from, to) in halves {
            let gain = self.hidden_gain(label, &spec.mtp_tensor(tensor));
            self.body.push(Op::Norm { from, to, gain, bias: None, head: false });
        }
        let part = [Part::whole(spec.mtp_tensor(names.fc), hidden)];
        let matrix = self.matrix("fc", 2 * hidden, &part, RowOrder::Stacked);
        self.body.push(Op::Matmul { input: Input::Pairs, matrix, output: Output::Start });
    }

    /// Returns the head of an MTP layer. Its normalised output takes the place of the target's next hidden state.
    pub(super) fn mtp_head(&mut self, matrix: MatrixId, output: Output) -> Vec<Op> {
        let tensor = self.spec.mtp_tensor(self.spec.naming.mtp().final_norm);
        let gain = self.hidden_gain("final norm", &tensor);
        let norm = |to| Op::Norm { from: HiddenRows::Residual, to, gain, bias: None, head: true };
        let logits = Op::Matmul { input: Input::Normed, matrix, output };
        vec![norm(HiddenRows::KeptNext), norm(HiddenRows::Normed), logits]
    }
}
