//! Inner loops that the compiler vectorises, inlined into functions that [`Arch::dispatch`] compiles for this processor. Closures of
//! `map` and `from_fn` would be separate functions, compiled for any processor; calling them takes half of the time.

use bytemuck::Zeroable;
use half::{bf16, f16};
use pulp::{Arch, Simd};

/// Multiple to which rows are padded.
pub const LANES: usize = 32;

/// Returns the processor's instruction set. A WebAssembly module with vector instructions runs nowhere else: there it is a constant,
/// and code for others is removed.
#[inline(always)]
pub fn arch() -> Arch {
    #[cfg(target_arch = "wasm32")]
    if let Some(simd128) = pulp::core_arch::wasm::Simd128::try_new() {
        return Arch::Simd128(pulp::wasm::Simd128 { simd128 });
    }
    Arch::new()
}

/// Returns the name of the instruction set.
pub fn level() -> String {
    if cfg!(target_feature = "relaxed-simd") {
        return "RelaxedSimd".into();
    }
    // The name is followed by the instructions in parentheses.
    format!("{:?}", arch()).split('(').take(1).collect()
}

/// Returns `a * b + c`, rounded once; twice in WebAssembly, which has no such instruction.
#[inline(always)]
pub fn mul_add(a: f32, b: f32, c: f32) -> f32 {
    if cfg!(target_arch = "wasm32") { a * b + c } else { a.mul_add(b, c) }
}

/// Returns `a * b + c` for vectors. Only relaxed SIMD of WebAssembly has an instruction for it.
#[inline(always)]
pub fn mul_add_vectors<S: Simd>(simd: S, a: S::f32s, b: S::f32s, c: S::f32s) -> S::f32s {
    #[cfg(target_feature = "relaxed-simd")]
    if let Arch::Simd128(_) = arch() {
        use bytemuck::cast;
        return cast(std::arch::wasm32::f32x4_relaxed_madd(cast(a), cast(b), cast(c)));
    }
    simd.mul_add_e_f32s(a, b, c)
}

/// Unrolled loop over `0..N`, N at most 8. Size-optimised code unrolls no loops, and an array indexed by a variable is not in registers.
macro_rules! unroll {
    ($i:ident in $n:expr => $body:block) => {
        unroll!(@ $i $n, $body, 0 1 2 3 4 5 6 7)
    };
    (@ $i:ident $n:expr, $body:block, $($at:literal)*) => {
        $(if $at < $n {
            let $i = $at;
            $body
        })*
    };
}
pub(super) use unroll;

/// Row of numbers, as stored.
pub trait StoredRow<S: Simd>: Copy {
    /// Keeps the first `vectors` vectors.
    fn cut(self, vectors: usize) -> Self;
    fn vector(self, simd: S, at: usize) -> S::f32s;
}

/// Row of f32.
#[derive(Clone, Copy)]
pub struct Singles<'a, S: Simd>(&'a [S::f32s]);

impl<'a, S: Simd> Singles<'a, S> {
    #[inline(always)]
    pub fn new(row: &'a [f32]) -> Self {
        Self(S::as_simd_f32s(row).0)
    }
}

impl<S: Simd> StoredRow<S> for Singles<'_, S> {
    #[inline(always)]
    fn cut(self, vectors: usize) -> Self {
        Self(&self.0[..vectors])
    }

    #[inline(always)]
    fn vector(self, _: S, at: usize) -> S::f32s {
        self.0[at]
    }
}

/// Row of f16. Unless `ALL`, every number must be finite.
#[derive(Clone, Copy)]
#[cfg(target_arch = "wasm32")]
pub struct Halves<'a, const ALL: bool>(&'a [[f16; 4]]);

#[cfg(target_arch = "wasm32")]
impl<'a, const ALL: bool> Halves<'a, ALL> {
    #[inline(always)]
    pub fn new(row: &'a [f16]) -> Self {
        Self(row.as_chunks().0)
    }
}

