//! Each kernel on the GPU, compared with its twin in `internals::reference` and with itself: a row has the same bits in any batch.
//! Seeds are fixed.

use common::blocks::{quantised, random_blocks};
use common::difference;
use common::lab::{INPUTS, Input, Lab, Output, UNTOUCHED};

use bytemuck::cast_slice;
use common::reference::{self, DeltaVectors, Heads, Kv, Pairs};
use foretoken::internals::backend::Backend;
use foretoken::internals::gpu::{Epilogue, Epilogues, Kernel, Slice, split_grid};
use foretoken::internals::model::{
    Activation, ConvHistory, DeltaHistory, DeltaSpec, QkNorm, QueryGrowth, RopeScaling, RopeSpec, rotary_table,
};
use foretoken::internals::target::StatePass;
use foretoken::internals::weights::{Affine, Dtype, Float, Format, Row, interleave, narrow, pack_row, widen};
use foretoken::{Arithmetic, KvDtype};
use half::f16;
use std::collections::HashMap;
use std::fmt::Debug;

/// Bounds on mse(gpu, twin) / mse(twin, 0), by class of kernel.
pub(super) const POINTWISE: f64 = 1e-12;
const NORM: f64 = 1e-10;
pub(super) const MATMUL: f64 = 1e-10;
/// A recurrence adds its rounding up.
const DELTA: f64 = 1e-10;
const fn attention_bound(kv: KvDtype) -> f64 {
    match kv {
        KvDtype::F32 => 1e-9,
        _ => 1e-6,
    }
}

const DTYPES: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::Bf16];
const KV_DTYPES: [KvDtype; 2] = [KvDtype::F32, KvDtype::F16];
/// Random cases per kernel, in addition to the chosen ones.
const RANDOM: usize = 30;
/// Positions per block of the KV cache.
const BLOCK: usize = 256;

/// Returns the largest loss of a sum of `terms` products if a factor is subnormal and treated as zero; the other is at most `factor`.
fn floor(input: Input, terms: usize, factor: f64) -> f64 {
    if input == Input::SubnormalF32 { f64::from(f32::MIN_POSITIVE) * terms as f64 * factor } else { 0.0 }
}

/// True if the bits are the same, or a subnormal became zero.
fn same(got: f32, want: f32) -> bool {
    got.to_bits() == want.to_bits() || want.is_subnormal() && got == 0.0
}

pub(super) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

pub(super) fn stride(width: usize) -> usize {
    width.next_multiple_of(32)
}

/// Pads rows of `width` with zeros to rows of `stride`.
pub(super) fn padded(values: &[f32], width: usize, stride: usize) -> Vec<f32> {
    values.chunks_exact(width).flat_map(|row| [row, &vec![0.0; stride - width]].concat()).collect()
}

/// A matrix [rows, cols] in the layout of upload.rs: rows of whole 16-byte units, floats padded with zeros, sixteen rows
/// interleaved.
pub(super) struct Matrix {
    format: Format,
    packed: Vec<u8>,
    row: Row,
    /// Values that the bytes represent [rows, cols].
    pub values: Vec<f32>,
}

impl Matrix {
    pub fn new(dtype: Dtype, values: &[f32], cols: usize) -> Self {
        Self::stored(dtype, &narrow(dtype, values).unwrap(), cols)
    }

    pub fn stored(dtype: Dtype, stored: &[u8], cols: usize) -> Self {
        let format = Format::of_dtype(dtype);
        let row = format.row(cols);
        let rows = stored.chunks_exact(dtype.bytes(cols as u64).unwrap() as usize);
        let mut packed = vec![0; rows.len() * row.bytes()];
        packed.chunks_exact_mut(row.bytes()).zip(rows).for_each(|(to, from)| pack_row(dtype, from, cols, to));
        Self { format, packed, row, values: widen(dtype, stored) }
    }

    fn bytes(&self) -> Vec<u8> {
        interleave(&self.packed, self.row)
    }

    fn piece(&self, rows: std::ops::Range<usize>) -> Vec<u8> {
        interleave(&self.packed[rows.start * self.row.bytes()..rows.end * self.row.bytes()], self.row)
    }

    /// Returns the elements of a row with its padding.
    fn padded_cols(&self) -> usize {
        self.row.chunks * self.format.chunk()
    }

    /// Returns the first words of the kernels' dimensions.
    fn dims(&self) -> [u32; 3] {
        [self.row.chunks, self.row.scales, self.row.units].map(|size| size as u32)
    }
}

// ---- embed ----

/// Dimensions of an embedding of tokens after its scale: no factor, rows are not added, the table is of tokens, and the mask token.
const TOKENS: [u32; 4] = [0x3f80_0000, 0, 0, 0];

#[test]
fn embed_copies_rows_exactly() {
    let mut lab = Lab::new(1);
    let chosen = [(1, 1, 1), (2, 3, 2), (3, 63, 7), (5, 64, 8), (7, 65, 3), (257, 576, 16), (33, 2048, 17)];
    let mut cases = chosen.to_vec();
    cases.extend((0..RANDOM).map(|_| (lab.random.upto(300), lab.random.upto(700), lab.random.upto(40))));
    for (case, (vocab, width, rows)) in cases.into_iter().enumerate() {
        for dtype in DTYPES {
            let input = INPUTS[case % 5];
            let table = Matrix::new(dtype, &lab.random.values(input, vocab * width), width);
            let scale = lab.random.pick(&[1.0f32, 0.5, 24.0, 1.1]);
            let token = lab.random.below(5);
            let mut ids: Vec<_> = (0..rows).map(|_| lab.random.below(vocab) as u32).collect();
            let round = lab.input(cast_slice(&[&vec![u32::MAX; token], &ids[..]].concat()));
            // The last rows read the mask token, which is the first one.
            let masks = lab.random.below(rows);
            ids[rows - masks..].fill(0);
            let want = reference::embed(&table.values, width, &ids, scale);
            let x = lab.output(&vec![UNTOUCHED; rows * stride(width)]);
            let step = lab.masked_step([9, rows, token], masks);
            // The table in two pieces, as if a binding were too small for it.
            let cut = vocab / 2;
            for (first, end) in [(0, cut), (cut, vocab)].into_iter().filter(|(first, end)| first < end) {
                let [chunks, scales, units] = table.dims();
                let [first_id, ids, x_stride] = [first, end - first, stride(width) / 4].map(|size| size as u32);
                let sizes = [chunks, scales, units, first_id, ids, x_stride];
                let dims = lab.uniform(&[&sizes[..], &[scale.to_bits()], &TOKENS].concat());
                let piece = lab.input(&table.piece(first..end));
                let bindings = [(0, step.clone()), (1, dims), (2, piece), (3, round.clone()), (4, x.slice())];
                lab.run(Kernel::Embed(table.format), [chunks.div_ceil(64), rows as u32, 1], &bindings);
            }
            let got = lab.rows(&x, stride(width), table.padded_cols());
            let rows = got.chunks_exact(table.padded_cols()).zip(want.chunks_exact(width)).zip(&ids);
            for ((got, want), id) in rows {
                let stored = &table.values[*id as usize * width..][..width];
                for ((got, want), stored) in got.iter().zip(want).zip(stored) {
                    // A device may treat a subnormal as zero before it multiplies.
                    let is_zeroed = stored.is_subnormal() && *got == 0.0;
                    assert!(is_zeroed || same(*got, *want), "{dtype:?} {input:?}: {got} where {want} was expected");
                }
                assert!(got[width..].iter().all(|x| x.to_bits() == 0));
            }
        }
    }
}

#[test]
fn embed_adds_rows_of_positions_or_of_tokens() {
    let mut lab = Lab::new(20);
    for (case, (count, width, rows, first)) in
        [(1, 3, 1, 0), (9, 64, 4, 5), (40, 65, 17, 20), (70, 576, 3, 66)].into_iter().enumerate()
    {
        for (dtype, positions) in DTYPES.into_iter().flat_map(|dtype| [(dtype, true), (dtype, false)]) {
            let table = Matrix::new(dtype, &lab.random.normals(count * width), width);
            let before = lab.random.normals(rows * stride(width));
            let x = lab.output(&bits(&before));
            let (scale, factor) = if positions { (1.0, 1.0) } else { ([1.0, 4.0][case % 2], 0.5f32) };
            let ids: Vec<_> = match positions {
                true => (first as u32..).take(rows).collect(),
                false => (0..rows).map(|_| lab.random.below(count) as u32).collect(),
            };
            let round = lab.input(cast_slice(&ids));
            let cut = count / 2;
            for (from, end) in [(0, cut), (cut, count)].into_iter().filter(|(from, end)| from < end) {
                let sizes = [from, end - from, stride(width) / 4].map(|size| size as u32);
                let rest = [f32::to_bits(scale), factor.to_bits(), 1, u32::from(positions), 0];
                let dims = lab.uniform(&[&table.dims()[..], &sizes, &rest].concat());
                let piece = lab.input(&table.piece(from..end));
                let bindings = [(0, lab.step(first, rows)), (1, dims), (2, piece), (3, round.clone()), (4, x.slice())];
                let grid = [(table.row.chunks as u32).div_ceil(64), rows as u32, 1];
                lab.run(Kernel::Embed(table.format), grid, &bindings);
            }
            let inside = |values: &[f32]| {
                values.chunks_exact(stride(width)).flat_map(|row| row[..width].to_vec()).collect::<Vec<_>>()
            };
            let got = inside(&lab.rows(&x, stride(width), stride(width)));
            let mut want = inside(&before);
            let embedded = reference::embed(&table.values, width, &ids, scale);
            reference::residual(&mut want, &embedded, &vec![0.0; width], 1.0);
            want.iter_mut().for_each(|x| *x *= factor);
            assert_eq!(bits(&got), bits(&want), "{dtype:?}: {rows} rows from {first}, {width} wide");
        }
    }
}

// ---- norms ----

struct Norm<'a> {
    kernel: Kernel,
    x: &'a [f32],
    gain: &'a [f32],
    bias: &'a [f32],
    eps: f32,
    /// First row needed, for the LM head.
    first: usize,
    /// Values to which the norm is added [rows, width].
    before: &'a [f32],
    /// Factor of the sum.
    factor: f32,
}

