//! Splits blocks of quantised weights into codes and factors, for the CPU and the GPU. Weight i is `scale * level(code i) + offset`, with
//! the scale and offset of its group.

use super::dtype::{Affine, Dtype};

/// Maximum number of weights in a block.
pub(super) const MOST: usize = 256;

/// Values of the codes of IQ4_NL and IQ4_XS.
pub(super) const IQ4_LEVELS: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Values of the codes of MXFP4: 4-bit floats, twice as large as usual so that they are integers.
pub(super) const FP4_LEVELS: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Returns the scale of a block of MXFP4, half of the power of two that its exponent stands for.
pub(super) fn power(exponent: u8) -> f32 {
    f32::from_bits(match exponent {
        0 | 1 => 0x0020_0000 << exponent,
        _ => u32::from(exponent - 1) << 23,
    })
}

/// Some bits of each code, stored in runs of `width` bytes. Byte j of a run holds, from its lowest bits up, the bits of codes j, j +
/// `width`, j + 2 `width` and so on. The next run holds the codes that follow.
struct Plane {
    /// First byte in the block.
    at: usize,
    width: usize,
    /// Bits of each code: 1, 2, 4 or 8.
    bits: usize,
    /// Position of these bits in the code.
    shift: usize,
}

impl Plane {
    /// Adds this plane's bits of a block to its codes.
    fn gather(&self, block: &[u8], codes: &mut [u8]) {
        let fields = 8 / self.bits;
        let runs = block[self.at..][..codes.len() / fields].chunks_exact(self.width);
        for (run, codes) in runs.zip(codes.chunks_exact_mut(self.width * fields)) {
            for (field, codes) in codes.chunks_exact_mut(self.width).enumerate() {
                let (down, mask) = (field * self.bits, self.mask());
                codes.iter_mut().zip(run).for_each(|(code, byte)| *code |= (byte >> down & mask) << self.shift);
            }
        }
    }

    /// Writes this plane's bits of the codes to their block.
    fn scatter(&self, codes: &[u8], block: &mut [u8]) {
        let fields = 8 / self.bits;
        let runs = block[self.at..][..codes.len() / fields].chunks_exact_mut(self.width);
        for (run, codes) in runs.zip(codes.chunks_exact(self.width * fields)) {
            for (field, codes) in codes.chunks_exact(self.width).enumerate() {
                let (up, mask) = (field * self.bits, self.mask());
                codes.iter().zip(&mut *run).for_each(|(code, byte)| *byte |= (code >> self.shift & mask) << up);
            }
        }
    }

    fn mask(&self) -> u8 {
        0xff >> (8 - self.bits)
    }
}

fn planes(dtype: Dtype) -> impl Iterator<Item = Plane> {
    let plane = |at, width, bits, shift| Plane { at, width, bits, shift };
    let [low, high] = match dtype {
        Dtype::F32 | Dtype::F16 | Dtype::Bf16 => [None, None],
        // The bit is doubled, so that the code for zero is between the two.
        Dtype::Q1_0 => [Some(plane(2, 1, 1, 1)), None],
        Dtype::Q2_0 => [Some(plane(2, 1, 2, 0)), None],
        Dtype::Q4_0 | Dtype::Iq4Nl => [Some(plane(2, 16, 4, 0)), None],
        Dtype::Mxfp4 => [Some(plane(1, 16, 4, 0)), None],
        Dtype::Q4_1 => [Some(plane(4, 16, 4, 0)), None],
        Dtype::Q5_0 => [Some(plane(6, 16, 4, 0)), Some(plane(2, 1, 1, 4))],
        Dtype::Q5_1 => [Some(plane(8, 16, 4, 0)), Some(plane(4, 1, 1, 4))],
        Dtype::Q8_0 => [Some(plane(2, 32, 8, 0)), None],
        Dtype::Q2K => [Some(plane(16, 32, 2, 0)), None],
        Dtype::Q3K => [Some(plane(32, 32, 2, 0)), Some(plane(0, 32, 1, 2))],
        Dtype::Q4K => [Some(plane(16, 32, 4, 0)), None],
        Dtype::Q5K => [Some(plane(48, 32, 4, 0)), Some(plane(16, 32, 1, 4))],
        Dtype::Q6K => [Some(plane(0, 64, 4, 0)), Some(plane(128, 32, 2, 4))],
        Dtype::Iq4Xs => [Some(plane(8, 16, 4, 0)), None],
        Dtype::Affine(Affine { bits: 4, scales, .. }) => [Some(plane(2 * scales.size(), 1, 4, 0)), None],
        Dtype::Affine(Affine { scales, .. }) => [Some(plane(2 * scales.size(), 32, 8, 0)), None],
    };
    [low, high].into_iter().flatten()
}