#[cfg(target_arch = "wasm32")]
impl<S: Simd, const ALL: bool> StoredRow<S> for Halves<'_, ALL> {
    #[inline(always)]
    fn cut(self, vectors: usize) -> Self {
        Self(&self.0[..vectors])
    }

    #[inline(always)]
    fn vector(self, _: S, at: usize) -> S::f32s {
        use std::arch::wasm32::{i32x4_extend_low_i16x8, i64x2};
        let four: i64 = bytemuck::cast(self.0[at]);
        bytemuck::cast(widen_four(i32x4_extend_low_i16x8(i64x2(four, 0)), ALL))
    }
}

/// Returns the dot products of A rows with B others [vectors, B] of the same length. On a device, every sum has one order, regardless of
/// the number of rows: a vector of sums, added up at the end.
#[inline(always)]
pub fn dots<S: Simd, R: StoredRow<S>, const A: usize, const B: usize>(
    simd: S,
    mut a: [R; A],
    b: &[[S::f32s; B]],
) -> [[f32; B]; A]
where
    [[S::f32s; B]; A]: Zeroable,
    [[f32; B]; A]: Zeroable,
{
    let mut sums: [[S::f32s; B]; A] = Zeroable::zeroed();
    unroll!(i in A => { a[i] = a[i].cut(b.len()); });
    for (at, b) in b.iter().enumerate() {
        unroll!(i in A => {
            let a = a[i].vector(simd, at);
            unroll!(j in B => { sums[i][j] = mul_add_vectors(simd, a, b[j], sums[i][j]); });
        });
    }
    let mut products: [[f32; B]; A] = Zeroable::zeroed();
    unroll!(i in A => { unroll!(j in B => { products[i][j] = simd.reduce_sum_f32s(sums[i][j]); }); });
    products
}

/// Returns the dot product of two rows of the same length, a multiple of [`LANES`].
#[inline(always)]
pub fn dot<S: Simd>(simd: S, a: &[f32], b: &[f32]) -> f32 {
    let [[sum]] = dots(simd, [Singles::new(a)], S::as_simd_f32s(b).0.as_chunks::<1>().0);
    sum
}

/// Computes `y += a x`; x may be longer than y.
#[inline(always)]
pub fn add_scaled<S: Simd>(simd: S, y: &mut [f32], a: f32, x: &[f32]) {
    let (x, x_rest) = S::as_simd_f32s(&x[..y.len()]);
    let (y, y_rest) = S::as_mut_simd_f32s(y);
    let factor = simd.splat_f32s(a);
    for (y, x) in y.iter_mut().zip(x) {
        *y = mul_add_vectors(simd, factor, *x, *y);
    }
    for (y, x) in y_rest.iter_mut().zip(x_rest) {
        *y = mul_add(a, *x, *y);
    }
}

/// Adds rows x [positions, width] in order to four y [4, width]: `y += w x`, with separate weights per y.
#[inline(always)]
pub fn add_weighted<S: Simd>(simd: S, y: &mut [f32], w: [&[f32]; 4], x: &[f32]) {
    let (y, x) = (S::as_mut_simd_f32s(y).0.as_chunks_mut::<2>().0, S::as_simd_f32s(x).0.as_chunks::<2>().0);
    let pairs = y.len() / 4;
    for pair in 0..pairs {
        let mut sums = [y[pair], y[pairs + pair], y[2 * pairs + pair], y[3 * pairs + pair]];
        for i in 0..w[0].len() {
            let x = x[i * pairs + pair];
            unroll!(j in 4 => {
                let w = simd.splat_f32s(w[j][i]);
                sums[j][0] = mul_add_vectors(simd, w, x[0], sums[j][0]);
                sums[j][1] = mul_add_vectors(simd, w, x[1], sums[j][1]);
            });
        }
        unroll!(j in 4 => { y[j * pairs + pair] = sums[j]; });
    }
}

