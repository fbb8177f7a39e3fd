//! A target on a server and the files of its tokenizer to a session, with an optional draft model on this machine.

use super::{build_alone, open_assistant, without_assistant};
use crate::backend::server::{self, ServerTarget};
use crate::backend::{Backend, Device};
use crate::checkpoint::Texts;
use crate::error::Error;
use crate::gpu::{Gpu, GpuOptions};
use crate::options::LoadOptions;
use crate::session::{Building, Origination, PromptCache, Prompts, Session, Single};
use crate::target::Target;
use crate::text::Translator;
use crate::weights::Source;
use std::rc::Rc;

impl Session {
    /// Makes a session with a target on a server. The draft model, if given, runs on the device that the options name. If it
    /// cannot be loaded, it is left out, with a warning.
    pub async fn served(
        server: ServerTarget,
        texts: Texts,
        assistant: Option<Box<dyn Source>>,
        options: &LoadOptions,
        loaded: &mut dyn FnMut(u64, u64),
    ) -> Self {
        let Texts { tokenizer, template, sampling, tokens, .. } = texts;
        let mut warnings = server.warnings().to_vec();
        let prompts = Prompts::new(tokenizer, template, sampling, tokens, server.capacity());
        let (mut draft, mut translator) = (None, None);
        if let Some(source) = assistant {
            let built = async {
                let (device, warning) = Device::open(options, &GpuOptions::default()).await?;
                let opened = open_assistant(source, options, &prompts, None, &mut warnings).await;
                let (model, tokenizers) = opened?;
                let model = build_alone(&device, model, false, loaded).await?;
                warnings.extend(warning);
                Ok::<_, Error>((model, tokenizers))
            };
            match built.await {
                Ok((model, tokenizers)) => {
                    translator = tokenizers.map(|[target, own]| Translator::new(target, own));
                    draft = Some(model);
                }
                Err(error) => warnings.push(without_assistant(&error)),
            }
        }
        let mut engine = Box::new(server::ServerBackend::new(server, draft));
        if let (Some(translator), Some(drafting)) = (translator, engine.drafting()) {
            drafting.translate_by(Box::new(translator));
        }
        let (cache, origin, memory) = (PromptCache::new(0), Box::new(Elsewhere), options.lookup_memory);
        Self { prompts, executor: Single::new(engine, cache, origin, warnings, memory).await }
    }
}

/// Origin of a session whose target is on a server: there is no device to rebuild.
struct Elsewhere;

impl Origination for Elsewhere {
    fn engine(&self, _: Rc<Gpu>) -> Building<'_> {
        Box::pin(async { server::lacks("another device") })
    }
}
