//! Each kernel on the GPU against its twin in `foretoken::reference`, and against itself: a row has the same bits in
//! whatever company it is computed. Seeds are fixed.

mod common;

use bytemuck::cast_slice;
use foretoken::gpu::{Buffer, Epilogue, Gpu, Kernel, KvDtype, Slice, split_grid};
use foretoken::model::{Activation, RopeScaling, RopeSpec, rotary_table};
use foretoken::reference::{self, Heads, Kv, Pairs};
use foretoken::weights::Dtype;
use half::{bf16, f16};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::rc::Rc;

/// Bounds on mse(gpu, twin) / mse(twin, 0), by class of kernel.
const POINTWISE: f64 = 1e-12;
const NORM: f64 = 1e-10;
const MATMUL: f64 = 1e-10;
const fn attention_bound(kv: KvDtype) -> f64 {
    match kv {
        KvDtype::F32 => 1e-9,
        KvDtype::F16 => 1e-6,
    }
}

const DTYPES: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::Bf16];
const KV_DTYPES: [KvDtype; 2] = [KvDtype::F32, KvDtype::F16];
const SILU: Activation = Activation::Silu;
/// Random cases per kernel, besides the chosen ones.
const RANDOM: usize = 30;
/// Positions per block of the KV cache.
const BLOCK: usize = 64;

/// What outputs hold before a kernel runs: a NaN, so that an element left out is found, and so is one too many.
const UNTOUCHED: u32 = 0x7fc0_dead;
/// Words behind the data of every binding: nothing may be written there, and what is read there is a NaN.
const GUARD: usize = 64;

// ---- the bench ----

struct Lab {
    gpu: Rc<Gpu>,
    random: Random,
    /// Worst error and bound by kernel.
    worst: BTreeMap<&'static str, (f64, f64)>,
}

/// A buffer that a kernel writes, with its guard band inside the binding.
struct Output {
    buffer: Buffer,
    words: usize,
}

impl Output {
    fn slice(&self) -> Slice {
        self.buffer.whole()
    }
}

impl Lab {
    fn new(seed: u64) -> Self {
        Self { gpu: common::gpu(), random: Random(seed), worst: BTreeMap::new() }
    }

    fn uniform(&self, words: &[u32]) -> Slice {
        self.gpu.buffer_of("uniform", words).unwrap().whole()
    }

    fn step(&self, position: usize, rows: usize) -> Slice {
        self.uniform(&[position as u32, rows as u32, 0, 0, 0])
    }

    fn input(&self, bytes: &[u8]) -> Slice {
        let mut guarded = bytes.to_vec();
        guarded.resize(bytes.len().next_multiple_of(4), 0);
        guarded.extend_from_slice(cast_slice(&[UNTOUCHED; GUARD]));
        self.gpu.buffer_of("input", &guarded).unwrap().whole()
    }

    fn output(&self, before: &[u32]) -> Output {
        let words = [before, &[UNTOUCHED; GUARD]].concat();
        Output { buffer: self.gpu.buffer_of("output", &words).unwrap(), words: before.len() }
    }

    fn run(&self, kernel: Kernel, grid: [u32; 3], bindings: &[(u32, Slice)]) {
        let mut recorder = self.gpu.record();
        recorder.dispatch(&self.gpu.call(kernel, bindings), grid);
        recorder.submit(None);
    }

    fn read(&self, output: &Output) -> Vec<u32> {
        let mut words = common::run(self.gpu.read(&output.buffer, 0, output.buffer.size())).unwrap();
        let guard = words.split_off(output.words);
        assert!(guard.iter().all(|word| *word == UNTOUCHED), "a kernel wrote into the guard band");
        words
    }

    /// Rows of `width` that a kernel wrote into rows of `stride`; what lies between them is untouched.
    fn rows(&self, output: &Output, stride: usize, width: usize) -> Vec<f32> {
        let words = self.read(output);
        let rows = words.chunks_exact(stride).flat_map(|row| {
            assert!(row[width..].iter().all(|word| *word == UNTOUCHED), "a kernel wrote behind its row");
            row[..width].iter().map(|word| f32::from_bits(*word))
        });
        rows.collect()
    }