/// Returns e^x to f32 accuracy, with x limited to -87..=88.
#[inline(always)]
pub fn exp<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    /// Number whose addition rounds to an integer.
    const ROUND: f32 = 12_582_912.0;
    // The polynomial of Cephes.
    const SERIES: [f32; 6] = [1.987_569_1e-4, 1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];
    let (least, most) = (simd.splat_f32s(-87.0), simd.splat_f32s(88.0));
    // Comparisons, because on some processors the minimum of NaN and a number is the number.
    let x = simd.select_f32s(simd.less_than_f32s(x, least), least, x);
    let x = simd.select_f32s(simd.greater_than_f32s(x, most), most, x);
    let rounded = mul_add_vectors(simd, x, simd.splat_f32s(std::f32::consts::LOG2_E), simd.splat_f32s(ROUND));
    let power = simd.sub_f32s(rounded, simd.splat_f32s(ROUND));
    // ln 2 in two parts, so that no bit is lost.
    let x = mul_add_vectors(simd, power, simd.splat_f32s(-0.693_359_4), x);
    let x = mul_add_vectors(simd, power, simd.splat_f32s(2.121_944_4e-4), x);
    let mut series = simd.splat_f32s(SERIES[0]);
    unroll!(i in 5 => { series = mul_add_vectors(simd, series, x, simd.splat_f32s(SERIES[i + 1])); });
    let near = mul_add_vectors(simd, simd.mul_f32s(series, x), x, x);
    let near = simd.add_f32s(near, simd.splat_f32s(1.0));
    simd.mul_f32s(near, power_of_two(simd, rounded))
}

/// Returns two to the power of the integer in the lower bits of a number.
#[inline(always)]
fn power_of_two<S: Simd>(simd: S, bits: S::f32s) -> S::f32s {
    const MANTISSA: u32 = 23;
    const BIAS: u32 = 127 << MANTISSA;
    #[cfg(target_arch = "wasm32")]
    if let Arch::Simd128(_) = arch() {
        use std::arch::wasm32::{i32x4_add, i32x4_shl, u32x4_splat};
        return bytemuck::cast(i32x4_add(i32x4_shl(bytemuck::cast(bits), MANTISSA), u32x4_splat(BIAS)));
    }
    let shifted = simd.wrapping_dyn_shl_u32s(simd.transmute_u32s_f32s(bits), simd.splat_u32s(MANTISSA));
    simd.transmute_f32s_u32s(simd.add_u32s(shifted, simd.splat_u32s(BIAS)))
}

/// Widens f16 to f32. Unless `all`, every number must be finite.
#[inline(always)]
#[cfg(not(target_arch = "wasm32"))]
pub fn widen_f16(from: &[f16], to: &mut [f32], all: bool) {
    for (to, from) in to.iter_mut().zip(from) {
        let bits = u32::from(from.to_bits());
        let size = (bits & 0x7fff) << 13;
        // Changes the exponent bias. For a subnormal, subtracts the leading one that it lacks. The smaller result is right.
        let normal = f32::from_bits(size + (112 << 23));
        let subnormal = f32::from_bits(size + (113 << 23)) - f32::from_bits(113 << 23);
        let magnitude = if normal < subnormal { normal } else { subnormal };
        let more = if all && size >= 0x7c00 << 13 { 112 << 23 } else { 0 };
        *to = f32::from_bits((magnitude.to_bits() + more) | ((bits & 0x8000) << 16));
    }
}

/// Does the same with explicit instructions: size-optimised code is not vectorised.
#[inline(always)]
#[cfg(target_arch = "wasm32")]
pub fn widen_f16(from: &[f16], to: &mut [f32], all: bool) {
    use std::arch::wasm32::{i32x4_extend_high_i16x8, i32x4_extend_low_i16x8};
    for (to, from) in to.as_chunks_mut::<8>().0.iter_mut().zip(from.as_chunks::<8>().0) {
        let both = bytemuck::cast(*from);
        let low = widen_four(i32x4_extend_low_i16x8(both), all);
        *to = bytemuck::cast([low, widen_four(i32x4_extend_high_i16x8(both), all)]);
    }
}

