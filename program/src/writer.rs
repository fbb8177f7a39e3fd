//! Options that select the models of a text, and loading.

use super::bar::Bar;
use super::load::LocalModels;
use super::options::ParallelFlags;
use foretoken::internals::backend::server::{Endpoint, Http, Key};
use foretoken::internals::parallel;
use foretoken::internals::session::Generator;
use foretoken::internals::weights::Source;
use foretoken::{LoadOptions, Result};
use std::rc::Rc;

/// The models of a text, and the number and location of the targets.
#[derive(clap::Args)]
pub(super) struct ModelsFlags {
    #[command(flatten)]
    pub local: LocalModels,
    #[command(flatten)]
    parallel: ParallelFlags,
    /// Use the target on this server of vLLM or SGLang; --model then names it for its tokenizer and configuration, without weights. Repeat
    /// for servers with the same model: if one fails, others take over, and --sp-degree N sends N requests at a time, to each in turn.
    /// FORETOKEN_API_KEY is the key
    #[arg(long, value_name = "URL")]
    target_url: Vec<String>,
    /// Name of the target on the server [default: as in --model]
    #[arg(long, value_name = "NAME", requires = "target_url")]
    target_model: Option<String>,
}

impl ModelsFlags {
    /// Returns validated load options.
    pub fn options(&self) -> Result<LoadOptions> {
        let options = self.parallel.set(self.local.options()?)?;
        if self.target_url.is_empty() {
            options.validate()?
        } else {
            options.validate_elsewhere()?
        }
        Ok(options)
    }

    /// Returns the target's server; `None`: the target is local.
    fn endpoint(&self) -> Result<Option<Endpoint>> {
        if self.target_url.is_empty() {
            return Ok(None);
        }
        let model = self.target_model.as_deref().or(self.local.pair.model.as_deref()).unwrap_or_default();
        let mut endpoint = Endpoint::new(&self.target_url, model)?;
        endpoint.api_key = std::env::var("FORETOKEN_API_KEY").ok().map(|key| Key::new(&key)).transpose()?;
        Ok(Some(endpoint))
    }

    /// Returns the target's name.
    pub fn name(&self) -> Result<String> {
        match self.endpoint()? {
            Some(endpoint) => Ok(endpoint.model),
            None => Ok(self.local.pair.target()?.model_name()),
        }
    }

    /// Loads the models.
    pub async fn load(&self, options: &LoadOptions) -> Result<Box<Generator>> {
        let (pair, bar) = (&self.local.pair, Bar::loading());
        let mut loaded = |done, all| bar.show(done, all);
        match self.endpoint()? {
            Some(endpoint) => {
                let (transport, words, assistant) = (Rc::new(Http::default()), pair.words()?, pair.assistant()?);
                parallel::connect(transport, endpoint, Box::new(words), assistant, options, &mut loaded).await
            }
            None => parallel::load(pair.target()?, pair.assistant()?, options, &mut loaded).await,
        }
    }
}
