//! Conversion of a folder to a GGUF file: the row order of llama.cpp's converter, and metadata equivalent to `config.json`.

use super::{OutputFile, PORTION, bad_config, facts, gguf, too_large, vocabulary};
use foretoken::internals::checkpoint;
use foretoken::internals::load::ModelFiles;
use foretoken::internals::model::{DeltaNames, DeltaSpec, Elements, Layout, ModelSpec, Naming, Part, Plan};
use foretoken::internals::weights::{Dtype, Folder, Source, Weights, narrow, widen};
use foretoken::{LoadOptions, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// A tensor of the file.
struct Made {
    shape: Vec<u64>,
    dtype: Dtype,
    /// Source tensor and row of each row; elements of a vector count as rows.
    rows: Vec<(String, u64)>,
    /// `true`: source tensors are transposed: a row here is a column there, of an expert if they stack experts.
    transposed: bool,
    /// Meaning of the stored numbers, in the source and in the file; `None`: the same.
    elements: Option<[Elements; 2]>,
    /// Order of the columns, as groups of this many: group i is there from `order[i]`.
    columns: Option<(usize, Vec<usize>)>,
}

pub(super) async fn write(source: Folder, output: &Path, dtype: &str) -> Result<()> {
    let (to, mut header) = gguf::begin(dtype)?;
    let files = ModelFiles::open(Box::new(source), &LoadOptions::new()).await?;
    let (spec, weights) = (&files.blueprint.spec, files.checkpoint.weights());
    if spec.architecture.called(Naming::Gguf).is_empty() {
        return bad_config("model_type", "llama.cpp has no such architecture, so a GGUF file cannot hold it".into());
    }
    let mtp = spec.mtp(|tensor| weights.contains(tensor));
    let mtp_layers = mtp.iter().flat_map(|layer| layer.layers.clone());
    let layers = spec.layers.iter().cloned().chain(mtp_layers).collect();
    facts::put(&ModelSpec { layers, ..spec.clone() }, &mut header);
    if mtp.is_some() {
        header.count(&format!("{}.nextn_predict_layers", spec.architecture.called(Naming::Gguf)), 1);
    }
    let place = weights.source().name();
    header.text("general.name", place.rsplit('/').next().unwrap_or(&place));
    vocabulary::put(&files, &mut header).await?;

    let mut made = tensors(spec, weights, to);
    made.extend(mtp.into_iter().flat_map(|layer| tensors(&layer, weights, to)));
    let factors = facts::factors(spec);
    let mut zeros = Vec::new();
    for (name, values) in &factors {
        zeros.push(header.tensor(name, &[values.len() as u64], Dtype::F32));
    }
    for (name, Made { shape, dtype, .. }) in &made {
        zeros.push(header.tensor(name, shape, *dtype));
    }
    let mut zeros = zeros.into_iter();
    let mut out = OutputFile::create(output)?;
    out.write_bytes(&header.bytes())?;
    for (_, values) in &factors {
        out.write_bytes(bytemuck::cast_slice(values))?;
        out.write_bytes(&vec![0; zeros.next().unwrap_or(0)])?;
    }
    for made in made.values() {
        made.write_matrix(weights, &mut out).await?;
        out.write_bytes(&vec![0; zeros.next().unwrap_or(0)])?;
    }
    out.finish()?;
    let same = check(spec, output).await;
    if same.is_err() {
        // The error of the check is more useful.
        let _ = std::fs::remove_file(output);
    }
    same
}

/// Derives the source of each row: both naming conventions map to the same rows on the GPU.
fn tensors(spec: &ModelSpec, weights: &Weights, to: Dtype) -> BTreeMap<String, Made> {
    let [from, into] = [spec.naming, Naming::Gguf].map(|naming| Plan::new(&ModelSpec { naming, ..spec.clone() }));
    let positions = format!("{}.weight", spec.architecture.names(Naming::Gguf).positions);
    let mut all = BTreeMap::new();
    // `cols`: elements of a row; `each`: rows of the layout that are one row of the tensor.
    let mut add = |from: &Layout, into: &Layout, cols: usize, each: usize, elements: Option<[Elements; 2]>, to| {
        let count = into.parts.iter().map(|part| part.rows).sum();
        let places = into.sources(0..count).zip(from.sources(0..count)).step_by(each);
        for ((part, row), (source, source_row)) in places.filter_map(|(into, from)| into.zip(from)) {
            let Part { tensor: name, tensor_rows, experts, .. } = &into.parts[part];
            let rows = tensor_rows / each;
            let source = &from.parts[source].tensor;
            let made = all.entry(name.clone()).or_insert_with(|| {
                let is_matrix = each < cols && *name != positions;
                let dtype = if is_matrix { stored_as(weights, source, to, cols as u64) } else { Dtype::F32 };
                let stacked = (*experts > 1).then_some(*experts);
                let rows_there = Some(rows / experts).filter(|count| *count > 1 || cols == 1);
                let shape = stacked.into_iter().chain(rows_there).chain((cols > 1).then_some(cols));
                let shape = shape.map(|size| size as u64).collect();
                let rows = vec![Default::default(); rows];
                let transposed = weights.get(source).is_some_and(|tensor| from.is_transposed(tensor));
                Made { shape, dtype, rows, transposed, elements, columns: None }
            });
            made.rows[row / each] = (source.clone(), (source_row / each) as u64);
        }
    };
    // An MTP layer shares matrices with its target.
    for (from, into) in from.matrices.iter().zip(&into.matrices).filter(|(from, _)| !from.is_shared) {
        add(&from.layout, &into.layout, into.cols, 1, None, if into.is_router { Dtype::F32 } else { to });
    }
    for (from, into) in from.vectors.iter().zip(&into.vectors) {
        let elements = Some([from.elements, into.elements]).filter(|[from, into]| from != into);
        add(&from.layout, &into.layout, into.cols, into.cols, elements, to);
    }
    let from = spec.names().delta.tiled;
    let into = spec.architecture.names(Naming::Gguf);
    for (layer, delta) in spec.layers.iter().enumerate() {
        if let Some(delta) = delta.delta_net().filter(|_| from != into.delta.tiled) {
            tile_heads(delta, &format!("{}.{layer}", into.layers), &into.delta, &mut all);
        }
        // llama.cpp has some vectors of Mamba-2 as matrices.
        let Some(delta) = delta.delta_net().filter(|delta| !delta.replaces) else { continue };
        let (heads, groups) = (delta.value_heads as u64, delta.key_heads as u64);
        let names = [into.delta.rates, into.delta.skip, &format!("{}.weight", into.delta.norm)];
        let shapes = [vec![heads, 1], vec![heads, 1], vec![groups, delta.value_width() as u64 / groups]];
        for (name, shape) in names.into_iter().zip(shapes) {
            if let Some(made) = all.get_mut(&format!("{}.{layer}.{name}", into.layers)) {
                made.shape = shape;
            }
        }
    }
    all
}

/// Places heads of v that share a head of k `key_heads` apart.
fn tile_heads(delta: &DeltaSpec, layer: &str, names: &DeltaNames, all: &mut BTreeMap<String, Made>) {
    let DeltaSpec { key_heads, value_heads, value_dim, .. } = *delta;
    let order: Vec<usize> =
        (0..value_heads).map(|head| head % key_heads * (value_heads / key_heads) + head / key_heads).collect();
    let values = delta.conv_width() - delta.value_width();
    let weight = |name: &str| format!("{layer}.{name}.weight");
    let suffixed = |name: &str| format!("{layer}.{name}");
    let rows = [
        (weight(names.qkv), values, value_dim),
        (weight(names.conv), values, value_dim),
        (weight(names.gate), 0, value_dim),
        (weight(names.write), 0, 1),
        (weight(names.decay), 0, 1),
        (suffixed(names.rates), 0, 1),
        (suffixed(names.bias), 0, 1),
    ];
    for (name, first, size) in rows {
        if let Some(made) = all.get_mut(&name) {
            let old = made.rows.split_off(first);
            made.rows.extend(order.iter().flat_map(|head| &old[head * size..][..size]).cloned());
        }
    }
    if let Some(made) = all.get_mut(&weight(names.out)) {
        made.columns = Some((value_dim, order));
    }
}

/// Returns `to` if a row is whole blocks of it, else the stored type or f32.
fn stored_as(weights: &Weights, tensor: &str, to: Dtype, cols: u64) -> Dtype {
    match weights.get(tensor) {
        Some(tensor) if to.bytes(cols).is_none() && tensor.dtype.gguf_number().is_some() => tensor.dtype,
        _ if to.bytes(cols).is_none() => Dtype::F32,
        _ => to,
    }
}

impl Made {
    async fn write_matrix(&self, weights: &Weights, out: &mut OutputFile) -> Result<()> {
        let cols = self.shape.iter().product::<u64>() / self.rows.len().max(1) as u64;
        for rows in self.rows.chunks((PORTION / cols).max(1) as usize) {
            let mut values = vec![0.0; rows.len() * cols as usize];
            let mut places: BTreeMap<&str, Vec<(usize, u64)>> = BTreeMap::new();
            for (at, (tensor, row)) in rows.iter().enumerate() {
                places.entry(tensor).or_default().push((at, *row));
            }
            for (tensor, places) in places {
                self.gather(weights, tensor, &places, cols as usize, &mut values).await?;
            }
            if let Some([from, into]) = self.elements {
                values.iter_mut().for_each(|value| *value = into.to_stored(from.from_stored(*value)));
            }
            if let Some((size, order)) = &self.columns {
                for row in values.chunks_exact_mut(cols as usize) {
                    let old = row.to_vec();
                    let groups = row.chunks_exact_mut(*size).zip(order);
                    groups.for_each(|(group, from)| group.copy_from_slice(&old[from * size..][..*size]));
                }
            }
            let bytes = narrow(self.dtype, &values);
            out.write_bytes(&bytes.ok_or_else(|| too_large(weights, &rows[0].0, self.dtype.name()))?)?;
        }
        Ok(())
    }

    /// Copies rows of one tensor to their places among the values.
    async fn gather(
        &self,
        weights: &Weights,
        tensor: &str,
        places: &[(usize, u64)],
        cols: usize,
        values: &mut [f32],
    ) -> Result<()> {
        let Some(stored) = weights.get(tensor) else { return Ok(()) };
        let width = stored.row_elements() as usize;
        // Range of stored rows that hold the numbers of a row. In a transposed tensor, each row of the expert holds one of them.
        let holding = |row: u64| match self.transposed {
            true => row / width as u64 * cols as u64..(row / width as u64 + 1) * cols as u64,
            false => row * cols as u64 / width as u64..(row + 1) * cols as u64 / width as u64 + u64::from(cols < width),
        };
        let ranges = || places.iter().map(|(_, row)| holding(*row));
        let (Some(first), Some(end)) = (ranges().map(|rows| rows.start).min(), ranges().map(|rows| rows.end).max())
        else {
            return Ok(());
        };
        let source = widen(stored.dtype, &weights.read_rows(tensor, first..end.min(stored.rows())).await?);
        for (at, row) in places {
            let to = &mut values[at * cols..][..cols];
            let (from, step) = match self.transposed {
                true => ((holding(*row).start - first) as usize * width + *row as usize % width, width),
                false => (*row as usize * cols - first as usize * width, 1),
            };
            to.iter_mut().zip(source.iter().skip(from).step_by(step)).for_each(|(to, from)| *to = *from);
        }
        Ok(())
    }
}

/// Checks that the file describes the same model as the folder.
async fn check(spec: &ModelSpec, output: &Path) -> Result<()> {
    let source = Folder::open(output)?;
    let file = source.list().await?.into_iter().next();
    let found = checkpoint::open(Box::new(source), file.as_deref()).await?;
    match facts::difference(spec, found.spec()) {
        None => Ok(()),
        Some((key, wanted)) => {
            bad_config(&key, format!("a GGUF file cannot say that it is {wanted} in this architecture"))
        }
    }
}
