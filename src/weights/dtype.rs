//! Storage types of weights in files: floats, or blocks of small integers with scales.

use super::block;
use super::gguf::TYPES;
use serde::{Serialize, Serializer};
use std::ops::Range;

/// Type of stored weights. The quantised types are from GGUF (`ggml-common.h`, `gguf.quants`) and MLX.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dtype {
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 half precision.
    F16,
    /// The upper half of an f32.
    Bf16,
    /// 128 weights of 1 bit: `scale` or `-scale`.
    Q1_0,
    /// 64 weights of 2 bits, `scale * (q - 1)`.
    Q2_0,
    /// 32 weights of 4 bits, `scale * (q - 8)`.
    Q4_0,
    /// 32 weights of 4 bits, `scale * q + min`.
    Q4_1,
    /// 32 weights of 5 bits, `scale * (q - 16)`.
    Q5_0,
    /// 32 weights of 5 bits, `scale * q + min`.
    Q5_1,
    /// 32 weights of 8 bits, `scale * q`.
    Q8_0,
    /// 256 weights of 2 bits, with a scale and a min of 4 bits per 16 weights.
    Q2K,
    /// 256 weights of 3 bits, with a scale of 6 bits per 16 weights.
    Q3K,
    /// 256 weights of 4 bits, with a scale and a min of 6 bits per 32 weights.
    Q4K,
    /// 256 weights of 5 bits, with a scale and a min of 6 bits per 32 weights.
    Q5K,
    /// 256 weights of 6 bits, with a scale of 8 bits per 16 weights.
    Q6K,
    /// 32 weights of 4 bits: indices into 16 levels.
    Iq4Nl,
    /// 4-bit floats with a power of two per 32 (OCP Microscaling).
    Mxfp4,
    /// 256 weights of 4 bits: indices into 16 levels, with a scale of 6 bits per 32 weights.
    Iq4Xs,
    /// MLX's groups: `scale * q + bias`.
    Affine(Affine),
}

/// Parameters of MLX's quantisation. MLX stores codes, scales and biases in separate tensors. Here a group is a block: scale, bias, codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Affine {
    /// Bits per code: 4 or 8.
    pub bits: u8,
    /// Number of weights that share a scale and a bias: 32, 64 or 128.
    pub group_size: u8,
    /// Type of scales and biases.
    pub scales: Float,
}

/// Type of floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Float {
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 half precision.
    F16,
    /// The upper half of an f32.
    Bf16,
}

impl Float {
    /// Returns the bytes per element.
    pub fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}

/// Unit of weight storage. For floats, a block is one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Weights per block.
    pub elements: usize,
    /// Bytes per block.
    pub bytes: usize,
}

impl Dtype {
    /// Returns all types.
    pub fn all() -> Vec<Self> {
        let floats = [Self::F32, Self::F16, Self::Bf16];
        let smallest = [Self::Q1_0, Self::Q2_0];
        let singles = [Self::Q4_0, Self::Q4_1, Self::Q5_0, Self::Q5_1, Self::Q8_0, Self::Iq4Nl, Self::Mxfp4];
        let nested = [Self::Q2K, Self::Q3K, Self::Q4K, Self::Q5K, Self::Q6K, Self::Iq4Xs];
        let scales = [Float::F16, Float::Bf16, Float::F32];
        let affine = scales.into_iter().flat_map(|scales| {
            let sizes = [4, 8].into_iter().flat_map(|bits| [32, 64, 128].map(|group_size| (bits, group_size)));
            sizes.map(move |(bits, group_size)| Self::Affine(Affine { bits, group_size, scales }))
        });
        floats.into_iter().chain(smallest).chain(singles).chain(nested).chain(affine).collect()
    }