impl Norm<'_> {
    fn run(&self, lab: &Lab) -> Vec<f32> {
        let width = self.gain.len();
        let stride = stride(width);
        let rows = self.x.len() / width;
        let wanted = rows - self.first;
        let adds = self.kernel == Kernel::AddNorm;
        let y = lab.output(&if adds {
            bits(&padded(self.before, width, stride))
        } else {
            vec![UNTOUCHED; wanted * stride]
        });
        let head = u32::from(self.first > 0);
        let vector = |values: &[f32]| lab.input(cast_slice(&padded(values, width, stride)));
        let mut bindings = vec![
            (0, lab.step_of([5, rows, 0, self.first], StatePass::default())),
            (1, lab.uniform(&norm_words(width, [stride, stride, 0, stride], head, [0; 3], self.eps))),
            (2, vector(self.x)),
            (3, vector(self.gain)),
            (4, y.slice()),
        ];
        match self.kernel {
            Kernel::NormLayer => bindings.push((5, vector(self.bias))),
            Kernel::AddNorm => bindings.push((5, lab.input(cast_slice(&[self.factor])))),
            _ => {}
        }
        // A grid of two dimensions numbers rows by both.
        let grid = match self.kernel {
            Kernel::NormRms if wanted.is_multiple_of(2) => [2, wanted as u32 / 2, 1],
            _ => [wanted as u32, 1, 1],
        };
        lab.run(self.kernel, grid, &bindings);
        let all = lab.rows(&y, stride, stride);
        assert!(all.chunks_exact(stride).all(|row| row[width..].iter().all(|x| *x == 0.0)), "zero behind the width");
        all.chunks_exact(stride).flat_map(|row| &row[..width]).copied().collect()
    }

    fn twin(&self) -> Vec<f32> {
        let x = &self.x[self.first * self.gain.len()..];
        let eps = f64::from(self.eps);
        match self.kernel {
            Kernel::NormLayer => reference::norm_layer(x, self.gain, self.bias, eps),
            Kernel::AddNorm => {
                let mut sum = self.before.to_vec();
                reference::residual(
                    &mut sum,
                    &reference::norm_rms(x, self.gain, eps),
                    &vec![0.0; self.gain.len()],
                    1.0,
                );
                sum.iter_mut().for_each(|x| *x *= self.factor);
                sum
            }
            _ => reference::norm_rms(x, self.gain, eps),
        }
    }
}

/// Returns the dimensions of a norm. `strides`: elements per row of x and of y, first element of a row of y, and elements to write. `rings`:
/// rows of x and of y that are found by position, and the distance of those of y.
fn norm_words(width: usize, strides: [usize; 4], head: u32, [x, y, next]: [u32; 3], eps: f32) -> [u32; 12] {
    let [x_stride, y_stride, first, count] = strides.map(|elements| elements as u32 / 4);
    [width as u32, x_stride, y_stride, first, count, head, x, y, next, 0, eps.to_bits(), 1f32.to_bits()]
}

/// A row of a ring is that of its position modulo their number.
#[test]
fn norms_read_and_write_rows_by_their_positions() {
    let mut lab = Lab::new(31);
    for kernel in [Kernel::NormRms, Kernel::NormLayer] {
        for case in 0..20 {
            let (width, ring, position) =
                (4 * lab.random.upto(40), 8 + lab.random.below(30), 3 + lab.random.below(100));
            let (rows, stride, next) = (lab.random.upto(8), stride(width), case % 2);
            let (first, head) = if case % 4 > 1 { (rows - 1, 1) } else { (0, 0) };
            let (gain, bias, eps) = (lab.random.normals(width), lab.random.normals(width), 1e-6);
            let x = lab.random.normals(ring * width);
            let vector = |values: &[f32]| lab.input(cast_slice(&padded(values, width, stride)));
            let place = |row: usize| (position + first + row) % ring;
            let wanted: Vec<f32> =
                (first..rows).flat_map(|row| &x[place(row - first) * width..][..width]).copied().collect();
            let expected =
                Norm { kernel, x: &wanted, gain: &gain, bias: &bias, eps, first: 0, before: &[], factor: 1.0 };
            let expected = expected.run(&lab);
            let run = |y: &Output, words: [u32; 12]| {
                let step = lab.step_of([position, rows, 0, first], StatePass::default());
                let bindings = [step, lab.uniform(&words), vector(&x), vector(&gain), y.slice(), vector(&bias)];
                let bindings: Vec<_> = (0..if kernel == Kernel::NormLayer { 6 } else { 5 }).zip(bindings).collect();
                lab.run(kernel, [(rows - first) as u32, 1, 1], &bindings);
            };
            let kept = lab.output(&vec![UNTOUCHED; ring * stride]);
            let rings = [ring as u32, ring as u32, next as u32];
            run(&kept, norm_words(width, [stride, stride, 0, stride], head, rings, eps));
            let words = lab.read(&kept);
            for (row, expected) in expected.chunks_exact(width).enumerate() {
                let at = (place(row) + next) % ring;
                assert_eq!(words[at * stride..][..width], bits(expected), "{kernel:?}: row {row} in {at} of {ring}");
            }
            assert_eq!(words.iter().filter(|word| **word != UNTOUCHED).count(), (rows - first) * stride);
            // The second half of pairs.
            let pairs = lab.output(&vec![UNTOUCHED; (rows - first) * 2 * width]);
            run(&pairs, norm_words(width, [stride, 2 * width, width, width], head, [ring as u32, 0, 0], eps));
            for (pair, expected) in lab.read(&pairs).chunks_exact(2 * width).zip(expected.chunks_exact(width)) {
                assert!(pair[..width].iter().all(|word| *word == UNTOUCHED));
                assert_eq!(pair[width..], bits(expected));
            }
        }
    }
}

/// Rows of a pass to a part of the rows of a ring, and rows of a ring to those of a pass.
#[test]
fn copy_equals_its_twin() {
    let mut lab = Lab::new(32);
    for _ in 0..20 {
        let (width, parts, rows) = (4 * lab.random.upto(60), 1 + lab.random.below(4), lab.random.upto(8));
        let (ring, position, part) = (rows + lab.random.below(20), lab.random.below(100), lab.random.below(parts));
        let place = |row: usize| (position + row) % ring;
        let x = lab.random.normals(rows * stride(width));
        let all = parts * width;
        let of_ring = lab.random.normals(ring * all);
        let run = |x: &[f32], y: &Output, words: [u32; 12]| {
            let (x, gain) = (lab.input(cast_slice(x)), lab.input(cast_slice(&[0f32; 4])));
            let step = lab.step(position, rows);
            let bindings = [step, lab.uniform(&words), x, gain, y.slice()];
            lab.run(Kernel::Copy, [rows as u32, 1, 1], &(0..).zip(bindings).collect::<Vec<_>>());
        };
        let kept = lab.output(&vec![UNTOUCHED; ring * all]);
        run(&x, &kept, norm_words(width, [stride(width), all, part * width, width], 0, [0, ring as u32, 0], 0.0));
        let mut want = vec![f32::from_bits(UNTOUCHED); ring * parts * width];
        let own: Vec<f32> = x.chunks_exact(stride(width)).flat_map(|row| &row[..width]).copied().collect();
        reference::copy(&own, &mut want, rows, width, |row| row, |row| place(row) * parts + part);
        assert_eq!(lab.read(&kept), bits(&want));
        let taken = lab.output(&vec![UNTOUCHED; rows * all]);
        run(&of_ring, &taken, norm_words(all, [all, all, 0, all], 0, [ring as u32, 0, 0], 0.0));
        let mut want = vec![0.0; rows * all];
        reference::copy(&of_ring, &mut want, rows, all, place, |row| row);
        assert_eq!(lab.read(&taken), bits(&want));
    }
}

#[test]
fn norms_equal_their_twins_and_rows_are_alone() {
    let mut lab = Lab::new(2);
    let mut cases: Vec<(usize, usize)> = Vec::new();
    for width in [1, 2, 3, 63, 64, 65, 127, 128, 129, 509, 512, 513, 576, 2048] {
        cases.extend([1, 2, 17].map(|rows| (rows, width)));
    }
    cases.extend((0..RANDOM).map(|_| (lab.random.upto(40), lab.random.upto(1200))));
    for kernel in [Kernel::NormRms, Kernel::AddNorm, Kernel::NormLayer] {
        for (case, &(rows, width)) in cases.iter().enumerate() {
            let input = INPUTS[case % 5];
            let x = lab.random.values(input, rows * width);
            let (gain, bias) = (lab.random.normals(width), lab.random.normals(width));
            let eps = lab.random.pick(&[1e-5f32, 1e-6]);
            let first = if rows > 2 && kernel != Kernel::AddNorm { lab.random.below(rows) } else { 0 };
            let before = lab.random.normals(rows * width);
            let factor = [1.0, 0.25][case % 2];
            let norm = Norm { kernel, x: &x, gain: &gain, bias: &bias, eps, first, before: &before, factor };
            let got = norm.run(&lab);
            let name = if kernel == Kernel::NormLayer { "norm_layer" } else { "norm_rms" };
            lab.close(name, NORM, &(kernel, rows, width, input), &got, &norm.twin(), floor(input, 1, 1e4));
            for row in [0, rows - first - 1] {
                let at = (first + row) * width..(first + row + 1) * width;
                let alone = Norm { x: &x[at.clone()], before: &before[at], first: 0, ..norm }.run(&lab);
                assert_eq!(
                    bits(&alone),
                    bits(&got[row * width..][..width]),
                    "{kernel:?}: row {row} of {rows}, {width}"
                );
            }
        }
    }
    lab.report();
}

// ---- matmul ----

/// A kernel variant that computes a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Way {
    /// matmul_rows with this many rows per workgroup.
    Rows(u32),
    /// matmul_tile, summed by lanes like matmul_rows.
    Tile,
    /// matmul_tile with this many rows per workgroup, summed in the order of the chunks.
    Serial(u32),
}

impl Way {
    pub const ALL: [Self; 10] = [
        Self::Rows(1),
        Self::Rows(2),
        Self::Rows(4),
        Self::Rows(8),
        Self::Rows(16),
        Self::Tile,
        Self::Serial(1),
        Self::Serial(2),
        Self::Serial(4),
        Self::Serial(8),
    ];

    /// Returns the variant for a single row with the same order of sums.
    pub fn alone(self) -> Self {
        match self {
            Self::Rows(_) | Self::Tile => Self::Rows(1),
            Self::Serial(_) => Self::Serial(1),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Rows(_) => "matmul_rows",
            Self::Tile => "matmul_tile",
            Self::Serial(_) => "the matmul of processors",
        }
    }

    pub fn kernel(self, format: Format, arithmetic: Arithmetic, epilogues: Epilogues) -> Kernel {
        match self {
            Self::Rows(rows) => Kernel::MatmulRows(format, arithmetic, rows, epilogues),
            Self::Tile => Kernel::MatmulTile(format, arithmetic, epilogues),
            Self::Serial(rows) => Kernel::MatmulSerial(format, arithmetic, rows, epilogues),
        }
    }

