//! Kernels of experts: the choice for each row, the lists of each expert's rows, their products, and the sums.

use super::kernels::{EPILOGUES, MATMUL, Matrix, POINTWISE, Product, Way, bits, padded, stride};
use bytemuck::cast_slice;
use common::lab::{Input, Lab, UNTOUCHED};
use common::reference;
use foretoken::internals::gpu::{Epilogue, Epilogues, Kernel, split_grid};
use foretoken::internals::model::{Activation, ExpertScores, Experts};
use foretoken::internals::weights::Dtype;
use std::collections::BTreeMap;

const TILE: usize = Kernel::TILE as usize;

/// Returns random experts of each row, and their weights, as the kernels store them.
fn random_choices(lab: &mut Lab, rows: usize, experts: &Experts) -> Vec<(usize, f32)> {
    let mut choices = Vec::new();
    for _ in 0..rows {
        choices.extend(reference::route(
            &lab.random.normals(experts.all()),
            experts,
            &vec![0.0; experts.count],
            &vec![1.0; experts.count],
        ));
    }
    choices
}

fn stored(choices: &[(usize, f32)]) -> Vec<u32> {
    choices.iter().flat_map(|(expert, weight)| [*expert as u32, weight.to_bits()]).collect()
}

fn experts(count: usize, chosen: usize, shared: usize) -> Experts {
    let scores = ExpertScores::Softmax;
    Experts { count, chosen, shared, scores, normalised: true, bias: false, scale: 1.0, with_mlp: false }
}

/// Lists the rows of each expert.
fn group(lab: &Lab, rows: usize, experts: &Experts, choices: &[(usize, f32)]) -> Vec<u32> {
    let most = choices.len() + experts.all();
    let tiles = lab.output(&vec![UNTOUCHED; 1 + most * (2 + TILE)]);
    let dims = lab.uniform(&[experts.all(), experts.used()].map(|size| size as u32));
    let choices = lab.input(cast_slice(&stored(choices)));
    lab.run(Kernel::Group, [1, 1, 1], &[(0, lab.step(5, rows)), (1, dims), (2, choices), (3, tiles.slice())]);
    lab.read(&tiles)
}

#[test]
fn route_equals_its_twin() {
    let mut lab = Lab::new(31);
    let sizes = [(1, 1, 0, 1), (4, 2, 0, 3), (8, 3, 1, 17), (64, 8, 1, 2), (128, 8, 0, 5), (512, 32, 1, 1)];
    for (count, chosen, shared, rows) in sizes {
        for (scores, normalised, bias) in [
            (ExpertScores::Softmax, true, false),
            (ExpertScores::Softmax, true, true),
            (ExpertScores::Softmax, false, false),
            (ExpertScores::Sigmoid, true, true),
            (ExpertScores::Sigmoid, false, true),
        ] {
            let experts = Experts { scores, normalised, bias, ..experts(count, chosen, shared) };
            let mut results = lab.random.normals(rows * experts.all());
            // Of equal experts the lower is first.
            results.iter_mut().for_each(|result| *result = (*result * 8.0).round() / 8.0);
            let biases: Vec<f32> =
                lab.random.normals(count).iter().map(|x| if bias { (x * 4.0).round() / 4.0 } else { 0.0 }).collect();
            let factors = lab.random.normals(count);
            let choices = lab.output(&vec![UNTOUCHED; rows * experts.used() * 2]);
            let sigmoid = u32::from(scores == ExpertScores::Sigmoid);
            let sizes = [count as u32, chosen as u32, shared as u32, sigmoid, u32::from(normalised)];
            let dims = lab.uniform(&[&sizes[..], &[1.0f32.to_bits()]].concat());
            let bindings = [
                (0, lab.step(5, rows)),
                (1, dims),
                (2, lab.input(cast_slice(&results))),
                (3, lab.input(cast_slice(&biases))),
                (4, choices.slice()),
                (5, lab.input(cast_slice(&factors))),
            ];
            lab.run(Kernel::Route, [rows as u32 + 1, 1, 1], &bindings);
            let got = lab.read(&choices);
            let want: Vec<_> = results
                .chunks(experts.all())
                .flat_map(|results| reference::route(results, &experts, &biases, &factors))
                .collect();
            let chosen = |words: &[u32]| words.iter().step_by(2).copied().collect::<Vec<_>>();
            // Sigmoids that differ in the last bit may change the order.
            let sorted = |mut all: Vec<u32>| {
                all.chunks_mut(experts.used()).for_each(<[u32]>::sort_unstable);
                all
            };
            let case = (count, chosen(&got).len(), shared, rows, scores, normalised);
            if scores == ExpertScores::Softmax {
                assert_eq!(chosen(&got), chosen(&stored(&want)), "{case:?}");
            }
            assert_eq!(sorted(chosen(&got)), sorted(chosen(&stored(&want))), "{case:?}");
            let weights: BTreeMap<_, _> = (0..want.len())
                .map(|place| ((place / experts.used(), got[2 * place]), f32::from_bits(got[2 * place + 1])))
                .collect();
            let expected: BTreeMap<_, _> = want
                .iter()
                .enumerate()
                .map(|(place, (expert, weight))| ((place / experts.used(), *expert as u32), *weight))
                .collect();
            let values = |all: &BTreeMap<_, f32>| all.values().copied().collect::<Vec<_>>();
            lab.close("route", POINTWISE, &case, &values(&weights), &values(&expected), 0.0);
        }
    }
    lab.report();
}

