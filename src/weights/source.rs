//! Sources of a model's files: the trait for byte ranges, a folder on disk, and files in memory.

use async_trait::async_trait;
use std::borrow::Cow;
use std::ops::Range;
use std::pin::Pin;

use crate::error::{Error, Result, WeightsRule};

/// Source of a model's files.
///
/// `file` is a name inside the model's folder, such as `config.json`. A source may fail or return too few bytes. Returned bytes are not
/// trusted; their parser checks them.
#[async_trait(?Send)]
pub trait Source {
    /// Returns the size of `file` in bytes, or `None` if there is no such file.
    ///
    /// # Errors
    /// [`Error::NotFound`] if it is unknown whether the file exists.
    async fn size(&self, file: &str) -> Result<Option<u64>>;

    /// Returns exactly the bytes of `range`, counted from the start of `file`.
    ///
    /// # Errors
    /// [`WeightsRule::Truncated`] if the file ends before the range does, [`Error::NotFound`] if it cannot be read.
    async fn read_range(&self, file: &str, range: Range<u64>) -> Result<Vec<u8>>;

    /// Returns the model's name for messages: a path or an id.
    fn name(&self) -> String;

    /// Returns the model's name for reports: the path of its only file, or otherwise [`Source::name`].
    fn model_name(&self) -> String {
        self.name()
    }