    /// Returns at least the needed number of workgroups. Excess workgroups must have no effect.
    fn grid(self, outs: usize, rows: usize) -> [u32; 3] {
        match self {
            Self::Rows(tile) => split_grid((rows as u32).div_ceil(tile), (outs as u32).div_ceil(16)),
            Self::Tile => split_grid((rows as u32).div_ceil(Kernel::TILE), (outs as u32).div_ceil(128)),
            Self::Serial(tile) => split_grid((rows as u32).div_ceil(tile), (outs as u32).div_ceil(128)),
        }
    }
}

/// Returns some variants for each case, because compiling takes most of the time.
fn some_ways(case: usize) -> [Way; 5] {
    let rows = [2, 4, 8][case % 3];
    [Way::Rows(1), Way::Rows(rows), Way::Tile, Way::Serial(1), Way::Serial(rows)]
}

/// Options of epilogues that these products do not have.
pub(super) const EPILOGUES: Epilogues = Epilogues { activation: Activation::Silu, kv: KvDtype::F32, experts: false };

/// Returns the bindings of a matmul, with placeholders for those that its epilogue does not use.
fn with_unused(lab: &Lab, bindings: &[(u32, Slice)]) -> Vec<(u32, Slice)> {
    let is_missing = |binding: &u32| bindings.iter().all(|(bound, _)| bound != binding);
    let unused = [4, 5, 7, 8, 9].into_iter().filter(is_missing).map(|binding| (binding, lab.uniform(&[0; 12])));
    bindings.iter().cloned().chain(unused).collect()
}

pub(super) struct Product {
    pub format: Format,
    pub arithmetic: Arithmetic,
    pub rows: usize,
    pub outs: usize,
    pub step: Slice,
    weights: Slice,
    row: [u32; 3],
    x: Slice,
    x_stride: usize,
    /// Width of the norm to apply to x, vec4s before its sums, elements per row of the output for the next norm, eps.
    norms: [u32; 4],
    /// Factor of what the epilogue adds to the residual stream, or of the logits.
    scale: f32,
    /// Bound of the logits; 0: no bound.
    cap: f32,
    /// Numbers per row of factors for activated results, and the first of them.
    factors: [u32; 2],
    /// First expert of the matrix, number of its experts, choices that share a row of x, and biases of an expert if it has its own.
    pub experts: [u32; 4],
}

impl Product {
    pub fn new(lab: &Lab, x: &[f32], matrix: &Matrix, cols: usize, position: usize) -> Self {
        let rows = x.len() / cols;
        Self {
            format: matrix.format,
            arithmetic: Arithmetic::F32,
            rows,
            outs: matrix.values.len() / cols,
            step: lab.step(position, rows),
            weights: lab.input(&matrix.bytes()),
            row: matrix.dims(),
            x: lab.input(cast_slice(&padded(x, cols, stride(cols)))),
            x_stride: stride(cols),
            norms: [0; 4],
            scale: 1.0,
            cap: 0.0,
            factors: [0; 2],
            experts: [0, 0, 1, 0],
        }
    }

    fn run(&self, lab: &Lab, way: Way, epilogue: Epilogue, y_stride: usize, targets: &[(u32, Slice)]) {
        self.run_with(lab, way, epilogue, EPILOGUES, y_stride, targets);
    }

    fn run_with(
        &self,
        lab: &Lab,
        way: Way,
        epilogue: Epilogue,
        epilogues: Epilogues,
        y_stride: usize,
        targets: &[(u32, Slice)],
    ) {
        self.run_in(
            lab,
            way.kernel(self.format, self.arithmetic, epilogues),
            epilogue,
            y_stride,
            targets,
            way.grid(self.outs, self.rows),
        );
    }

    /// Runs a kernel with any number of workgroups.
    pub fn run_in(
        &self,
        lab: &Lab,
        kernel: Kernel,
        epilogue: Epilogue,
        y_stride: usize,
        targets: &[(u32, Slice)],
        grid: [u32; 3],
    ) {
        let sizes = [self.outs as u32, 0, self.x_stride as u32 / 4, y_stride as u32, 0, epilogue as u32];
        let factors = [1.0, self.scale, self.cap].map(f32::to_bits);
        let dims = lab.uniform(&[&self.row[..], &sizes, &self.norms, &factors, &self.factors, &self.experts].concat());
        let bindings = [(0, self.step.clone()), (1, dims), (2, self.weights.clone()), (3, self.x.clone())];
        let bindings = with_unused(lab, &[&bindings, targets].concat());
        lab.run(kernel, grid, &bindings);
    }

    fn store(&self, lab: &Lab, way: Way) -> Vec<f32> {
        let y_stride = self.outs + self.outs % 3;
        let y = lab.output(&vec![UNTOUCHED; self.rows * y_stride]);
        self.run(lab, way, Epilogue::Store, y_stride, &[(6, y.slice())]);
        lab.rows(&y, y_stride, self.outs)
    }
}

#[test]
fn matmul_equals_its_twin_in_every_variant() {
    let mut lab = Lab::new(3);
    let rows = [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 16, 17, 33, 1, 5, 17, 33];
    let cols = [1, 2, 3, 63, 64, 65, 127, 128, 129, 255, 257, 509, 31, 32, 576, 2048, 576, 2048];
    let outs = [1, 2, 3, 63, 64, 65, 7, 8, 9, 31, 33, 5, 127, 15, 192, 64, 576, 33];
    let mut cases: Vec<_> = (0..rows.len()).map(|i| (rows[i], cols[i], outs[i])).collect();
    cases.extend((0..RANDOM).map(|_| (lab.random.upto(40), lab.random.upto(700), lab.random.upto(150))));
    for (case, (rows, cols, outs)) in cases.into_iter().enumerate() {
        for (index, dtype) in DTYPES.into_iter().enumerate() {
            let inputs = [INPUTS[(case + index) % 5], INPUTS[case / 2 % 5]];
            let x = lab.random.values(inputs[0], rows * cols);
            let matrix = Matrix::new(dtype, &lab.random.values(inputs[1], outs * cols), cols);
            let floor = inputs.iter().fold(0.0, |most, input| floor(*input, cols, 1e4).max(most));
            let product = Product::new(&lab, &x, &matrix, cols, 3);
            let want = reference::matmul(&x, &matrix.values, cols);
            for way in Way::ALL {
                let got = product.store(&lab, way);
                lab.close(way.name(), MATMUL, &(way, dtype, rows, cols, outs, inputs), &got, &want, floor);
            }
        }
    }
    lab.report();
}

#[test]
fn matmul_of_quantised_weights_equals_its_twin_and_rows_are_alone() {
    let mut lab = Lab::new(14);
    let shapes = [(1, 256, 5), (3, 768, 33), (17, 512, 8), (33, 1280, 34)];
    // Each group size (a constant in the kernels) occurs once with 4 and once with 8 bits; the embedding test has all combinations.
    let is_repeated = |dtype: &Dtype| match dtype {
        Dtype::Affine(Affine { group_size, scales, .. }) => {
            [(Float::F16, 128), (Float::Bf16, 64), (Float::F32, 32)].iter().all(|pair| *pair != (*scales, *group_size))
        }
        _ => false,
    };
    for (index, dtype) in quantised().filter(|dtype| !is_repeated(dtype)).enumerate() {
        let (rows, cols, outs) = shapes[index % shapes.len()];
        let x = lab.random.normals(rows * cols);
        let matrix = Matrix::stored(dtype, &random_blocks(&mut lab.random, dtype, outs * cols), cols);
        let want = reference::matmul(&x, &matrix.values, cols);
        let all = Product::new(&lab, &x, &matrix, cols, 0);
        let last = Product::new(&lab, &x[(rows - 1) * cols..], &matrix, cols, 0);
        for way in some_ways(index) {
            let got = all.store(&lab, way);
            lab.close(way.name(), MATMUL, &(way, dtype, rows, cols, outs), &got, &want, 0.0);
            assert_eq!(bits(&got[(rows - 1) * outs..]), bits(&last.store(&lab, way.alone())), "{way:?} {dtype:?}");
        }
    }
    lab.report();
}

// ---- matmul with integers ----

/// Rows as codes, written by `quantise`.
struct Quantised {
    y: Output,
    /// Words per row.
    stride: usize,
    blocks: usize,
}

impl Quantised {
    /// Quantises the rows of x [rows, cols] from `first` on. Each row is followed by `behind` 16-byte units.
    fn new(lab: &Lab, x: &[f32], cols: usize, behind: usize, first: usize) -> Self {
        let (rows, blocks) = (x.len() / (cols + 4 * behind), cols / 32);
        let stride = blocks * 12 + behind * 4;
        let y = lab.output(&vec![UNTOUCHED; rows * stride]);
        let x_stride = cols / 4 + behind;
        let dims = [blocks, behind, x_stride, stride / 4, usize::from(first > 0)].map(|size| size as u32);
        let bindings = [
            (0, lab.step_of([0, rows, 0, first], StatePass::default())),
            (1, lab.uniform(&dims)),
            (2, lab.input(cast_slice(x))),
            (3, y.slice()),
        ];
        lab.run(Kernel::Quantise, [(x_stride as u32).div_ceil(64) + 1, (rows - first) as u32, 1], &bindings);
        Self { y, stride, blocks }
    }

    /// Returns the codes and scales of a row, and checks the sums of the codes.
    fn codes(&self, row: &[u32]) -> (Vec<i8>, Vec<f32>) {
        let (mut codes, mut scales) = (Vec::new(), Vec::new());
        for block in row[..self.blocks * 12].chunks_exact(12) {
            let new: &[i8] = cast_slice(&block[..8]);
            let [scale, all] = [8, 11].map(|at| f32::from_bits(block[at]));
            let sum = |codes: &[i8]| codes.iter().map(|code| i32::from(*code)).sum::<i32>();
            let sums = [&new[..16], &new[16..]].map(sum);
            if scale.is_finite() {
                assert_eq!([block[9] as i32, block[10] as i32, all as i32], [sums[0], sums[1], sums[0] + sums[1]]);
            }
            codes.extend(new);
            scales.push(scale);
        }
        (codes, scales)
    }
}

