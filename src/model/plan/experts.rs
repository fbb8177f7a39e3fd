//! Steps of a layer's experts.

use super::{Builder, STORED};
use crate::model::layout::{Part, RowOrder};
use crate::model::op::{Input, Op, Output};
use crate::model::spec::Experts;

impl Builder<'_> {
    /// Adds experts of `width` numbers: `input` -> residual.
    pub(super) fn experts(&mut self, layer: usize, experts: &Experts, width: usize, input: Input) {
        let (spec, names) = (self.spec, &self.names.experts);
        let hidden = spec.hidden_size;
        let name = |suffix: &str| format!("{}.{layer}.{suffix}", self.names.layers);
        let label = |what: &str| format!("layer {layer} {what}");
        let has_shared = experts.shared > 0;

        let mut scores = vec![Part::whole(name(names.router), experts.count)];
        scores.extend(has_shared.then(|| Part::whole(name(names.shared_gate), 1)));
        let [mut gates, mut ups] = match names.up {
            [both] => [0, 1].map(|half| parts(&name(both), experts.count, [2 * width, half * width, width])),
            each => [each[0], each[1]].map(|tensor| parts(&name(tensor), experts.count, [width, 0, width])),
        };
        let mut downs = parts(&name(names.down), experts.count, [hidden, 0, hidden]);
        if has_shared {
            gates.push(Part::whole(name(names.shared_up[0]), width));
            ups.push(Part::whole(name(names.shared_up[1]), width));
            downs.push(Part::whole(name(names.shared_down), hidden));
        }
        let bias = experts.bias.then(|| vec![Part::whole(name(names.bias), experts.count)]);

        let router = self.matrix(&label("router"), hidden, &scores, RowOrder::Stacked);
        self.matrices[router.0].is_router = true;
        self.body.push(Op::Matmul { input, matrix: router, output: Output::Projected });
        let bias = match bias {
            Some(part) => self.vector(label("bias of scores"), part, RowOrder::Stacked, STORED),
            None => self.constant("zeros", experts.count, 0.0),
        };
        self.body.push(Op::Route { bias });
        let up = self.matrix(&label("gate and up of experts"), hidden, &[gates, ups].concat(), RowOrder::Alternate);
        let down = self.matrix(&label("down of experts"), width, &downs, RowOrder::Stacked);
        for matrix in [up, down] {
            self.matrices[matrix.0].experts = experts.all();
        }
        let bias = self.constant("zeros", 2 * width, 0.0);
        let output = Output::Gate { bias, activation: spec.mlp.activation };
        self.body.push(Op::Matmul { input, matrix: up, output });
        self.body.push(Op::Matmul { input: Input::Mlp, matrix: down, output: Output::Experts });
        self.body.push(Op::Combine);
    }
}

/// Returns the rows of each expert in its tensor, or in one of all experts. Its rows there are given as [all, first used, used].
fn parts(tensor: &str, experts: usize, [each, first, rows]: [usize; 3]) -> Vec<Part> {
    let part = |expert: usize| match tensor.contains('*') {
        true => Part { first_row: first, rows, ..Part::whole(tensor.replace('*', &expert.to_string()), each) },
        false => {
            let first_row = expert * each + first;
            Part { experts, first_row, rows, ..Part::whole(tensor.into(), experts * each) }
        }
    };
    (0..experts).map(part).collect()
}
