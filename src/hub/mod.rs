//! Models of the Hugging Face Hub, in the cache that its Python library shares.

mod cache;
mod client;
mod download;
mod id;
mod listing;
mod remote;
mod settings;

pub use self::cache::connect;
pub use self::id::HubId;
pub use self::remote::Remote;
pub use self::settings::Settings;

use self::cache::Repository;
use self::client::HubClient;
use self::listing::Listing;
use crate::cancel::CancelToken;
use crate::checkpoint::choose;
use crate::error::{Error, Result};
use crate::weights::{INDEX, SMALL_FILES, TEMPLATES, parse_index};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A Hub and its local cache.
#[derive(Debug, Clone)]
pub struct Hub {
    settings: Settings,
    client: HubClient,
}

/// Location of a model.
enum Found {
    /// Completely cached: folder and files.
    Kept(PathBuf, Vec<String>),
    /// On the Hub.
    Listed(Listing),
}

impl Hub {
    /// Creates a client; sends no request yet.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the endpoint is not a URL.
    pub fn new(settings: Settings) -> Result<Self> {
        Ok(Self { client: HubClient::new(&settings)?, settings })
    }

    /// Lets a token end requests, downloads and their retries with [`Error::Aborted`]. A server that is silent is left within 30 seconds.
    pub fn cancelled_by(mut self, cancel: &CancelToken) -> Self {
        self.client.cancel = cancel.clone();
        self
    }

    /// Downloads a model to the cache. Returns its folder, or its (first) GGUF file. `progress` is called with the bytes that are there and
    /// the total, as far as known. If the Hub cannot be reached, the cached files are used.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the Hub does not have or does not show the model, or if the cache is not writable; [`Error::Network`];
    /// [`Error::Integrity`].
    pub fn download(&self, id: &HubId, progress: &mut dyn FnMut(u64, u64)) -> Result<PathBuf> {
        let repository = self.repository(id);
        let (snapshot, files) = match self.listing(id, &repository)? {
            Found::Kept(snapshot, files) => (snapshot, files),
            Found::Listed(listing) => {
                let files = choose(&id.to_string(), id.file.as_deref(), &listing.names())?;
                let brought = self.bring(id, &repository, &listing, files, progress)?;
                // Recorded only now, so that offline use finds complete revisions only.
                repository.remember(id, &listing.commit)?;
                brought
            }
        };
        Ok(match files.first() {
            Some(file) if file.ends_with(".gguf") => snapshot.join(file),
            _ => snapshot,
        })
    }

    /// Downloads only the files that texts need: all but the weights. Returns their folder.
    pub fn download_words(&self, id: &HubId, progress: &mut dyn FnMut(u64, u64)) -> Result<PathBuf> {
        let repository = self.repository(id);
        match self.listing(id, &repository)? {
            Found::Kept(snapshot, _) => Ok(snapshot),
            Found::Listed(listing) => {
                let names = SMALL_FILES.iter().chain(&TEMPLATES).filter(|name| listing.files.contains_key(**name));
                let names = names.map(ToString::to_string).collect();
                Ok(self.bring(id, &repository, &listing, names, progress)?.0)
            }
        }
    }

    /// Opens the files of a model on the Hub or in the cache. Bytes that are read are not cached.
    pub fn open(&self, id: &HubId) -> Result<Remote> {
        let repository = self.repository(id);
        match self.listing(id, &repository)? {
            Found::Kept(snapshot, files) => Remote::kept(id, &snapshot, files),
            Found::Listed(listing) => Remote::new(self.client.clone(), id, &repository, listing),
        }
    }

    fn listing(&self, id: &HubId, repository: &Repository) -> Result<Found> {
        let kept = || repository.find(id).map(|(snapshot, files)| Found::Kept(snapshot, files));
        if self.settings.offline {
            return kept();
        }
        // A commit never changes.
        if let (true, Ok(kept)) = (id.is_pinned(), kept()) {
            return Ok(kept);
        }
        match Listing::request(&self.client, id) {
            Ok(listing) => Ok(Found::Listed(listing)),
            Err(error @ Error::Network { .. }) => kept().map_err(|_| error),
            Err(error) => Err(error),
        }
    }

    fn repository(&self, id: &HubId) -> Repository {
        Repository::new(&self.settings.cache, &id.repository)
    }

    fn bring(
        &self,
        id: &HubId,
        repository: &Repository,
        listing: &Listing,
        mut files: Vec<String>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(PathBuf, Vec<String>)> {
        let snapshot = repository.snapshot(&listing.commit);
        let (mut done, mut next) = (0, 0);
        while let Some(name) = files.get(next).cloned() {
            let file = listing.file(id, &name)?;
            let all = files.iter().filter_map(|name| listing.files.get(name)).map(|file| file.size).sum();
            let mut here = |here| progress(done + here, all);
            repository.bring(&self.client, id, &listing.commit, (&name, file), &mut here)?;
            done += file.size;
            next += 1;
            if name == INDEX {
                let index = std::fs::read(snapshot.join(&name)).map_err(|error| cache::failed(&snapshot, &error))?;
                files.extend(shards(&index)?);
            }
        }
        Ok((snapshot, files))
    }
}

fn shards(index: &[u8]) -> Result<BTreeSet<String>> {
    let map = parse_index(index).map_err(|rule| Error::BadWeights { file: INDEX.into(), rule })?;
    Ok(map.into_values().collect())
}
