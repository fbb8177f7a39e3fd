//! Reads tensors as the rows of a matrix or the numbers of a vector, in the order and type of a plan.

use super::{MatrixPlan, Part, VectorPlan};
use crate::error::{Error, Result, WeightsRule};
use crate::weights::{Dtype, Tensor, Weights, narrow, widen};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// Reads some rows of a matrix. `put` is called with the index of each row within `rows`, and with its bytes in the type `dtype`.
pub(crate) async fn stored_rows(
    weights: &Weights,
    plan: &MatrixPlan,
    dtype: Dtype,
    rows: Range<usize>,
    put: &mut dyn FnMut(usize, &[u8]),
) -> Result<()> {
    let mut sources: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    for (to, (part, row)) in plan.layout.sources(rows).enumerate().filter_map(|(to, source)| Some((to, source?))) {
        sources.entry(part).or_default().push((to, row));
    }
    let row_bytes = dtype.bytes(plan.cols as u64).unwrap_or(0) as usize;
    for (part, places) in sources {
        let rows = || places.iter().map(|(_, row)| *row as u64);
        let (Some(first), Some(last)) = (rows().min(), rows().max()) else { continue };
        let bytes = stored(weights, &plan.layout.parts[part], plan, dtype, first..last + 1).await?;
        for (to, row) in places {
            let from = bytes.get((row - first as usize) * row_bytes..).and_then(|rest| rest.get(..row_bytes));
            from.into_iter().for_each(|from| put(to, from));
        }
    }
    Ok(())
}

/// Reads rows of a part in the type `wanted`.
async fn stored(weights: &Weights, part: &Part, plan: &MatrixPlan, wanted: Dtype, rows: Range<u64>) -> Result<Vec<u8>> {
    let name = &part.tensor;
    let Some(tensor) = weights.get(name) else { return weights.read_rows(name, rows).await };
    let Tensor { dtype, file, shape, .. } = tensor;
    let bytes = if plan.layout.is_transposed(tensor) {
        // A part has rows of one expert.
        let (cols, each) = (plan.cols as u64, (part.tensor_rows / part.experts) as u64);
        let expert = rows.start / each;
        let all = weights.read_rows(name, expert * cols..(expert + 1) * cols).await?;
        let first = (expert * each) as usize;
        columns(&all, dtype.block().bytes, each as usize, rows.start as usize - first..rows.end as usize - first)
    } else {
        let whole = 0..plan.cols as u64;
        weights.read_rows(name, if shape.len() == 1 { whole } else { rows }).await?
    };
    if *dtype == wanted {
        return Ok(bytes);
    }
    narrow(wanted, &widen(*dtype, &bytes)).ok_or_else(|| {
        let rule = WeightsRule::TooLargeFor { tensor: name.clone(), dtype: wanted.name() };
        Error::BadWeights { file: file.clone(), rule }
    })
}

/// Returns some columns of a matrix [rows, cols] as rows. Elements have `size` bytes.
fn columns(bytes: &[u8], size: usize, cols: usize, wanted: Range<usize>) -> Vec<u8> {
    let column = |col| bytes.chunks_exact(size).skip(col).step_by(cols);
    wanted.flat_map(column).flatten().copied().collect()
}

/// Reads a vector [len].
pub(crate) async fn vector(weights: &Weights, plan: &VectorPlan) -> Result<Vec<f32>> {
    let parts = &plan.layout.parts;
    let mut read: Vec<Rc<[f32]>> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        // Parts of one tensor are adjacent in the list.
        read.push(match read.last() {
            Some(last) if parts[index - 1].tensor == part.tensor => last.clone(),
            _ => weights.read_f32(&part.tensor).await?.into(),
        });
    }
    let value = |source: Option<(usize, usize)>| match source {
        None => plan.elements.from_stored(0.0),
        // The lengths were checked with the headers.
        Some((part, row)) => plan.elements.from_stored(read[part][row]),
    };
    Ok(plan.layout.sources(0..plan.len).map(value).collect())
}
