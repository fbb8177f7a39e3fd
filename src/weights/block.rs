//! Blocks of quantised weights taken apart: weight i is `scale * level(code i) + offset`, with the scale and the offset of its
//! group. What both the CPU's and the GPU's way to a weight begin with.

use super::dtype::{Affine, Dtype};

/// Most weights of a block.
pub(super) const MOST: usize = 256;

/// What the codes of IQ4_NL and IQ4_XS stand for.
pub(super) const IQ4_LEVELS: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Some bits of each code: in a run of `width` bytes, every byte holds the bits of one code in its lowest bits, then those of the
/// code `width` further on, and so forth; then comes the next run.
struct Plane {
    /// First byte in the block.
    at: usize,
    width: usize,
    /// Bits of each code: 1, 2, 4 or 8.
    bits: usize,
    /// Where they belong in the code.
    shift: usize,
}

impl Plane {
    /// The bits of a block, into its codes.
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

    /// The bits of codes, into their block.
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
        Dtype::Q4_0 | Dtype::Iq4Nl => [Some(plane(2, 16, 4, 0)), None],
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

/// From two's complement to codes, and back.
fn offset_binary(dtype: Dtype, codes: &mut [u8]) {
    if dtype == Dtype::Q8_0 {
        codes.iter_mut().for_each(|code| *code ^= 0x80);
    }
}

/// The codes of a block, one in each byte.
pub(super) fn codes(dtype: Dtype, block: &[u8], codes: &mut [u8]) {
    codes.fill(0);
    planes(dtype).for_each(|plane| plane.gather(block, codes));
    offset_binary(dtype, codes);
}

/// A block of floats and codes, of a type that has nothing else.
pub(super) fn join(dtype: Dtype, floats: &[u8], codes: &[u8]) -> Vec<u8> {
    let mut codes = codes.to_vec();
    offset_binary(dtype, &mut codes);
    let mut block = vec![0; dtype.block().bytes];
    block[dtype.floats().1].copy_from_slice(floats);
    planes(dtype).for_each(|plane| plane.scatter(&codes, &mut block));
    block
}

/// The code that stands for zero where the levels are evenly spaced, else nothing.
pub(super) fn center(dtype: Dtype) -> Option<u8> {
    match dtype {
        Dtype::Q3K => Some(4),
        Dtype::Q4_0 => Some(8),
        Dtype::Q5_0 => Some(16),
        Dtype::Q6K => Some(32),
        Dtype::Q8_0 => Some(128),
        Dtype::Iq4Nl | Dtype::Iq4Xs => None,
        _ => Some(0),
    }
}

/// The factors of a block of 256: of its scale and of its min, for each group of 16 or 32.
#[derive(Default)]
pub(super) struct Factors {
    pub scales: [i8; 16],
    pub mins: [u8; 16],
}

/// Weights that share a factor.
pub(super) fn group(dtype: Dtype) -> usize {
    match dtype {
        Dtype::Q2K | Dtype::Q3K | Dtype::Q6K => 16,
        Dtype::Q4K | Dtype::Q5K | Dtype::Iq4Xs => 32,
        _ => dtype.block().elements,
    }
}

/// The factors of a block; for types without, ones, and mins that are not there.
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
