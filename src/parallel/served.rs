//! Writers whose target is on servers.

use super::{Here, Parallel, Prepared, Role, Tasks, Worker, Writer, set_up};
use crate::checkpoint;
use crate::error::Result;
use crate::options::{DeviceChoice, LoadOptions};
use crate::remote::{Endpoint, Probe, Server, Transport};
use crate::session::Session;
use crate::target::Target;
use crate::weights::Source;
use std::rc::Rc;

impl Writer {
    /// Connects to servers that have a target, and loads a draft model here, if given, where the options say.
    ///
    /// # Errors
    /// As [`Session::connect`]; [`crate::Error::BadOption`].
    pub async fn connect<S: Source + 'static, A: Source + Clone + 'static>(
        transport: Rc<dyn Transport>,
        endpoint: &Endpoint,
        words: S,
        assistant: Option<A>,
        options: &LoadOptions,
        loaded: &mut dyn FnMut(u64, u64),
    ) -> Result<Self> {
        options.validate_elsewhere()?;
        if options.is_parallel(assistant.is_some()) {
            let parallel = Parallel::connect(transport, endpoint, words, assistant, options, loaded).await?;
            return Ok(Self::Parallel(Box::new(parallel)));
        }
        let session = Session::connect(transport, endpoint, words, assistant, options, loaded).await?;
        Ok(Self::Session(Box::new(session)))
    }
}

impl Parallel {
    /// Up to `options.sp_degree` requests are under way to servers that have the target, on all of them in turn; a draft model, if
    /// given, computes between them, on `options.device` or the CPU. `words` is as in [`Session::connect`].
    ///
    /// # Errors
    /// As [`Session::connect`].
    pub async fn connect<S: Source + 'static, A: Source + Clone + 'static>(
        transport: Rc<dyn Transport>,
        endpoint: &Endpoint,
        words: S,
        assistant: Option<A>,
        options: &LoadOptions,
        loaded: &mut dyn FnMut(u64, u64),
    ) -> Result<Self> {
        let texts = checkpoint::texts(words, options.file.as_deref()).await?;
        let probe = Probe::new(&texts.tokenizer)?;
        let longest = options.context.max_context.or(texts.positions);
        let first = Rc::new(Server::connect(transport.clone(), endpoint.clone(), probe, longest).await?);
        let (info, mut context) = (first.info().clone(), first.capacity());
        let (mut tasks, mut warnings) = (Tasks::new(transport), Vec::new());
        for at in 0..options.sp_degree {
            let first = first.clone();
            let build = async move || first.beginning_with(at).await;
            let server = build().await?;
            context = context.min(server.capacity());
            warnings.extend_from_slice(server.warnings());
            tasks.add(Role::Server(at), Worker::new(server, build));
        }
        warnings.sort();
        warnings.dedup();
        let mut prepared = Prepared::of_texts(texts, context, warnings, assistant.clone(), options).await;
        let (here, mut failed) = (Here::default(), None);
        if let Some(files) = assistant.filter(|_| prepared.with_drafter) {
            let mut options = options.clone();
            if options.draft_device == DeviceChoice::Cpu {
                options.device = DeviceChoice::Cpu;
            }
            match set_up(files.clone(), Some(context), &options, false, &here, loaded).await {
                Ok(model) => {
                    prepared.warnings.extend(here.borrow().iter().flat_map(|on| on.warning.clone()));
                    let here = here.clone();
                    let build = async move || {
                        set_up(files.clone(), Some(context), &options, false, &here, &mut |_, _| ()).await
                    };
                    tasks.add(Role::Drafter, Worker::new(model, build));
                }
                Err(error) => failed = Some(error),
            }
        }
        Ok(Self { here, ..prepared.with(tasks, info, failed.as_ref()) })
    }
}
