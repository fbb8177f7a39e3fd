//! Experts on the CPU.

use super::rows::Rows;
use super::threads::DistributedMatrix;
use crate::model::{ExpertScores, Experts, MatrixPlan, Section};
use crate::options::Arithmetic;
use crate::weights::Dtype;
use std::ops::Range;

/// An expert of a row.
pub(super) struct ExpertChoice {
    pub expert: usize,
    pub weight: f32,
}

/// Chooses the experts of each row from the router's results [rows, experts]. Returns them in the order of their scores [rows, experts
/// used].
pub(super) fn route(results: &Rows, experts: &Experts, bias: &[f32], factors: &[f32]) -> Vec<ExpertChoice> {
    let sigmoid = |x: f32| 1.0 / (1.0 + libm::expf(-x));
    let mut choices = Vec::new();
    for row in 0..results.len() {
        let (own, shared) = results.row(row).split_at(experts.count);
        let mut own = own.to_vec();
        if experts.scores == ExpertScores::Softmax {
            own.iter_mut().zip(bias).for_each(|(result, bias)| *result += bias);
        }
        let largest = own.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let score = |x: f32| match experts.scores {
            ExpertScores::Softmax => libm::expf(x - largest),
            ExpertScores::Sigmoid => sigmoid(x),
        };
        let key = |expert: usize| match experts.scores {
            ExpertScores::Softmax => own[expert],
            ExpertScores::Sigmoid => score(own[expert]) + bias.get(expert).copied().unwrap_or(0.0),
        };
        let mut order: Vec<usize> = (0..experts.count).collect();
        // A stable sort.
        order.sort_by(|a, b| key(*b).total_cmp(&key(*a)));
        order.truncate(experts.chosen);
        let divisor: f32 = match (experts.normalised, experts.scores) {
            (true, ExpertScores::Softmax) => order.iter().map(|expert| score(own[*expert])).sum(),
            // The summand is that of transformers.
            (true, ExpertScores::Sigmoid) => order.iter().map(|expert| score(own[*expert])).sum::<f32>() + 1e-6,
            (false, ExpertScores::Softmax) => own.iter().map(|x| score(*x)).sum(),
            (false, ExpertScores::Sigmoid) => 1.0,
        };
        choices.extend(order.into_iter().map(|expert| {
            let weight = score(own[expert]) / divisor * factors[expert];
            ExpertChoice { expert, weight }
        }));
        let shared = shared.iter().enumerate();
        choices.extend(shared.map(|(i, x)| ExpertChoice { expert: experts.count + i, weight: sigmoid(*x) }));
    }
    choices
}

/// Multiplies rows by the matrix of each expert that they use. Returns a row for each choice. x has a row for each choice too, or one for
/// all of a row.
pub(super) fn times(
    matrices: &[DistributedMatrix],
    x: &Rows,
    choices: &[ExpertChoice],
    arithmetic: Arithmetic,
) -> Rows {
    let sharing = choices.len() / x.len().max(1);
    let mut y = Rows::new(choices.len(), matrices.first().map_or(0, DistributedMatrix::rows));
    for (expert, matrix) in matrices.iter().enumerate() {
        let places: Vec<usize> = (0..choices.len()).filter(|place| choices[*place].expert == expert).collect();
        if places.is_empty() {
            continue;
        }
        let mut own = Rows::new(places.len(), x.width);
        for (row, place) in places.iter().enumerate() {
            own.row_mut(row).copy_from_slice(x.row(place / sharing));
        }
        let products = matrix.times(&own, arithmetic);
        for (row, place) in places.into_iter().enumerate() {
            y.row_mut(place).copy_from_slice(products.row(row));
        }
    }
    y
}

/// Adds the bias of each row's expert, if experts have any [experts, width].
pub(super) fn add_bias(rows: &mut Rows, choices: &[ExpertChoice], bias: &[f32]) {
    let width = rows.width;
    for (place, choice) in choices.iter().enumerate().filter(|_| !bias.is_empty()) {
        let own = rows.row_mut(place).iter_mut().zip(&bias[choice.expert * width..]);
        own.for_each(|(x, bias)| *x += bias);
    }
}

/// Returns the weighted sums of each row's experts.
pub(super) fn combine(rows: &Rows, choices: &[ExpertChoice], used: usize) -> Rows {
    let mut sums = Rows::new(rows.len() / used.max(1), rows.width);
    for (place, choice) in choices.iter().enumerate() {
        let sum = sums.row_mut(place / used).iter_mut().zip(rows.row(place));
        sum.for_each(|(sum, x)| *sum += choice.weight * x);
    }
    sums
}

/// Returns the rows of an expert in each section, with their types.
pub(super) fn rows_of(
    expert: usize,
    matrix: &MatrixPlan,
    sections: &[Section],
) -> impl Iterator<Item = (Dtype, Range<usize>)> {
    let (first, end) = (expert * matrix.outs(), (expert + 1) * matrix.outs());
    let part = move |section: &Section| (section.dtype, section.rows.start.max(first)..section.rows.end.min(end));
    sections.iter().map(part).filter(|(_, rows)| !rows.is_empty())
}