#[inline(always)]
#[cfg(target_arch = "wasm32")]
fn widen_four(bits: std::arch::wasm32::v128, all: bool) -> std::arch::wasm32::v128 {
    use std::arch::wasm32::{f32x4_mul, f32x4_splat, i32x4_ge, i32x4_shl, u32x4_splat, v128_and, v128_or};
    let shifted = i32x4_shl(bits, 13);
    // The exponent biases differ by 112.
    let widened = f32x4_mul(v128_and(shifted, u32x4_splat(0x8fff_e000)), f32x4_splat(2f32.powi(112)));
    if !all {
        return widened;
    }
    let infinite = u32x4_splat(0x7c00 << 13);
    let is_infinite = i32x4_ge(v128_and(shifted, u32x4_splat(0x0fff_e000)), infinite);
    v128_or(widened, v128_and(is_infinite, u32x4_splat(0x7f80_0000)))
}

/// Returns the largest magnitude. By bits, NaN is the largest, so it reaches the scale and the logits.
#[inline(always)]
#[cfg(not(target_arch = "wasm32"))]
pub fn largest(x: &[f32; LANES]) -> f32 {
    let mut most = 0;
    for x in x {
        most = most.max(x.to_bits() & 0x7fff_ffff);
    }
    f32::from_bits(most)
}

/// Does the same with explicit instructions.
#[inline(always)]
#[cfg(target_arch = "wasm32")]
pub fn largest(x: &[f32; LANES]) -> f32 {
    use std::arch::wasm32::{f32x4_abs, i32x4_max};
    let x: [_; 8] = bytemuck::cast(*x);
    let mut most = f32x4_abs(x[0]);
    unroll!(i in 8 => { most = i32x4_max(most, f32x4_abs(x[i])); });
    let most: [u32; 4] = bytemuck::cast(most);
    f32::from_bits(most[0].max(most[1]).max(most[2].max(most[3])))
}

/// Returns `x * factor`, rounded to 8-bit integers.
#[inline(always)]
#[cfg(not(target_arch = "wasm32"))]
pub fn round(x: &[f32; LANES], factor: f32) -> [i16; LANES] {
    let mut codes = [0; LANES];
    for i in 0..LANES {
        codes[i] = (x[i] * factor).round_ties_even() as i16;
    }
    codes
}

/// Does the same with explicit instructions.
#[inline(always)]
#[cfg(target_arch = "wasm32")]
pub fn round(x: &[f32; LANES], factor: f32) -> [i16; LANES] {
    use std::arch::wasm32::{f32x4_mul, f32x4_nearest, f32x4_splat, i16x8_narrow_i32x4, i32x4_trunc_sat_f32x4};
    let (x, factor): ([_; 8], _) = (bytemuck::cast(*x), f32x4_splat(factor));
    let four = |i: usize| i32x4_trunc_sat_f32x4(f32x4_nearest(f32x4_mul(x[i], factor)));
    let eight = |i: usize| i16x8_narrow_i32x4(four(2 * i), four(2 * i + 1));
    bytemuck::cast([eight(0), eight(1), eight(2), eight(3)])
}

/// Widens bf16, the upper half of an f32, to f32.
#[inline(always)]
pub fn widen_bf16(from: &[bf16], to: &mut [f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = f32::from_bits(u32::from(from.to_bits()) << 16));
}

/// Computes `scale * (code - center) + offset` for 16 codes.
#[inline(always)]
pub fn widen_codes(codes: [u8; 16], center: f32, scale: f32, offset: f32, to: &mut [f32; 16]) {
    for i in 0..16 {
        to[i] = scale * (f32::from(codes[i]) - center) + offset;
    }
}

#[cfg(test)]
mod tests;
