//! Layout of weight rows on the GPU: chunks of codes in 16-byte units, then further bits of the codes, then scales. Sixteen rows are interleaved.

use super::block::{self, Factors, MOST};
use super::dtype::{Affine, Dtype, Float};

/// Bytes of a unit of a row on the GPU: the amount that a thread reads at once.
pub const UNIT: usize = 16;
/// Number of rows that are interleaved.
pub const TOGETHER: usize = 16;

/// Weight format that a kernel reads. Several stored types may share a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Unchanged floats.
    Float(Float),
    /// `scale * code + offset`.
    Quantised {
        /// Integers.
        codes: Codes,
        /// Code for zero, used if there is no offset.
        center: u8,
        /// Scales and offsets.
        scales: Scales,
    },
}

/// Layout of codes in chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Codes {
    /// 0 or 2, as 1 bit: 32 codes in 4 bytes, four chunks in a unit.
    One,
    /// 2 bits: 32 codes in 8 bytes, two chunks in a unit.
    Two,
    /// 4 bits: 32 codes per chunk.
    Four,
    /// 4 bits: indices into the 16 levels of IQ4_NL.
    Levels,
    /// 4 bits: floats.
    Floats,
    /// 5 bits: the highest bits are stored after the chunks.
    Five,
    /// 6 bits: 32 codes in a chunk and 8 further bytes. The 24 bytes hold a code each; their upper 2 bits together hold 8 more codes.
    Six,
    /// 8 bits: 16 codes per chunk.
    Eight,
}

/// Scales and offsets, with their group sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scales {
    /// One f16 scale per group of this size. The offset follows from the code for zero.
    Centered(u8),
    /// One exponent of a power of two per 32 weights.
    Powers,
    /// One scale and one offset of this type per group of this size.
    Pairs(Float, u8),
    /// One f16 scale and min per 256 weights; 6-bit factors for both per 32 weights.
    SixBits,
    /// One f16 scale per 256 weights; a signed 8-bit factor per 16 weights.
    Signed,
    /// One f16 scale and min per 256 weights; 4-bit factors for both per 16 weights.
    Nibbles,
}

/// Positions of the parts of a row, in units of 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Number of chunks of codes, from the start of the row; with 1 and 2 bits, several share a unit. The rest of the last chunk of floats
    /// is zero.
    pub chunks: usize,
    /// First unit of the scales. The further bits of the codes are between chunks and scales.
    pub scales: usize,
    /// Units per row.
    pub units: usize,
}

impl Row {
    /// Returns the bytes per row.
    pub fn bytes(self) -> usize {
        self.units * UNIT
    }
}

impl Format {
    /// Returns the format of a stored type.
    pub fn of_dtype(dtype: Dtype) -> Self {
        let pairs = Scales::Pairs(Float::F16, 32);
        let (codes, scales) = match dtype {
            Dtype::F32 => return Self::Float(Float::F32),
            Dtype::F16 => return Self::Float(Float::F16),
            Dtype::Bf16 => return Self::Float(Float::Bf16),
            Dtype::Q1_0 => (Codes::One, Scales::Centered(128)),
            Dtype::Q2_0 => (Codes::Two, Scales::Centered(64)),
            Dtype::Q4_0 => (Codes::Four, Scales::Centered(32)),
            Dtype::Q4_1 => (Codes::Four, pairs),
            Dtype::Q5_0 => (Codes::Five, Scales::Centered(32)),
            Dtype::Q5_1 => (Codes::Five, pairs),
            Dtype::Q8_0 => (Codes::Eight, Scales::Centered(32)),
            Dtype::Q2K => (Codes::Two, Scales::Nibbles),
            Dtype::Q3K => (Codes::Four, Scales::Signed),
            Dtype::Q4K => (Codes::Four, Scales::SixBits),
            Dtype::Q5K => (Codes::Five, Scales::SixBits),
            Dtype::Q6K => (Codes::Six, Scales::Signed),
            Dtype::Iq4Nl => (Codes::Levels, Scales::Centered(32)),
            Dtype::Iq4Xs => (Codes::Levels, Scales::Signed),
            Dtype::Mxfp4 => (Codes::Floats, Scales::Powers),
            Dtype::Affine(Affine { bits, group_size, scales }) => {
                (if bits == 4 { Codes::Four } else { Codes::Eight }, Scales::Pairs(scales, group_size))
            }
        };
        Self::Quantised { codes, center: block::center(dtype).unwrap_or(0), scales }
    }

