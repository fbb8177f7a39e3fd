//! `foretoken quantize`: a model with its matrices stored as another type, one portion of rows in memory at a time.

mod folder;
mod gguf;

use super::Failure;
use crate::error::{Error, Result, WeightsRule};
use crate::weights::{Dtype, Folder, Source, Tensor, Weights, narrow, widen};
use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;

/// Weights converted at a time.
const PORTION: u64 = 1 << 20;

/// Which model, and what becomes of it
#[derive(clap::Args)]
pub(super) struct Args {
    /// The model: a folder with config.json and safetensors, or a GGUF file
    input: PathBuf,
    /// What to write: a folder from a folder, a GGUF file from a GGUF file; it must not exist
    output: PathBuf,
    /// F32, F16 or BF16; in GGUF also Q4_0, Q4_1, Q5_0, Q5_1, Q8_0; in a folder also mlx4 or mlx8, MLX's layout
    #[arg(long = "type", value_name = "TYPE")]
    dtype: String,
}

pub(super) async fn run(args: &Args) -> std::result::Result<(), Failure> {
    let source = Folder::open(&args.input)?;
    let file = source.list().await?.into_iter().find(|_| args.input.extension().is_some_and(|end| end == "gguf"));
    match file {
        Some(file) => gguf::write(source, &file, &args.output, &args.dtype).await,
        None => folder::write(source, &args.output, &args.dtype).await,
    }
}

fn bad_type<T>(dtype: &str, allowed: String) -> Result<T> {
    Err(Error::BadOption { option: "type".into(), value: dtype.to_owned(), allowed })
}

/// The ranges of a tensor's rows that are converted one after the other.
fn portions(tensor: &Tensor) -> impl Iterator<Item = Range<u64>> {
    let (rows, step) = (tensor.rows(), (PORTION / tensor.row_elements().max(1)).max(1));
    (0..rows).step_by(step as usize).map(move |from| from..rows.min(from + step))
}

/// Writes a tensor's rows as `to`, one portion after the other.
async fn write_rows(
    weights: &Weights<Folder>,
    name: &str,
    tensor: &Tensor,
    to: Dtype,
    out: &mut impl Write,
) -> std::result::Result<(), Failure> {
    for rows in portions(tensor) {
        let bytes = weights.read_rows(name, rows).await?;
        if tensor.dtype == to {
            out.write_all(&bytes)?;
            continue;
        }
        out.write_all(&narrow(to, &widen(tensor.dtype, &bytes)).ok_or_else(|| too_large(name, tensor, to.name()))?)?;
    }
    Ok(())
}

fn too_large(name: &str, tensor: &Tensor, dtype: &'static str) -> Error {
    let rule = WeightsRule::TooLargeFor { tensor: name.to_owned(), dtype };
    Error::BadWeights { file: tensor.file.clone(), rule }
}

/// A file that did not exist before.
fn create(path: &std::path::Path) -> io::Result<io::BufWriter<std::fs::File>> {
    let in_words = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    std::fs::File::create_new(path).map(|file| io::BufWriter::with_capacity(1 << 20, file)).map_err(in_words)
}
