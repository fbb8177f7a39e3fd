//! Where the files of a model come from: one trait for byte ranges, a folder on disk, and files in memory.

use std::borrow::Cow;
use std::ops::Range;
use std::pin::Pin;

use crate::error::{Error, Result, WeightsRule};

/// Where the files of a model come from.
///
/// `file` is a name inside the model's folder, such as `config.json`. A source may fail and be short, but what it gives is not trusted:
/// whoever parses the bytes checks them.
#[allow(
    async_fn_in_trait,
    reason = "in the browser futures are not Send, so no bound could be named that holds on both faces"
)]
pub trait Source {
    /// The size of `file` in bytes, or `None` when there is no such file.
    ///
    /// # Errors
    /// [`Error::NotFound`] when it cannot be told whether the file is there.
    async fn size(&self, file: &str) -> Result<Option<u64>>;

    /// Exactly the bytes of `range`, counted from the beginning of `file`.
    ///
    /// # Errors
    /// [`WeightsRule::Truncated`] when the file ends before the range does, [`Error::NotFound`] when it cannot be read.
    async fn read(&self, file: &str, range: Range<u64>) -> Result<Vec<u8>>;

    /// What a person would call the model in a message: a path or an id.
    fn name(&self) -> String;

    /// The model's name in reports: the path of its only file, or else [`Source::name`].
    fn model_name(&self) -> String {
        self.name()
    }

    /// The names of its files; empty where they cannot be told.
    ///
    /// # Errors
    /// [`Error::NotFound`] when they cannot be read.
    async fn list(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// What comes of reading files. It is on the heap, because whoever waits for several would hold the states of all.
pub type Reading<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + 'a>>;

/// The whole of a small file, or `None` when there is no such file.
///
/// # Errors
/// [`WeightsRule::FileTooLarge`] when it has more than `limit` bytes, found before anything is read; and those of [`Source`].
pub fn read_small<'a>(source: &'a impl Source, file: &'a str, limit: u64) -> Reading<'a, Option<Vec<u8>>> {
    Box::pin(async move {
        let Some(bytes) = source.size(file).await? else { return Ok(None) };
        if bytes > limit {
            return Err(broken(file, WeightsRule::FileTooLarge { bytes, limit }));
        }
        read_exact(source, file, 0..bytes).await.map(Some)
    })
}

/// As [`Source::read`], for callers who index by the length: a source that gives less or more than asked is refused.
pub(super) fn read_exact<'a>(source: &'a impl Source, file: &'a str, range: Range<u64>) -> Reading<'a, Vec<u8>> {
    Box::pin(async move {
        let expected = range.end.saturating_sub(range.start);
        let bytes = source.read(file, range).await?;
        let found = bytes.len() as u64;
        if found == expected { Ok(bytes) } else { Err(broken(file, WeightsRule::Truncated { expected, found })) }
    })
}

pub(super) fn broken(file: &str, rule: WeightsRule) -> Error {
    Error::BadWeights { file: file.to_owned(), rule }
}

fn missing(source: &impl Source, file: &str) -> Error {
    Error::NotFound { path: source.name(), reason: format!("there is no {file}") }
}

/// The files of one folder, or one GGUF file.
#[cfg(not(target_arch = "wasm32"))]
#[derive(Debug, Clone)]
pub struct Folder {
    path: std::path::PathBuf,
    /// The file, which is then all that there is, but for the other parts where it is split.
    gguf: Option<String>,
}

#[cfg(not(target_arch = "wasm32"))]
impl Folder {
    /// The folder at `path`, or the GGUF file; files are looked at when they are asked for.
    ///
    /// # Errors
    /// [`Error::NotFound`] when nothing is there, or something else.
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

    /// Names can come from a file of the model, so one that leads out of the folder is refused.
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
impl Source for Folder {
    async fn size(&self, file: &str) -> Result<Option<u64>> {
        let path = self.locate(file)?;
        if self.gguf.is_some() && !file.ends_with(".gguf") {
            return Ok(None);
        }
        match std::fs::metadata(&path) {
            // A pipe or a device has no size and may block for ever.
            Ok(data) if !data.is_file() => {
                Err(Error::NotFound { path: path.display().to_string(), reason: "is not a file".to_owned() })
            }
            Ok(data) => Ok(Some(data.len())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed(file, &error)),
        }
    }

    async fn read(&self, file: &str, range: Range<u64>) -> Result<Vec<u8>> {
        use std::io::{Read, Seek, SeekFrom};

        let expected = range.end.saturating_sub(range.start);
        let Some(bytes) = self.size(file).await? else { return Err(missing(self, file)) };
        let there = bytes.saturating_sub(range.start);
        let truncated = |found| broken(file, WeightsRule::Truncated { expected, found });
        // Before the allocation, so that a range made up by a file cannot ask for more memory than the file has bytes.
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

/// Files that are in memory already.
#[derive(Debug, Clone)]
pub struct Memory {
    name: String,
    files: Vec<(&'static str, Cow<'static, [u8]>)>,
}

impl Memory {
    /// A model called `name` that consists of `files`: pairs of a file's name and its bytes.
    pub fn new(name: impl Into<String>, files: impl IntoIterator<Item = (&'static str, Cow<'static, [u8]>)>) -> Self {
        Self { name: name.into(), files: files.into_iter().collect() }
    }

    fn find(&self, file: &str) -> Option<&[u8]> {
        self.files.iter().find(|(name, _)| *name == file).map(|(_, bytes)| bytes.as_ref())
    }
}

impl Source for Memory {
    async fn size(&self, file: &str) -> Result<Option<u64>> {
        Ok(self.find(file).map(|bytes| bytes.len() as u64))
    }

    async fn read(&self, file: &str, range: Range<u64>) -> Result<Vec<u8>> {
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