    /// Returns the file names; empty if they are not known.
    ///
    /// # Errors
    /// [`Error::NotFound`] if they cannot be read.
    async fn list(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// Future of reading files. It is boxed, because a future that awaits several reads would otherwise contain the states of all. Where other
/// crates call it, it is not inlined: each would compile it again.
pub type Reading<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + 'a>>;

/// Reads a whole small file, or returns `None` if there is no such file.
///
/// # Errors
/// [`WeightsRule::FileTooLarge`] if it has more than `limit` bytes, detected before reading; and errors of [`Source`].
pub fn read_small<'a>(source: &'a dyn Source, file: &'a str, limit: u64) -> Reading<'a, Option<Vec<u8>>> {
    Box::pin(async move {
        let Some(bytes) = source.size(file).await? else { return Ok(None) };
        if bytes > limit {
            return Err(broken(file, WeightsRule::FileTooLarge { bytes, limit }));
        }
        read_exact(source, file, 0..bytes).await.map(Some)
    })
}

/// Like [`Source::read_range`], for callers that index by the length. Fails if the source returns fewer or more bytes than requested.
pub(super) fn read_exact<'a>(source: &'a dyn Source, file: &'a str, range: Range<u64>) -> Reading<'a, Vec<u8>> {
    Box::pin(async move {
        let expected = range.end.saturating_sub(range.start);
        let bytes = source.read_range(file, range).await?;
        let found = bytes.len() as u64;
        if found == expected { Ok(bytes) } else { Err(broken(file, WeightsRule::Truncated { expected, found })) }
    })
}

pub(super) fn broken(file: &str, rule: WeightsRule) -> Error {
    Error::BadWeights { file: file.to_owned(), rule }
}

fn missing(source: &dyn Source, file: &str) -> Error {
    Error::NotFound { path: source.name(), reason: format!("there is no {file}") }
}

/// Files of one folder, or one GGUF file.
#[cfg(not(target_arch = "wasm32"))]
#[derive(Debug, Clone)]
pub struct Folder {
    path: std::path::PathBuf,
    /// Name of the GGUF file. Only this file is then visible, and the other parts if it is split.
    gguf: Option<String>,
}

#[cfg(not(target_arch = "wasm32"))]
impl Folder {
    /// Opens the folder or GGUF file at `path`. Files in it are accessed only on request.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the path does not exist or is something else.
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Self> {
        const WANTED: &str = "name the folder that holds config.json and model.safetensors, or a .gguf file";
        let path = path.as_ref().to_path_buf();
        let reason = match std::fs::metadata(&path) {
            Ok(data) if data.is_dir() => return Ok(Self { path, gguf: None }),
            Ok(_) if path.extension().is_some_and(|extension| extension == "gguf") => {
                let gguf = path.file_name().map(|name| name.to_string_lossy().into_owned());
                return Ok(Self { path: path.parent().map(Into::into).unwrap_or_default(), gguf });
            }
            Ok(_) => format!("is neither a folder nor a GGUF file: {WANTED}"),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => format!("is not there: {WANTED}"),
            Err(error) => format!("cannot be opened: {error}"),
        };
        Err(Error::NotFound { path: path.display().to_string(), reason })
    }

    /// Returns the path of a file. Names can come from a file of the model, so a name that leads out of the folder is an error.
    fn locate(&self, file: &str) -> Result<std::path::PathBuf> {
        let plain = |part| matches!(part, std::path::Component::Normal(_));
        if !file.is_empty() && std::path::Path::new(file).components().all(plain) {
            return Ok(self.path.join(file));
        }
        Err(Error::NotFound { path: self.name(), reason: format!("{file:?} is not a name inside the folder") })
    }

    fn failed(&self, file: &str, error: &std::io::Error) -> Error {
        Error::NotFound { path: self.path.join(file).display().to_string(), reason: format!("cannot be read: {error}") }
    }
}

#[cfg(not(target_arch = "wasm32"))]
#[async_trait(?Send)]
impl Source for Folder {
    async fn size(&self, file: &str) -> Result<Option<u64>> {
        let path = self.locate(file)?;
        if self.gguf.is_some() && !file.ends_with(".gguf") {
            return Ok(None);
        }
        match std::fs::metadata(&path) {
            // A pipe or a device has no size and may block forever.
            Ok(data) if !data.is_file() => {
                Err(Error::NotFound { path: path.display().to_string(), reason: "is not a file".to_owned() })
            }
            Ok(data) => Ok(Some(data.len())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed(file, &error)),
        }
    }

    async fn read_range(&self, file: &str, range: Range<u64>) -> Result<Vec<u8>> {
        use std::io::{Read, Seek, SeekFrom};

        let expected = range.end.saturating_sub(range.start);
        let Some(bytes) = self.size(file).await? else { return Err(missing(self, file)) };
        let there = bytes.saturating_sub(range.start);
        let truncated = |found| broken(file, WeightsRule::Truncated { expected, found });
        // This check precedes the allocation, so that an invalid range cannot request more memory than the file has bytes.
        let Some(length) = usize::try_from(expected).ok().filter(|_| expected <= there) else {
            return Err(truncated(there));
        };
        let mut bytes = Vec::with_capacity(length);
        let read = std::fs::File::open(self.locate(file)?).and_then(|mut open| {
            open.seek(SeekFrom::Start(range.start))?;
            open.take(expected).read_to_end(&mut bytes)
        });
        match read {
            Ok(found) if found == length => Ok(bytes),
            Ok(found) => Err(truncated(found as u64)),
            Err(error) => Err(self.failed(file, &error)),
        }
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn model_name(&self) -> String {
        self.gguf.as_ref().map_or_else(|| self.name(), |file| self.path.join(file).display().to_string())
    }

    async fn list(&self) -> Result<Vec<String>> {
        if let Some(file) = &self.gguf {
            return Ok(vec![file.clone()]);
        }
        let entries = std::fs::read_dir(&self.path).map_err(|error| self.failed("", &error))?;
        Ok(entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
    }
}

/// Files in memory.
#[derive(Debug, Clone)]
pub struct InMemory {
    name: String,
    files: Vec<(&'static str, Cow<'static, [u8]>)>,
}

impl InMemory {
    /// Creates a model called `name` from `files`: pairs of a file's name and its bytes.
    pub fn new(name: impl Into<String>, files: impl IntoIterator<Item = (&'static str, Cow<'static, [u8]>)>) -> Self {
        Self { name: name.into(), files: files.into_iter().collect() }
    }

    fn find(&self, file: &str) -> Option<&[u8]> {
        self.files.iter().find(|(name, _)| *name == file).map(|(_, bytes)| bytes.as_ref())
    }
}

#[async_trait(?Send)]
impl Source for InMemory {
    async fn size(&self, file: &str) -> Result<Option<u64>> {
        Ok(self.find(file).map(|bytes| bytes.len() as u64))
    }

    async fn read_range(&self, file: &str, range: Range<u64>) -> Result<Vec<u8>> {
        let Some(bytes) = self.find(file) else { return Err(missing(self, file)) };
        let part = match (usize::try_from(range.start), usize::try_from(range.end)) {
            (Ok(start), Ok(end)) => bytes.get(start..end),
            _ => None,
        };
        part.map(<[u8]>::to_vec).ok_or_else(|| {
            let expected = range.end.saturating_sub(range.start);
            let found = (bytes.len() as u64).saturating_sub(range.start);
            broken(file, WeightsRule::Truncated { expected, found })
        })
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    async fn list(&self) -> Result<Vec<String>> {
        Ok(self.files.iter().map(|(name, _)| (*name).to_owned()).collect())
    }
}