#[test]
fn quantise_equals_its_twin_and_rows_are_alone() {
    let mut lab = Lab::new(21);
    let cases = [(1, 32, 0, 0), (2, 64, 4, 0), (3, 256, 1, 2), (5, 576, 12, 3), (17, 2048, 32, 0), (4, 96, 2, 0)];
    for (case, (rows, cols, behind, first)) in cases.into_iter().enumerate() {
        let width = cols + 4 * behind;
        let mut x = lab.random.values(INPUTS[case % 5], rows * width);
        // Ties, zeros, and values too small for a scale.
        x[first * width..][..32].copy_from_slice(&std::array::from_fn::<f32, 32, _>(|i| i as f32 - 15.5));
        x[first * width] = 127.0;
        x[width * rows - width..][..32].fill(if case == 1 { 0.0 } else { 1e-38 });
        let got = Quantised::new(&lab, &x, cols, behind, first);
        let words = lab.read(&got.y);
        for (row, (words, x)) in words.chunks_exact(got.stride).zip(x.chunks_exact(width)).enumerate() {
            if row < first {
                assert!(words.iter().all(|word| *word == UNTOUCHED), "row {row}");
                continue;
            }
            let ((codes, scales), (want, twins)) = (got.codes(words), reference::quantise(&x[..cols]));
            for (scale, twin) in scales.iter().zip(&twins) {
                assert!((scale - twin).abs() <= 4.0 * f32::EPSILON * twin || same(*scale, *twin), "{scale} for {twin}");
            }
            for (i, (code, want)) in codes.iter().zip(&want).enumerate() {
                // A division may differ in its last bits, which may break a tie.
                let is_tie = ((x[i] / twins[i / 32]).abs().fract() - 0.5).abs() < 1e-4;
                assert!(
                    code == want || is_tie && code.abs_diff(*want) == 1,
                    "case {case}, row {row}: {code} for {want}, {i}"
                );
            }
            assert_eq!(words[got.blocks * 12..], bits(&x[cols..]), "what stands behind");
            let alone = lab.read(&Quantised::new(&lab, x, cols, behind, 0).y);
            assert_eq!(words, alone, "row {row} of {rows}");
        }
    }
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut x = vec![1.0; 64];
        x[40] = bad;
        let got = Quantised::new(&lab, &x, 64, 0, 0);
        let (_, scales) = got.codes(&lab.read(&got.y));
        assert!(scales[0] == 1.0 / 127.0 && !scales[1].is_finite() && !reference::quantise(&x).1[1].is_finite());
    }
}

#[test]
fn matmul_with_integers_equals_its_twin_and_rows_are_alone() {
    let mut lab = Lab::new(22);
    let shapes = [(1, 256, 5), (3, 768, 33), (17, 512, 8), (33, 1280, 34)];
    let is_repeated =
        |dtype: &Dtype| matches!(dtype, Dtype::Affine(of) if (of.group_size, of.scales) != (64, Float::Bf16));
    let dtypes = quantised().filter(|dtype| Format::of_dtype(*dtype).multiplies_codes() && !is_repeated(dtype));
    for (index, dtype) in dtypes.enumerate() {
        let (rows, cols, outs) = shapes[index % shapes.len()];
        let x = lab.random.normals(rows * cols);
        let matrix = Matrix::stored(dtype, &random_blocks(&mut lab.random, dtype, outs * cols), cols);
        let quantised = Quantised::new(&lab, &x, cols, 0, 0);
        let rounded = lab.read(&quantised.y);
        let rounded = rounded.chunks_exact(quantised.stride).flat_map(|row| {
            let (codes, scales) = quantised.codes(row);
            reference::dequantise(&codes, &scales)
        });
        let want = reference::matmul(&rounded.collect::<Vec<_>>(), &matrix.values, cols);
        let product = |x: &[f32]| Product {
            arithmetic: Arithmetic::Int8,
            x: Quantised::new(&lab, x, cols, 0, 0).y.slice(),
            x_stride: quantised.stride,
            ..Product::new(&lab, x, &matrix, cols, 0)
        };
        let (all, last) = (product(&x), product(&x[(rows - 1) * cols..]));
        for way in some_ways(index) {
            let got = all.store(&lab, way);
            lab.close("matmul with integers", MATMUL, &(way, dtype, rows, cols, outs), &got, &want, 0.0);
            assert_eq!(bits(&got[(rows - 1) * outs..]), bits(&last.store(&lab, way.alone())), "{way:?} {dtype:?}");
        }
    }
    lab.report();
}

#[test]
fn embed_widens_quantised_rows() {
    let mut lab = Lab::new(15);
    let (vocab, width, scale) = (9, 512, 1.0);
    for dtype in quantised() {
        let table = Matrix::stored(dtype, &random_blocks(&mut lab.random, dtype, vocab * width), width);
        let ids = [3, 8, 0];
        let x = lab.output(&vec![UNTOUCHED; ids.len() * width]);
        let [chunks, scales, units] = table.dims();
        let sizes = [chunks, scales, units, 0, vocab as u32, width as u32 / 4, f32::to_bits(scale)];
        let dims = [&sizes[..], &TOKENS].concat();
        let bindings = [
            (0, lab.step(0, ids.len())),
            (1, lab.uniform(&dims)),
            (2, lab.input(&table.bytes())),
            (3, lab.input(cast_slice(&ids))),
            (4, x.slice()),
        ];
        lab.run(Kernel::Embed(table.format), [chunks.div_ceil(64), ids.len() as u32, 1], &bindings);
        let want = reference::embed(&table.values, width, &ids, scale);
        for (i, (got, want)) in lab.rows(&x, width, width).iter().zip(&want).enumerate() {
            // One rounding more if the device has no fused multiply-add.
            let size = table.values.iter().fold(0.0, |most: f32, value| most.max(value.abs()));
            assert!((got - want).abs() <= size * f32::EPSILON, "{dtype:?}: {got} for {want}, element {i}");
        }
    }
}

#[test]
fn a_matrix_in_pieces_on_a_grid_of_two_dimensions() {
    let mut lab = Lab::new(4);
    let (rows, cols, outs, cut) = (3, 100, 77, 30);
    let x = lab.random.normals(rows * cols);
    let w = lab.random.normals(outs * cols);
    for way in Way::ALL {
        let y = lab.output(&vec![UNTOUCHED; rows * outs]);
        for (first, end) in [(0, cut), (cut, outs)] {
            let piece = Matrix::new(Dtype::F16, &w[first * cols..end * cols], cols);
            let sizes = [end - first, first, stride(cols) / 4, outs, 1, 0, 0, 0, 0, 0].map(|size| size as u32);
            let bindings = [
                // The head's rows: from row 2 on, of 5.
                (0, lab.step_of([0, 5, 0, 2], StatePass::default())),
                (1, lab.uniform(&[&piece.dims()[..], &sizes, &[1f32, 1.0, 0.0].map(f32::to_bits), &[0; 6]].concat())),
                (2, lab.input(&piece.bytes())),
                (3, lab.input(cast_slice(&padded(&x, cols, stride(cols))))),
                (6, y.slice()),
            ];
            let [x, tiles, z] = way.grid(end - first, rows);
            assert_eq!(z, 1);
            // As with more tiles than a dimension holds: the last one has no outputs.
            let kernel = way.kernel(piece.format, Arithmetic::F32, EPILOGUES);
            lab.run(kernel, [x, tiles / 2 + 1, 2], &with_unused(&lab, &bindings));
        }
        let want = reference::matmul(&x, &Matrix::new(Dtype::F16, &w, cols).values, cols);
        let got = lab.rows(&y, outs, outs);
        lab.close(way.name(), MATMUL, &way, &got, &want, 0.0);
    }
}

#[test]
fn matmul_rows_have_the_same_bits_in_any_company() {
    let mut lab = Lab::new(5);
    // With 16 or 32 lanes and 4 or 8 elements per chunk: lanes without a chunk, with one, two or more chunks, and uneven lanes.
    let shapes = [(4, 3), (64, 64), (128, 9), (140, 33), (256, 2), (520, 31), (576, 7), (2048, 8)];
    let most = 37;
    for dtype in DTYPES {
        for (cols, outs) in shapes {
            let x = lab.random.normals(most * cols);
            let matrix = Matrix::new(dtype, &lab.random.normals(outs * cols), cols);
            let product = |lab: &Lab, rows: std::ops::Range<usize>| {
                Product::new(lab, &x[rows.start * cols..rows.end * cols], &matrix, cols, 0)
            };
            let alone = [Way::Rows(1), Way::Serial(1)].map(|way| {
                let rows = (0..most).map(|row| bits(&product(&lab, row..row + 1).store(&lab, way)));
                (way, rows.collect::<Vec<_>>())
            });
            let alone = HashMap::from(alone);
            // The last two: several groups of rows, and several tiles.
            for rows in [1, 2, 3, 4, 5, 8, 9, 16, 17, most] {
                let first = lab.random.below(most - rows + 1);
                let batch = product(&lab, first..first + rows);
                for way in Way::ALL {
                    let got = bits(&batch.store(&lab, way));
                    for (got, row) in got.chunks_exact(outs).zip(first..) {
                        let alone = &alone[&way.alone()][row];
                        assert_eq!(got, alone, "{way:?} {dtype:?}: row {row} of {rows}, {cols} to {outs}");
                    }
                }
            }
        }
    }
}

// ---- epilogues: compared with results stored by the same kernel, so that only their own arithmetic may differ; every variant must give
// the same bits ----

