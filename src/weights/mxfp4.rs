//! MXFP4 as gpt-oss stores it: codes `X_blocks` [..., groups, 16] and exponents `X_scales` [..., groups] are one matrix `X`.

use super::source::broken;
use super::{Dtype, FilePlace, Stored, Tensor, tensor_of};
use crate::error::{Result, WeightsRule};
use ::safetensors::Dtype::U8;
use std::collections::BTreeMap;

/// Joins each two tensors of a matrix into one.
///
/// # Errors
/// [`crate::Error::BadWeights`] if the exponents are missing, or do not have one for each group of codes.
pub(super) fn join(tensors: &mut BTreeMap<String, Stored>) -> Result<()> {
    let name = |(name, stored): (&String, &Stored)| match stored {
        Stored::Integers { dtype: U8, shape, .. } if shape.last() == Some(&16) => {
            Some(name.strip_suffix("_blocks")?.to_owned())
        }
        _ => None,
    };
    for name in tensors.iter().filter_map(name).collect::<Vec<_>>() {
        let scales = format!("{name}_scales");
        let Some(Stored::Integers { place: codes, mut shape, .. }) = tensors.remove(&format!("{name}_blocks")) else {
            continue;
        };
        shape.pop();
        let exponents = match tensors.remove(&scales) {
            Some(Stored::Integers { dtype: U8, place, shape: found }) if found == shape => place,
            Some(Stored::Integers { dtype: U8, shape: found, .. }) => {
                return Err(broken(&codes.file, WeightsRule::WrongShape { tensor: scales, found, expected: shape }));
            }
            other => return tensor_of(other.as_ref(), &scales, &codes.file).map(|_| ()),
        };
        shape.iter_mut().last().into_iter().for_each(|groups| *groups = groups.saturating_mul(32));
        let FilePlace { file, range } = codes;
        tensors
            .insert(name, Stored::Usable(Tensor { file, dtype: Dtype::Mxfp4, shape, range, scales: vec![exponents] }));
    }
    Ok(())
}

/// Reorders the codes of a block: gpt-oss has neighbours in a byte, GGUF has codes 16 apart.
pub(super) fn reorder(block: &mut [u8]) {
    let Some((_, codes)) = block.split_first_mut() else { return };
    let stored = codes.to_vec();
    let code = |index: usize| stored[index / 2] >> (index % 2 * 4) & 15;
    let half = stored.len();
    codes.iter_mut().enumerate().for_each(|(index, byte)| *byte = code(index) | code(index + half) << 4);
}