#[test]
fn group_lists_each_choice_once() {
    let mut lab = Lab::new(32);
    for (count, chosen, shared, rows) in [(1, 1, 0, 1), (4, 2, 1, 3), (8, 3, 1, 40), (128, 8, 0, 70), (3, 3, 0, 9)] {
        let experts = experts(count, chosen, shared);
        let choices = random_choices(&mut lab, rows, &experts);
        let words = group(&lab, rows, &experts, &choices);
        let mut found = vec![Vec::new(); experts.all()];
        let mut tiles = vec![0; experts.all()];
        for tile in words[1..].chunks(2 + TILE).take(words[0] as usize) {
            let (expert, rows) = (tile[0] as usize, tile[1] as usize);
            assert!((1..=TILE).contains(&rows), "{rows} rows");
            tiles[expert] += 1;
            found[expert].extend(tile[2..2 + rows].iter().map(|place| *place as usize));
        }
        assert_eq!(found, reference::group(&choices, experts.all()), "{count} {rows}");
        // No tile but an expert's last has room.
        let needed: Vec<_> = found.iter().map(|places| places.len().div_ceil(TILE)).collect();
        assert_eq!(tiles, needed, "{count} {rows}");
    }
}

/// Products of rows with the matrices of their experts, in pieces of some experts, as an input shared by choices and with one row for each.
#[test]
fn products_of_experts_equal_their_twins_in_every_variant() {
    let mut lab = Lab::new(33);
    for (case, (count, chosen, shared, rows, cols, outs)) in
        [(4, 2, 0, 1, 40, 16), (6, 3, 1, 5, 64, 48), (5, 2, 0, 33, 96, 304), (8, 2, 1, 9, 256, 32)]
            .into_iter()
            .enumerate()
    {
        let experts = experts(count, chosen, shared);
        let (all, used) = (experts.all(), experts.used());
        let choices = random_choices(&mut lab, rows, &experts);
        let tiles = lab.input(cast_slice(&group(&lab, rows, &experts, &choices)));
        let epilogues = Epilogues { experts: true, ..EPILOGUES };
        for (is_own, dtype) in [(false, Dtype::F32), (true, [Dtype::F16, Dtype::Bf16][case % 2])] {
            let x_rows = if is_own { choices.len() } else { rows };
            let x = lab.random.values(Input::Normal, x_rows * cols);
            let values = lab.random.values(Input::Normal, all * outs * cols);
            let whole = Matrix::new(dtype, &values, cols);
            let row_of = |place: usize| if is_own { place } else { place / used };
            let want: Vec<f32> = (0..choices.len())
                .flat_map(|place| {
                    let weights = &whole.values[choices[place].0 * outs * cols..][..outs * cols];
                    reference::matmul(&x[row_of(place) * cols..][..cols], weights, cols)
                })
                .collect();
            let mut alone: BTreeMap<String, Vec<u32>> = BTreeMap::new();
            // Each expert has a bias, of gate and up in turn.
            let bias = lab.random.normals(all * outs);
            let bias_input = lab.input(cast_slice(&bias));
            for way in Way::ALL {
                let y = lab.output(&vec![UNTOUCHED; choices.len() * stride(outs)]);
                let gated = lab.output(&vec![UNTOUCHED; choices.len() * stride(outs / 2)]);
                // Two pieces, each with some experts.
                for part in [0..all / 2, all / 2..all] {
                    let values = &values[part.start * outs * cols..part.end * outs * cols];
                    let matrix = Matrix::new(dtype, values, cols);
                    let sharing = if is_own { 1 } else { used };
                    let mut product = Product::new(&lab, &x, &matrix, cols, 3);
                    product.outs = outs;
                    product.step = lab.step(3, rows);
                    product.experts = [part.start, part.len(), sharing, outs].map(|size| size as u32);
                    let kernel = way.kernel(product.format, product.arithmetic, epilogues);
                    let [row_tile, out_tile] = kernel.tile().unwrap();
                    let parts = rows.min(TILE).div_ceil(row_tile as usize);
                    let most = (choices.len() + all) * parts;
                    let grid = split_grid(most as u32, (outs as u32).div_ceil(out_tile) + 1);
                    let targets = [(6, y.slice()), (10, tiles.clone())];
                    product.run_in(&lab, kernel, Epilogue::Store, stride(outs), &targets, grid);
                    let targets = [(4, bias_input.clone()), (6, gated.slice()), (10, tiles.clone())];
                    product.run_in(&lab, kernel, Epilogue::Gate, stride(outs / 2), &targets, grid);
                }
                let got = lab.rows(&y, stride(outs), outs);
                let case = (way, dtype, count, rows, cols, outs, is_own);
                let want_gated: Vec<f32> = got
                    .chunks(outs)
                    .zip(&choices)
                    .flat_map(|(row, (expert, _))| {
                        let halves =
                            |row: &[f32]| [0, 1].map(|half| row.iter().skip(half).step_by(2).copied().collect());
                        let [[gates, ups], [gate_bias, up_bias]]: [[Vec<f32>; 2]; 2] =
                            [halves(row), halves(&bias[expert * outs..][..outs])];
                        reference::gate(&gates, &gate_bias, &ups, &up_bias, Activation::Silu)
                    })
                    .collect();
                let got_gated = lab.rows(&gated, stride(outs / 2), outs / 2);
                lab.close("gates of experts", POINTWISE, &case, &got_gated, &want_gated, 0.0);
                lab.close("matmul of experts", MATMUL, &case, &got, &want, 0.0);
                let same = alone.entry(format!("{:?}", way.alone())).or_insert_with(|| bits(&got));
                assert!(bits(&got) == *same, "{case:?}: other bits");
            }
        }
    }
    lab.report();
}

