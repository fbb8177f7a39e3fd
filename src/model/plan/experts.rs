//! Steps of a layer's experts.

use super::{Builder, STORED, suffixed};
use crate::model::elements::Elements;
use crate::model::layout::{Layout, Part, RowOrder};
use crate::model::op::{HiddenRows, Input, Op, Output};
use crate::model::plan::VectorId;
use crate::model::spec::Experts;

impl Builder<'_> {
    /// Adds experts of `width` numbers: `input` -> residual, or normed before a norm. With an MLP too, residual -> added to branches.
    pub(super) fn experts(&mut self, layer: usize, experts: &Experts, width: usize, input: Input) {
        let (spec, names) = (self.spec, &self.names.experts);
        let hidden = spec.hidden_size;
        let name = |suffix: &str| spec.layer_tensor(layer, suffix);
        let label = |what: &str| format!("layer {layer} {what}");
        let has_shared = experts.shared > 0;

        let mut scores = vec![Part::whole(name(names.router), experts.count)];
        scores.extend(has_shared.then(|| Part::whole(name(names.shared_gate), 1)));
        let gates_and_ups = |tensors: &[&str]| match tensors {
            [both] if names.alternating => [parts(&name(both), experts.count, [2 * width, 0, 2 * width]), vec![]],
            [both] => [0, 1].map(|half| parts(&name(both), experts.count, [2 * width, half * width, width])),
            each => [0, 1].map(|index| parts(&name(each[index]), experts.count, [width, 0, width])),
        };
        let [mut gates, mut ups] = gates_and_ups(names.up);
        let downs = |tensor: &str| parts(&name(tensor), experts.count, [hidden, 0, hidden]);
        let mut down = downs(names.down);
        if has_shared {
            let shared = |tensor: &str, rows| suffixed(&[Part::whole(name(tensor), rows)], "weight");
            gates.extend(shared(names.shared_up[0], width));
            ups.extend(shared(names.shared_up[1], width));
            down.extend(shared(names.shared_down, hidden));
        }
        let order = if names.alternating { RowOrder::Stacked } else { RowOrder::Alternate };
        let bias = experts.bias.then(|| vec![Part::whole(name(names.bias), experts.count)]);
        let biases = spec.mlp.bias.then(|| [gates_and_ups(names.up_bias).concat(), downs(names.down_bias)]);

        let stacked = |parts, order, transposed| Layout { parts, order, transposed };
        let scaled = |tensor: &str, rows: usize| vec![Part::whole(name(tensor), rows)];
        let (from, to) = (HiddenRows::Residual, HiddenRows::Normed);
        if experts.with_mlp {
            let elements = Elements::Times((hidden as f32).powf(-0.5));
            let gain = scaled(names.router_gain, hidden);
            let gain = self.vector(label("norm of the router"), gain, RowOrder::Stacked, elements);
            self.body.push(Op::Norm { from, to, gain, bias: None, head: false });
        }
        let router = self.add(&label("router"), hidden, stacked(scores, RowOrder::Stacked, false));
        self.matrices[router.0].is_router = true;
        self.body.push(Op::Matmul { input, matrix: router, output: Output::Projected });
        let bias = self.bias_of_experts(label("bias of the router"), bias, RowOrder::Stacked, experts.count);
        let factors = match experts.with_mlp {
            true => {
                let (factors, elements) = (scaled(names.factors, experts.count), Elements::Times(experts.scale));
                self.vector(label("factors of experts"), factors, RowOrder::Stacked, elements)
            }
            false => self.constant("factors of experts", experts.count, experts.scale),
        };
        self.body.push(Op::Route { bias, factors });
        if experts.with_mlp {
            let gain = self.hidden_gain(&label("norm of experts"), &name(names.norm));
            self.body.push(Op::Norm { from, to, gain, bias: None, head: false });
        }
        let up = stacked([gates, ups].concat(), order, names.transposed);
        let up = self.add(&label("gate and up of experts"), hidden, up);
        let down = stacked(down, RowOrder::Stacked, names.transposed);
        let down = self.add(&label("down of experts"), width, down);
        for matrix in [up, down] {
            self.matrices[matrix.0].experts = experts.all();
        }
        let [up_bias, down_bias] = biases.map_or([None, None], |biases| biases.map(Some));
        let bias = self.bias_of_experts(label("gate and up bias of experts"), up_bias, order, 2 * width);
        let output = Output::Gate { bias, activation: spec.mlp.activation };
        self.body.push(Op::Matmul { input, matrix: up, output });
        self.body.push(Op::Matmul { input: Input::Mlp, matrix: down, output: Output::Experts });
        let bias = self.bias_of_experts(label("down bias of experts"), down_bias, RowOrder::Stacked, hidden);
        let to = if spec.residual.has_post_norms() { HiddenRows::Normed } else { HiddenRows::Residual };
        self.body.push(Op::Combine { to, bias });
        if experts.with_mlp {
            let gain = self.hidden_gain(&label("post norm of experts"), &name(names.post_norm));
            let factor = self.constant("one", 1, 1.0);
            self.body.push(Op::AddNorm { from: HiddenRows::Normed, to: HiddenRows::Branches, gain, factor });
        }
    }

    /// Adds biases, or `len` zeros without parts.
    fn bias_of_experts(&mut self, label: String, parts: Option<Vec<Part>>, order: RowOrder, len: usize) -> VectorId {
        match parts {
            Some(parts) => self.vector(label, parts, order, STORED),
            None => self.constant("zeros", len, 0.0),
        }
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
