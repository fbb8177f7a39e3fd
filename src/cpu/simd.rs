//! Inner loops that the compiler makes vector instructions of. Each is inlined into a function that [`pulp::Arch::dispatch`]
//! compiles for what the processor has. They are loops, because closures of `map` and `from_fn` are functions of their own, for any
//! processor, and calls of them half of the time.

use half::{bf16, f16};
use pulp::Simd;

/// Rows are padded to a multiple of this.
pub const LANES: usize = 32;

/// `a * b + c`: in one rounding, but in WebAssembly, which has no instruction for that.
#[inline(always)]
pub fn mul_add(a: f32, b: f32, c: f32) -> f32 {
    if cfg!(target_arch = "wasm32") { a * b + c } else { a.mul_add(b, c) }
}

/// The dot products of each of some rows with each of some others, all of one length that is a multiple of [`LANES`]. On one device
/// every such sum has one order, however many rows there are: two vectors of sums take turns, and are added up at the end.
#[inline(always)]
pub fn dots<S: Simd, const A: usize, const B: usize>(simd: S, a: [&[f32]; A], b: [&[f32]; B]) -> [[f32; B]; A] {
    let mut sums = [[[simd.splat_f32s(0.0); 2]; B]; A];
    let (mut a_pairs, mut b_pairs) = ([&[][..]; A], [&[][..]; B]);
    let mut len = usize::MAX;
    for i in 0..A {
        a_pairs[i] = S::as_simd_f32s(a[i]).0.as_chunks::<2>().0;
        len = len.min(a_pairs[i].len());
    }
    for j in 0..B {
        b_pairs[j] = S::as_simd_f32s(b[j]).0.as_chunks::<2>().0;
        len = len.min(b_pairs[j].len());
    }
    for at in 0..len {
        for turn in 0..2 {
            for i in 0..A {
                for j in 0..B {
                    sums[i][j][turn] =
                        simd.mul_add_e_f32s(a_pairs[i][at][turn], b_pairs[j][at][turn], sums[i][j][turn]);
                }
            }
        }
    }
    let mut products = [[0.0; B]; A];
    for i in 0..A {
        for j in 0..B {
            products[i][j] = simd.reduce_sum_f32s(simd.add_f32s(sums[i][j][0], sums[i][j][1]));
        }
    }
    products
}

/// `y += a x`.
#[inline(always)]
pub fn add_scaled(y: &mut [f32], a: f32, x: &[f32]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y = mul_add(a, *x, *y));
}

/// Half precision -> single precision; without `all`, of numbers that are finite.
#[inline(always)]
pub fn widen_f16(from: &[f16], to: &mut [f32], all: bool) {
    for (to, from) in to.iter_mut().zip(from) {
        let bits = u32::from(from.to_bits());
        let size = (bits & 0x7fff) << 13;
        // With the other exponent bias; a subnormal number has no leading one, which is too much by that. Either is the smaller one
        // where it holds.
        let normal = f32::from_bits(size + (112 << 23));
        let subnormal = f32::from_bits(size + (113 << 23)) - f32::from_bits(113 << 23);
        let magnitude = if normal < subnormal { normal } else { subnormal };
        let more = if all && size >= 0x7c00 << 13 { 112 << 23 } else { 0 };
        *to = f32::from_bits((magnitude.to_bits() + more) | ((bits & 0x8000) << 16));
    }
}

/// The upper half of an f32 -> f32.
#[inline(always)]
pub fn widen_bf16(from: &[bf16], to: &mut [f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = f32::from_bits(u32::from(from.to_bits()) << 16));
}

/// `scale * (code - center) + offset` for 16 codes.
#[inline(always)]
pub fn widen_codes(codes: &[u8; 16], center: f32, scale: f32, offset: f32, to: &mut [f32]) {
    to.iter_mut().zip(codes).for_each(|(to, code)| *to = scale * (f32::from(*code) - center) + offset);
}
