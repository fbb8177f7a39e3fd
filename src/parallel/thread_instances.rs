//! Instances that each run on a thread, and loading of a generator on this machine.

use super::instances::{Command, Instances, NumberedReport, Report, Role};
use super::spawn::{Build, Thread, spawn};
use super::{Parallel, PreparedParts, load_alone};
use crate::backend::Device;
use crate::backend::cpu::{Matrices, Processor};
use crate::backend::server::Later;
use crate::error::{Error, Result};
use crate::gpu::{Gpu, GpuOptions};
use crate::load::load_matrices;
use crate::options::{DeviceChoice, LoadOptions};
use crate::sample::Sampling;
use crate::session::{Generator, Session};
use crate::target::Queue;
use crate::weights::Source;
use futures_channel::mpsc::UnboundedSender;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest time that an instance on the CPU computes before it checks if its task was cancelled.
const LONGEST_STEP: Duration = Duration::from_millis(1);

/// Threads with one instance each.
pub struct ThreadInstances {
    targets: Vec<UnboundedSender<Command>>,
    drafter: Option<UnboundedSender<Command>>,
    reports: Receiver<NumberedReport>,
    /// Reports of threads that had already ended when the text began.
    missing: VecDeque<Report>,
    /// Number of the text.
    text: u64,
    /// `true`: a target stops as soon as its task is cancelled, as on the CPU.
    can_cancel: bool,
    handles: Vec<JoinHandle<()>>,
}

impl ThreadInstances {
    /// Starts a thread for each target and one for the drafter, and waits until all of them are ready. If building the drafter fails, there
    /// is none, and its error is returned.
    pub fn start(targets: Vec<Build>, drafter: Option<Build>) -> Result<(Self, Option<Error>)> {
        let (report, reports) = channel();
        let (missing, handles) = (VecDeque::new(), Vec::new());
        let (targets_of, can_cancel) = (Vec::new(), false);
        let mut instances = Self { targets: targets_of, drafter: None, reports, missing, text: 0, can_cancel, handles };
        let mut started = Vec::new();
        let targets = (0..).map(Role::Target).zip(targets).map(|(role, build)| (role, spawn(role, build, &report)));
        let drafter = drafter.map(|build| (Role::Drafter, spawn(Role::Drafter, build, &report)));
        for (role, thread) in targets.chain(drafter) {
            let Thread { commands, built, handle } = thread?;
            instances.handles.push(handle);
            started.push((role, commands, built));
        }
        let mut without_drafter = None;
        for (role, commands, built) in started {
            let failed = || Error::Internal { reason: "its driver failed while a model was loaded".into() };
            match (built.recv().unwrap_or_else(|_| Err(failed())), role) {
                (Ok(()), Role::Target(_)) => instances.targets.push(commands),
                (Ok(()), Role::Drafter) => instances.drafter = Some(commands),
                (Err(error), Role::Target(_)) => return Err(error),
                (Err(error), Role::Drafter) => without_drafter = Some(error),
            }
        }
        Ok((instances, without_drafter))
    }

    fn roles(&self) -> impl Iterator<Item = (Role, &UnboundedSender<Command>)> {
        let targets = (0..).map(Role::Target).zip(&self.targets);
        targets.chain(self.drafter.iter().map(|commands| (Role::Drafter, commands)))
    }
}

impl Instances for ThreadInstances {
    fn sp_degree(&self) -> usize {
        self.targets.len()
    }

    fn has_drafter(&self) -> bool {
        self.drafter.is_some()
    }

    fn can_cancel(&self) -> bool {
        self.can_cancel
    }

    fn begin(&mut self, sampling: &Sampling, drafting: &Sampling) {
        self.text += 1;
        let gone = |(role, commands): (Role, &UnboundedSender<Command>)| {
            let sampling = if role == Role::Drafter { drafting } else { sampling };
            let command = Command::Begin { text: self.text, sampling: sampling.clone() };
            let error = || Error::Internal { reason: "its driver failed in an earlier text".into() };
            commands.unbounded_send(command).is_err().then(|| role.gone(error()))
        };
        self.missing = self.roles().filter_map(gone).collect();
    }

    fn send(&mut self, to: Role, command: Command) {
        let commands = match to {
            Role::Target(server) => self.targets.get(server),
            Role::Drafter => self.drafter.as_ref(),
        };
        // A thread that has ended ignores commands.
        let _ = commands.map(|commands| commands.unbounded_send(command));
    }

    fn report(&mut self, within: Option<f64>) -> Later<'_, Result<Option<Report>>> {
        Box::pin(async move {
            if let Some(report) = self.missing.pop_front() {
                return Ok(Some(report));
            }
            loop {
                let next = match within {
                    Some(seconds) => self.reports.recv_timeout(Duration::from_secs_f64(seconds)),
                    None => self.reports.recv().map_err(RecvTimeoutError::from),
                };
                match next {
                    Ok(NumberedReport { text, report }) if text.is_none_or(|text| text == self.text) => {
                        return Ok(Some(report));
                    }
                    Ok(_) => {}
                    Err(RecvTimeoutError::Timeout) => return Ok(None),
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(Error::Internal { reason: "the drivers of all instances failed".into() });
                    }
                }
            }
        })
    }
}

