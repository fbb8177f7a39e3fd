//! Name of a model on the Hub: `owner/name[@revision][:file]`.

use std::fmt;
use std::str::FromStr;

/// A model of the Hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubId {
    /// `owner/name`.
    pub repository: String,
    /// Branch, tag or commit; `None`: `main`.
    pub revision: Option<String>,
    /// GGUF file, if the repository has several; `*` matches any characters.
    pub file: Option<String>,
}

impl HubId {
    /// Returns the revision: a branch, a tag or a commit; `main` if none is named.
    pub fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or("main")
    }

    /// Returns true if the revision is a commit.
    pub fn is_pinned(&self) -> bool {
        is_commit(self.revision())
    }
}

impl FromStr for HubId {
    type Err = ();

    /// Fails for text that cannot be a name on the Hub.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (text, file) = split(text, ':');
        let (repository, revision) = split(text, '@');
        let (owner, name) = repository.split_once('/').ok_or(())?;
        let plain = |part: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') && part.chars().all(allowed)
        };
        // Revisions and file names become paths.
        let inside =
            |path: &String| !path.starts_with('/') && path.split('/').all(|part| !["", ".", ".."].contains(&part));
        if !plain(owner) || !plain(name) || ![&revision, &file].into_iter().flatten().all(inside) {
            return Err(());
        }
        Ok(Self { repository: repository.into(), revision, file })
    }
}

fn split(text: &str, mark: char) -> (&str, Option<String>) {
    text.split_once(mark).map_or((text, None), |(before, after)| (before, Some(after.into())))
}

impl fmt::Display for HubId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.repository)?;
        self.revision.iter().try_for_each(|revision| write!(f, "@{revision}"))?;
        self.file.iter().try_for_each(|file| write!(f, ":{file}"))
    }
}

/// Returns true for the full name of a commit.
pub(super) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
