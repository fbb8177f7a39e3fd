//! Listing of a repository on the Hub: its commit, and the size and digest of each file.

use super::client::HubClient;
use super::id::{HubId, is_commit};
use crate::error::{Error, Result};
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

const LARGEST: u64 = 64 << 20;

/// A revision of a repository.
#[derive(Debug)]
pub(super) struct Listing {
    /// Full name of the commit.
    pub commit: String,
    /// Files by their name in the repository.
    pub files: BTreeMap<String, ListedFile>,
}

/// A file in a listing.
#[derive(Debug, Clone)]
pub(super) struct ListedFile {
    /// Bytes.
    pub size: u64,
    /// Digest in hexadecimal, also the name in the cache: SHA-256 for large files, git's blob id for others.
    pub digest: String,
}

#[derive(Deserialize)]
struct HubAnswer {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sibling {
    rfilename: String,
    size: u64,
    blob_id: String,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    sha256: String,
}

impl Listing {
    /// Requests the listing.
    pub fn request(client: &HubClient, id: &HubId) -> Result<Self> {
        let url = client.listing_address(id);
        let bytes = client.get_small(id, &url, LARGEST)?;
        let unusable = |reason: String| Error::Network {
            url: url.clone(),
            reason: format!("this is not how a Hub lists a repository ({reason}): is HF_ENDPOINT right?"),
        };
        let HubAnswer { sha: commit, siblings } =
            serde_json::from_slice(&bytes).map_err(|error| unusable(error.to_string()))?;
        let mut files = BTreeMap::new();
        for Sibling { rfilename, size, blob_id, lfs } in siblings {
            let entry = ListedFile { size, digest: lfs.map_or(blob_id, |lfs| lfs.sha256) };
            // The names become local file names.
            let plain =
                rfilename.split('/').all(|part| !["", ".", ".."].contains(&part)) && !rfilename.contains(['\\', ':']);
            if plain && entry.is_sound() {
                files.insert(rfilename, entry);
            }
        }
        if is_commit(&commit) { Ok(Self { commit, files }) } else { Err(unusable(format!("sha is {commit:?}"))) }
    }

    pub fn names(&self) -> Vec<&str> {
        self.files.keys().map(String::as_str).collect()
    }

    pub fn file(&self, id: &HubId, name: &str) -> Result<&ListedFile> {
        let missing =
            || Error::NotFound { path: id.to_string(), reason: format!("there is no {name}, which belongs to it") };
        self.files.get(name).ok_or_else(missing)
    }
}

impl ListedFile {
    fn is_sound(&self) -> bool {
        [40, 64].contains(&self.digest.len()) && self.digest.bytes().all(|byte| byte.is_ascii_hexdigit())
    }

    /// Returns true if the file at `path` has the listed digest.
    pub fn is(&self, path: &Path) -> io::Result<bool> {
        let mut context = if self.digest.len() == 64 {
            Context::new(&SHA256)
        } else {
            let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
            context.update(format!("blob {}\0", self.size).as_bytes());
            context
        };
        let (mut file, mut bytes) = (File::open(path)?, vec![0; 1 << 20]);
        loop {
            match file.read(&mut bytes)? {
                0 => break,
                read => context.update(&bytes[..read]),
            }
        }
        let found: String = context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(found.eq_ignore_ascii_case(&self.digest))
    }
}
