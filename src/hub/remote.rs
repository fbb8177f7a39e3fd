//! Files of a model on the Hub, read in ranges and not cached.

use super::cache::Repository;
use super::client::{HubClient, TransientError};
use super::id::HubId;
use super::listing::Listing;
use crate::checkpoint::choose;
use crate::error::{Error, Result, WeightsRule};
use crate::weights::{Folder, Source};
use async_trait::async_trait;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

/// An opened model, from [`super::Hub::open`].
#[derive(Debug)]
pub struct Remote {
    id: HubId,
    names: Vec<String>,
    /// Client and listing of the Hub; `None`: everything is cached.
    listed: Option<(HubClient, Listing)>,
    /// Cached files; `None`: there are none.
    kept: Option<Folder>,
}

impl Remote {
    pub(super) fn new(client: HubClient, id: &HubId, repository: &Repository, listing: Listing) -> Result<Self> {
        choose(&id.to_string(), id.file.as_deref(), &listing.names())?;
        let names = listing.names().into_iter().map(Into::into).collect();
        let kept = Folder::open(repository.snapshot(&listing.commit)).ok();
        Ok(Self { id: id.clone(), names, listed: Some((client, listing)), kept })
    }

    /// Opens a cached model, from [`Repository::find`].
    pub(super) fn kept(id: &HubId, snapshot: &Path, names: Vec<String>) -> Result<Self> {
        Ok(Self { id: id.clone(), names, listed: None, kept: Some(Folder::open(snapshot)?) })
    }
}

#[async_trait(?Send)]
impl Source for Remote {
    async fn size(&self, file: &str) -> Result<Option<u64>> {
        match (&self.listed, &self.kept) {
            (Some((_, listing)), _) => Ok(listing.files.get(file).map(|entry| entry.size)),
            (None, Some(folder)) => folder.size(file).await,
            (None, None) => Ok(None),
        }
    }

    async fn read_range(&self, file: &str, range: Range<u64>) -> Result<Vec<u8>> {
        if let Some(folder) = &self.kept
            && (self.listed.is_none() || folder.size(file).await? == self.size(file).await?)
        {
            return folder.read_range(file, range).await;
        }
        let missing = || Error::NotFound { path: self.name(), reason: format!("there is no {file}") };
        let (client, listing) = self.listed.as_ref().ok_or_else(missing)?;
        let entry = listing.files.get(file).ok_or_else(missing)?;
        let expected = range.end.saturating_sub(range.start);
        let truncated =
            |found| Error::BadWeights { file: file.into(), rule: WeightsRule::Truncated { expected, found } };
        if range.end > entry.size {
            return Err(truncated(entry.size.saturating_sub(range.start)));
        }
        let url = client.address(&self.id, &listing.commit, file);
        client.retry(&url, || {
            let (response, start) = client.get(&self.id, &url, Some((range.start, range.end)))?;
            let mut body = response.into_body().into_reader();
            let skip =
                range.start.checked_sub(start.unwrap_or(0)).ok_or_else(|| TransientError::new("other bytes came"))?;
            let mut bytes = Vec::new();
            io::copy(&mut body.by_ref().take(skip), &mut io::sink())
                .and_then(|_| body.take(expected).read_to_end(&mut bytes))
                .map_err(TransientError::new)?;
            match bytes.len() as u64 {
                found if found == expected => Ok(bytes),
                found => Err(TransientError::new(format!("{found} bytes came instead of {expected}")).into()),
            }
        })
    }

    fn name(&self) -> String {
        self.id.to_string()
    }

    async fn list(&self) -> Result<Vec<String>> {
        Ok(self.names.clone())
    }
}
