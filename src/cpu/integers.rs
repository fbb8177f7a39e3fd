//! Sums of products of 8-bit codes, by the integer instructions that the processor has. They are exact, so all processors give the
//! same sums; what they are multiplied with is rounded in one order, however many rows there are. What is inlined has no closures:
//! they are functions of their own, compiled for any processor.

#[cfg(target_feature = "relaxed-simd")]
use super::instructions::Relaxed;
use super::instructions::{Activations, BLOCK, Integers, Plain};
use super::rows::Rows;
use super::simd::{arch, largest, round, unroll};
use bytemuck::Zeroable;
use pulp::{Arch, Simd, WithSimd};

/// So many rows are cheaper as four, with rows of zeros, than one by one.
const FEWEST: usize = if cfg!(target_arch = "wasm32") { 3 } else { 2 };

/// Activations in 8 bits [rows, width]: each is about `scale * code`, with a scale for each block. Blocks of four rows take turns, as
/// long as there are four, rows of zeros included.
pub struct Coded {
    rows: usize,
    /// With the rows of zeros.
    padded: usize,
    /// Blocks of a row.
    blocks: usize,
    codes: Vec<Activations>,
    /// One for each block.
    scales: Vec<f32>,
    /// Sums of the blocks.
    sums: Vec<f32>,
    /// Of the first 16 of each, and of the last.
    halves: Vec<f32>,
}

impl Coded {
    /// Rounds the activations: the largest one of a block becomes 127 or -127.
    pub fn new(x: &Rows) -> Self {
        arch().dispatch(Round(x))
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// N rows from one on, which take turns, as far as weights go that have G scales for each block.
    #[inline(always)]
    fn panel<const N: usize, const G: usize>(&self, first: usize, blocks: usize) -> Panel<'_, N, G> {
        let range = first * self.blocks..first * self.blocks + N * blocks;
        let sums = if G == 1 { &self.sums } else { &self.halves };
        Panel {
            codes: &self.codes[range.clone()].as_chunks().0[..blocks],
            scales: &self.scales[range.clone()].as_chunks().0[..blocks],
            sums: &sums[G * range.start..G * range.end].as_chunks().0.as_chunks().0[..blocks],
        }
    }
}

struct Round<'a>(&'a Rows);

impl WithSimd for Round<'_> {
    type Output = Coded;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Coded {
        /// What is smaller is nothing.
        const LEAST: f32 = 1e-30;
        let Self(x) = self;
        let (rows, blocks) = (x.len(), x.padded_width() / BLOCK);
        let padded = if rows % 4 >= FEWEST { rows.next_multiple_of(4) } else { rows };
        let count = padded * blocks;
        let mut coded = Coded {
            rows,
            padded,
            blocks,
            codes: vec![Activations::zeroed(); count],
            scales: vec![0.0; count],
            sums: vec![0.0; count],
            halves: vec![0.0; 2 * count],
        };
        for row in 0..rows {
            let width = if row / 4 < padded / 4 { 4 } else { 1 };
            let first = (row - row % width) * blocks;
            for (block, x) in x.padded(row).as_chunks::<BLOCK>().0.iter().enumerate() {
                let most = largest(x);
                let (scale, factor) = (most / 127.0, if most >= LEAST { 127.0 / most } else { 0.0 });
                let at = first + block * width + row % width;
                let codes = round(x, factor);
                let mut halves = [0i16; 2];
                unroll!(i in 8 => { halves[0] += codes[2 * i] + codes[2 * i + 1]; });
                unroll!(i in 8 => { halves[1] += codes[16 + 2 * i] + codes[17 + 2 * i]; });
                coded.codes[at] = Activations::new(codes);
                coded.scales[at] = scale;
                coded.sums[at] = scale * f32::from(halves[0] + halves[1]);
                for (half, sum) in halves.into_iter().enumerate() {
                    let at = 2 * first + (2 * block + half) * width + row % width;
                    coded.halves[at] = scale * f32::from(sum);
                }
            }
        }
        coded
    }
}

/// N rows of activations: codes, scales, and G sums of each block.
#[derive(Clone, Copy)]
struct Panel<'a, const N: usize, const G: usize> {
    codes: &'a [[Activations; N]],
    scales: &'a [[f32; N]],
    sums: &'a [[[f32; N]; G]],
}

/// Four rows of weights, in blocks: each weight is `scale * (code - center) + offset`.
#[derive(Clone, Copy)]
pub struct Weights<'a> {
    pub codes: Codes<'a>,
    /// The code that stands for no more than the offset; codes of 4 bits have no offset besides.
    pub center: u8,
    /// The rows' scales for each block or, twice as many, for each half of one.
    pub scales: &'a [[f32; 4]],
    /// As many.
    pub offsets: Option<&'a [[f32; 4]]>,
}

