//! Download of a file of the Hub to disk: continues after interruptions, and checks the digest at the end.

use super::cache::failed;
use super::client::{HubClient, HubFailure, TransientError, without_query};
use super::id::HubId;
use super::listing::ListedFile;
use crate::error::{Error, Result};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

/// Download of one file.
pub(super) struct Download<'a> {
    pub client: &'a HubClient,
    pub id: &'a HubId,
    pub url: &'a str,
    pub entry: &'a ListedFile,
    /// Destination. Bytes that are already there are not requested again.
    pub path: &'a Path,
    /// Called with the number of bytes that are there.
    pub progress: &'a mut dyn FnMut(u64),
}

impl Download<'_> {
    /// Downloads the missing bytes.
    pub fn fetch(&mut self) -> Result<()> {
        let (client, url) = (self.client, self.url);
        let started = self.here();
        let mut most = started;
        client.retry(url, || {
            let here = self.here();
            (self.progress)(here);
            let cut = match self.fetch_rest() {
                Err(HubFailure::Transient(failure)) => failure,
                done => return done,
            };
            let here = self.here();
            let failure = TransientError { progress: here > most, ..cut };
            most = most.max(here);
            Err(failure.into())
        })?;
        if self.entry.is(self.path).map_err(|error| self.unusable(&error))? {
            return Ok(());
        }
        fs::remove_file(self.path).map_err(|error| self.unusable(&error))?;
        // Bytes from an earlier download may be damaged.
        if started > 0 {
            return self.fetch();
        }
        Err(self.wrong(
            "the downloaded bytes differ from the digest on the Hub, and were deleted: try again. If that fails too, a \
             proxy between you and the Hub changes files",
        ))
    }

    fn fetch_rest(&mut self) -> Result<(), HubFailure> {
        let size = self.entry.size;
        let mut here = self.here();
        if here == size {
            return Ok(());
        }
        // A file that is too long is replaced.
        here = if here > size { 0 } else { here };
        let (response, start) = self.client.get(self.id, self.url, (here > 0).then_some((here, size)))?;
        let start = start.unwrap_or(0);
        if start != here && start != 0 {
            return Err(TransientError::new(format!("bytes from {start} came instead of those from {here}")).into());
        }
        let opened = if start == 0 { File::create(self.path) } else { File::options().append(true).open(self.path) };
        let mut file = opened.map_err(|error| self.unusable(&error))?;
        here = start;
        let (mut body, mut bytes) = (response.into_body().into_reader(), vec![0; 1 << 16]);
        loop {
            self.client.cancel.check()?;
            let read = body
                .read(&mut bytes)
                .map_err(|error| TransientError::new(format!("the connection was cut ({error})")))?;
            here += read as u64;
            if here > size {
                fs::remove_file(self.path).map_err(|error| self.unusable(&error))?;
                return Err(self.wrong(&format!("more than the {size} bytes came that the Hub lists")).into());
            }
            if read == 0 {
                break;
            }
            file.write_all(&bytes[..read]).map_err(|error| self.unusable(&error))?;
            (self.progress)(here);
        }
        if here < size {
            return Err(TransientError::new(format!("the connection was cut after {here} of {size} bytes")).into());
        }
        Ok(())
    }

    /// Counts the bytes that are there.
    fn here(&self) -> u64 {
        fs::metadata(self.path).map_or(0, |data| data.len())
    }

    fn unusable(&self, error: &io::Error) -> Error {
        failed(self.path, error)
    }

    fn wrong(&self, reason: &str) -> Error {
        Error::Integrity { file: without_query(self.url), reason: reason.into() }
    }
}
