//! Steps of a layer's mixer.

use super::{Builder, STORED, suffixed};
use crate::model::layout::{Part, RowOrder};
use crate::model::op::{Input, Op, Output};
use crate::model::plan::VectorId;
use crate::model::spec::{AttentionGate, AttentionSpec, DeltaSpec, QkNorm};

impl Builder<'_> {
    /// Adds attention: `input` -> mixed.
    pub(super) fn attention(&mut self, layer: usize, attention: &AttentionSpec, input: Input) {
        let (spec, names) = (self.spec, self.names);
        let AttentionSpec { heads, head_dim, rope, .. } = *attention;
        let kv_heads = attention.own_kv_heads();
        let name = |suffix: &str| spec.layer_tensor(layer, suffix);
        let label = |what: &str| format!("layer {layer} {what}");
        let rotary = match rope {
            Some(rope) if !(names.neighbours || spec.interleaved_rotation) => spec.ropes[rope].rotary_dim,
            _ => 0,
        };
        let order = RowOrder::RotaryPairs { heads: heads + kv_heads, head_dim, rotary };

        let qkv = self.qkv(attention, name);
        let bias = self.bias(spec.qkv_bias, &label("qkv"), &qkv, order);
        let matrix = self.matrix(&label("qkv"), spec.hidden_size, &qkv, order);
        let output = if spec.qk_norm.is_some() { Output::Projected } else { Output::Rotary { layer, bias } };
        self.body.push(Op::Matmul { input, matrix, output });
        if let Some(norm) = spec.qk_norm {
            let parts = [(names.q_norm, heads), (names.k_norm, kv_heads)].map(|(tensor, heads)| match norm {
                QkNorm::Width => vec![Part::whole(name(tensor), heads * head_dim)],
                // All heads have the same gains.
                QkNorm::Heads | QkNorm::RotatedHeads | QkNorm::HeadsAndValues => {
                    vec![Part::whole(name(tensor), head_dim); heads]
                }
            });
            let gain = self.gain(&label("qk norm"), &parts.concat(), order);
            self.body.push(Op::QkNorm { layer, gain, bias });
        }
        let sinks = match spec.attention_sinks {
            true => {
                let part = vec![Part::whole(name(names.sinks), heads)];
                self.vector(label("sinks"), part, RowOrder::Stacked, STORED)
            }
            false => self.constant("no sinks", heads, f32::MIN),
        };
        self.body.push(Op::Attention { layer, sinks });
        if let Some(gate) = spec.attention_gate {
            let gates = match gate {
                AttentionGate::Heads => vec![Part::whole(name(names.attention_gate), heads)],
                AttentionGate::Elements => halves(&name(names.qkv[0]), heads, head_dim, 1).collect(),
            };
            let matrix = self.matrix(&label("gate of attention"), spec.hidden_size, &gates, RowOrder::Stacked);
            self.body.push(Op::Matmul { input, matrix, output: Output::Projected });
            self.body.push(Op::GateHeads { layer, gain: None });
        }
    }

    /// Adds a gated delta net or a Mamba-2: `input` -> mixed.
    pub(super) fn delta_net(&mut self, layer: usize, delta: &DeltaSpec, input: Input) {
        let names = &self.names.delta;
        let spec = self.spec;
        let name = |suffix: &str| spec.layer_tensor(layer, suffix);
        let label = |what: &str| format!("layer {layer} {what}");
        let DeltaSpec { value_heads, value_dim, taps, replaces, .. } = *delta;
        let (keys, values) = (delta.key_heads * delta.key_dim, delta.value_width());
        let conv_width = delta.conv_width();
        let (conv, norm, skip) = (name(names.conv), name(names.norm), name(names.skip));
        let of_heads = |tensor: &str| vec![Part::whole(name(tensor), value_heads)];
        let (rates, bias) = (of_heads(names.rates), of_heads(names.bias));
        // The recurrence keeps a copy of what it reads, so that is adjacent: q, k, v, write strength and decay, then the gates.
        let all = match replaces {
            true => vec![
                Part::whole(name(names.qkv), conv_width),
                Part::whole(name(names.write), value_heads),
                Part::whole(name(names.decay), value_heads),
                Part::whole(name(names.gate), values),
            ],
            false => {
                let (v, k, q) = (values, 2 * values, 2 * values + keys);
                let decay = q + keys;
                let whole = Part::whole(name(names.qkv), decay + value_heads);
                let ranges =
                    [(q, keys), (k, keys), (v, values), (decay, value_heads), (decay, value_heads), (0, values)];
                let part = |(first_row, rows)| Part { first_row, rows, ..whole.clone() };
                ranges.map(part).into()
            }
        };
        // The convolution of Mamba-2 has the order v, k, q.
        let conv = |suffix: &str, size: usize| {
            let whole = suffixed(&[Part::whole(conv.clone(), conv_width * size)], suffix).remove(0);
            let part =
                |(first, rows): (usize, usize)| Part { first_row: first * size, rows: rows * size, ..whole.clone() };
            match replaces {
                true => vec![whole],
                false => [(values + keys, keys), (values, keys), (0, values)].map(part).into(),
            }
        };
        let (weights, conv_bias) = (conv("weight", taps), conv("bias", 1));
        let what = if replaces { "delta net" } else { "Mamba-2" };
        let matrix = self.matrix(&label(what), self.spec.hidden_size, &all, RowOrder::Stacked);
        self.body.push(Op::Matmul { input, matrix, output: Output::Projected });
        let taps = self.convolution(layer, weights, taps);
        let rates = self.vector(label("decay"), rates, RowOrder::Stacked, names.rate_elements);
        let bias = self.vector(label("decay bias"), bias, RowOrder::Stacked, STORED);
        let (conv_bias, skip) = match replaces {
            true => (self.constant("zeros", conv_width, 0.0), self.constant("zeros", value_heads, 0.0)),
            false => (
                self.vector(label("convolution bias"), conv_bias, RowOrder::Stacked, STORED),
                self.vector(label("skip"), vec![Part::whole(skip, value_heads)], RowOrder::Stacked, STORED),
            ),
        };
        self.body.push(Op::DeltaNet { layer, taps, conv_bias, rates, bias, skip });
        let width = if replaces { value_dim } else { values };
        let norm = suffixed(&[Part::whole(norm, width)], "weight");
        let gain = self.vector(label(&format!("{what} norm")), norm, RowOrder::Stacked, STORED);
        self.body.push(Op::GateHeads { layer, gain: Some(gain) });
    }

    /// Adds the weights of a convolution over positions [width, taps].
    fn convolution(&mut self, layer: usize, weights: Vec<Part>, taps: usize) -> VectorId {
        let vector = self.vector(format!("layer {layer} convolution"), weights, RowOrder::Stacked, STORED);
        self.vectors[vector.0].cols = taps;
        vector
    }

    /// Adds a short convolution: `input` -> mixed.
    pub(super) fn short_conv(&mut self, layer: usize, taps: usize, input: Input) {
        let (spec, names, hidden) = (self.spec, self.names, self.spec.hidden_size);
        let name = |suffix: &str| spec.layer_tensor(layer, suffix);
        let label = |what: &str| format!("layer {layer} {what}");
        let all = [Part::whole(name(names.conv_in), 3 * hidden)];
        let matrix = self.matrix(&label("b, c and x"), hidden, &all, RowOrder::Stacked);
        self.body.push(Op::Matmul { input, matrix, output: Output::Projected });
        let weights = suffixed(&[Part::whole(name(names.conv), hidden * taps)], "weight");
        let taps = self.convolution(layer, weights, taps);
        self.body.push(Op::ShortConv { layer, taps });
    }

    /// Returns the sources of the rows of q, k and v.
    fn qkv(&self, attention: &AttentionSpec, name: impl Fn(&str) -> String) -> Vec<Part> {
        let names = self.names;
        let AttentionSpec { heads, kv_heads, head_dim, .. } = *attention;
        let widths = [attention.q_width(), attention.kv_width(), attention.kv_width()];
        let [all] = names.qkv else {
            let part = |(tensor, rows): (&&str, usize)| Part::whole(name(tensor), rows);
            let own = names.qkv.iter().zip(widths).map(part).filter(|part| part.rows > 0);
            let mut parts: Vec<_> = own.collect();
            if self.spec.attention_gate == Some(AttentionGate::Elements) {
                parts.splice(..1, halves(&name(names.qkv[0]), heads, head_dim, 0));
            }
            if attention.values_are_keys {
                parts.truncate(2);
                parts.extend(parts.last().cloned());
            }
            return parts;
        };
        if !names.interleaved {
            return vec![Part::whole(name(all), attention.qkv_width())];
        }
        let group = heads / kv_heads;
        let of_group = |first: usize, count: usize| {
            let places = (0..kv_heads).map(move |kv_head| kv_head * (group + 2) + first);
            places.map(move |place| (place, count))
        };
        let heads = of_group(0, group).chain(of_group(group, 1)).chain(of_group(group + 1, 1));
        let whole = Part::whole(name(all), attention.qkv_width());
        let part = |(place, count)| Part { first_row: place * head_dim, rows: count * head_dim, ..whole.clone() };
        heads.map(part).collect()
    }
}

/// Returns one half of each head's rows in a tensor: q (0), or the gates after it (1).
fn halves(tensor: &str, heads: usize, head_dim: usize, half: usize) -> impl Iterator<Item = Part> {
    let whole = Part::whole(tensor.into(), 2 * heads * head_dim);
    let firsts = (0..heads).map(move |head| (2 * head + half) * head_dim);
    firsts.map(move |first_row| Part { first_row, rows: head_dim, ..whole.clone() })
}