#[test]
fn residual_gate_and_activate_equal_their_twins() {
    let mut lab = Lab::new(6);
    let mut cases = vec![(1, 1, 1), (2, 3, 2), (3, 64, 63), (8, 65, 64), (16, 127, 65), (17, 256, 33), (33, 576, 97)];
    cases.extend((0..RANDOM).map(|_| (lab.random.upto(40), lab.random.upto(300), lab.random.upto(100))));
    for (case, (rows, cols, width)) in cases.into_iter().enumerate() {
        // One dtype per activation: more would only compile more kernels.
        let (activation, dtype) = (Activation::ALL[case % 5], DTYPES[case % 5 % 3]);
        let input = INPUTS[case / 5 % 5];
        let x = lab.random.values(input, rows * cols);
        // Gate and up alternate.
        let outs = 2 * width;
        let matrix = Matrix::new(dtype, &lab.random.normals(outs * cols), cols);
        let product = Product::new(&lab, &x, &matrix, cols, 0);
        // Without its last row: the residual may have an odd width.
        let odd = Matrix::new(dtype, &matrix.values[cols..], cols);
        let mut odd = Product::new(&lab, &x, &odd, cols, 0);
        odd.scale = [1.0, 0.3, 7.0][case % 3];
        odd.cap = [0.0, 5.0][case % 2];
        let mut with_factors = Product::new(&lab, &x, &matrix, cols, 0);
        with_factors.factors = [outs as u32 + 6, 4];
        let inputs = lab.random.normals(rows * (outs + 6));
        let bias = lab.random.normals(outs);
        let before = lab.random.normals(rows * (outs - 1));
        let bias_input = lab.input(cast_slice(&bias));
        let mut firsts = HashMap::new();
        for way in Way::ALL {
            let case = (way, dtype, rows, cols, width, input, activation);
            let stored = product.store(&lab, way);
            let (gates, ups): (Vec<_>, Vec<_>) = stored.as_chunks::<2>().0.iter().map(|[gate, up]| (gate, up)).unzip();
            let (gate_bias, up_bias): (Vec<_>, Vec<_>) = bias.as_chunks::<2>().0.iter().map(|[a, b]| (a, b)).unzip();
            let want = reference::gate(&gates, &gate_bias, &ups, &up_bias, activation);
            let y = lab.output(&vec![UNTOUCHED; rows * stride(width)]);
            let targets = [(4, bias_input.clone()), (6, y.slice())];
            let epilogues = Epilogues { activation, ..EPILOGUES };
            product.run_with(&lab, way, Epilogue::Gate, epilogues, stride(width), &targets);
            let gated = lab.rows(&y, stride(width), width);
            lab.close("out_gate", POINTWISE, &case, &gated, &want, floor(input, 1, 1.0));

            let alone = odd.store(&lab, way);
            let mut want = before.clone();
            reference::residual(&mut want, &alone, &bias[..outs - 1], odd.scale);
            let y = lab.output(&bits(&before));
            let targets = [(4, bias_input.clone()), (6, y.slice())];
            odd.run(&lab, way, Epilogue::Residual, outs - 1, &targets);
            let added = lab.rows(&y, outs - 1, outs - 1);
            lab.close("out_residual", POINTWISE, &case, &added, &want, floor(input, 1, 1.0));

            let want = reference::head(&alone, &bias[..outs - 1], odd.scale, Some(odd.cap).filter(|cap| *cap > 0.0));
            let y = lab.output(&vec![UNTOUCHED; rows * (outs - 1)]);
            let targets = [(4, bias_input.clone()), (6, y.slice())];
            odd.run(&lab, way, Epilogue::Head, outs - 1, &targets);
            let logits = lab.rows(&y, outs - 1, outs - 1);
            lab.close("out_head", POINTWISE, &case, &logits, &want, floor(input, 1, 10.0));

            let want = reference::activate(&alone, &bias[..outs - 1], activation);
            let y = lab.output(&vec![UNTOUCHED; rows * (outs - 1)]);
            let targets = [(4, bias_input.clone()), (6, y.slice())];
            odd.run_with(&lab, way, Epilogue::Activate, epilogues, outs - 1, &targets);
            let activated = lab.rows(&y, outs - 1, outs - 1);
            lab.close("out_activate", POINTWISE, &case, &activated, &want, floor(input, 1, 1.0));

            // Both rows of a pair exist, and their factors are neighbours.
            let (count, first) = (outs + 6, 4);
            let factors = lab.input(cast_slice(&inputs));
            let mut want = reference::activate(&stored, &bias, activation);
            for (want, inputs) in want.chunks_exact_mut(outs).zip(inputs.chunks_exact(count)) {
                want.iter_mut().zip(&inputs[first..]).for_each(|(x, factor)| *x *= factor);
            }
            let y = lab.output(&vec![UNTOUCHED; rows * outs]);
            let targets = [(4, bias_input.clone()), (5, factors), (6, y.slice())];
            with_factors.run_with(&lab, way, Epilogue::Activate, epilogues, outs, &targets);
            let multiplied = lab.rows(&y, outs, outs);
            lab.close("out_activate with factors", POINTWISE, &case, &multiplied, &want, floor(input, 1, 1.0));

            let got = [bits(&gated), bits(&added), bits(&logits), bits(&activated), bits(&multiplied)];
            let first = firsts.entry(way.alone()).or_insert_with(|| got.clone());
            assert!(got == *first, "{case:?}: other bits than {:?}", way.alone());
        }
    }
    lab.report();
}

/// A norm fused into the matmuls before and after it: the first writes rows times the gain, and sums of squares.
#[test]
fn a_norm_between_two_matmuls_equals_its_twin_and_rows_are_alone() {
    let mut lab = Lab::new(16);
    for (case, (rows, width, outs)) in
        [(1, 1, 3), (2, 15, 2), (3, 16, 40), (5, 17, 33), (8, 576, 9), (17, 300, 70), (40, 96, 64)]
            .into_iter()
            .enumerate()
    {
        let (cols, dtype, eps) = (64, DTYPES[case % 3], 1e-5f32);
        let x = lab.random.normals(rows * cols);
        let first = Matrix::new(dtype, &lab.random.normals(width * cols), cols);
        let second = Matrix::new(dtype, &lab.random.normals(outs * width), width);
        let (bias, gain) = (lab.random.normals(width), lab.random.normals(width));
        let before = lab.random.normals(rows * width);
        let sums = width.div_ceil(16);
        let left = stride(width) + sums.next_multiple_of(4);
        let [bias_input, gain_input] = [&bias, &gain].map(|v| lab.input(cast_slice(&padded(v, width, stride(width)))));
        let mut firsts = HashMap::new();
        for way in Way::ALL {
            let case = (way, dtype, rows, width, outs);
            let mut product = Product::new(&lab, &x, &first, cols, 0);
            let mut want = before.clone();
            reference::residual(&mut want, &product.store(&lab, way), &bias, 1.0);
            product.norms[2] = left as u32;
            let y = lab.output(&bits(&padded(&before, width, stride(width))));
            let gained = lab.output(&vec![0; rows * left]);
            let targets = [(4, bias_input.clone()), (5, gain_input.clone()), (6, y.slice()), (9, gained.slice())];
            product.run(&lab, way, Epilogue::Residual, stride(width), &targets);
            let added: Vec<f32> = lab
                .rows(&y, stride(width), stride(width))
                .chunks(stride(width))
                .flat_map(|y| y[..width].to_vec())
                .collect();
            lab.close("residual", POINTWISE, &case, &added, &want, 0.0);
            for (row, y) in lab.rows(&gained, left, left).chunks_exact(left).zip(added.chunks_exact(width)) {
                let (scaled, rest) = row.split_at(stride(width));
                let gained: Vec<f32> = y.iter().zip(&gain).map(|(y, gain)| y * gain).collect();
                assert_eq!(bits(&scaled[..width]), bits(&gained), "{case:?}");
                let squares: Vec<f32> = y.chunks(16).map(|y| y.iter().map(|y| y * y).sum()).collect();
                lab.close("sums of squares", NORM, &case, &rest[..sums], &squares, 0.0);
                assert!(scaled[width..].iter().chain(&rest[sums..]).all(|x| *x == 0.0), "{case:?}");
            }
            let mut product = Product::new(&lab, &vec![0.0; rows * width], &second, width, 0);
            (product.x, product.x_stride) = (gained.slice(), left);
            product.norms = [width as u32, stride(width) as u32 / 4, 0, eps.to_bits()];
            let got = product.store(&lab, way);
            let normed = reference::norm_rms(&added, &gain, f64::from(eps));
            let want = reference::matmul(&normed, &second.values, width);
            lab.close("matmul of a norm", MATMUL, &case, &got, &want, 0.0);
            let first = firsts.entry(way.alone()).or_insert_with(|| bits(&got));
            assert!(bits(&got) == *first, "{case:?}: other bits than {:?}", way.alone());
        }
    }
    lab.report();
}

/// A layer's KV cache in the kernels' layout: for each block of positions K (kv_heads, head_dim / 4, 256) of 4 elements, then
/// V (kv_heads, 256, head_dim).
#[derive(Debug, Clone, Copy)]
struct Cache {
    dtype: KvDtype,
    kv_heads: usize,
    head_dim: usize,
    blocks: usize,
}

impl Cache {
    fn elements(&self) -> usize {
        self.kv_heads * self.blocks * BLOCK * self.head_dim
    }

    fn k_at(&self, kv_head: usize, position: usize, i: usize) -> usize {
        let head = (position / BLOCK * 2 * self.kv_heads + kv_head) * BLOCK * self.head_dim;
        head + (i / 4 * BLOCK + position % BLOCK) * 4 + i % 4
    }

    fn v_at(&self, kv_head: usize, position: usize, i: usize) -> usize {
        let head = ((position / BLOCK * 2 + 1) * self.kv_heads + kv_head) * BLOCK * self.head_dim;
        head + position % BLOCK * self.head_dim + i
    }

    /// Returns indices of an element: in the twin's K or V, here in K, here in V.
    fn places(&self, positions: std::ops::Range<usize>) -> impl Iterator<Item = (usize, usize, usize)> {
        let width = self.kv_heads * self.head_dim;
        (positions.start * width..positions.end * width).map(move |index| {
            let (position, kv_head, i) = (index / width, index % width / self.head_dim, index % self.head_dim);
            (index, self.k_at(kv_head, position, i), self.v_at(kv_head, position, i))
        })
    }

    fn pack(&self, elements: &[f32]) -> Vec<u32> {
        match self.dtype {
            KvDtype::F32 => bits(elements),
            _ => {
                let half = |x: f32| u32::from(f16::from_f32(x).to_bits());
                elements.as_chunks::<2>().0.iter().map(|[a, b]| half(*a) | half(*b) << 16).collect()
            }
        }
    }

    fn unpack(&self, words: &[u32]) -> Vec<f32> {
        match self.dtype {
            KvDtype::F32 => words.iter().map(|word| f32::from_bits(*word)).collect(),
            _ => {
                let half = |bits: u32| f16::from_bits(bits as u16).to_f32();
                words.iter().flat_map(|word| [half(*word), half(word >> 16)]).collect()
            }
        }
    }

    /// Returns the cache with some of the twin's positions, NaN elsewhere.
    fn holding(&self, kv: &Kv, positions: std::ops::Range<usize>) -> Vec<u32> {
        let mut elements = vec![f32::NAN; 2 * self.elements()];
        for (index, k, v) in self.places(positions) {
            elements[k] = kv.k[index];
            elements[v] = kv.v[index];
        }
        self.pack(&elements)
    }
}

/// Returns the sizes of an attention layer, as the kernels read them.
fn head_words(heads: &Heads) -> [u32; 12] {
    let q_stride = stride(heads.heads * heads.head_dim);
    let pairs = heads.q_table / 2;
    let sizes = [heads.heads, heads.kv_heads, heads.head_dim, heads.rotary, q_stride, heads.window, pairs];
    let mut words = [0; 12];
    words.iter_mut().zip(sizes).for_each(|(word, size)| *word = size.min(1 << 30) as u32);
    let [scale, cap, one] = [heads.scale, heads.cap.unwrap_or(0.0), 1.0].map(f32::to_bits);
    words[7..].copy_from_slice(&[scale, cap, u32::from(heads.sees_pass), 0, one]);
    words
}

