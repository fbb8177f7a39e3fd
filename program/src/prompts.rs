//! The flag `--prompts` of measurements.

use super::files;
use foretoken::Result;
use foretoken_measure::Exercise;
use std::path::PathBuf;

/// File of prompts.
#[derive(clap::Args)]
pub(super) struct PromptsFlag {
    /// File of prompts, a JSON list or JSON lines: {"prompt": TEXT}, with a "kind" and "max_new_tokens" if you like [default: those of the tales]
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
}

impl PromptsFlag {
    /// Reads the prompts.
    ///
    /// # Errors
    /// `not-found`; `bad-config` with the number of the prompt that is wrong.
    pub fn read_file(&self) -> Result<Vec<Exercise>> {
        match &self.prompts {
            Some(file) => Exercise::parse(&files::text(file)?, &file.display().to_string()),
            None => Exercise::tales(),
        }
    }
}
