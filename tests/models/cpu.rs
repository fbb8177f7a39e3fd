//! The CPU as a device: logits of transformers, the same bits for any number of rows, the same text for every drafter.

use common::blocks::random_blocks;
use common::lab::Random;
use common::reference;
use common::scenario::Scenario;
use common::{Golden, Tales, blueprint_as, capacity, difference, goldens, path, plain, run};
use foretoken::internals::backend::Backend;
use foretoken::internals::backend::cpu::{
    CpuBackend, CpuModel, DistributedMatrix, Matrix, MatrixOp, Others, Processor, Question, Rows, Share, Threads, Words,
};
use foretoken::internals::sample::{Draw, Processors, Sampling};
use foretoken::internals::target::{Draft, Target, run_round};
use foretoken::internals::weights::{Dtype, narrow, widen};
use foretoken::{Arithmetic, LookupRule, Schedule, WeightDtype};
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

/// Bound on |logit - reference| / max(1, max |reference|).
const BOUND: f32 = 2e-4;

fn model(folder: &Path, dtype: WeightDtype) -> CpuModel {
    let (blueprint, weights) = blueprint_as(folder, capacity(), dtype);
    run(CpuModel::load(&Rc::new(Processor::new(None)), &blueprint, &weights, None, &mut |_| ())).unwrap()
}

#[test]
fn logits_and_greedy_ids_equal_transformers() {
    for folder in goldens() {
        let golden = Golden::read(&folder);
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let mut engine = CpuBackend::new(model(&folder, WeightDtype::Auto), None);
        let logits = run(engine.logits(&golden.prompt_ids, 64)).unwrap();
        let prompt = difference(&logits, &golden.prompt_logits);
        let ids = plain(&mut engine, &golden.prompt_ids, golden.greedy_ids.len());
        println!("{name}: prompt logits {prompt:.1e}");
        assert!(prompt <= BOUND, "{name}: {prompt:e}");
        assert_eq!(ids, golden.greedy_ids, "{name}");
        for rows in [1, 2, 3, 7] {
            engine.truncate(0);
            let alone = run(engine.logits(&golden.prompt_ids, rows)).unwrap();
            let same = alone.iter().zip(&logits).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{name}: {rows} rows give other bits than 64");
        }
    }
}

#[test]
fn whoever_drafts_the_text_is_the_same() {
    let [target, draft] = ["target", "draft"].map(|model_of| path("models/tales").join(model_of));
    let mut engine = CpuBackend::new(model(&target, WeightDtype::Auto), Some(model(&draft, WeightDtype::Auto)));
    let sampled = Processors { temperature: 0.8, top_k: 40, top_p: 0.95, ..Processors::default() };
    let penalised = Processors { repetition_penalty: 1.3, ..sampled.clone() };
    let draws = [(Draw::Greedy, Processors::default()), (Draw::Coupled, sampled.clone()), (Draw::Coupled, penalised)];
    let mut accepted = [0, 0];
    for case in Tales::cases().iter().take(4) {
        for (draw, processors) in &draws {
            engine
                .sample_by(&Sampling { processors: processors.clone(), draw: *draw, seed: 7, ..Sampling::default() })
                .unwrap();
            let text = || Scenario::new(&case.prompt_ids).most(48);
            let plain = text().run(&mut engine).ids;
            if *draw == Draw::Greedy {
                let expected = &case.greedy_ids[..case.greedy_ids.len().min(48)];
                assert_eq!(&plain[..expected.len()], expected, "{}", case.prompt);
            }
            let texts = [text().lookup(10, 3, LookupRule::Leftmost), text().draft_model(Schedule::Constant, 5)];
            for (text, accepted) in texts.into_iter().zip(&mut accepted) {
                let found = text.run(&mut engine).expect_ids(&plain, format!("{draw:?} {}", case.prompt));
                *accepted += found.stats.num_accepted_draft_tokens;
            }
        }
        // Rejection sampling gives other texts, but the same one each time.
        let (draw, processors) = (Draw::Rejection, sampled.clone());
        engine.sample_by(&Sampling { processors, draw, seed: 7, ..Sampling::default() }).unwrap();
        let mut texts = (0..2)
            .map(|_| Scenario::new(&case.prompt_ids).most(48).draft_model(Schedule::Constant, 5).run(&mut engine).ids);
        assert_eq!(texts.next(), texts.next());
    }
    assert!(accepted.iter().all(|accepted| *accepted > 20), "{accepted:?}");
}