fn heads(heads: usize, kv_heads: usize, head_dim: usize, rotary: usize) -> Heads {
    let scale = (head_dim as f64).powf(-0.5) as f32;
    let (pairs, window) = (Pairs::Neighbours, usize::MAX);
    Heads { heads, kv_heads, head_dim, rotary, pairs, window, scale, cap: None, q_table: 0, sees_pass: false }
}

/// MHA, GQA and MQA; head_dim 4 to 512; whole, partial and no rotation.
fn layers() -> [Heads; 9] {
    [
        heads(1, 1, 4, 4),
        heads(4, 4, 16, 16),
        heads(4, 2, 24, 24),
        heads(4, 1, 64, 64),
        heads(3, 3, 128, 32),
        heads(9, 3, 64, 64),
        heads(8, 2, 16, 0),
        heads(4, 2, 512, 512),
        heads(2, 1, 320, 64),
    ]
}

/// Inputs and outputs of a kernel that appends to the KV cache.
struct Append {
    heads: Heads,
    cache: Cache,
    position: usize,
    rows: usize,
    table: Vec<f32>,
    table_input: Slice,
    q: Output,
    kv: Output,
}

impl Append {
    fn new(lab: &Lab, mut heads: Heads, dtype: KvDtype, position: usize, rows: usize, grows: bool) -> Self {
        let blocks = (position + rows).div_ceil(BLOCK);
        let cache = Cache { dtype, kv_heads: heads.kv_heads, head_dim: heads.head_dim, blocks };
        let growth = QueryGrowth { beta: 0.5, original: 100.0 };
        let query_growth = (grows && heads.rotary > 0).then_some(growth);
        let rope = RopeSpec {
            theta: 10_000.0,
            rotary_dim: heads.rotary,
            reversed: false,
            scaling: RopeScaling::None,
            query_growth,
        };
        let table = rotary_table(&rope, position + rows);
        heads.q_table = (rope.tables() - 1) * (position + rows) * heads.rotary;
        let table_input = lab.input(cast_slice(&table));
        let q = lab.output(&vec![UNTOUCHED; rows * stride(heads.heads * heads.head_dim)]);
        let kv = lab.output(&cache.holding(&Kv::new(dtype), 0..0));
        Self { heads, cache, position, rows, table, table_input, q, kv }
    }

    fn targets(&self, lab: &Lab, bias: Slice) -> Vec<(u32, Slice)> {
        let dims = lab.uniform(&head_words(&self.heads));
        vec![(4, bias), (5, self.table_input.clone()), (6, self.q.slice()), (7, self.kv.slice()), (8, dims)]
    }

    /// Returns the twin's cache. Earlier positions are not compared.
    fn twin(&self) -> Kv {
        let before = vec![0.0; self.position * self.heads.kv_heads * self.heads.head_dim];
        Kv { dtype: self.cache.dtype, k: before.clone(), v: before }
    }

    /// Compares q and the cache with the twin's, and returns their bits. V is exact, and so is K if only the bias was added
    /// to it. Differences of q and K up to `floor` are ignored.
    fn check(
        &self,
        lab: &mut Lab,
        kernel: &'static str,
        case: &dyn Debug,
        twin: (&[f32], &Kv),
        floor: f64,
    ) -> [Vec<u32>; 2] {
        let (q, kv) = twin;
        let (bound, exact_k) = if kernel.starts_with("qk_norm") { (NORM, false) } else { (POINTWISE, true) };
        let exact_v = kernel != "qk_norm with values";
        let width = self.heads.heads * self.heads.head_dim;
        let got_q = lab.rows(&self.q, stride(width), width);
        lab.close(kernel, bound, case, &got_q, q, floor);
        let words = lab.read(&self.kv);
        let got = self.cache.unpack(&words);
        let (mut got_k, mut want_k, mut got_v, mut want_v) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut written = vec![false; got.len()];
        for (index, k, v) in self.cache.places(self.position..self.position + self.rows) {
            (written[k], written[v]) = (true, true);
            let is_same = !exact_v || same(got[v], kv.v[index]);
            assert!(is_same, "{kernel} {case:?}: V is {} instead of {}", got[v], kv.v[index]);
            got_v.push(got[v]);
            want_v.push(kv.v[index]);
            if exact_k && index % self.heads.head_dim >= self.heads.rotary {
                assert!(same(got[k], kv.k[index]), "{kernel} {case:?}: K is {} instead of {}", got[k], kv.k[index]);
            }
            got_k.push(got[k]);
            want_k.push(kv.k[index]);
        }
        let (name, bound) = match self.cache.dtype {
            KvDtype::F32 => (kernel, bound),
            _ => ("K in f16", attention_bound(KvDtype::F16)),
        };
        lab.close(name, bound, case, &got_k, &want_k, floor);
        lab.close(name, bound, case, &got_v, &want_v, floor);
        assert!(
            got.iter().zip(written).all(|(x, written)| written || x.is_nan()),
            "{kernel} {case:?}: other positions"
        );
        [bits(&got_q), words]
    }
}

/// Returns layers, positions and rows. The appended rows end on both sides of a block boundary.
fn chosen_appends() -> Vec<(Heads, (usize, usize))> {
    let places = [(0, 1), (255, 2), (256, 3), (250, 4), (511, 16), (1, 17), (240, 33), (254, 3), (7, 2)];
    layers().into_iter().zip(places).collect()
}

#[test]
fn rotary_equals_its_twin_and_appends_exactly() {
    let mut lab = Lab::new(7);
    let mut cases = chosen_appends();
    cases.extend((0..RANDOM).map(|_| (lab.random.pick(&layers()), (lab.random.below(300), lab.random.upto(40)))));
    for (case, (heads, (position, rows))) in cases.into_iter().enumerate() {
        let dtype = DTYPES[case % 3];
        let input = INPUTS[case / 3 % 3];
        let cols = lab.random.upto(200);
        let width = (heads.heads + 2 * heads.kv_heads) * heads.head_dim;
        let x = lab.random.values(input, rows * cols);
        let matrix = Matrix::new(dtype, &lab.random.normals(width * cols), cols);
        let product = Product::new(&lab, &x, &matrix, cols, position);
        let bias = lab.random.normals(width);
        let bias_input = lab.input(cast_slice(&bias));
        let mut firsts = HashMap::new();
        for way in Way::ALL {
            let stored = product.store(&lab, way);
            for kv_dtype in KV_DTYPES {
                let append = Append::new(&lab, heads, kv_dtype, position, rows, case % 2 == 0);
                let epilogues = Epilogues { kv: kv_dtype, ..EPILOGUES };
                let targets = append.targets(&lab, bias_input.clone());
                let q_stride = stride(heads.heads * heads.head_dim);
                product.run_with(&lab, way, Epilogue::Rotary, epilogues, q_stride, &targets);
                let mut kv = append.twin();
                let q = reference::rotary(&stored, &bias, &append.table, &append.heads, &mut kv);
                let case = (way, dtype, kv_dtype, position, rows, heads, input);
                let got = append.check(&mut lab, "out_rotary", &case, (&q, &kv), 0.0);
                let first = firsts.entry((way.alone(), kv_dtype)).or_insert_with(|| got.clone());
                assert!(got == *first, "{case:?}: other bits than {:?}", way.alone());
            }
        }
    }
    lab.report();
}

#[test]
fn qk_norm_equals_its_twin_and_appends_exactly() {
    let mut lab = Lab::new(8);
    let mut cases = chosen_appends();
    cases.extend((0..RANDOM).map(|_| (lab.random.pick(&layers()), (lab.random.below(300), lab.random.upto(40)))));
    for (case, (heads, (position, rows))) in cases.into_iter().enumerate() {
        let input = INPUTS[case % 5];
        let all = heads.heads + 2 * heads.kv_heads;
        let width = all * heads.head_dim;
        let qkv = lab.random.values(input, rows * width);
        let bias = if case % 2 == 0 { vec![0.0; width] } else { lab.random.normals(width) };
        let norm = [QkNorm::Heads, QkNorm::RotatedHeads, QkNorm::Width, QkNorm::HeadsAndValues][case % 4];
        let gains = if norm == QkNorm::Width { heads.heads + heads.kv_heads } else { 2 };
        let gains = lab.random.normals(gains * heads.head_dim);
        // The kernel reads gains of each head.
        let (of_q, of_k) = gains.split_at(gains.len() / 2);
        let stored = match norm {
            QkNorm::Width => gains.clone(),
            _ => [of_q.repeat(heads.heads), of_k.repeat(heads.kv_heads)].concat(),
        };
        let [across, after, values] =
            [QkNorm::Width, QkNorm::RotatedHeads, QkNorm::HeadsAndValues].map(|kind| u32::from(norm == kind));
        let eps = 1e-6f32;
        for kv_dtype in KV_DTYPES {
            let append = Append::new(&lab, heads, kv_dtype, position, rows, norm == QkNorm::Heads);
            let mut bindings = append.targets(&lab, lab.input(cast_slice(&bias)));
            bindings.extend([
                (0, lab.step(position, rows)),
                (1, lab.uniform(&[eps.to_bits(), across, after, values])),
                (2, lab.input(cast_slice(&qkv))),
                (3, lab.input(cast_slice(&stored))),
            ]);
            lab.run(Kernel::QkNorm(kv_dtype), [all as u32, rows as u32, 1], &bindings);
            let mut kv = append.twin();
            let norms = (norm, &gains[..], f64::from(eps));
            let q = reference::qk_norm(&qkv, &bias, norms, &append.table, &append.heads, &mut kv);
            let case = (kv_dtype, position, rows, heads, input, norm);
            // A norm divides by 1e-3 at least, and a rotation adds two products.
            let kernel = if values == 1 { "qk_norm with values" } else { "qk_norm" };
            append.check(&mut lab, kernel, &case, (&q, &kv), floor(input, 2, 1e4));
        }
    }
    lab.report();
}

// ---- short convolution ----

