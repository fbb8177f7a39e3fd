//! Settings of a Hub from the environment: address, token and cache, with the variables of the Hub's Python library.

use std::env;
use std::fs;
use std::path::PathBuf;

/// Settings of a [`super::Hub`].
#[derive(Clone)]
pub struct Settings {
    /// Address of the Hub.
    pub endpoint: String,
    /// Token for private and gated models; sent only to the endpoint.
    pub token: Option<String>,
    /// Folder that holds `models--owner--name` folders.
    pub cache: PathBuf,
    /// `true`: use only the cache, without requests.
    pub offline: bool,
}

impl Settings {
    /// Reads `HF_ENDPOINT`, `HF_TOKEN` (or the file `HF_TOKEN_PATH`, `HF_HOME/token`), `HF_HUB_CACHE`, `HF_HOME` and `HF_HUB_OFFLINE`.
    pub fn from_env() -> Self {
        Self::from_variables(|name| env::var(name).ok().filter(|value| !value.is_empty()))
    }

    /// Reads settings from the given variables.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let user = || env::home_dir().unwrap_or_default();
        let folder = |name: &str| {
            let path = variable(name)?;
            // Shells do not expand `~` in quotes or in settings files.
            let inside = path.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with(['/', '\\']));
            Some(inside.map_or_else(|| path.clone().into(), |rest| user().join(rest.trim_start_matches(['/', '\\']))))
        };
        let home = folder("HF_HOME")
            .unwrap_or_else(|| folder("XDG_CACHE_HOME").unwrap_or_else(|| user().join(".cache")).join("huggingface"));
        let stored = || fs::read_to_string(folder("HF_TOKEN_PATH").unwrap_or_else(|| home.join("token"))).ok();
        let token = variable("HF_TOKEN").or_else(stored).map(|token| token.trim().to_owned());
        let offline = variable("HF_HUB_OFFLINE")
            .is_some_and(|value| ["1", "on", "yes", "true"].contains(&value.to_ascii_lowercase().as_str()));
        Self {
            endpoint: variable("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".into()),
            token: token.filter(|token| !token.is_empty()),
            cache: folder("HF_HUB_CACHE").unwrap_or_else(|| home.join("hub")),
            offline,
        }
    }
}

/// Omits the token.
impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { endpoint, cache, offline, .. } = self;
        f.debug_struct("Settings").field("endpoint", endpoint).field("cache", cache).field("offline", offline).finish()
    }
}
