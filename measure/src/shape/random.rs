//! A GGUF file of random weights, made when it is read.

use async_trait::async_trait;
use foretoken::internals::model::{Layout, MatrixPlan, ModelSpec, Plan, Section, VectorPlan};
use foretoken::internals::weights::{Dtype, Source, narrow};
use foretoken::{Error, Result, WeightDtype};
use std::collections::BTreeMap;
use std::ops::Range;

/// Name of the file.
pub(super) const FILE: &str = "random.gguf";
/// Bytes to whose multiples tensors are aligned.
const ALIGNMENT: usize = 32;
/// Numbers after which a tensor repeats: a whole number of blocks of every type, so that each begins with a block. The other factor is
/// prime, so that the rows of a matrix differ.
const PERIOD: usize = 32 * 8191;

/// A model's tensors in the types in which they are loaded, with the names of a folder. Only the bytes of a period are in memory.
pub(super) struct RandomFile {
    name: String,
    header: Vec<u8>,
    /// Tensors by the position of their first byte after the header.
    tensors: BTreeMap<u64, RandomTensor>,
    /// Bytes of a period, by type.
    matrices: BTreeMap<Dtype, Vec<u8>>,
    /// Bytes of the file.
    size: u64,
}

/// Tensor of a file.
struct RandomTensor {
    bytes: u64,
    content: Content,
}

/// Bytes that a tensor repeats.
enum Content {
    /// Random numbers of this type.
    Random(Dtype),
    /// The number that is stored for an element 1 of a vector.
    Ones([u8; size_of::<f32>()]),
}

impl RandomFile {
    /// Describes the file of a model called `name`: random matrices, in f16 or the type `wanted`, and vectors of ones.
    pub fn new(name: &str, spec: &ModelSpec, wanted: WeightDtype) -> Self {
        let plan = Plan::new(spec);
        let mut all = BTreeMap::new();
        for matrix in &plan.matrices {
            add_matrix(matrix, wanted, &mut all);
        }
        for vector in &plan.vectors {
            add_vector(vector, &mut all);
        }
        let mut header = [&b"GGUF"[..], &3u32.to_le_bytes(), &(all.len() as u64).to_le_bytes(), &[0; 8]].concat();
        let (mut tensors, mut matrices, mut end) = (BTreeMap::new(), BTreeMap::new(), 0);
        for (name, (shape, content)) in all {
            let dtype = match content {
                Content::Random(dtype) => {
                    matrices.entry(dtype).or_insert_with(|| random(dtype));
                    dtype
                }
                Content::Ones(_) => Dtype::F32,
            };
            header.extend((name.len() as u64).to_le_bytes());
            header.extend(name.as_bytes());
            header.extend((shape.len() as u32).to_le_bytes());
            shape.iter().rev().for_each(|size| header.extend((*size as u64).to_le_bytes()));
            header.extend(dtype.gguf_number().unwrap_or(0).to_le_bytes());
            header.extend(u64::to_le_bytes(end));
            let bytes = dtype.bytes(shape.iter().product::<usize>() as u64).unwrap_or(0);
            tensors.insert(end, RandomTensor { bytes, content });
            end = (end + bytes).next_multiple_of(ALIGNMENT as u64);
        }
        header.resize(header.len().next_multiple_of(ALIGNMENT), 0);
        let size = header.len() as u64 + end;
        Self { name: name.into(), header, tensors, matrices, size }
    }

    /// Fills `out` with the bytes after the header from `start` on. Bytes between tensors stay as they are.
    fn fill(&self, start: u64, out: &mut [u8]) {
        let end = start + out.len() as u64;
        let first = self.tensors.range(..=start).next_back().map_or(0, |(at, _)| *at);
        for (at, RandomTensor { bytes, content }) in self.tensors.range(first..end.max(first)) {
            let part = start.max(*at)..end.min(at + bytes);
            if part.is_empty() {
                continue;
            }
            let out = &mut out[(part.start - start) as usize..(part.end - start) as usize];
            match content {
                Content::Random(dtype) => repeat(&self.matrices[dtype], part.start - at, out),
                Content::Ones(one) => repeat(one, part.start - at, out),
            }
        }
    }
}

#[async_trait(?Send)]
impl Source for RandomFile {
    async fn size(&self, file: &str) -> Result<Option<u64>> {
        Ok((file == FILE).then_some(self.size))
    }

    async fn read_range(&self, file: &str, range: Range<u64>) -> Result<Vec<u8>> {
        if file != FILE || range.start > range.end || range.end > self.size {
            let reason = format!("there are no bytes {} to {} of {file}", range.start, range.end);
            return Err(Error::NotFound { path: self.name(), reason });
        }
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let header = self.header.get(range.start as usize..).unwrap_or_default();
        let header = &header[..header.len().min(bytes.len())];
        let (before, after) = bytes.split_at_mut(header.len());
        before.copy_from_slice(header);
        self.fill(range.start.saturating_sub(self.header.len() as u64), after);
        Ok(bytes)
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

/// Fills `out` with bytes that repeat, from `start` on.
fn repeat(bytes: &[u8], start: u64, mut out: &mut [u8]) {
    let mut first = (start % bytes.len() as u64) as usize;
    while !out.is_empty() {
        let piece = out.len().min(bytes.len() - first);
        let (filled, rest) = out.split_at_mut(piece);
        filled.copy_from_slice(&bytes[first..first + piece]);
        (out, first) = (rest, 0);
    }
}

/// Adds the tensors that form a matrix.
fn add_matrix(matrix: &MatrixPlan, wanted: WeightDtype, all: &mut BTreeMap<String, (Vec<usize>, Content)>) {
    let MatrixPlan { cols, layout: Layout { parts, transposed, .. }, .. } = matrix;
    let dtype = Section::all(matrix, Dtype::F16, wanted).first().map_or(Dtype::F16, |section| section.dtype);
    for part in parts {
        let mut shape = vec![part.tensor_rows / part.experts, *cols];
        if *transposed && dtype.block().elements == 1 {
            shape.reverse();
        }
        if part.experts > 1 {
            shape.insert(0, part.experts);
        }
        all.insert(part.tensor.clone(), (shape, Content::Random(dtype)));
    }
}

/// Adds the tensors that form a vector.
fn add_vector(vector: &VectorPlan, all: &mut BTreeMap<String, (Vec<usize>, Content)>) {
    for part in &vector.layout.parts {
        let rows = part.tensor_rows / vector.cols;
        let shape = match (part.experts, vector.cols) {
            (1, 1) => vec![rows],
            (1, cols) => vec![rows, cols],
            (experts, _) => vec![experts, rows / experts],
        };
        let one = Content::Ones(vector.elements.to_stored(1.0).to_le_bytes());
        all.entry(part.tensor.clone()).or_insert((shape, one));
    }
}

/// Returns a period of random numbers in a type: from -1/32 to 1/32.
fn random(dtype: Dtype) -> Vec<u8> {
    let mut state = 1u64;
    let number = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 28) as f32 - 1.0 / 32.0
    };
    let numbers: Vec<f32> = (0..PERIOD).map(number).collect();
    narrow(dtype, &numbers).unwrap_or_default()
}