    /// Holds a kernel's result against its twin's. What is not finite is infinitely wrong; differences up to `floor` are
    /// none: so much may go missing on a device that takes subnormals for zeros.
    fn close(&mut self, kernel: &'static str, bound: f64, case: &dyn Debug, got: &[f32], want: &[f32], floor: f64) {
        assert_eq!(got.len(), want.len(), "{kernel} {case:?}");
        let (mut errors, mut squares) = (0.0, 0.0);
        for (got, want) in got.iter().zip(want) {
            assert!(got.is_finite() && want.is_finite(), "{kernel} {case:?}: {got} where {want} was expected");
            let error = (f64::from(*got) - f64::from(*want)).abs();
            errors += if error > floor { error * error } else { 0.0 };
            squares += f64::from(*want) * f64::from(*want);
        }
        let nmse = if errors == 0.0 { 0.0 } else { errors / squares };
        let entry = self.worst.entry(kernel).or_insert((0.0, bound));
        *entry = (entry.0.max(nmse), bound.min(entry.1));
        assert!(nmse <= bound, "{kernel} {case:?}: NMSE {nmse:.1e} > {bound:.0e}");
    }

    fn report(&self) {
        for (kernel, (worst, bound)) in &self.worst {
            println!("{}: {kernel}: worst NMSE {worst:.1e}, bound {bound:.0e}", self.gpu.info().name);
        }
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let a = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        b ^ (b >> 31)
    }