/// Converts between two's complement and unsigned codes with an offset of 128 (Q8_0); the same operation works in both directions.
fn offset_binary(dtype: Dtype, codes: &mut [u8]) {
    if dtype == Dtype::Q8_0 {
        codes.iter_mut().for_each(|code| *code ^= 0x80);
    }
}

/// Writes the codes of a block to `codes`, one per byte.
pub(super) fn codes(dtype: Dtype, block: &[u8], codes: &mut [u8]) {
    codes.fill(0);
    planes(dtype).for_each(|plane| plane.gather(block, codes));
    offset_binary(dtype, codes);
}

/// Writes codes to a block in which they are zero.
pub(super) fn put_codes(dtype: Dtype, codes: &mut [u8], block: &mut [u8]) {
    offset_binary(dtype, codes);
    planes(dtype).for_each(|plane| plane.scatter(codes, block));
}

/// Returns the code for zero if the levels are evenly spaced, otherwise `None`.
pub(super) fn center(dtype: Dtype) -> Option<u8> {
    match dtype {
        Dtype::Q1_0 | Dtype::Q2_0 => Some(1),
        Dtype::Q3K => Some(4),
        Dtype::Q4_0 => Some(8),
        Dtype::Q5_0 => Some(16),
        Dtype::Q6K => Some(32),
        Dtype::Q8_0 => Some(128),
        Dtype::Iq4Nl | Dtype::Iq4Xs | Dtype::Mxfp4 => None,
        _ => Some(0),
    }
}

/// Factors of the scale and the min in a block of 256 weights, one per group of 16 or 32 weights.
#[derive(Default)]
pub(super) struct Factors {
    pub scales: [i8; 16],
    pub mins: [u8; 16],
}

/// Returns the number of weights that share a factor.
pub(super) fn group(dtype: Dtype) -> usize {
    match dtype {
        Dtype::Q2K | Dtype::Q3K | Dtype::Q6K => 16,
        Dtype::Q4K | Dtype::Q5K | Dtype::Iq4Xs => 32,
        _ => dtype.block().elements,
    }
}

/// Reads the factors of a block. Types without factors get scale factors 1 and min factors 0.
pub(super) fn factors(dtype: Dtype, block: &[u8]) -> Factors {
    let mut factors = Factors { scales: [1; 16], mins: [0; 16] };
    let Factors { scales, mins } = &mut factors;
    let six = |low: u8, high: u8| (low & 15 | (high & 3) << 4) as i8;
    for i in 0..16 {
        match dtype {
            Dtype::Q2K => (scales[i], mins[i]) = ((block[i] & 15) as i8, block[i] >> 4),
            Dtype::Q3K => {
                let low = block[96 + i % 8] >> (i / 8 * 4);
                scales[i] = six(low, block[104 + i % 4] >> (i / 4 * 2)) - 32;
            }
            Dtype::Q6K => scales[i] = block[192 + i] as i8,
            Dtype::Q4K | Dtype::Q5K if i < 4 => (scales[i], mins[i]) = ((block[4 + i] & 63) as i8, block[8 + i] & 63),
            Dtype::Q4K | Dtype::Q5K if i < 8 => {
                let low = block[8 + i];
                scales[i] = six(low, block[i] >> 6);
                mins[i] = six(low >> 4, block[4 + i] >> 6) as u8;
            }
            Dtype::Iq4Xs if i < 8 => {
                let low = block[4 + i / 2] >> (i % 2 * 4);
                scales[i] = six(low, block[2 + i / 4] >> (i % 4 * 2)) - 32;
            }
            _ => {}
        }
    }
    factors
}