impl Drop for ThreadInstances {
    /// Waits for the threads: none may still use a driver when the program ends.
    fn drop(&mut self) {
        self.targets.clear();
        self.drafter = None;
        for handle in self.handles.drain(..) {
            // Failures in the thread were already reported.
            let _ = handle.join();
        }
    }
}

impl Parallel {
    /// Loads `options.sp_degree` instances of a target, and one of a draft model, if given. A draft model that cannot be loaded is left
    /// out, with a warning in the statistics. GPUs of one kind share the instances; each needs the full memory of its model. On the CPU
    /// they share threads and the targets' matrices. The draft model runs there if `options.draft_device` selects it.
    pub async fn load<S: Source + Clone + Send + 'static>(
        gpu: &GpuOptions,
        target: S,
        assistant: Option<S>,
        options: &LoadOptions,
    ) -> Result<Generator<Self>> {
        let mut prepared =
            PreparedParts::open(Box::new(target.clone()), assistant.clone().map(|files| Box::new(files) as _), options)
                .await?;
        let context = prepared.prompts.context;
        // The device kind selected here is used by all instances.
        let (device, reason) = match (options.sp_degree, options.device) {
            (1, _) | (_, DeviceChoice::Cpu) => Device::open(options, gpu).await?,
            _ => (Device::Gpu(Gpu::open_nth(gpu, 0).await?), None),
        };
        prepared.warnings.extend(reason);
        let drafter = assistant.filter(|_| prepared.with_drafter);
        let (mut matrices, mut threads) = (Matrices::new(), options.threads);
        if let Device::Cpu(processor) = &device {
            (matrices, prepared.arithmetic) = load_matrices(Box::new(target.clone()), options).await?;
            let instances = options.sp_degree + usize::from(drafter.is_some());
            threads = Some((processor.threads() / instances).max(1));
        }
        let on = |at, shared: &Matrices| match device {
            Device::Gpu(_) => InstancePlace::Gpu(gpu.clone(), at),
            Device::Cpu(_) => InstancePlace::Cpu { threads, shared: shared.clone() },
        };
        let not_shared = Matrices::new();
        // The draft model takes the device after the targets' devices: its own, if there is one more.
        let beside = match options.draft_device {
            DeviceChoice::Cpu => InstancePlace::Cpu { threads, shared: not_shared },
            _ => on(options.sp_degree, &not_shared),
        };
        let drafter = drafter.map(|files| build(beside, files, Some(context), options));
        let targets =
            (0..options.sp_degree).map(|at| build(on(at, &matrices), target.clone(), None, options)).collect();
        let (mut instances, failed) = ThreadInstances::start(targets, drafter)?;
        instances.can_cancel = matches!(device, Device::Cpu(_));
        Ok(prepared.with(instances, device.info().clone(), failed.as_ref()))
    }
}

/// Loads a target and, if given, a draft model, on the devices that the options select. `loaded(done, total)` is called with bytes
/// read, if one device has both models.
pub async fn load<S: Source + Clone + Send + 'static>(
    target: S,
    assistant: Option<S>,
    options: &LoadOptions,
    loaded: &mut dyn FnMut(u64, u64),
) -> Result<Box<Generator>> {
    let gpu = GpuOptions::default();
    if options.is_parallel(assistant.is_some()) {
        return Ok(Box::new(Parallel::load(&gpu, target, assistant, options).await?));
    }
    let (device, reason) = Device::open(options, &gpu).await?;
    let mut session =
        Session::load(device, Box::new(target), assistant.map(|files| Box::new(files) as _), options, loaded).await?;
    session.executor.warnings.extend(reason);
    Ok(Box::new(session))
}

/// Device on which an instance is to run.
#[derive(Clone)]
enum InstancePlace {
    /// GPU number `.1` of the machine's GPUs of one kind.
    Gpu(GpuOptions, usize),
    /// The CPU with some threads, and the matrices of the model that are in memory already.
    Cpu { threads: Option<usize>, shared: Matrices },
}

/// Returns the function that builds an instance on its thread.
fn build<S: Source + Clone + Send + 'static>(
    place: InstancePlace,
    source: S,
    context: Option<usize>,
    options: &LoadOptions,
) -> Build {
    let options = options.clone();
    Box::new(move || {
        pollster::block_on(async {
            let device = match &place {
                InstancePlace::Gpu(gpu, at) => Device::Gpu(Gpu::open_nth(gpu, *at).await?),
                InstancePlace::Cpu { threads, shared } => {
                    let processor = Processor::new(*threads).sharing(shared.clone());
                    Device::Cpu(Rc::new(processor.yielding_after(LONGEST_STEP)))
                }
            };
            let instance = load_alone(&device, Box::new(source.clone()), context, &options, &mut |_, _| ()).await?;
            Ok(instance as Box<dyn Queue>)
        })
    })
}