/// A draft model may have more tokens than the target: it never proposes those, with any sampling.
#[test]
fn a_draft_model_proposes_what_the_target_has() {
    let [target, draft] = ["tests/golden/models/llama-gqa-tied", "models/tales/draft"].map(path);
    let models = [target, draft].map(|folder| model(&folder, WeightDtype::Auto));
    let [target, draft] = models;
    let mut engine = CpuBackend::new(target, Some(draft));
    for draw in [Draw::Greedy, Draw::Coupled, Draw::Rejection] {
        engine.sample_by(&Sampling { draw, seed: 1, ..Sampling::default() }).unwrap();
        for pending in 0..20 {
            engine.truncate(0);
            let verified = run(run_round(&mut engine, pending, &Draft::Model(5))).unwrap();
            assert!(!verified.draft.is_empty(), "{draw:?}");
            let all = verified.draft.iter().chain(&verified.ids);
            assert!(all.clone().all(|id| *id < 512), "{draw:?}: {all:?}");
        }
    }
}

/// Returns activations as rounded by integer arithmetic.
fn rounded(x: &[f32]) -> Vec<f32> {
    let blocks = x.chunks_exact(32);
    let round = |block: &[f32]| {
        let most = block.iter().fold(0f32, |most, x| most.max(x.abs()));
        block.iter().map(|x| (x * (127.0 / most)).round_ties_even() * (most / 127.0)).collect::<Vec<_>>()
    };
    blocks.flat_map(round).collect()
}

/// For every stored type, the rows equal `widen`, and products with them are as accurate as f32 allows.
#[test]
fn products_with_stored_weights() {
    let mut random = Random(3);
    for dtype in Dtype::all() {
        let (rows, cols) = (7, 256);
        let bytes = match dtype {
            Dtype::F32 | Dtype::F16 | Dtype::Bf16 => {
                let values: Vec<f32> = (0..rows * cols).map(|_| random.unit() as f32 - 0.5).collect();
                narrow(dtype, &values).unwrap()
            }
            _ => random_blocks(&mut random, dtype, rows * cols),
        };
        let mut matrix = Matrix::new(cols);
        // Two portions, as files are read.
        let (first, rest) = bytes.split_at(bytes.len() / rows * 3);
        matrix.push(dtype, first);
        matrix.push(dtype, rest);
        let w = widen(dtype, &bytes);
        let found: Vec<f32> = (0..rows).flat_map(|row| matrix.row(row)).collect();
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&found), bits(&w), "{dtype:?}");
        for count in [1, 2, 3, 5, 8, 15] {
            let x: Vec<f32> = (0..count * cols).map(|_| random.unit() as f32 - 0.5).collect();
            let product = |arithmetic| {
                let y = matrix.times(&Rows::from_flat(&x, cols), arithmetic);
                (0..count).flat_map(|row| y.row(row).to_vec()).collect::<Vec<f32>>()
            };
            let error = |ours: &[f32], expected: &[f32]| {
                let error: f32 = ours.iter().zip(expected).map(|(a, b)| (a - b).powi(2)).sum();
                error / expected.iter().map(|b| b.powi(2)).sum::<f32>()
            };
            let nmse = error(&product(Arithmetic::F32), &reference::matmul(&x, &w, cols));
            assert!(nmse <= 1e-12, "{dtype:?}, {count} rows: NMSE {nmse:e}");
            let ours = product(Arithmetic::Int8);
            let is_float = matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16);
            let nmse = error(&ours, &reference::matmul(&if is_float { x.clone() } else { rounded(&x) }, &w, cols));
            assert!(nmse <= 1e-12, "{dtype:?}, {count} rows, with integers: NMSE {nmse:e}");
            for row in 0..count {
                let alone = matrix.times(&Rows::from_flat(&x[row * cols..][..cols], cols), Arithmetic::Int8);
                assert_eq!(bits(alone.row(0)), bits(&ours[row * rows..][..rows]), "{dtype:?}, row {row} of {count}");
            }
        }
    }
}

