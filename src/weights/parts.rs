//! Matrices that a file stores as several tensors, or several of them as one.

use super::source::broken;
use super::{Block, Dtype, Quantization, Stored, Tensor, Weights, mxfp4};
use crate::error::Result;
use std::ops::Range;

impl Weights {
    /// Joins each three tensors of MLX's layout into one quantised matrix.
    ///
    /// # Errors
    /// [`Error::BadWeights`] if the three do not agree.
    pub fn join(&mut self, quantization: &Quantization) -> Result<()> {
        quantization.join(&mut self.tensors)
    }

    /// Joins the tensors of MXFP4.
    pub(super) fn joined(mut self) -> Result<Self> {
        mxfp4::join(&mut self.tensors)?;
        Ok(self)
    }

    /// Splits tensors `stacked` [experts, rows, columns], which stack the matrices of all experts, into the matrices `names`, where `*` is the
    /// number of the expert. Each expert's rows are divided equally among them.
    ///
    /// # Errors
    /// [`Error::BadWeights`] if the model also has one of the matrices, or has too many.
    pub fn unstack(&mut self, stacked: &str, names: &[&str]) -> Result<()> {
        let found = self.iter().filter(|(name, tensor)| name.ends_with(stacked) && tensor.scales.is_empty());
        let found: Vec<_> = found.map(|(name, tensor)| (name.to_owned(), tensor.clone())).collect();
        let parts = names.len() as u64;
        for (name, tensor) in found {
            let &[experts, rows, cols] = &tensor.shape[..] else { continue };
            if !rows.is_multiple_of(parts) {
                continue;
            }
            self.tensors.remove(&name);
            let layer = name.trim_end_matches(stacked);
            let bytes = (tensor.range.end - tensor.range.start) / (experts * parts).max(1);
            for index in 0..experts * parts {
                let name = names[(index % parts) as usize].replace('*', &(index / parts).to_string());
                let start = tensor.range.start + index * bytes;
                let one = Tensor { shape: vec![rows / parts, cols], range: start..start + bytes, ..tensor.clone() };
                let added = self.add(format!("{layer}{name}"), Stored::Usable(one));
                added.map_err(|rule| broken(&tensor.file, rule))?;
            }
        }
        Ok(())
    }

    /// Reads rows whose blocks are in several tensors.
    pub(super) async fn blocks(&self, tensor: &Tensor, rows: &Range<u64>) -> Result<Vec<u8>> {
        let Block { elements, bytes } = tensor.dtype.block();
        let each = match tensor.dtype {
            Dtype::Affine(affine) => affine.scales.size(),
            _ => 1,
        };
        let codes = (&tensor.file, &tensor.range, bytes - each * tensor.scales.len());
        let parts = tensor.scales.iter().map(|place| (&place.file, &place.range, each)).chain([codes]);
        let groups = tensor.row_elements() / elements as u64;
        let (mut blocks, mut at) = (Vec::new(), 0);
        for (file, range, size) in parts {
            let stored = self.part(file, range, groups * size as u64, rows).await?;
            blocks.resize(stored.len() / size * bytes, 0);
            for (block, stored) in blocks.chunks_exact_mut(bytes).zip(stored.chunks_exact(size)) {
                block[at..at + size].copy_from_slice(stored);
            }
            at += size;
        }
        if tensor.dtype == Dtype::Mxfp4 {
            blocks.chunks_exact_mut(bytes).for_each(mxfp4::reorder);
        }
        Ok(blocks)
    }
}
