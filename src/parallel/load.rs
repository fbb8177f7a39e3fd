//! A model's files -> servers: each thread reads them for itself, because nothing on a device may change threads.

use super::{Build, Parallel, Servers};
use crate::decode::{Engine, Model, RoundBuffers};
use crate::error::{Error, Result};
use crate::gpu::{Gpu, GpuOptions};
use crate::load::{Checkpoint, open_assistant, without_assistant};
use crate::options::LoadOptions;
use crate::session::Prompts;
use crate::weights::Source;
use std::rc::Rc;

impl Parallel {
    /// Loads `options.sp_degree` instances of a target, and one of a draft model, if given. One with another tokenizer, and
    /// one that cannot be loaded, is left out, and the statistics' warnings say why. The instances are dealt out to the
    /// machine's devices of one kind; each needs the whole memory of its model.
    ///
    /// # Errors
    /// As [`crate::Session::load`].
    pub async fn load<S, A>(gpu: &GpuOptions, target: S, assistant: Option<A>, options: &LoadOptions) -> Result<Self>
    where
        S: Source + Clone + Send + 'static,
        A: Source + Clone + Send + 'static,
    {
        let checkpoint = Checkpoint::open(target.clone(), options).await?;
        let (tokenizer, template) = (Rc::new(checkpoint.tokenizer().await?), checkpoint.template().await?);
        checkpoint.check_tokens(&tokenizer)?;
        let (spec, context) = (checkpoint.blueprint.spec.clone(), checkpoint.blueprint.capacity.max_context);
        let mut warnings = Vec::new();
        let mut drafter = None;
        if let Some(assistant) = assistant {
            match open_assistant(assistant.clone(), options, context).await.map(|(_, other)| tokenizer.difference(&other)) {
                Err(error) => warnings.push(without_assistant(&error)),
                Ok(Some(difference)) => warnings.push(format!(
                    "the assistant model is not used: it has another tokenizer ({difference}), and with several targets \
                     drafts do not go through text"
                )),
                Ok(None) => {
                    let (gpu, options) = (gpu.clone(), options.clone());
                    // Behind the targets in turn: on a device of its own, where there is one more.
                    let at = options.sp_degree;
                    drafter = Some(Box::new(move || {
                        pollster::block_on(async {
                            let (assistant, _) = open_assistant(assistant.clone(), &options, context).await?;
                            engine(&gpu, at, &assistant).await
                        })
                    }) as Build<Engine>);
                }
            }
        }
        let device = Gpu::open_nth(gpu, 0).await?.info().clone();
        let build = |at: usize| {
            let (gpu, target, options) = (gpu.clone(), target.clone(), options.clone());
            Box::new(move || {
                pollster::block_on(async {
                    let target = Checkpoint::open(target.clone(), &options).await?;
                    engine(&gpu, at, &target).await
                })
            }) as Build<Engine>
        };
        let (servers, failed) = Servers::start((0..options.sp_degree).map(build).collect(), drafter)?;
        warnings.extend(failed.as_ref().map(without_assistant));
        Ok(Self { prompts: Prompts { tokenizer, template, spec, context }, servers, device, warnings })
    }
}

/// A model on a device of its own, checked for the promise on which speculation rests.
async fn engine<S: Source>(options: &GpuOptions, at: usize, checkpoint: &Checkpoint<S>) -> Result<Engine> {
    let gpu = Gpu::open_nth(options, at).await?;
    let Checkpoint { blueprint, weights } = checkpoint;
    let buffers = RoundBuffers::new(&gpu, blueprint.capacity.prefill_chunk, blueprint.spec.vocab_size)?;
    let loaded = Model::load(&gpu, blueprint, Some(weights), &buffers, &mut |_| ()).await;
    let model = loaded.map_err(|error: Error| error.within(&weights.source().name()))?;
    let mut engine = Engine::new(&gpu, buffers, model, None)?;
    engine.check_invariance().await?;
    Ok(engine)
}