/// All rows are allocated before the first is read, with several types in turn too, and reading allocates no more.
#[test]
fn rows_of_several_types_get_their_room_first() {
    let mut random = Random(5);
    let cols = 256;
    let sections = [(Dtype::Q4K, 8), (Dtype::Q6K, 4), (Dtype::Q4K, 12), (Dtype::F16, 4), (Dtype::Q6K, 8)];
    let (mut early, mut late) = (Matrix::new(cols), Matrix::new(cols));
    sections.iter().for_each(|(dtype, rows)| early.reserve(*dtype, *rows).unwrap());
    let mut expected = Vec::new();
    for (dtype, rows) in sections {
        let bytes = match dtype {
            Dtype::F16 => narrow(dtype, &vec![0.25; rows * cols]).unwrap(),
            _ => random_blocks(&mut random, dtype, rows * cols),
        };
        let row_bytes = bytes.len() / rows;
        late.reserve(dtype, rows).unwrap();
        for part in bytes.chunks(3 * row_bytes) {
            early.push(dtype, part);
            late.push(dtype, part);
        }
        expected.extend(widen(dtype, &bytes));
    }
    for matrix in [&early, &late] {
        assert_eq!((0..36).flat_map(|row| matrix.row(row)).collect::<Vec<f32>>(), expected);
    }
    assert_eq!(early.bytes(), late.bytes());
    let x = Rows::from_flat(&(0..cols).map(|_| random.unit() as f32 - 0.5).collect::<Vec<_>>(), cols);
    assert_eq!(early.times(&x, Arithmetic::Int8).row(0), late.times(&x, Arithmetic::Int8).row(0));
}

/// Threads that answer each question at once, and have room for few bytes.
#[derive(Default)]
struct Pretended([Mutex<(Share, f64, Vec<u8>)>; 2]);

impl Threads for Pretended {
    fn others(&self) -> usize {
        self.0.len()
    }

    fn room(&self) -> usize {
        12 << 10
    }

    fn ask(&self, other: usize, question: Words, bytes: &[u8]) {
        assert!(bytes.len() <= self.room());
        let (share, answer, written) = &mut *self.0[other].lock().unwrap();
        let write = |bytes: &[u8]| *written = bytes.to_vec();
        *answer = share.answer(question, bytes.len(), |to| to.copy_from_slice(bytes), write).unwrap();
    }

    fn answer(&self, other: usize, bytes: &mut [u8]) -> f64 {
        let (_, answer, written) = &*self.0[other].lock().unwrap();
        if !bytes.is_empty() {
            bytes.copy_from_slice(written);
        }
        *answer
    }
}

/// Returns the bytes of the first matrix that each other thread has: the answer to an empty push.
fn held(threads: &Pretended) -> [f64; 2] {
    [0, 1].map(|other| {
        threads.ask(other, Question::new(MatrixOp::Push, 0, 0).with_dtype(Dtype::F16).words(), &[]);
        threads.answer(other, &mut [])
    })
}

fn numbers(random: &mut Random, count: usize) -> Vec<f32> {
    (0..count).map(|_| random.unit() as f32 - 0.5).collect()
}

#[test]
fn rows_that_others_have_give_the_same_products() {
    let threads = Arc::new(Pretended::default());
    let others: Others = threads.clone();
    let mut random = Random(5);
    let (cols, sections) = (256, [(Dtype::Q4_1, 90), (Dtype::F16, 131), (Dtype::Q4_1, 6)]);
    let rows = sections.iter().map(|(_, rows)| rows).sum();
    let mut whole = Matrix::new(cols);
    let mut shared = DistributedMatrix::new(cols, rows, Some(&others));
    for (dtype, rows) in sections {
        let bytes = match dtype {
            Dtype::F16 => narrow(Dtype::F16, &numbers(&mut random, rows * cols)).unwrap(),
            dtype => random_blocks(&mut random, dtype, rows * cols),
        };
        let row_bytes = bytes.len() / rows;
        whole.reserve(dtype, rows).unwrap();
        shared.reserve(dtype, rows).unwrap();
        for part in bytes.chunks(37 * row_bytes) {
            whole.push(dtype, part);
            shared.push(dtype, part);
        }
    }
    assert!(held(&threads).iter().all(|&bytes| bytes > whole.bytes() as f64 / 4.0), "all have a share");
    for count in [1, 2, 8, 30] {
        let x = Rows::from_flat(&numbers(&mut random, count * cols), cols);
        for arithmetic in [Arithmetic::F32, Arithmetic::Int8] {
            let [found, expected] = [shared.times(&x, arithmetic), whole.times(&x, arithmetic)];
            let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits();
            assert!(found.data().iter().zip(expected.data()).all(same), "{count} rows, {arithmetic:?}");
        }
    }
    for row in 0..rows {
        assert_eq!(shared.row(row), whole.row(row), "row {row}");
    }
    drop(shared);
    assert_eq!(held(&threads), [0.0, 0.0], "the shares are forgotten");
    for wrong in [[9, 0, 0, 0], Question::new(MatrixOp::Row, 7, 0).words(), [MatrixOp::Push as u32, 0, 999, 0]] {
        let answer = threads.0[0].lock().unwrap().0.answer(wrong, 0, |_| (), |_| ());
        assert_eq!(answer.unwrap_err().code(), "internal", "{wrong:?}");
    }
}