/// A text in several passes. Each reads the inputs of earlier passes from the history: of its ring, or of a checkpoint after a rollback.
#[test]
fn short_conv_equals_its_twin_in_any_passes() {
    let mut lab = Lab::new(22);
    for (width, taps) in [(1, 2), (3, 3), (64, 3), (65, 4), (70, 7)] {
        let text = 200;
        let history = ConvHistory::new(width, taps, 40);
        let projected = lab.random.normals(text * 3 * width);
        let weights = lab.random.normals(width * taps);
        let want = reference::short_conv(&projected, &weights, width);
        let kept = lab.output(&vec![UNTOUCHED; history.len(text)]);
        let sizes = [width, taps, history.ring, stride(width)].map(|size| size as u32);
        let (dims, weights) = (lab.uniform(&sizes), lab.input(cast_slice(&weights)));
        let mut run = |position: usize, rows: usize| {
            let y = lab.output(&vec![UNTOUCHED; rows * stride(width)]);
            let rows_of_text = &projected[position * 3 * width..][..rows * 3 * width];
            let bindings = [
                (0, lab.step(position, rows)),
                (1, dims.clone()),
                (2, lab.input(cast_slice(rows_of_text))),
                (3, weights.clone()),
                (4, kept.slice()),
                (5, y.slice()),
            ];
            lab.run(Kernel::ShortConv, [(width as u32).div_ceil(64), rows as u32, 1], &bindings);
            let got = lab.rows(&y, stride(width), width);
            let want = &want[position * width..][..rows * width];
            lab.close("short_conv", POINTWISE, &(width, taps, position, rows), &got, want, 0.0);
            got
        };
        let whole: Vec<_> = [1, 2, 40, 17, 1, 30, 40, 40, 29].iter().fold(Vec::new(), |done: Vec<f32>, rows| {
            let position = done.len() / width;
            [done, run(position, *rows)].concat()
        });
        // From a checkpoint, then from the ring.
        for (position, rows) in [(128, 10), (135, 3), (64, 1), (65, 40), (0, 2), (2, 1)] {
            let again = run(position, rows);
            assert_eq!(bits(&again), bits(&whole[position * width..][..rows * width]), "{width} {taps} {position}");
        }
    }
    lab.report();
}

#[test]
fn gate_heads_equals_its_twin() {
    let mut lab = Lab::new(23);
    let sizes = [(1, 4, 1), (4, 16, 3), (3, 20, 17), (16, 128, 2), (2, 256, 1)];
    for (case, (heads, head_dim, rows)) in sizes.into_iter().enumerate() {
        let width = heads * head_dim;
        for (each, normed) in [(false, 0), (true, 0), (true, 1), (true, 2)] {
            let kind = INPUTS[case % 5];
            let mut x = lab.random.values(kind, rows * width);
            let count = if each { width } else { heads };
            let gates: Vec<_> = lab.random.normals(rows * count).iter().map(|gate| gate * 10.0).collect();
            let gain_stride = if normed == 2 { head_dim } else { 0 };
            let gain = lab.random.normals(if normed == 2 { width } else { head_dim });
            let y = lab.output(&bits(&padded(&x, width, stride(width))));
            // Gates are the last numbers of longer rows.
            let (first, eps) = (3, 1e-6_f32);
            let longer: Vec<f32> = gates.chunks_exact(count).flat_map(|row| [&[f32::NAN; 3], row].concat()).collect();
            let sizes = [head_dim, stride(width), first + count, first].map(|size| size as u32);
            let rest = [u32::from(each), normed, gain_stride as u32, eps.to_bits(), 1.0_f32.to_bits()];
            let dims = lab.uniform(&[&sizes[..], &rest].concat());
            let (gates_in, gain_in) = (lab.input(cast_slice(&longer)), lab.input(cast_slice(&gain)));
            let bindings = [(0, lab.step(5, rows)), (1, dims), (2, gates_in), (3, gain_in), (4, y.slice())];
            lab.run(Kernel::GateHeads, [heads as u32, rows as u32, 1], &bindings);
            let got = lab.rows(&y, stride(width), stride(width));
            let got: Vec<_> = got.chunks(stride(width)).flat_map(|row| row[..width].to_vec()).collect();
            match normed {
                1 => reference::gate_normed(&mut x, &gates, &gain, f64::from(eps)),
                2 => reference::gate_then_norm(&mut x, &gates, &gain, heads, f64::from(eps)),
                _ => reference::gate_heads(&mut x, &gates, if each { 1 } else { head_dim }),
            }
            let case = (heads, head_dim, rows, each, normed);
            let below = if normed > 0 { floor(kind, 1, 1e4) } else { floor(kind, 1, 1.0) };
            lab.close("gate_heads", POINTWISE, &case, &got, &x, below);
        }
    }
    lab.report();
}

/// A text in several passes. Each starts from a saved state, and repeats what followed it.
#[test]
fn delta_net_equals_its_twin_in_any_passes() {
    let mut lab = Lab::new(24);
    let sizes = [(1, 1, 4, 3, 2, false), (2, 4, 16, 24, 4, false), (2, 4, 16, 70, 4, true), (1, 2, 128, 128, 4, true)];
    for ((key_heads, value_heads, key_dim, value_dim, taps, tiled), replaces) in
        sizes.into_iter().flat_map(|size| [(size, true), (size, false)])
    {
        let spec = DeltaSpec { key_heads, value_heads, key_dim, value_dim, taps, replaces };
        let history = DeltaHistory { spec };
        let (text, width) = (120, spec.input_width() + spec.value_width());
        let (wide, parts) = (spec.value_width(), value_heads * history.blocks());
        let projected = lab.random.normals(text * width);
        let vectors = DeltaVectors {
            taps: lab.random.normals(spec.conv_width() * taps),
            decay: [lab.random.normals(value_heads).iter().map(|x| x.abs()).collect(), lab.random.normals(value_heads)],
            conv_bias: if replaces { vec![0.0; spec.conv_width()] } else { lab.random.normals(spec.conv_width()) },
            skip: if replaces { vec![0.0; value_heads] } else { lab.random.normals(value_heads) },
            gain: Vec::new(),
            tiled,
        };
        let want = reference::delta_net(&projected, &vectors, &spec);
        let kept = lab.output(&vec![UNTOUCHED; history.numbers()]);
        let sizes = [key_heads, value_heads, value_dim, taps, DeltaHistory::RING];
        let rest =
            [DeltaHistory::SLOTS * history.slot_len(), width, stride(wide), usize::from(replaces), usize::from(tiled)];
        let dims = lab.uniform(&[&sizes[..], &rest].concat().iter().map(|size| *size as u32).collect::<Vec<_>>());
        let DeltaVectors { taps: taps_in, conv_bias, decay: [rates, bias], skip, .. } = &vectors;
        let [taps_in, conv_bias, rates, bias, skip] =
            [taps_in, conv_bias, rates, bias, skip].map(|vector| lab.input(cast_slice(vector)));
        let mut run = |position: usize, rows: usize, states: StatePass| {
            let y = lab.output(&vec![UNTOUCHED; rows.max(1) * stride(wide)]);
            let rows_of_text = &projected[position * width..][..rows.max(1) * width];
            let bindings = [
                (0, lab.step_of([position, rows, 0, 0], states)),
                (1, dims.clone()),
                (2, lab.input(cast_slice(rows_of_text))),
                (3, taps_in.clone()),
                (4, rates.clone()),
                (5, bias.clone()),
                (6, kept.slice()),
                (7, y.slice()),
                (8, conv_bias.clone()),
                (9, skip.clone()),
            ];
            lab.run(Kernel::DeltaNet(key_dim as u32), [parts as u32, 1, 1], &bindings);
            let got = lab.rows(&y, stride(wide), wide);
            let got = got[..rows * wide].to_vec();
            lab.close("delta_net", DELTA, &(spec, position, rows), &got, &want[position * wide..][..rows * wide], 1e-3);
            got
        };
        let from = |slot, base, save_slot, save_at| StatePass { slot, base, save_slot, save_at };
        // A prompt in two chunks, then rounds, the second of which repeats three rows of the first.
        let mut whole = run(0, 30, from(2, 0, 3, Some(30)));
        whole.extend(run(30, 20, from(3, 30, 3, Some(50))));
        whole.extend(run(50, 9, from(3, 50, 1, Some(50))));
        let after = run(53, 40, from(1, 50, 2, Some(53)));
        assert_eq!(bits(&after[..6 * wide]), bits(&whole[53 * wide..]), "{spec:?}");
        whole.extend(&after[6 * wide..]);
        // A draft: later passes repeat what the first one has read.
        whole.extend(run(93, 2, from(2, 53, 0, Some(93))));
        whole.extend(run(95, 1, from(0, 93, 0, None)));
        whole.extend(run(96, 1, from(0, 93, 0, None)));
        // A copy of the state alone, and a rollback to the state before.
        run(60, 0, from(2, 53, 0, Some(60)));
        let again = run(60, 12, from(0, 60, 1, Some(60)));
        assert_eq!(bits(&again), bits(&whole[60 * wide..72 * wide]), "{spec:?}");
        let chunk = run(60, 24, from(0, 60, 0, Some(84)));
        assert_eq!(bits(&chunk), bits(&whole[60 * wide..84 * wide]), "{spec:?}");
        let next = run(84, 3, from(0, 84, 1, Some(84)));
        assert_eq!(bits(&next), bits(&whole[84 * wide..87 * wide]), "{spec:?}");
    }
    lab.report();
}

// ---- attention ----

/// An attention kernel: index of its number of query vectors per workgroup, whether each workgroup takes one block (attention_merge
/// joins them), and whether it is a CPU variant.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Attention {
    vectors: usize,
    apart: bool,
    serial: bool,
}

/// Returns the kernels of GPUs, or of CPUs, for heads of a size.
fn attentions(head_dim: usize, serial: bool) -> Vec<Attention> {
    let all = Kernel::attentions(KvDtype::F32, head_dim as u32, serial).len();
    let with = |apart| (0..all).map(move |vectors| Attention { vectors, apart, serial });
    with(true).chain(with(false)).collect()
}

/// Rows of q at a position of a cache.
struct Attend<'a> {
    heads: Heads,
    cache: Cache,
    kv: &'a Slice,
    q: &'a [f32],
    position: usize,
    /// One more score of each head; `None`: so low that it has no effect.
    sinks: Option<&'a [f32]>,
}