/// Codes of four rows, in blocks.
#[derive(Clone, Copy)]
pub enum Codes<'a> {
    /// The lower bits are of code i, the upper ones of code i + 16.
    Nibbles([&'a [[u8; BLOCK / 2]]; 4]),
    Bytes([&'a [[u8; BLOCK]]; 4]),
}

/// The products of rows of weights, four at a time, with each row of activations [outs / 4, rows, 4].
pub fn products<'a>(weights: impl Fn(usize) -> Weights<'a>, x: &Coded, products: &mut [[f32; 4]]) {
    match arch() {
        #[cfg(target_arch = "x86_64")]
        Arch::V3(simd) => simd.vectorize(Products { simd, weights, x, products }),
        #[cfg(target_arch = "x86_64")]
        Arch::V4(simd) => simd.vectorize(Products { simd: *simd, weights, x, products }),
        #[cfg(target_feature = "relaxed-simd")]
        Arch::Simd128(simd) => Products { simd: Relaxed::new(simd), weights, x, products }.compute(),
        #[cfg(all(target_arch = "wasm32", not(target_feature = "relaxed-simd")))]
        Arch::Simd128(simd) => Products { simd, weights, x, products }.compute(),
        _ => Products { simd: Plain, weights, x, products }.compute(),
    }
}

struct Products<'a, I, W> {
    simd: I,
    weights: W,
    x: &'a Coded,
    products: &'a mut [[f32; 4]],
}

impl<'w, I: Integers, W: Fn(usize) -> Weights<'w>> pulp::NullaryFnOnce for Products<'_, I, W> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.compute();
    }
}

impl<'w, I: Integers, W: Fn(usize) -> Weights<'w>> Products<'_, I, W> {
    #[inline(always)]
    fn compute(self) {
        let Self { simd, weights, x, products } = self;
        for (four, products) in products.chunks_exact_mut(x.len()).enumerate() {
            let weights = weights(four);
            match weights.codes {
                Codes::Nibbles(codes) => weights.multiply(simd, codes, x, products),
                Codes::Bytes(codes) => weights.multiply(simd, codes, x, products),
            }
        }
    }
}

impl Weights<'_> {
    #[inline(always)]
    fn multiply<I: Integers, B: Block>(self, simd: I, codes: [&[B]; 4], x: &Coded, products: &mut [[f32; 4]]) {
        if self.scales.len() == codes[0].len() {
            self.grouped::<B, 1>(codes).multiply(simd, x, products);
        } else {
            self.grouped::<B, 2>(codes).multiply(simd, x, products);
        }
    }

    #[inline(always)]
    fn grouped<'a, B, const G: usize>(&'a self, [a, b, c, d]: [&'a [B]; 4]) -> Four<'a, B, G> {
        // All as long, so that not each block asks.
        let len = a.len();
        Four {
            codes: [a, &b[..len], &c[..len], &d[..len]],
            center: self.center,
            scales: &self.scales.as_chunks().0[..len],
            offsets: self.offsets.map(|offsets| &offsets.as_chunks().0[..len]),
        }
    }
}

/// Codes of a block.
trait Block {
    type Weights<I: Integers>: Copy;
    /// Whether the center is taken from the codes.
    fn is_signed<I: Integers>() -> bool;
    fn widen<I: Integers>(&self, simd: I, center: u8) -> Self::Weights<I>;
    fn multiply<I: Integers, const G: usize>(simd: I, weights: Self::Weights<I>, x: &Activations) -> I::Products;
}

impl Block for [u8; BLOCK / 2] {
    type Weights<I: Integers> = I::Nibbles;

    #[inline(always)]
    fn is_signed<I: Integers>() -> bool {
        I::SIGNED_NIBBLES
    }

    #[inline(always)]
    fn widen<I: Integers>(&self, simd: I, center: u8) -> I::Nibbles {
        simd.nibbles(self, center)
    }

    #[inline(always)]
    fn multiply<I: Integers, const G: usize>(simd: I, weights: I::Nibbles, x: &Activations) -> I::Products {
        simd.multiply_nibbles::<G>(weights, x)
    }
}

impl Block for [u8; BLOCK] {
    type Weights<I: Integers> = I::Bytes;

    #[inline(always)]
    fn is_signed<I: Integers>() -> bool {
        true
    }