    /// Returns the formats of all stored types, without duplicates.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for format in Dtype::all().into_iter().map(Self::of_dtype) {
            if !all.contains(&format) {
                all.push(format);
            }
        }
        all
    }

    /// Returns true if codes are numbers, so that products of codes can be summed before scaling.
    pub fn multiplies_codes(self) -> bool {
        matches!(self, Self::Quantised { codes, .. } if !matches!(codes, Codes::Levels | Codes::Floats))
    }

    /// Returns the number of weights per chunk.
    pub fn chunk(self) -> usize {
        match self {
            Self::Float(float) => UNIT / float.size(),
            Self::Quantised { codes: Codes::Eight, .. } => 16,
            Self::Quantised { .. } => 32,
        }
    }

    /// Returns the number of chunks in a unit.
    fn chunks_per_unit(self) -> usize {
        match self {
            Self::Quantised { codes: Codes::One, .. } => 4,
            Self::Quantised { codes: Codes::Two, .. } => 2,
            _ => 1,
        }
    }

    /// Returns the layout of a row of `cols` weights.
    pub fn row(self, cols: usize) -> Row {
        let chunks = cols.div_ceil(self.chunk());
        let Self::Quantised { codes, scales, .. } = self else { return Row { chunks, scales: chunks, units: chunks } };
        let further = match codes {
            Codes::Five => chunks * 4,
            Codes::Six => chunks * 8,
            _ => 0,
        };
        let bytes = match scales {
            Scales::Powers => cols / 32,
            Scales::Centered(group) => cols / usize::from(group) * 2,
            Scales::Pairs(float, group) => cols / usize::from(group) * 2 * float.size(),
            Scales::SixBits => cols / 256 * 16,
            Scales::Signed | Scales::Nibbles => cols / 256 * 20,
        };
        let scales = chunks.div_ceil(self.chunks_per_unit()) + further.div_ceil(UNIT);
        Row { chunks, scales, units: scales + bytes.div_ceil(UNIT) }
    }
}

/// Converts a stored row of `cols` weights to its GPU layout in `out`, which must be zero.
pub fn pack_row(dtype: Dtype, stored: &[u8], cols: usize, out: &mut [u8]) {
    let format = Format::of_dtype(dtype);
    let Format::Quantised { codes, scales, .. } = format else {
        out.iter_mut().zip(stored).for_each(|(to, from)| *to = *from);
        return;
    };
    let row = format.row(cols);
    let units = row.chunks.div_ceil(format.chunks_per_unit());
    let (chunks, rest) = out.split_at_mut(units * UNIT);
    let (further, scale_bytes) = rest.split_at_mut((row.scales - units) * UNIT);
    let size = dtype.block();
    let mut values = [0; MOST];
    let values = &mut values[..size.elements];
    for (index, block) in stored.chunks_exact(size.bytes).enumerate() {
        block::codes(dtype, block, values);
        let before = index * size.elements / 32;
        for (at, values) in (before..).zip(values.as_chunks::<32>().0) {
            match codes {
                Codes::Eight => chunks[at * 32..][..32].copy_from_slice(values),
                Codes::One => pack_fields(values, 1, &mut chunks[at * 4..][..4]),
                Codes::Two => pack_fields(values, 2, &mut chunks[at * 8..][..8]),
                Codes::Six => pack_sixes(values, &mut chunks[at * 16..][..16], &mut further[at * 8..][..8]),
                _ => pack_nibbles(values, &mut chunks[at * 16..][..16]),
            }
            match codes {
                // The int8 kernels expect the upper codes minus 8.
                Codes::Four => chunks[at * 16..][..16].iter_mut().for_each(|byte| *byte ^= 0x80),
                Codes::Five => pack_fifths(values, &mut further[at * 4..][..4]),
                _ => {}
            }
        }
        pack_scales(dtype, scales, block, index, cols / MOST, scale_bytes);
    }
}

