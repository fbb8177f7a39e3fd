//! Sums of products of 8-bit codes, by the processor's integer instructions. They are exact, so all processors give the same sums.
//! Scaling rounds in one order, regardless of the number of rows. Inlined code has no closures, as in `instructions`.

use super::codes::{CodeLayout, mask, unpacked};
use super::instructions::{Activations, BLOCK, FourScales, Integers, WithIntegers, with_integers};
use super::rows::Rows;
use super::simd::{arch, largest, round, unroll};
use bytemuck::Zeroable;
use pulp::{Simd, WithSimd};

/// Activations in 8 bits [rows, blocks], with a scale per block. Blocks of the rows that are multiplied together are interleaved.
pub struct Coded {
    rows: usize,
    /// Blocks per row.
    blocks: usize,
    all: Vec<Activations>,
}

/// Returns how many of `left` remaining rows are interleaved.
#[inline(always)]
fn turns(left: usize) -> usize {
    match left {
        4.. => 4,
        2.. => 2,
        _ => 1,
    }
}

impl Coded {
    /// Rounds the activations: the largest magnitude of a block becomes 127.
    pub fn new(x: &Rows) -> Self {
        arch().dispatch(Rounding(x))
    }

    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns N interleaved rows from `first` on.
    #[inline(always)]
    fn turns<const N: usize>(&self, first: usize) -> &[[Activations; N]] {
        self.all[first * self.blocks..][..N * self.blocks].as_chunks().0
    }
}

struct Rounding<'a>(&'a Rows);

impl WithSimd for Rounding<'_> {
    type Output = Coded;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Coded {
        /// Magnitude below which a block rounds to zeros.
        const LEAST: f32 = 1e-30;
        let Self(x) = self;
        let (rows, blocks) = (x.len(), x.padded_width() / BLOCK);
        let mut all = vec![Activations::zeroed(); rows * blocks];
        let mut first = 0;
        while first < rows {
            let width = turns(rows - first);
            for row in 0..width {
                for (block, x) in x.padded(first + row).as_chunks::<BLOCK>().0.iter().enumerate() {
                    let most = largest(x);
                    let factor = if most >= LEAST { 127.0 / most } else { 0.0 };
                    all[first * blocks + block * width + row] = Activations::new(round(x, factor), most / 127.0);
                }
            }
            first += width;
        }
        Coded { rows, blocks, all }
    }
}

/// Rows of weights, four at a time.
pub trait IntegerRows {
    /// Returns four rows. Inlined into code for this processor.
    fn four<'a, I: Integers>(
        &'a self,
        simd: I,
        four: usize,
        expanded: &'a mut [Vec<[f32; 4]>; 2],
    ) -> IntegerWeights<'a>;
}

/// Four rows of weights, in blocks: each weight is `scale * (code - center) + offset`.
#[derive(Clone, Copy)]
pub struct IntegerWeights<'a> {
    pub codes: &'a [u64],
    pub layout: CodeLayout,
    /// Code of a weight that equals its offset.
    pub center: f32,
    /// Scales of the four rows, one or two per block.
    pub scales: &'a [[f32; 4]],
    /// Offsets, as many as scales.
    pub offsets: Option<&'a [[f32; 4]]>,
}

/// Multiplies rows of weights, four at a time, with each row of activations: [outs / 4, rows, 4].
pub fn products(weights: &impl IntegerRows, x: &Coded, products: &mut [[f32; 4]]) {
    with_integers(IntegerProducts { weights, x, products });
}

struct IntegerProducts<'a, W> {
    weights: &'a W,
    x: &'a Coded,
    products: &'a mut [[f32; 4]],
}

impl<W: IntegerRows> WithIntegers for IntegerProducts<'_, W> {
    #[inline(always)]
    fn with_integers<I: Integers>(self, simd: I) {
        let Self { weights, x, products } = self;
        let mut expanded = Default::default();
        for (four, products) in products.chunks_exact_mut(x.len()).enumerate() {
            let weights = weights.four(simd, four, &mut expanded);
            let is_one = weights.scales.len() == x.blocks;
            match weights.layout {
                CodeLayout::Four if is_one => weights.multiply::<I, 8, 1>(simd, x, products),
                CodeLayout::Four => weights.multiply::<I, 8, 2>(simd, x, products),
                CodeLayout::Five => weights.multiply::<I, 10, 1>(simd, x, products),
                CodeLayout::Six => weights.multiply::<I, 12, 2>(simd, x, products),
                CodeLayout::Eight => weights.multiply::<I, 16, 1>(simd, x, products),
            }
        }
    }
}

impl IntegerWeights<'_> {
    /// Computes products [rows, 4] of the four outputs. Weights have `WORDS / 2` bits, and G scales per block.
    #[inline(always)]
    fn multiply<I: Integers, const WORDS: usize, const G: usize>(self, simd: I, x: &Coded, products: &mut [[f32; 4]]) {
        let mut first = 0;
        while first < x.len() {
            let (width, products) = (turns(x.len() - first), &mut products[first..]);
            match width {
                4 => self.with_rows::<I, WORDS, G, 4>(simd, x.turns(first), products),
                2 => self.with_rows::<I, WORDS, G, 2>(simd, x.turns(first), products),
                _ => self.with_rows::<I, WORDS, G, 1>(simd, x.turns(first), products),
            }
            first += width;
        }
    }

    /// Multiplies N rows.
    #[inline(always)]
    fn with_rows<I: Integers, const WORDS: usize, const G: usize, const N: usize>(
        self,
        simd: I,
        x: &[[Activations; N]],
        products: &mut [[f32; 4]],
    ) {
        // Equal lengths, so that blocks need no bounds checks.
        let blocks = &self.codes.as_chunks::<WORDS>().0[..x.len()];
        let scales = &self.scales.as_chunks::<G>().0[..x.len()];
        let offsets = self.offsets.map(|offsets| &offsets.as_chunks::<G>().0[..x.len()]);
        let (less, mask) = (simd.summands(&[-self.center; 4]), mask(simd, WORDS));
        // `[x; N]` would be filled in a loop, and not be kept in registers.
        let mut totals: [I::Four; N] = Zeroable::zeroed();
        for at in 0..x.len() {
            let mut weights: FourScales<I::Four, G> = Zeroable::zeroed();
            unroll!(part in G => {
                weights.scales[part] = simd.factors(&scales[at][part]);
                if let Some(offsets) = offsets {
                    weights.offsets[part] = simd.summands(&offsets[at][part]);
                }
                weights.offsets[part] = simd.mul_add(weights.scales[part], less, weights.offsets[part]);
            });
            simd.prefetch(&blocks[at]);
            totals = simd.add::<N, G, WORDS>(totals, unpacked(simd, &blocks[at], mask), weights, &x[at]);
        }
        unroll!(row in N => { products[row] = simd.total(totals[row]); });
    }
}

#[cfg(test)]
mod tests;
