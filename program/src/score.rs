//! `foretoken embed` and `foretoken score`: embeddings and scores of texts, without generation.

use super::load::LocalModels;
use super::{Failure, print_json};
use foretoken::Prompt;
use std::io::{self, Write};

/// Texts and the form of their embeddings.
#[derive(clap::Args)]
pub(super) struct Embed {
    /// Texts to embed
    #[arg(required = true)]
    texts: Vec<String>,
    #[command(flatten)]
    models: LocalModels,
    /// Hidden states to use: mean (of all tokens) or last (of the last token)
    #[arg(long, value_name = "WHICH", default_value = "mean")]
    pooling: String,
    /// Do not divide the vectors by their length
    #[arg(long)]
    no_normalize: bool,
}

impl Embed {
    pub async fn run_command(&self, json: bool) -> Result<(), Failure> {
        let pooling = self.pooling.parse()?;
        let mut session = self.models.load().await?;
        for text in &self.texts {
            let embedded = session.embed(&Prompt::Text(text.clone()), pooling, !self.no_normalize).await?;
            if json { print_json(&embedded)? } else { print_json(&embedded.embedding)? }
        }
        Ok(())
    }
}

/// A prompt and possible continuations.
#[derive(clap::Args)]
pub(super) struct ScoreArgs {
    /// Text before the continuations
    prompt: String,
    /// Texts that may follow the prompt, each with its leading space
    #[arg(required = true)]
    continuations: Vec<String>,
    #[command(flatten)]
    models: LocalModels,
}

impl ScoreArgs {
    pub async fn run_command(&self, json: bool) -> Result<(), Failure> {
        let mut session = self.models.load().await?;
        let continuations: Vec<Prompt> = self.continuations.iter().cloned().map(Prompt::Text).collect();
        let scores = session.score(&Prompt::Text(self.prompt.clone()), &continuations).await?;
        if json {
            return print_json(&serde_json::json!({ "scores": scores }));
        }
        let mut out = io::stdout().lock();
        for (score, text) in scores.iter().zip(&self.continuations) {
            writeln!(out, "{:10.4}  {:3} tokens  {text}", score.logprob, score.num_tokens)?;
        }
        Ok(())
    }
}