/// Interleaves the units of each sixteen packed rows, as `shaders/lib/stored_rows.wgsl` expects. For each unit index, the eight even rows come
/// before the odd ones. Missing rows of the last sixteen are zero.
pub fn interleave(rows: &[u8], row: Row) -> Vec<u8> {
    let mut out = vec![0; rows.len().next_multiple_of(TOGETHER * row.bytes())];
    for (index, from) in rows.chunks_exact(row.bytes()).enumerate() {
        let first = index / TOGETHER * TOGETHER * row.units + index % 2 * 8 + index % TOGETHER / 2;
        for (unit, from) in from.chunks_exact(UNIT).enumerate() {
            out[(first + unit * TOGETHER) * UNIT..][..UNIT].copy_from_slice(from);
        }
    }
    out
}

/// Packs 32 codes of 2 bits, or of 1 bit times 2. Of each 4 bytes, byte b holds the codes 4i + b, lowest bits first.
fn pack_fields(codes: &[u8; 32], bits: usize, out: &mut [u8]) {
    let runs = codes.chunks_exact(8 / bits * 4);
    for (word, codes) in out.chunks_exact_mut(4).zip(runs) {
        for (i, codes) in codes.as_chunks::<4>().0.iter().enumerate() {
            word.iter_mut().zip(codes).for_each(|(byte, code)| *byte |= code >> (2 - bits) << (i * bits));
        }
    }
}

/// Packs the lower 4 bits of 32 codes: the first 16 codes into the lower halves of the bytes, the others into the upper halves.
fn pack_nibbles(codes: &[u8; 32], out: &mut [u8]) {
    let (low, high) = codes.split_at(16);
    out.iter_mut().zip(low.iter().zip(high)).for_each(|(byte, (low, high))| *byte = low & 15 | high << 4);
}

/// Packs the highest bits of 32 5-bit codes into four bytes. The bits of codes 4i to 4i + 3 become bit i + 4 (modulo 8) of the four bytes,
/// which saves shifts in the kernels.
fn pack_fifths(codes: &[u8; 32], out: &mut [u8]) {
    for (i, codes) in codes.as_chunks::<4>().0.iter().enumerate() {
        out.iter_mut().zip(codes).for_each(|(byte, code)| *byte |= code >> 4 << ((i + 4) % 8));
    }
}

/// Packs 32 6-bit codes. The lower bits of 24 bytes hold 24 codes. The other 8 codes are stored 2 bits at a time in the upper bits of three
/// bytes each, lowest bits first.
fn pack_sixes(codes: &[u8; 32], chunk: &mut [u8], further: &mut [u8]) {
    for (i, byte) in chunk.iter_mut().chain(further).enumerate() {
        *byte = codes[i] | codes[24 + i / 12 * 4 + i % 4] >> (i / 4 % 3 * 2) << 6;
    }
}

/// Writes the scales of block `index` of a row with `blocks` blocks of 256 weights.
fn pack_scales(dtype: Dtype, scales: Scales, block: &[u8], index: usize, blocks: usize, out: &mut [u8]) {
    if scales == Scales::Powers {
        out[index] = block[0];
        return;
    }
    let floats = &block[dtype.floats().1];
    if let Scales::Centered(_) | Scales::Pairs(..) = scales {
        out[index * floats.len()..][..floats.len()].copy_from_slice(floats);
        return;
    }
    let Factors { scales: factors, mins } = block::factors(dtype, block);
    let (header, behind) = (&mut out[index * UNIT..][..UNIT], blocks * UNIT + index * 4);
    // If two chunks share a word, the even bytes hold the factors of the first chunk.
    let place = |i: usize| i / 4 * 4 + i % 2 * 2 + i / 2 % 2;
    match scales {
        Scales::SixBits => {
            header[..4].copy_from_slice(floats);
            for i in 0..8 {
                for (at, factor) in [(4, factors[i] as u8), (6, mins[i])] {
                    let high = (factor & 15, factor >> 4, i * 2 + 4);
                    let (four, two, bit) = if i < 6 { high } else { (factor >> 2, factor & 3, i * 2 - 12) };
                    header[at + i / 4 * 4 + i % 4 / 2] |= four << (i % 2 * 4);
                    header[at + 8 + bit / 8] |= two << (bit % 8);
                }
            }
            return;
        }
        Scales::Nibbles => (0..16).for_each(|i| header[place(i)] = factors[i] as u8 | mins[i] << 4),
        _ => (0..16).for_each(|i| header[place(i)] = factors[i * 16 / block::group(dtype)] as u8 ^ 0x80),
    }
    out[behind..][..floats.len()].copy_from_slice(floats);
}
