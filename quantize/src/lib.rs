//! The command `foretoken quantize`: stores a model's matrices in another type, with one portion of rows in memory at a time.

#![forbid(unsafe_code)]

mod convert;
mod facts;
mod folder;
mod gguf;
mod header;
mod vocabulary;

use foretoken::internals::weights::{Dtype, Folder, Source, Tensor, Weights, narrow, widen};
use foretoken::{Error, Result, WeightsRule};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Weights converted at a time.
const PORTION: u64 = 1 << 20;

/// Model and output
#[derive(clap::Args)]
pub struct QuantizeArgs {
    /// Model: a folder with config.json and safetensors, or a GGUF file
    input: PathBuf,
    /// Output, which must not exist: a GGUF file if its name ends with .gguf, else, from a folder, a folder
    output: PathBuf,
    /// F32, F16 or BF16; in GGUF also Q4_0, Q4_1, Q5_0, Q5_1, Q8_0; in a folder also mlx4 or mlx8, MLX's layout
    #[arg(long = "type", value_name = "TYPE")]
    dtype: String,
}

/// Stores the model.
///
/// # Errors
/// `bad-option` for a type or an output that is not possible; whatever the model's files cause.
pub async fn quantize(args: &QuantizeArgs) -> Result<()> {
    let source = Folder::open(&args.input)?;
    let is_gguf = |path: &Path| path.extension().is_some_and(|end| end == "gguf");
    let file = source.list().await?.into_iter().find(|_| is_gguf(&args.input));
    match file {
        Some(file) => gguf::write(source, &file, &args.output, &args.dtype).await,
        None if is_gguf(&args.output) => convert::write(source, &args.output, &args.dtype).await,
        None => folder::write(source, &args.output, &args.dtype).await,
    }
}

fn bad_type<T>(dtype: &str, allowed: String) -> Result<T> {
    Err(Error::BadOption { option: "type".into(), value: dtype.to_owned(), allowed })
}

/// Returns the row ranges of a tensor that are converted one at a time.
fn portions(tensor: &Tensor) -> impl Iterator<Item = Range<u64>> {
    let (rows, step) = (tensor.rows(), (PORTION / tensor.row_elements().max(1)).max(1));
    (0..rows).step_by(step as usize).map(move |from| from..rows.min(from + step))
}

/// Writes a tensor's rows as `to`, one portion at a time.
async fn write_rows(weights: &Weights, name: &str, tensor: &Tensor, to: Dtype, out: &mut OutputFile) -> Result<()> {
    for rows in portions(tensor) {
        let bytes = weights.read_rows(name, rows).await?;
        if tensor.dtype == to {
            out.write_bytes(&bytes)?;
        } else {
            let values = widen(tensor.dtype, &bytes);
            out.write_bytes(&narrow(to, &values).ok_or_else(|| too_large(weights, name, to.name()))?)?;
        }
    }
    Ok(())
}

fn too_large(weights: &Weights, tensor: &str, dtype: &'static str) -> Error {
    let file = weights.get(tensor).map_or_else(String::new, |tensor| tensor.file.clone());
    Error::BadWeights { file, rule: WeightsRule::TooLargeFor { tensor: tensor.to_owned(), dtype } }
}

fn bad_config<T>(key: &str, reason: String) -> Result<T> {
    Err(Error::BadConfig { file: "config.json".into(), key: key.into(), reason })
}

/// A new file.
struct OutputFile {
    path: PathBuf,
    file: BufWriter<File>,
}

impl OutputFile {
    fn create(path: &Path) -> Result<Self> {
        let file = File::create_new(path).map_err(|error| unwritable(path, &error))?;
        Ok(Self { path: path.to_owned(), file: BufWriter::with_capacity(1 << 20, file) })
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| unwritable(&self.path, &error))
    }

    fn finish(mut self) -> Result<()> {
        self.file.flush().map_err(|error| unwritable(&self.path, &error))
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Error {
    let allowed = format!("a path where nothing is yet and something can be written ({error})");
    Error::BadOption { option: "output".into(), value: path.display().to_string(), allowed }
}