#[test]
fn combine_equals_its_twin() {
    let mut lab = Lab::new(34);
    for (rows, used, width) in [(1, 1, 4), (3, 2, 64), (17, 9, 260), (2, 8, 2048)] {
        let x = lab.random.normals(rows * used * width);
        let (before, weights) = (lab.random.normals(rows * width), lab.random.normals(rows * used));
        let choices: Vec<_> = weights.iter().enumerate().map(|(i, weight)| (i % 5, *weight)).collect();
        let y = lab.output(&bits(&padded(&before, width, stride(width))));
        let has_bias = rows % 2 == 1;
        let bias = lab.random.normals(if has_bias { 5 * width } else { width });
        let sizes = [used, width / 4, stride(width) / 4, if has_bias { width / 4 } else { 0 }].map(|size| size as u32);
        // Without rows to add to, what was there before does not count.
        let adds = used != 2;
        let dims = lab.uniform(&[&sizes[..], &[u32::from(adds), 0.4f32.to_bits()]].concat());
        let bindings = [
            (0, lab.step(5, rows)),
            (1, dims),
            (2, lab.input(cast_slice(&padded(&x, width, stride(width))))),
            (3, lab.input(cast_slice(&stored(&choices)))),
            (4, y.slice()),
            (5, lab.input(cast_slice(&bias))),
        ];
        lab.run(Kernel::Combine, [(width as u32 / 4).div_ceil(64), rows as u32 + 1, 1], &bindings);
        let got = lab.read(&y);
        let got: Vec<f32> =
            got.chunks(stride(width)).flat_map(|row| row[..width].iter().map(|word| f32::from_bits(*word))).collect();
        let mut want = if adds { before } else { vec![0.0; before.len()] };
        reference::combine(&mut want, &x, &choices, &bias, 0.4);
        lab.close("combine", POINTWISE, &(rows, used, width), &got, &want, 0.0);
    }
    lab.report();
}