    /// In 0..n.
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// In 1..=n.
    fn upto(&mut self, n: usize) -> usize {
        1 + self.below(n)
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normals(&mut self, n: usize) -> Vec<f32> {
        let mut normal = || {
            let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
            (radius * (std::f64::consts::TAU * self.unit()).cos()) as f32
        };
        (0..n).map(|_| normal()).collect()
    }

    fn values(&mut self, input: Input, n: usize) -> Vec<f32> {
        let mut values = self.normals(n);
        match input {
            Input::Normal => {}
            Input::Outlier => values[self.below(n)] = 1e4,
            Input::Zero => values.fill(0.0),
            Input::Subnormal => values.iter_mut().for_each(|value| *value *= 1e-39),
        }
        values
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Input {
    Normal,
    /// One element is 1e4.
    Outlier,
    Zero,
    Subnormal,
}

const INPUTS: [Input; 4] = [Input::Normal, Input::Outlier, Input::Zero, Input::Subnormal];

/// What flushing one subnormal factor may take from a sum of `terms` products with factors up to `factor`.
fn floor(input: Input, terms: usize, factor: f64) -> f64 {
    if input == Input::Subnormal { f64::from(f32::MIN_POSITIVE) * terms as f64 * factor } else { 0.0 }
}

/// The same bits; a subnormal may have become zero.
fn same(got: f32, want: f32) -> bool {
    got.to_bits() == want.to_bits() || want.is_subnormal() && got == 0.0
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn stride(width: usize) -> usize {
    width.next_multiple_of(32)
}

/// Rows of `width` as rows of `stride`, zero behind the width.
fn padded(values: &[f32], width: usize, stride: usize) -> Vec<f32> {
    values.chunks_exact(width).flat_map(|row| [row, &vec![0.0; stride - width]].concat()).collect()
}

/// A matrix [rows, cols] as upload.rs lays it out: rows of whole 16-byte chunks, zero behind the columns.
struct Matrix {
    dtype: Dtype,
    bytes: Vec<u8>,
    chunks: usize,
    /// What the bytes stand for [rows, cols].
    values: Vec<f32>,
}

impl Matrix {
    fn new(dtype: Dtype, values: &[f32], cols: usize) -> Self {
        let bytes: Vec<u8> = match dtype {
            Dtype::F32 => cast_slice(values).to_vec(),
            Dtype::F16 => values.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect(),
            Dtype::Bf16 => values.iter().flat_map(|value| bf16::from_f32(*value).to_le_bytes()).collect(),
        };
        let values = foretoken::weights::widen(dtype, &bytes);
        let row = cols * dtype.size() as usize;
        let padding = vec![0; row.next_multiple_of(16) - row];
        let bytes = bytes.chunks_exact(row).flat_map(|row| [row, &padding].concat()).collect();
        Self { dtype, bytes, chunks: row.div_ceil(16), values }
    }

    /// Elements of a row with its padding.
    fn padded_cols(&self) -> usize {
        self.chunks * 16 / self.dtype.size() as usize
    }
}

// ---- embed ----

#[test]
fn embed_copies_rows_exactly() {
    let mut lab = Lab::new(1);
    let chosen = [(1, 1, 1), (2, 3, 2), (3, 63, 7), (5, 64, 8), (7, 65, 3), (257, 576, 16), (33, 2048, 17)];
    let mut cases = chosen.to_vec();
    cases.extend((0..RANDOM).map(|_| (lab.random.upto(300), lab.random.upto(700), lab.random.upto(40))));
    for (case, (vocab, width, rows)) in cases.into_iter().enumerate() {
        for dtype in DTYPES {
            let input = INPUTS[case % 4];
            // f16's own subnormals, where f32's would be zeros.
            let shrink = if input == Input::Subnormal && dtype == Dtype::F16 { 1e34 } else { 1.0 };
            let values: Vec<_> = lab.random.values(input, vocab * width).iter().map(|value| value * shrink).collect();
            let table = Matrix::new(dtype, &values, width);
            let scale = lab.random.pick(&[1.0f32, 0.5, 24.0, 1.1]);
            let token = lab.random.below(5);
            let ids: Vec<_> = (0..rows).map(|_| lab.random.below(vocab) as u32).collect();
            let want = reference::embed(&table.values, width, &ids, scale);
            let x = lab.output(&vec![UNTOUCHED; rows * stride(width)]);
            let step = lab.uniform(&[9, rows as u32, token as u32, 0, 0]);
            let round = lab.input(cast_slice(&[&vec![u32::MAX; token], &ids[..]].concat()));
            // The table in two pieces, as where a binding is too small for it.
            let cut = vocab / 2;
            for (first, end) in [(0, cut), (cut, vocab)].into_iter().filter(|(first, end)| first < end) {
                let chunks = table.chunks as u32;
                let x_stride = stride(width) as u32 / 4;
                let dims = lab.uniform(&[chunks, first as u32, (end - first) as u32, x_stride, scale.to_bits()]);
                let piece = lab.input(&table.bytes[first * table.chunks * 16..end * table.chunks * 16]);
                let bindings = [(0, step.clone()), (1, dims), (2, piece), (3, round.clone()), (4, x.slice())];
                lab.run(Kernel::Embed(dtype), [chunks.div_ceil(64), rows as u32, 1], &bindings);
            }
            let got = lab.rows(&x, stride(width), table.padded_cols());
            for (got, want) in got.chunks_exact(table.padded_cols()).zip(want.chunks_exact(width)) {
                assert!(got[..width].iter().zip(want).all(|(got, want)| same(*got, *want)), "{dtype:?} {input:?}");
                assert!(got[width..].iter().all(|x| x.to_bits() == 0));
            }
        }
    }
}

// ---- norm_rms ----

struct Norm<'a> {
    x: &'a [f32],
    gain: &'a [f32],
    eps: f32,
    /// For the LM head: the first row wanted.
    first: usize,
}

fn norm_rms(lab: &Lab, norm: &Norm<'_>) -> Vec<f32> {
    let width = norm.gain.len();
    let stride = stride(width);
    let rows = norm.x.len() / width;
    let wanted = rows - norm.first;
    let y = lab.output(&vec![UNTOUCHED; wanted * stride]);
    let head = u32::from(norm.first > 0);
    let bindings = [
        (0, lab.uniform(&[5, rows as u32, 0, norm.first as u32, 0])),
        (1, lab.uniform(&[width as u32, stride as u32 / 4, head, norm.eps.to_bits()])),
        (2, lab.input(cast_slice(&padded(norm.x, width, stride)))),
        (3, lab.input(cast_slice(&padded(norm.gain, width, stride)))),
        (4, y.slice()),
    ];
    lab.run(Kernel::NormRms, [wanted as u32, 1, 1], &bindings);
    let all = lab.rows(&y, stride, stride);
    assert!(all.chunks_exact(stride).all(|row| row[width..].iter().all(|x| *x == 0.0)), "zero behind the width");
    all.chunks_exact(stride).flat_map(|row| &row[..width]).copied().collect()
}

#[test]
fn norm_rms_equals_its_twin_and_rows_are_alone() {
    let mut lab = Lab::new(2);
    let mut cases: Vec<(usize, usize)> = Vec::new();
    for width in [1, 2, 3, 63, 64, 65, 127, 128, 129, 509, 512, 513, 576, 2048] {
        cases.extend([1, 2, 17].map(|rows| (rows, width)));
    }
    cases.extend((0..RANDOM).map(|_| (lab.random.upto(40), lab.random.upto(1200))));
    for (case, (rows, width)) in cases.into_iter().enumerate() {
        let input = INPUTS[case % 4];
        let x = lab.random.values(input, rows * width);
        let gain = lab.random.normals(width);
        let eps = lab.random.pick(&[1e-5f32, 1e-6]);
        let first = if rows > 2 { lab.random.below(rows) } else { 0 };
        let got = norm_rms(&lab, &Norm { x: &x, gain: &gain, eps, first });
        let want = reference::norm_rms(&x[first * width..], &gain, f64::from(eps));
        lab.close("norm_rms", NORM, &(rows, width, input), &got, &want, floor(input, 1, 1e4));
        for row in [0, rows - first - 1] {
            let x = &x[(first + row) * width..][..width];
            let alone = norm_rms(&lab, &Norm { x, gain: &gain, eps, first: 0 });
            assert_eq!(bits(&alone), bits(&got[row * width..][..width]), "row {row} of {rows}, {width} wide");
        }
    }
    lab.report();
}

// ---- matmul ----

/// A way to compute a product.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    /// matmul_rows with so many rows per workgroup.
    Rows(u32),
    /// matmul_tile.
    Tile,
}

impl Way {
    const ALL: [Self; 6] = [Self::Rows(1), Self::Rows(2), Self::Rows(4), Self::Rows(8), Self::Rows(16), Self::Tile];

    fn name(self) -> &'static str {
        match self {
            Self::Rows(_) => "matmul_rows",
            Self::Tile => "matmul_tile",
        }
    }

    fn kernel(self, dtype: Dtype, epilogue: Epilogue) -> Kernel {
        match self {
            Self::Rows(rows) => Kernel::MatmulRows(dtype, rows, epilogue),
            Self::Tile => Kernel::MatmulTile(dtype, epilogue),
        }
    }

    fn grid(self, outs: usize, rows: usize) -> [u32; 3] {
        match self {
            Self::Rows(tile) => split_grid((outs as u32).div_ceil(8), (rows as u32).div_ceil(tile)),
            Self::Tile => split_grid((outs as u32).div_ceil(32), (rows as u32).div_ceil(32)),
        }
    }
}

/// A product whose operands are on the GPU.
struct Product {
    dtype: Dtype,
    rows: usize,
    outs: usize,
    position: usize,
    step: Slice,
    weights: Slice,
    chunks: usize,
    x: Slice,
    x_stride: usize,
}

impl Product {
    fn new(lab: &Lab, x: &[f32], matrix: &Matrix, cols: usize, position: usize) -> Self {
        let rows = x.len() / cols;
        Self {
            dtype: matrix.dtype,
            rows,
            outs: matrix.values.len() / cols,
            position,
            step: lab.step(position, rows),
            weights: lab.input(&matrix.bytes),
            chunks: matrix.chunks,
            x: lab.input(cast_slice(&padded(x, cols, stride(cols)))),
            x_stride: stride(cols),
        }
    }

