//! Files of a model whose loading can be cancelled.

use crate::cancel::CancelToken;
use crate::error::Result;
use crate::weights::{Folder, Source};
use async_trait::async_trait;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// State of a load, shared by the folders that it reads.
#[derive(Debug, Clone)]
pub(super) struct Loading {
    cancel: CancelToken,
    is_done: Arc<AtomicBool>,
}

impl Loading {
    pub fn new(cancel: CancelToken) -> Self {
        Self { cancel, is_done: Arc::default() }
    }

    /// Lets folders be read from now on, whatever the token says: a lost device makes the engine read them again.
    pub fn finish(&self) {
        self.is_done.store(true, Ordering::SeqCst);
    }
}

/// A folder that fails if its loading is cancelled.
#[derive(Debug, Clone)]
pub(super) struct CancellableFolder {
    pub folder: Folder,
    pub loading: Loading,
}

#[async_trait(?Send)]
impl Source for CancellableFolder {
    async fn size(&self, file: &str) -> Result<Option<u64>> {
        self.folder.size(file).await
    }

    async fn read_range(&self, file: &str, range: Range<u64>) -> Result<Vec<u8>> {
        if !self.loading.is_done.load(Ordering::SeqCst) {
            self.loading.cancel.check()?;
        }
        self.folder.read_range(file, range).await
    }

    fn name(&self) -> String {
        self.folder.name()
    }

    fn model_name(&self) -> String {
        self.folder.model_name()
    }

    async fn list(&self) -> Result<Vec<String>> {
        self.folder.list().await
    }
}