impl Attend<'_> {
    fn run(&self, lab: &Lab, kind: Attention) -> Vec<f32> {
        let Heads { heads, kv_heads, head_dim, window, .. } = self.heads;
        let width = heads * head_dim;
        let rows = self.q.len() / width;
        let blocks = self.cache.blocks;
        let step = lab.step(self.position, rows);
        let dims = lab.uniform(&head_words(&self.heads));
        let q = lab.input(cast_slice(&padded(self.q, width, stride(width))));
        let out = lab.output(&vec![UNTOUCHED; rows * stride(width)]);
        let partial = lab.output(&vec![UNTOUCHED; blocks * rows * heads * head_dim]);
        let norms = lab.output(&vec![UNTOUCHED; blocks * rows * heads * 2]);
        let shared = [(0, step.clone()), (1, dims.clone())];
        let none = vec![f32::MIN; heads];
        let sinks = lab.input(cast_slice(self.sinks.unwrap_or(&none)));
        let targets = [(4, partial.slice()), (5, norms.slice()), (6, out.slice()), (7, sinks.clone())];
        let bindings = [&shared[..], &[(2, q), (3, self.kv.clone())], &targets].concat();
        let first = (self.position + 1).saturating_sub(window) / BLOCK;
        let last = (self.position + rows - 1) / BLOCK;
        // If the position is unknown, there are more workgroups than blocks.
        let parts = if kind.apart { (last + 1 - first + self.position % 3).max(2) } else { 1 };
        let groups = ((rows * heads / kv_heads) as u32).div_ceil(Kernel::VECTORS[kind.vectors]);
        let kernel = Kernel::attentions(self.cache.dtype, head_dim as u32, kind.serial)[kind.vectors];
        lab.run(kernel, [kv_heads as u32, parts as u32, groups], &bindings);
        if kind.apart {
            let merge =
                [&shared[..], &[(2, partial.slice()), (3, norms.slice()), (4, out.slice()), (5, sinks)]].concat();
            let groups = (heads * head_dim / 4).div_ceil(64);
            lab.run(Kernel::AttentionMerge, [groups as u32, rows as u32, 1], &merge);
        }
        lab.read(&partial);
        lab.read(&norms);
        lab.rows(&out, stride(width), width)
    }
}

/// Returns a cache of `positions` positions, with room for up to a block more.
fn random_cache(lab: &mut Lab, heads: &Heads, dtype: KvDtype, positions: usize, input: Input) -> (Cache, Kv) {
    let Heads { kv_heads, head_dim, .. } = *heads;
    let blocks = positions.div_ceil(BLOCK) + lab.random.below(2);
    let cache = Cache { dtype, kv_heads, head_dim, blocks };
    let mut kv = Kv::new(dtype);
    let k = lab.random.normals(positions * kv_heads * head_dim);
    kv.append(&k, &lab.random.values(input, positions * kv_heads * head_dim));
    (cache, kv)
}

#[test]
fn attention_equals_its_twin() {
    let mut lab = Lab::new(9);
    let windows = [usize::MAX, 1, 17, 256, 300];
    let mut cases = Vec::new();
    for (i, heads) in layers().into_iter().enumerate() {
        for (j, length) in [1, 64, 255, 256, 257, 700].into_iter().enumerate() {
            let rows = [1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 33][(5 * i + j) % 11];
            cases.push((heads, length, rows, windows[(i + j) % 5]));
        }
    }
    cases.extend((0..RANDOM).map(|_| {
        let random = &mut lab.random;
        (random.pick(&layers()), random.upto(1400), random.upto(40), random.pick(&windows))
    }));
    for (case, (heads, length, rows, window)) in cases.into_iter().enumerate() {
        let heads = Heads { window, cap: [None, Some(3.0)][case % 2], sees_pass: case % 3 == 1, ..heads };
        let position = length - 1;
        for (index, dtype) in KV_DTYPES.into_iter().enumerate() {
            let q_input = INPUTS[(case + index) % 5];
            let v_input = INPUTS[(case / 5 + index) % 5];
            let (cache, kv) = random_cache(&mut lab, &heads, dtype, position + rows, v_input);
            let q = lab.random.values(q_input, rows * heads.heads * heads.head_dim);
            let drawn = lab.random.normals(heads.heads).iter().map(|sink| 3.0 * sink).collect::<Vec<_>>();
            let sinks = (case % 3 == 0).then_some(&drawn[..]);
            let want = reference::attention(&q, &kv, &heads, sinks.unwrap_or(&vec![f32::MIN; heads.heads]));
            // Positions that no row sees are NaN.
            let first = (position + 1).saturating_sub(window);
            let kv = lab.input(cast_slice(&cache.holding(&kv, first / BLOCK * BLOCK..position + rows)));
            let all = [false, true].map(|serial| attentions(heads.head_dim, serial));
            // One of each that leaves its blocks apart, and one of each that joins them.
            let some = all.iter().flat_map(|kinds| {
                let half = kinds.len() / 2;
                [kinds[case % half], kinds[half + case / half % half]]
            });
            for kind in some {
                let got = Attend { heads, cache, kv: &kv, q: &q, position, sinks }.run(&lab, kind);
                let name = match (kind.apart, dtype) {
                    (true, KvDtype::F32) => "attention, attention_merge (f32)",
                    (true, _) => "attention, attention_merge (f16)",
                    (false, KvDtype::F32) => "attention (f32)",
                    (false, _) => "attention (f16)",
                };
                let case = (kind, position, rows, heads, q_input, v_input);
                let floor = floor(v_input, 2, 1.0);
                lab.close(name, attention_bound(dtype), &case, &got, &want, floor);
            }
        }
    }
    lab.report();
}

#[test]
fn attention_rows_have_the_same_bits_in_any_company() {
    let mut lab = Lab::new(10);
    let most = 33;
    let layers = [heads(4, 2, 24, 0), heads(3, 1, 64, 0), heads(2, 2, 128, 0), heads(2, 1, 512, 0)];
    for (case, length) in [1, 64, 255, 256, 257, 511, 600, 1300].into_iter().enumerate() {
        for (turn, window) in [usize::MAX, 40, 300].into_iter().enumerate() {
            // The other length with these heads has the other kernels.
            let serial = (case / 4 + case + turn) % 2 == 1;
            let dtype = KV_DTYPES[(case / 2 + turn / 2) % 2];
            let heads = Heads { window, ..layers[case % 4] };
            let kinds = attentions(heads.head_dim, serial);
            let position = length - 1;
            let width = heads.heads * heads.head_dim;
            let (cache, kv) = random_cache(&mut lab, &heads, dtype, position + most, Input::Normal);
            let q = lab.random.normals(most * width);
            // A row alone, in a cache that holds only the positions that it sees.
            let alone: Vec<_> = (0..most)
                .map(|row| {
                    let seen = cache.holding(&kv, 0..position + row + 1);
                    let kv = &lab.input(cast_slice(&seen));
                    let q = &q[row * width..][..width];
                    bits(&Attend { heads, cache, kv, q, position: position + row, sinks: None }.run(&lab, kinds[0]))
                })
                .collect();
            let kv = lab.input(cast_slice(&cache.holding(&kv, 0..position + most)));
            for rows in [1, 2, 3, 4, 5, 8, 9, 16, most] {
                let first = lab.random.below(most - rows + 1);
                let q = &q[first * width..][..rows * width];
                for &kind in &kinds {
                    let got = bits(
                        &Attend { heads, cache, kv: &kv, q, position: position + first, sinks: None }.run(&lab, kind),
                    );
                    for (got, row) in got.chunks_exact(width).zip(first..) {
                        assert_eq!(got, alone[row], "{kind:?} {dtype:?}: row {row} of {rows}, {length}, {window}");
                    }
                }
            }
        }
    }
}

/// A key too large for f16 is infinite. Rows that see it are not finite, for any sign of their scores; other rows keep their bits.
#[test]
fn a_score_that_is_not_finite_is_never_dropped() {
    let mut lab = Lab::new(11);
    let heads = Heads { window: 300, ..heads(4, 2, 64, 0) };
    let (width, rows, position) = (heads.heads * heads.head_dim, 8, 400);
    let q = lab.random.normals(rows * width);
    for (dtype, serial) in KV_DTYPES.into_iter().flat_map(|dtype| [(dtype, false), (dtype, true)]) {
        let (cache, mut kv) = random_cache(&mut lab, &heads, dtype, position + rows, Input::Normal);
        let whole = lab.input(cast_slice(&cache.holding(&kv, 0..position + rows)));
        // The last key is seen by rows 0 to 3 only, because of the window; the first by rows from 5 on.
        for (key, sees) in [(position + 5, 5..rows), (position - 296, 0..4)] {
            for broken in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
                let at = key * heads.kv_heads * heads.head_dim;
                let before = kv.k[at];
                // Only in the first KV head, so for half of the query heads.
                kv.k[at] = broken;
                let with = lab.input(cast_slice(&cache.holding(&kv, 0..position + rows)));
                kv.k[at] = before;
                for kind in attentions(heads.head_dim, serial) {
                    let [want, got] = [&whole, &with]
                        .map(|kv| Attend { heads, cache, kv, q: &q, position, sinks: None }.run(&lab, kind));
                    for (head, (want, got)) in want.chunks(heads.head_dim).zip(got.chunks(heads.head_dim)).enumerate() {
                        let case = (kind, dtype, key, broken, head / heads.heads, head % heads.heads);
                        if sees.contains(&(head / heads.heads)) && head % heads.heads < heads.heads / heads.kv_heads {
                            assert!(got.iter().all(|value| !value.is_finite()), "{case:?}: {got:?}");
                        } else {
                            assert!(bits(got) == bits(want), "{case:?}: other bits");
                        }
                    }
                }
            }
        }
    }
}

// ---- the whole model ----

/// Bounds on max |logit - reference| / max(1, max |reference|): between the oracle and transformers, and between the GPU and the oracle
/// with a KV cache in f32 and in f16, where a K or V between two f16s may be rounded either way.
const LOGITS: f32 = 2e-4;
const KV_LOGITS: [f32; 2] = [1e-4, 1e-3];

#[test]
fn the_oracle_agrees_with_transformers_and_the_gpu_with_the_oracle() {
    let gpu = common::gpu();
    for folder in common::goldens() {
        let golden = common::Golden::read(&folder);
        let (blueprint, weights) = common::blueprint(&folder, common::capacity());
        let model = common::run(reference::Model::load(blueprint.spec, &weights)).unwrap();
        let theirs = difference(&model.logits(&golden.prompt_ids, KvDtype::F32), &golden.prompt_logits);
        let ours = KV_DTYPES.map(|kv_dtype| {
            let capacity = foretoken::internals::model::Capacity { kv_dtype, ..common::capacity() };
            let mut engine = common::engine(&gpu, &folder, None, capacity);
            let logits = common::run(engine.logits(&golden.prompt_ids, 64)).unwrap();
            difference(&logits, &model.logits(&golden.prompt_ids, kv_dtype))
        });
        let name = folder.file_name().unwrap().to_string_lossy();
        println!(
            "{name}: oracle {theirs:.1e} from transformers, GPU {:.1e} (f32), {:.1e} (f16) from it",
            ours[0], ours[1]
        );
        // The random weights of Gemma 4 with experts amplify rounding: if K and V change by 1e-7 of themselves before they are rounded, the
        // oracle's own logits change by 1.2e-3.
        let more = if name == "gemma4-moe" { 2.0 } else { 1.0 };
        assert!(theirs <= LOGITS && ours[0] <= KV_LOGITS[0] && ours[1] <= more * KV_LOGITS[1], "{name}");
    }
}
