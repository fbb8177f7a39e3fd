//! Cache folder of a repository. `blobs/DIGEST` holds the bytes, `snapshots/COMMIT/FILE` links to them, `refs/REVISION` holds a commit. A
//! process that writes a blob locks `.locks/models--owner--name/DIGEST.lock`.

use super::client::HubClient;
use super::download::Download;
use super::id::HubId;
use super::listing::ListedFile;
use super::shards;
use crate::checkpoint::choose;
use crate::error::{Error, Result};
use crate::weights::INDEX;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// Interval between checks of another process's download.
const GLANCE: Duration = Duration::from_millis(200);

/// Cached files of a repository.
pub(super) struct Repository {
    folder: PathBuf,
    locks: PathBuf,
}

impl Repository {
    pub fn new(cache: &Path, repository: &str) -> Self {
        let name = format!("models--{}", repository.replace('/', "--"));
        Self { folder: cache.join(&name), locks: cache.join(".locks").join(name) }
    }

    /// Returns the folder of a commit's files.
    pub fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    fn reference(&self, id: &HubId) -> PathBuf {
        self.folder.join("refs").join(id.revision())
    }

    /// Finds a model that is completely cached. Returns its folder and files.
    pub fn find(&self, id: &HubId) -> Result<(PathBuf, Vec<String>)> {
        let lacking = |what: &str| {
            let place = self.folder.display();
            let reason = format!("{what} in {place}: run it once with a connection, and without HF_HUB_OFFLINE");
            Error::NotFound { path: id.to_string(), reason }
        };
        let commit = if id.is_pinned() { Ok(id.revision().to_owned()) } else { fs::read_to_string(self.reference(id)) };
        let snapshot = self.snapshot(commit.map_err(|_| lacking("it is not"))?.trim());
        let mut names = Vec::new();
        list(&snapshot, "", &mut names);
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        if names.is_empty() {
            return Err(lacking("it is not"));
        }
        let mut files = choose(&id.to_string(), id.file.as_deref(), &names)?;
        if files.iter().any(|file| file == INDEX) {
            files.extend(shards(&fs::read(snapshot.join(INDEX)).map_err(|error| failed(&snapshot, &error))?)?);
        }
        match files.iter().find(|file| !names.contains(&file.as_str())) {
            Some(missing) => Err(lacking(&format!("{missing} is not"))),
            None => Ok((snapshot, files)),
        }
    }

    /// Adds a file to a commit's snapshot, and downloads it if its bytes are not cached. `progress` is called with the bytes that are
    /// there.
    pub fn bring(
        &self,
        client: &HubClient,
        id: &HubId,
        commit: &str,
        (name, entry): (&str, &ListedFile),
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let here = |path: &Path| fs::metadata(path).is_ok_and(|data| data.is_file() && data.len() == entry.size);
        let link = self.snapshot(commit).join(name);
        let blob = self.folder.join("blobs").join(&entry.digest);
        if !here(&link) {
            let incomplete = blob.with_extension("incomplete");
            for folder in [blob.parent(), link.parent(), Some(&self.locks)].into_iter().flatten() {
                fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
            }
            let _lock = self.lock(&entry.digest, || {
                progress(fs::metadata(&incomplete).map_or(0, |data| data.len()));
                client.cancel.check()
            })?;
            if !here(&blob) {
                let url = &client.address(id, commit, name);
                Download { client, id, url, entry, path: &incomplete, progress }.fetch()?;
                fs::rename(&incomplete, &blob).map_err(|error| failed(&blob, &error))?;
            }
            // A dangling link may exist.
            let _ = fs::remove_file(&link);
            let steps = name.matches('/').count() + 2;
            let relative = format!("{}blobs/{}", "../".repeat(steps), entry.digest);
            connect(&relative, &blob, &link).map_err(|error| failed(&link, &error))?;
        }
        progress(entry.size);
        Ok(())
    }

    /// Waits until no other process writes this blob.
    fn lock(&self, digest: &str, mut waiting: impl FnMut() -> Result<()>) -> Result<File> {
        let path = self.locks.join(format!("{digest}.lock"));
        let lock = File::options().create(true).append(true).open(&path).map_err(|error| failed(&path, &error))?;
        // On a file system without locks, continue: the digest is checked at the end.
        while let Err(TryLockError::WouldBlock) = lock.try_lock() {
            waiting()?;
            sleep(GLANCE);
        }
        Ok(lock)
    }

    /// Records the current commit of the revision.
    pub fn remember(&self, id: &HubId, commit: &str) -> Result<()> {
        let reference = self.reference(id);
        if id.is_pinned() || fs::read_to_string(&reference).is_ok_and(|known| known == commit) {
            return Ok(());
        }
        let written =
            fs::create_dir_all(reference.parent().unwrap_or(&self.folder)).and_then(|()| fs::write(&reference, commit));
        written.map_err(|error| failed(&reference, &error))
    }
}

/// Lists the files below a folder by their names in the repository, without dangling links.
fn list(folder: &Path, before: &str, names: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), format!("{before}{}", entry.file_name().to_string_lossy()));
        if path.is_dir() {
            list(&path, &format!("{name}/"), names);
        } else if path.is_file() {
            names.push(name);
        }
    }
}

/// Links a blob to a second place. Symbolic links need rights on some systems, and some file systems lack them. The fallback is a hard link
/// or a copy, which Python's library accepts too.
pub fn connect(relative: &str, blob: &Path, link: &Path) -> io::Result<()> {
    symlink(relative, link).or_else(|_| fs::hard_link(blob, link)).or_else(|_| fs::copy(blob, link).map(|_| ()))
}

#[cfg(unix)]
use std::os::unix::fs::symlink;

#[cfg(windows)]
fn symlink(relative: &str, link: &Path) -> io::Result<()> {
    std::os::windows::fs::symlink_file(relative.replace('/', "\\"), link)
}

#[cfg(not(any(unix, windows)))]
fn symlink(_: &str, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns the error for a cache file that cannot be used.
pub(super) fn failed(path: &Path, error: &io::Error) -> Error {
    let advice = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space, or set HF_HOME to a folder on another disk"
        }
        _ => "set HF_HOME to a folder that can be written, or change its rights",
    };
    Error::NotFound { path: path.display().to_string(), reason: format!("{error}: {advice}") }
}
