//! A file of the Hub to a file on disk: goes on where it was cut, and ends with the digest.

use super::cache::failed;
use super::client::{Client, Failed, Trouble, without_query};
use super::id::HubId;
use super::listing::Entry;
use crate::error::{Error, Result};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

/// Downloads what `path` lacks. `progress` hears of the bytes that are there.
pub(super) fn download(
    client: &Client,
    id: &HubId,
    url: &str,
    entry: &Entry,
    path: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let started = fs::metadata(path).map_or(0, |data| data.len());
    let mut most = started;
    client.patiently(url, || {
        progress(fs::metadata(path).map_or(0, |data| data.len()));
        let cut = match continued(client, id, url, entry, path, progress) {
            Err(Failed::Passing(trouble)) => trouble,
            done => return done,
        };
        let here = fs::metadata(path).map_or(0, |data| data.len());
        let trouble = Trouble { progress: here > most, ..cut };
        most = most.max(here);
        Err(trouble.into())
    })?;
    if entry.is(path).map_err(|error| failed(path, &error))? {
        return Ok(());
    }
    fs::remove_file(path).map_err(|error| failed(path, &error))?;
    // What was here before may have been damaged.
    if started > 0 {
        return download(client, id, url, entry, path, progress);
    }
    let reason = "what came is not what the Hub lists, and was deleted: run it again, and if it stays so, the server between \
                  you and the Hub changes files";
    Err(Error::Integrity { file: without_query(url), reason: reason.into() })
}

/// One request for the rest.
fn continued(
    client: &Client,
    id: &HubId,
    url: &str,
    entry: &Entry,
    path: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<(), Failed> {
    let unusable = |error| failed(path, &error);
    let mut here = fs::metadata(path).map_or(0, |data| data.len());
    if here == entry.size {
        return Ok(());
    }
    // What is too long begins anew.
    here = if here > entry.size { 0 } else { here };
    let (response, start) = client.get(id, url, (here > 0).then_some((here, entry.size)))?;
    let start = start.unwrap_or(0);
    if start != here && start != 0 {
        return Err(Trouble::new(format!("bytes from {start} came instead of those from {here}")).into());
    }
    let opened = if start == 0 { File::create(path) } else { File::options().append(true).open(path) };
    let mut file = opened.map_err(unusable)?;
    here = start;
    let (mut body, mut bytes) = (response.into_body().into_reader(), vec![0; 1 << 16]);
    loop {
        let read = body.read(&mut bytes).map_err(|error| Trouble::new(format!("the connection was cut ({error})")))?;
        here += read as u64;
        if here > entry.size {
            fs::remove_file(path).map_err(unusable)?;
            let reason = format!("more than the {} bytes came that the Hub lists", entry.size);
            return Err(Error::Integrity { file: without_query(url), reason }.into());
        }
        if read == 0 {
            break;
        }
        file.write_all(&bytes[..read]).map_err(unusable)?;
        progress(here);
    }
    if here < entry.size {
        return Err(Trouble::new(format!("the connection was cut after {here} of {} bytes", entry.size)).into());
    }
    Ok(())
}