    #[inline(always)]
    fn widen<I: Integers>(&self, simd: I, center: u8) -> I::Bytes {
        simd.bytes(self, center)
    }

    #[inline(always)]
    fn multiply<I: Integers, const G: usize>(simd: I, weights: I::Bytes, x: &Activations) -> I::Products {
        simd.multiply_bytes::<G>(weights, x)
    }
}

/// An output of all rows that there are.
#[inline(always)]
fn put(found: &[f32], out: usize, products: &mut [[f32; 4]]) {
    products.iter_mut().zip(found).for_each(|(products, found)| products[out] = *found);
}

/// Four rows of weights of one kind, with G scales for each block.
struct Four<'a, B, const G: usize> {
    codes: [&'a [B]; 4],
    center: u8,
    scales: &'a [[[f32; 4]; G]],
    offsets: Option<&'a [[[f32; 4]; G]]>,
}

impl<B: Block, const G: usize> Four<'_, B, G> {
    /// Products [rows, 4] of the four outputs.
    #[inline(always)]
    fn multiply<I: Integers>(self, simd: I, x: &Coded, products: &mut [[f32; 4]]) {
        let (blocks, mut row) = (self.scales.len(), 0);
        // Each block of weights that is taken apart serves up to eight rows.
        while row + 8 <= x.padded {
            let panels = [x.panel(row, blocks), x.panel(row + 4, blocks)];
            for out in 0..4 {
                put(self.with_panels(simd, out, panels).as_flattened(), out, &mut products[row..]);
            }
            row += 8;
        }
        if row + 4 <= x.padded {
            let panels = [x.panel(row, blocks)];
            for out in 0..4 {
                put(self.with_panels(simd, out, panels).as_flattened(), out, &mut products[row..]);
            }
            row += 4;
        }
        while row < x.len() {
            products[row] = self.with_row(simd, x, row);
            row += 1;
        }
    }

    /// What a scale gives an offset with, where none is stored and products are of codes without their center.
    #[inline(always)]
    fn less<I: Integers>(&self) -> f32 {
        if B::is_signed::<I>() { 0.0 } else { -f32::from(self.center) }
    }

    /// The products of one of them with N times four rows.
    #[inline(always)]
    fn with_panels<I: Integers, const N: usize>(
        &self,
        simd: I,
        out: usize,
        panels: [Panel<'_, 4, G>; N],
    ) -> [[f32; 4]; N]
    where
        [I::Totals; N]: Zeroable,
        [I::Four; N]: Zeroable,
        [[f32; 4]; N]: Zeroable,
    {
        let (mut totals, mut more): ([I::Totals; N], [I::Four; N]) = (Zeroable::zeroed(), Zeroable::zeroed());
        let less = self.less::<I>();
        for (at, codes) in self.codes[out].iter().enumerate() {
            let block = codes.widen(simd, self.center);
            unroll!(i in N => {
                let [a, b, c, d] = &panels[i].codes[at];
                let products =
                    [
                        B::multiply::<I, G>(simd, block, a),
                        B::multiply::<I, G>(simd, block, b),
                        B::multiply::<I, G>(simd, block, c),
                        B::multiply::<I, G>(simd, block, d),
                    ];
                let (scales, factors) = (&self.scales[at], simd.four(&panels[i].scales[at]));
                let first = simd.splat(scales[0][out]);
                totals[i] = if G == 1 {
                    simd.add(totals[i], products, first, factors)
                } else {
                    simd.add_halves(totals[i], products, [first, simd.splat(scales[G - 1][out])], factors)
                };
                if let Some(offsets) = self.offsets {
                    unroll!(group in G => {
                        let sums = simd.four(&panels[i].sums[at][group]);
                        more[i] = simd.mul_add(simd.splat(offsets[at][group][out]), sums, more[i]);
                    });
                } else if less != 0.0 {
                    unroll!(group in G => {
                        let sums = simd.four(&panels[i].sums[at][group]);
                        more[i] = simd.mul_add(simd.splat(scales[group][out] * less), sums, more[i]);
                    });
                }
            });
        }
        let mut products: [[f32; 4]; N] = Zeroable::zeroed();
        unroll!(i in N => { products[i] = simd.total(totals[i], more[i]); });
        products
    }

    /// The products of all four with a row.
    #[inline(always)]
    fn with_row<I: Integers>(&self, simd: I, x: &Coded, row: usize) -> [f32; 4] {
        let ([a, b, c, d], center) = (self.codes, self.center);
        let x = x.panel::<1, G>(row, a.len());
        let (mut totals, mut more): (I::Totals, I::Four) = (Zeroable::zeroed(), Zeroable::zeroed());
        let less = self.less::<I>();
        for at in 0..a.len() {
            let [row] = &x.codes[at];
            let products = [
                B::multiply::<I, G>(simd, a[at].widen(simd, center), row),
                B::multiply::<I, G>(simd, b[at].widen(simd, center), row),
                B::multiply::<I, G>(simd, c[at].widen(simd, center), row),
                B::multiply::<I, G>(simd, d[at].widen(simd, center), row),
            ];
            let (scales, factors) = (&self.scales[at], simd.splat(x.scales[at][0]));
            let first = simd.four(&scales[0]);
            totals = if G == 1 {
                simd.add(totals, products, first, factors)
            } else {
                simd.add_halves(totals, products, [first, simd.four(&scales[G - 1])], factors)
            };
            if let Some(offsets) = self.offsets {
                unroll!(group in G => {
                    let sums = simd.splat(x.sums[at][group][0]);
                    more = simd.mul_add(simd.four(&offsets[at][group]), sums, more);
                });
            } else if less != 0.0 {
                unroll!(group in G => {
                    let sums = simd.splat(x.sums[at][group][0]);
                    let offsets = simd.mul_add(simd.four(&scales[group]), simd.splat(less), simd.splat(0.0));
                    more = simd.mul_add(offsets, sums, more);
                });
            }
        }
        simd.total(totals, more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers in a disorder that is always the same.
    fn codes(count: usize, seed: usize) -> Vec<u8> {
        (0..count).map(|i| (((i + seed) * (i + 7 * seed + 3)) >> 3) as u8).collect()
    }

    /// Every set of instructions that this processor has gives the same products, and a row alone the bits that it has in company.
    #[test]
    fn all_instructions_agree() {
        let (blocks, rows, fours) = (5, 15, 2);
        let bytes = codes(4 * blocks * BLOCK, 1);
        let values: Vec<f32> = codes(rows * blocks * BLOCK, 2).iter().map(|code| f32::from(*code) - 127.0).collect();
        let of_fours = |seed| -> Vec<[f32; 4]> {
            let numbers: Vec<f32> = codes(8 * blocks, seed).iter().map(|code| f32::from(*code) / 256.0).collect();
            numbers.as_chunks::<4>().0.to_vec()
        };
        let (scales, offsets) = (of_fours(3), of_fours(4));
        let nibbles = Codes::Nibbles([0, 1, 2, 3].map(|row| bytes[row * blocks * 16..][..blocks * 16].as_chunks().0));
        let whole = Codes::Bytes([0, 1, 2, 3].map(|row| bytes[row * blocks * 32..][..blocks * 32].as_chunks().0));
        for (codes, center, groups, has_offsets) in [
            (nibbles, 0, 1, true),
            (nibbles, 8, 2, false),
            (whole, 128, 1, false),
            (whole, 32, 2, true),
            (whole, 0, 1, true),
        ] {
            let scales = &scales[..groups * blocks];
            let offsets = has_offsets.then_some(&offsets[..groups * blocks]);
            let weights = |_| Weights { codes, center, scales, offsets };
            let product = |run: &dyn Fn(&Coded, &mut [[f32; 4]])| {
                let x = Rows::from_flat(&values, blocks * BLOCK);
                let mut all = vec![[0f32; 4]; fours * rows];
                run(&Coded::new(&x), &mut all);
                for row in 0..rows {
                    let mut alone = vec![[0f32; 4]; fours];
                    run(&Coded::new(&x.part(row..row + 1)), &mut alone);
                    let in_company = all.iter().skip(row).step_by(rows);
                    assert!(
                        alone.iter().zip(in_company).all(|(a, b)| a.map(f32::to_bits) == b.map(f32::to_bits)),
                        "row {row}"
                    );
                }
                all.as_flattened().to_vec()
            };
            let plain = product(&|x, products| Products { simd: Plain, weights, x, products }.compute());
            let largest = plain.iter().fold(0f32, |most, x| most.max(x.abs()));
            let mut others = vec![product(&|x, products| super::products(weights, x, products))];
            #[cfg(target_arch = "x86_64")]
            if let Some(simd) = pulp::x86::V3::try_new() {
                others.push(product(&|x, products| simd.vectorize(Products { simd, weights, x, products })));
            }
            for other in others {
                let worst = plain.iter().zip(&other).fold(0f32, |worst, (a, b)| worst.max((a - b).abs()));
                assert!(worst <= 1e-6 * largest, "{worst} of {largest}");
            }
        }
    }
}
