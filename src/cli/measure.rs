//! `foretoken embed` and `foretoken score`: what a model finds of texts, without writing any.

use super::load::{On, Pair, Room};
use super::{Failure, print_json};
use crate::device::Device;
use crate::gpu::GpuOptions;
use crate::session::{Prompt, Session};
use std::io::{self, Write};

/// A model that reads.
#[derive(clap::Args)]
struct Reader {
    #[command(flatten)]
    pair: Pair,
    #[command(flatten)]
    room: Room,
    #[command(flatten)]
    on: On,
}

impl Reader {
    async fn load(&self) -> Result<Session, Failure> {
        let options = self.on.set(self.room.options()?)?;
        options.validate()?;
        let (device, _) = Device::open(&options, &GpuOptions::default()).await?;
        Ok(self.pair.load(device, &options).await?)
    }
}

/// Which texts, and how they become vectors.
#[derive(clap::Args)]
pub(super) struct Embed {
    /// The texts
    #[arg(required = true)]
    texts: Vec<String>,
    #[command(flatten)]
    reader: Reader,
    /// Which hidden states count: mean (those of all tokens), last (that of the last token)
    #[arg(long, value_name = "WHICH", default_value = "mean")]
    pooling: String,
    /// Leave the vectors as long as they are, instead of dividing them by their length
    #[arg(long)]
    no_normalize: bool,
}

impl Embed {
    pub async fn run(&self, json: bool) -> Result<(), Failure> {
        let pooling = self.pooling.parse()?;
        let mut session = self.reader.load().await?;
        for text in &self.texts {
            let embedded = session.embed(&Prompt::Text(text.clone()), pooling, !self.no_normalize).await?;
            if json { print_json(&embedded)? } else { print_json(&embedded.embedding)? }
        }
        Ok(())
    }
}

/// Which prompt, and what may follow it.
#[derive(clap::Args)]
pub(super) struct Score {
    /// The text before
    prompt: String,
    /// The texts that may follow it, each with the space before it
    #[arg(required = true)]
    continuations: Vec<String>,
    #[command(flatten)]
    reader: Reader,
}

impl Score {
    pub async fn run(&self, json: bool) -> Result<(), Failure> {
        let mut session = self.reader.load().await?;
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
