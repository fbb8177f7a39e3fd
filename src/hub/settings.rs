//! Which Hub, with whose rights, and where its models are kept: from the environment, under the names that the Hub's Python
//! library gave.

use std::env;
use std::fs;
use std::path::PathBuf;

/// What a [`super::Hub`] needs to know.
#[derive(Clone)]
pub struct Settings {
    /// The address of the Hub.
    pub endpoint: String,
    /// For private and gated models; sent to the endpoint only.
    pub token: Option<String>,
    /// The folder with `models--owner--name` and the like.
    pub cache: PathBuf,
    /// Whether the Hub is not to be asked.
    pub offline: bool,
}

impl Settings {
    /// As `HF_ENDPOINT`, `HF_TOKEN` (or the file `HF_TOKEN_PATH`, `HF_HOME/token`), `HF_HUB_CACHE`, `HF_HOME` and
    /// `HF_HUB_OFFLINE` say.
    pub fn from_env() -> Self {
        Self::read(|name| env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let folder = |name: &str| variable(name).map(PathBuf::from);
        let home = folder("HF_HOME").unwrap_or_else(|| {
            let user = || env::home_dir().unwrap_or_default().join(".cache");
            folder("XDG_CACHE_HOME").unwrap_or_else(user).join("huggingface")
        });
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

/// Without the token.
impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { endpoint, cache, offline, .. } = self;
        f.debug_struct("Settings").field("endpoint", endpoint).field("cache", cache).field("offline", offline).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_where_models_are_kept_and_which_token_is_sent() {
        let read = |set: &[(&str, &str)]| {
            Settings::read(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
        };
        let home = env::temp_dir().join(format!("foretoken-settings-{}", std::process::id()));
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join("token"), "stored\n").unwrap();
        let at = home.to_str().unwrap();
        let plain = read(&[("HF_HOME", at)]);
        assert_eq!((&*plain.endpoint, plain.token.as_deref()), ("https://huggingface.co", Some("stored")));
        assert_eq!((plain.cache, plain.offline), (home.join("hub"), false));
        let given =
            [("HF_HOME", at), ("HF_TOKEN", " given "), ("HF_HUB_CACHE", "elsewhere"), ("HF_HUB_OFFLINE", "Yes")];
        let given = read(&given);
        assert_eq!((given.token.as_deref(), given.offline), (Some("given"), true));
        assert_eq!(given.cache, PathBuf::from("elsewhere"));
        assert!(!format!("{given:?}").contains("given"));
        let xdg = read(&[("XDG_CACHE_HOME", at), ("HF_HUB_OFFLINE", "0")]);
        assert_eq!((xdg.cache, xdg.token, xdg.offline), (home.join("huggingface").join("hub"), None, false));
        fs::remove_dir_all(home).unwrap();
    }
}