    /// Returns the block size. A row of a matrix is a whole number of blocks.
    pub fn block(self) -> Block {
        let (elements, bytes) = match self {
            Self::F32 => (1, 4),
            Self::F16 | Self::Bf16 => (1, 2),
            Self::Q1_0 => (128, 18),
            Self::Q2_0 => (64, 18),
            Self::Q4_0 | Self::Iq4Nl => (32, 18),
            Self::Mxfp4 => (32, 17),
            Self::Q4_1 => (32, 20),
            Self::Q5_0 => (32, 22),
            Self::Q5_1 => (32, 24),
            Self::Q8_0 => (32, 34),
            Self::Q2K => (256, 84),
            Self::Q3K => (256, 110),
            Self::Q4K => (256, 144),
            Self::Q5K => (256, 176),
            Self::Q6K => (256, 210),
            Self::Iq4Xs => (256, 136),
            Self::Affine(Affine { bits, group_size, scales }) => {
                let elements = usize::from(group_size);
                (elements, 2 * scales.size() + elements * usize::from(bits) / 8)
            }
        };
        Block { elements, bytes }
    }

    /// Returns the number of weights that share a scale and an offset.
    pub fn group(self) -> usize {
        block::group(self)
    }

    /// Returns the number of groups in a block.
    pub fn groups_per_block(self) -> usize {
        self.block().elements / self.group()
    }

    /// Returns true if weights have offsets.
    pub fn has_offsets(self) -> bool {
        let (float, range) = self.floats();
        range.len() > float.size()
    }

    /// Returns the code for zero if the offset is 0; see [`super::coded`].
    pub fn center(self) -> u8 {
        block::center(self).unwrap_or(128)
    }

    /// Returns the bytes of `elements` weights. `None`: not a whole number of blocks, or the size overflows.
    pub fn bytes(self, elements: u64) -> Option<u64> {
        let block = self.block();
        let blocks = elements / block.elements as u64;
        elements.is_multiple_of(block.elements as u64).then(|| blocks.checked_mul(block.bytes as u64)).flatten()
    }

    /// Returns the usual name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::Q1_0 => "Q1_0",
            Self::Q2_0 => "Q2_0",
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q5_0 => "Q5_0",
            Self::Q5_1 => "Q5_1",
            Self::Q8_0 => "Q8_0",
            Self::Q2K => "Q2_K",
            Self::Q3K => "Q3_K",
            Self::Q4K => "Q4_K",
            Self::Q5K => "Q5_K",
            Self::Q6K => "Q6_K",
            Self::Iq4Nl => "IQ4_NL",
            Self::Mxfp4 => "MXFP4",
            Self::Iq4Xs => "IQ4_XS",
            Self::Affine(Affine { bits: 4, .. }) => "MLX 4 bits",
            Self::Affine(_) => "MLX 8 bits",
        }
    }

    /// Returns the supported type with the given GGUF name.
    pub(super) fn of_gguf(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|dtype| dtype.name() == name)
    }

    /// Returns the type's number in GGUF; `None` for MLX's types.
    pub fn gguf_number(self) -> Option<u32> {
        TYPES.iter().position(|name| *name == self.name()).map(|number| number as u32)
    }

    /// Returns the type of a block's floats and their byte range in the block.
    pub(super) fn floats(self) -> (Float, Range<usize>) {
        match self {
            Self::F32 => (Float::F32, 0..4),
            Self::Bf16 => (Float::Bf16, 0..2),
            Self::F16 | Self::Q1_0 | Self::Q2_0 | Self::Q4_0 | Self::Q5_0 | Self::Q8_0 => (Float::F16, 0..2),
            Self::Iq4Nl | Self::Iq4Xs => (Float::F16, 0..2),
            // It has an exponent instead.
            Self::Mxfp4 => (Float::F16, 0..0),
            Self::Q4_1 | Self::Q5_1 | Self::Q4K | Self::Q5K => (Float::F16, 0..4),
            Self::Q2K => (Float::F16, 80..84),
            Self::Q3K => (Float::F16, 108..110),
            Self::Q6K => (Float::F16, 208..210),
            Self::Affine(Affine { scales, .. }) => (scales, 0..2 * scales.size()),
        }
    }
}

impl Serialize for Dtype {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