    fn run(&self, lab: &Lab, way: Way, epilogue: Epilogue, y_stride: usize, targets: &[(u32, Slice)]) {
        let (chunks, outs) = (self.chunks as u32, self.outs as u32);
        let dims = lab.uniform(&[chunks, outs, 0, self.x_stride as u32 / 4, y_stride as u32, 0]);
        let mut bindings = vec![(0, self.step.clone()), (1, dims), (2, self.weights.clone()), (3, self.x.clone())];
        bindings.extend_from_slice(targets);
        lab.run(way.kernel(self.dtype, epilogue), way.grid(self.outs, self.rows), &bindings);
    }

    fn store(&self, lab: &Lab, way: Way) -> Vec<f32> {
        let y_stride = self.outs + self.outs % 3;
        let y = lab.output(&vec![UNTOUCHED; self.rows * y_stride]);
        self.run(lab, way, Epilogue::Store, y_stride, &[(4, y.slice())]);
        lab.rows(&y, y_stride, self.outs)
    }
}

#[test]
fn matmul_equals_its_twin_in_every_variant() {
    let mut lab = Lab::new(3);
    let mut cases = vec![
        (1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 63, 63), (5, 64, 64), (6, 65, 65), (7, 127, 7), (8, 128, 8),
        (1, 129, 9), (2, 255, 31), (3, 257, 33), (16, 509, 5), (17, 31, 127), (33, 32, 15),
        (1, 576, 192), (5, 2048, 64), (17, 576, 576), (33, 2048, 33),
    ];
    cases.extend((0..RANDOM).map(|_| (lab.random.upto(40), lab.random.upto(700), lab.random.upto(150))));
    for (case, (rows, cols, outs)) in cases.into_iter().enumerate() {
        for (index, dtype) in DTYPES.into_iter().enumerate() {
            let input = INPUTS[(case + index) % 4];
            let x = lab.random.values(input, rows * cols);
            // Where the inputs are normal, the weights of every other case are f16's subnormals.
            let subnormal_weights = dtype == Dtype::F16 && input == Input::Normal && case % 8 < 4;
            let size = if subnormal_weights { 1e-5 } else { 1.0 };
            let w: Vec<_> = lab.random.normals(outs * cols).iter().map(|w| w * size).collect();
            let matrix = Matrix::new(dtype, &w, cols);
            let product = Product::new(&lab, &x, &matrix, cols, 3);
            let want = reference::matmul(&x, &matrix.values, cols);
            for way in Way::ALL {
                let got = product.store(&lab, way);
                let case = (way, dtype, rows, cols, outs, input, subnormal_weights);
                lab.close(way.name(), MATMUL, &case, &got, &want, floor(input, cols, 8.0));
            }
        }
    }
    lab.report();
}
