//! Writers whose target is on servers, natively.

use super::servers::{Place, build};
use super::threads::Build;
use super::{Parallel, Prepared, Servers, Writer};
use crate::checkpoint;
use crate::device::Device;
use crate::error::Result;
use crate::gpu::GpuOptions;
use crate::options::{DeviceChoice, LoadOptions};
use crate::remote::{Endpoint, Http, Probe, Server};
use crate::session::Session;
use crate::target::Target;
use crate::weights::Source;
use std::rc::Rc;

impl Writer<Servers> {
    /// Connects to servers that have a target, and loads a draft model here, if given, where the options say.
    ///
    /// # Errors
    /// As [`Session::connect`].
    pub async fn connect<S, A>(
        endpoint: &Endpoint,
        words: S,
        assistant: Option<A>,
        options: &LoadOptions,
        loaded: &mut dyn FnMut(u64, u64),
    ) -> Result<Self>
    where
        S: Source + 'static,
        A: Source + Clone + Send + 'static,
    {
        let gpu = GpuOptions::default();
        if options.is_parallel(assistant.is_some()) {
            let parallel = Parallel::connect(&gpu, endpoint, words, assistant, options).await?;
            return Ok(Self::Parallel(Box::new(parallel)));
        }
        let (mut drafting, mut warning) = (None, None);
        if let Some(files) = assistant {
            let (device, reason) = Device::open(options, &gpu).await?;
            (drafting, warning) = (Some((device, files)), reason);
        }
        let transport = Rc::new(Http::new());
        let mut session = Session::connect(transport, endpoint, words, drafting, options, loaded).await?;
        session.warnings.extend(warning);
        Ok(Self::Session(Box::new(session)))
    }
}

impl Parallel<Servers> {
    /// Connects `options.sp_degree` times to servers that have the target, each time beginning with another one of them, and loads a
    /// draft model here, if given, on `options.device` or beside it. `words` is as in [`crate::Session::connect`].
    ///
    /// # Errors
    /// As [`crate::Session::connect`].
    pub async fn connect<S, A>(
        gpu: &GpuOptions,
        endpoint: &Endpoint,
        words: S,
        assistant: Option<A>,
        options: &LoadOptions,
    ) -> Result<Self>
    where
        S: Source + 'static,
        A: Source + Clone + Send + 'static,
    {
        let texts = checkpoint::texts(words, options.file.as_deref()).await?;
        let probe = Probe::new(&texts.tokenizer)?;
        let context = options.context.max_context.or(texts.positions);
        let first = Server::connect(Rc::new(Http::new()), endpoint.clone(), probe.clone(), context).await?;
        let (context, info) = (first.capacity(), first.info().clone());
        let warnings = first.warnings().to_vec();
        let prepared = Prepared::of_texts(texts, context, warnings, assistant.clone(), options).await;
        let connect = |at| -> Build<Server> {
            let (endpoint, probe) = (endpoint.clone().beginning_with(at), probe.clone());
            Box::new(move || {
                let (endpoint, probe) = (endpoint.clone(), probe.clone());
                pollster::block_on(Server::connect(Rc::new(Http::new()), endpoint, probe, Some(context)))
            })
        };
        let place = match options.draft_device {
            DeviceChoice::Cpu => Place::Cpu,
            _ => match Device::open(options, gpu).await? {
                (Device::Gpu(_), _) => Place::Gpu(gpu.clone(), 0),
                (Device::Cpu(_), _) => Place::Cpu,
            },
        };
        let drafter = assistant.filter(|_| prepared.with_drafter);
        let drafter = drafter.map(|files| build(place, files, Some(context), options));
        let (servers, failed) = Servers::start((0..options.sp_degree).map(connect).collect(), drafter)?;
        Ok(prepared.with(servers, info, failed.as_ref()))
    }
}
