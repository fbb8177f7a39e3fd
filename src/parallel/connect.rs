//! Loading of a generator whose target is on servers.

use super::{LocalDevice, ModelInstance, Parallel, PreparedParts, Role, TaskInstances, set_up};
use crate::backend::server::{Endpoint, Later, ServerTarget, Transport, VocabularyProbe};
use crate::checkpoint::{self, Texts};
use crate::error::{Error, Result};
use crate::options::{Arithmetic, LoadOptions, UseMtp};
use crate::session::{Generator, Prompts, Session};
use crate::target::{Queue, Target};
use crate::weights::Source;
use std::rc::Rc;

/// Connects to servers that have a target. `words` has the target's tokenizer, configuration and chat template, with or without
/// weights. Also loads a draft model, if given, on the device that the options select. If loading it fails, there is none, and a
/// warning gives the reason.
pub async fn connect<A: Source + Clone + 'static>(
    transport: Rc<dyn Transport>,
    endpoint: Endpoint,
    words: Box<dyn Source>,
    assistant: Option<A>,
    options: &LoadOptions,
    loaded: &mut dyn FnMut(u64, u64),
) -> Result<Box<Generator>> {
    options.validate_elsewhere()?;
    if options.use_mtp == UseMtp::Yes {
        let (option, value, allowed) =
            ("use_mtp".into(), "true".into(), "auto or false, for a target on servers".into());
        return Err(Error::BadOption { option, value, allowed });
    }
    let texts = checkpoint::texts(words, options.file.as_deref()).await?;
    let (probe, longest) = (VocabularyProbe::new(&texts.tokenizer)?, options.context.max_context.or(texts.positions));
    let server = ServerTarget::connect(transport.clone(), endpoint, probe, longest).await?;
    Ok(if options.is_parallel(assistant.is_some()) {
        let tasks = TaskInstances::new(transport);
        Box::new(Parallel::served(server, tasks, texts, assistant, options, loaded).await?)
    } else {
        Box::new(Session::served(server, texts, assistant.map(|files| Box::new(files) as _), options, loaded).await)
    })
}

impl Parallel {
    /// Distributes up to `options.sp_degree` concurrent requests over all servers of a target, in turn. A draft model, if given, computes
    /// between them, on `options.device` or the CPU.
    async fn served<A: Source + Clone + 'static>(
        first: ServerTarget,
        mut tasks: TaskInstances,
        texts: Texts,
        assistant: Option<A>,
        options: &LoadOptions,
        loaded: &mut dyn FnMut(u64, u64),
    ) -> Result<Generator<Self>> {
        let (info, mut context, mut warnings) = (first.info().clone(), first.capacity(), Vec::new());
        let first = Rc::new(first);
        for at in 0..options.sp_degree {
            let server = first.beginning_with(at).await?;
            context = context.min(server.capacity());
            for warning in server.warnings() {
                if !warnings.contains(warning) {
                    warnings.push(warning.clone());
                }
            }
            let first = first.clone();
            let again = move || -> Later<'static, _> {
                let first = first.clone();
                Box::pin(async move { Ok(Box::new(first.beginning_with(at).await?) as Box<dyn Queue>) })
            };
            tasks.add(Role::Target(at), ModelInstance::new(Box::new(server), Box::new(again)));
        }
        let Texts { tokenizer, template, sampling, tokens, .. } = texts;
        let prompts = Prompts::new(tokenizer, template, sampling, tokens, context);
        let arithmetic = Arithmetic::default();
        let mut prepared = PreparedParts::open_drafter(
            prompts,
            arithmetic,
            warnings,
            assistant.clone().map(|files| Box::new(files) as _),
            options,
        )
        .await;
        let (local, mut failed) = (LocalDevice::default(), None);
        if let Some(files) = assistant.filter(|_| prepared.with_drafter) {
            match set_up(Box::new(files.clone()), Some(context), options, false, &local, loaded).await {
                Ok(model) => {
                    prepared.warnings.extend(local.borrow().iter().flat_map(|device| device.warning.clone()));
                    let (options, local) = (options.clone(), local.clone());
                    let again = move || -> Later<'static, _> {
                        let (files, options, local) = (files.clone(), options.clone(), local.clone());
                        Box::pin(async move {
                            set_up(Box::new(files), Some(context), &options, false, &local, &mut |_, _| ()).await
                        })
                    };
                    tasks.add(Role::Drafter, ModelInstance::new(model, Box::new(again)));
                }
                Err(error) => failed = Some(error),
            }
        }
        let mut generator = prepared.with(tasks, info, failed.as_ref());
        generator.executor.local = local;
        Ok(generator)
    }
}
