//! A device with its queue: opening, limits, errors, compiled kernels.

use super::counters::Counters;
use super::kernels::{Kernel, Subnormals};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
#[cfg(target_arch = "wasm32")]
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// Options that select a device and its use.
#[derive(Debug, Clone, Default)]
pub struct GpuOptions {
    /// Largest binding in bytes, to emulate the needs of larger models; 0: the device's own limit.
    pub max_binding_size: u64,
    /// Prefer the power-saving adapter if there are two.
    pub low_power: bool,
    /// Run a CPU adapter with the kernels for GPUs, for tests.
    pub as_on_gpus: bool,
}

/// Name, backend and limits of a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The adapter's name.
    pub name: String,
    /// Vulkan, Metal, Dx12 or BrowserWebGpu.
    pub backend: String,
    /// The driver's name and version.
    pub driver: String,
    /// Largest buffer, in bytes.
    pub max_buffer_size: u64,
    /// Largest storage binding, in bytes.
    pub max_binding_size: u64,
    /// True if it computes on the CPU.
    pub software: bool,
}

/// A device and its queue.
pub struct Gpu {
    pub(super) device: wgpu::Device,
    pub(super) queue: wgpu::Queue,
    pub(super) counters: Rc<Cell<Counters>>,
    info: DeviceInfo,
    options: GpuOptions,
    pipelines: RefCell<HashMap<Kernel, wgpu::ComputePipeline>>,
    /// Kernels that the browser is compiling in the background.
    #[cfg(target_arch = "wasm32")]
    pub(super) coming: RefCell<HashSet<Kernel>>,
    layouts: RefCell<Vec<BindLayout>>,
    failure: SharedFailure,
    subnormals: Subnormals,
    is_processor: bool,
    multiplies_codes: bool,
    /// True if the browser reports finished work late.
    pub(super) reports_late: bool,
    /// Limit for the bytes of all buffers; `None`: as many as the driver allows.
    #[cfg(feature = "testing")]
    pub memory: Cell<Option<u64>>,
}

/// An error that the device reported outside of any call.
pub enum DeviceFailure {
    /// Permanent.
    Lost(String),
    /// Missing memory.
    OutOfMemory,
    /// A rejected operation, with wgpu's message.
    Refused(String),
}

type SharedFailure = Arc<Mutex<Option<DeviceFailure>>>;

impl Gpu {
    /// Opens the most powerful adapter, with the largest limits that it supports.
    ///
    /// # Errors
    /// [`Error::WebGpuUnavailable`] with what to install or enable.
    pub async fn open(options: &GpuOptions) -> Result<Rc<Self>> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle_from_env());
        Self::on(&instance, &Self::best(&instance, options).await?, options).await
    }

    /// Opens a device of the same kind as [`Gpu::open`], because another would round differently. `nth` cycles through the
    /// machine's adapters of that kind.
    #[cfg(not(target_arch = "wasm32"))]
    pub async fn open_nth(options: &GpuOptions, nth: usize) -> Result<Rc<Self>> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle_from_env());
        let best = Self::best(&instance, options).await?;
        let same = Self::like(&instance, options, &describe(&best, options)).await;
        Self::on(&instance, same.get(nth % same.len().max(1)).unwrap_or(&best), options).await
    }

    /// Returns the machine's adapters of a kind.
    #[cfg(not(target_arch = "wasm32"))]
    async fn like(instance: &wgpu::Instance, options: &GpuOptions, kind: &DeviceInfo) -> Vec<wgpu::Adapter> {
        let mut all = instance.enumerate_adapters(wgpu::Backends::all()).await;
        all.retain(|adapter| describe(adapter, options) == *kind);
        all
    }

    async fn best(instance: &wgpu::Instance, options: &GpuOptions) -> Result<wgpu::Adapter> {
        let power_preference = match options.low_power {
            true => wgpu::PowerPreference::LowPower,
            false => wgpu::PowerPreference::HighPerformance,
        };
        let request = wgpu::RequestAdapterOptions { power_preference, ..Default::default() };
        instance.request_adapter(&request).await.map_err(|_error| {
            // In browsers, wgpu's message is meant for browser developers.
            #[cfg(target_arch = "wasm32")]
            let reason = "the browser gives no adapter: switch hardware acceleration on in its settings".to_owned();
            #[cfg(not(target_arch = "wasm32"))]
            let reason = format!(
                "no adapter ({_error}); install a Vulkan driver (Debian and Ubuntu: apt-get install mesa-vulkan-drivers)"
            );
            unavailable(reason)
        })
    }

    async fn on(instance: &wgpu::Instance, adapter: &wgpu::Adapter, options: &GpuOptions) -> Result<Rc<Self>> {
        let info = describe(adapter, options);
        let required_limits = wgpu::Limits {
            max_buffer_size: info.max_buffer_size,
            max_storage_buffer_binding_size: info.max_binding_size,
            ..wgpu::Limits::defaults()
        };
        let descriptor = wgpu::DeviceDescriptor { label: Some("foretoken"), required_limits, ..Default::default() };
        let (device, queue) =
            adapter.request_device(&descriptor).await.map_err(|error| unavailable(error.to_string()))?;
        let failure = Arc::new(Mutex::new(None));
        watch(&device, &failure);
        let (counters, options) = (Rc::default(), options.clone());
        let is_processor = adapter.get_info().device_type == wgpu::DeviceType::Cpu && !options.as_on_gpus;
        let mut gpu = Self {
            device,
            queue,
            counters,
            info,
            options,
            pipelines: RefCell::default(),
            #[cfg(target_arch = "wasm32")]
            coming: RefCell::default(),
            layouts: RefCell::default(),
            failure,
            subnormals: Subnormals::Flushed,
            is_processor,
            multiplies_codes: instance
                .wgsl_language_features()
                .contains(wgpu::WgslLanguageFeatures::Packed4x8IntegerDotProduct),
            reports_late: false,
            #[cfg(feature = "testing")]
            memory: Cell::default(),
        };
        if cfg!(target_arch = "wasm32") {
            gpu.reports_late = gpu.reports_late().await?;
        }
        gpu.subnormals = gpu.ask_for_subnormals().await?;
        Ok(Rc::new(gpu))
    }

    /// Opens a device to replace this one, which was lost: on an adapter of the same kind if there is one. [`Gpu::info`] of the
    /// result shows the kind.
    ///
    /// # Errors
    /// [`Error::GpuBlocked`] if no device is available any more.
    pub async fn reopen(&self) -> Result<Rc<Self>> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle_from_env());
        #[cfg(not(target_arch = "wasm32"))]
        let same = Self::like(&instance, &self.options, &self.info).await.into_iter().next();
        // A browser does not list adapters.
        #[cfg(target_arch = "wasm32")]
        let same = None;
        let opened = async {
            let adapter = match same {
                Some(adapter) => adapter,
                None => Self::best(&instance, &self.options).await?,
            };
            Self::on(&instance, &adapter, &self.options).await
        };
        opened.await.map_err(|error| match error {
            Error::WebGpuUnavailable { reason } => Error::GpuBlocked { reason },
            other => other,
        })
    }

    async fn ask_for_subnormals(&self) -> Result<Subnormals> {
        let wrong = self.buffer("subnormals", 256)?;
        let call = self.call(Kernel::Halves, &[(0, wrong.whole())]);
        let mut recorder = self.record();
        recorder.dispatch(&call, [1, 1, 1]);
        recorder.submit(None);
        let counts = self.read_buffer(&wrong, 0, wrong.size()).await?;
        Ok(if counts.iter().all(|count| *count == 0) { Subnormals::Kept } else { Subnormals::Flushed })
    }

    /// Returns true if the device is a CPU, which runs threads one after the other.
    pub fn is_processor(&self) -> bool {
        self.is_processor
    }

    /// Returns true if WGSL has dot products of packed integers here.
    pub fn multiplies_codes(&self) -> bool {
        self.multiplies_codes
    }

    /// Returns how the driver treats subnormal halves.
    pub fn subnormals(&self) -> Subnormals {
        self.subnormals
    }

    /// Destroys the device. Pending waits and later calls fail with [`Error::DeviceLost`].
    pub fn destroy(&self) {
        keep(&self.failure, DeviceFailure::Lost("it was destroyed".into()));
        self.device.destroy();
    }

    /// Adds a failure, as the driver reports it.
    #[cfg(feature = "testing")]
    pub fn fail(&self, failure: DeviceFailure) {
        keep(&self.failure, failure);
    }

    /// Takes another name, as if another device had been opened.
    #[cfg(feature = "testing")]
    pub fn rename(&mut self, name: &str) {
        self.info.name = name.into();
    }

    /// Returns the device's description.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Returns the counts since the device was opened.
    pub fn counters(&self) -> Counters {
        self.counters.get()
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    /// Returns the first error that the device reported by itself since the last check. A loss is reported by every check. After
    /// another error the device keeps working, but earlier results may be wrong.
    ///
    /// # Errors
    /// [`Error::DeviceLost`]; from the driver, [`Error::OutOfGpuMemory`]; [`Error::Internal`] with wgpu's message.
    pub fn check(&self) -> Result<()> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match failure.take() {
            Some(DeviceFailure::Lost(reason)) => {
                *failure = Some(DeviceFailure::Lost(reason.clone()));
                Err(Error::DeviceLost { reason })
            }
            Some(DeviceFailure::OutOfMemory) => {
                let need = self.counters().allocated;
                Err(Error::OutOfGpuMemory { what: "all that is loaded".into(), need, limit: None })
            }
            Some(DeviceFailure::Refused(reason)) => Err(Error::Internal { reason }),
            None => Ok(()),
        }
    }

    /// Returns the kernel's pipeline, compiled on first use.
    pub(super) fn pipeline(&self, kernel: Kernel) -> wgpu::ComputePipeline {
        if let Some(pipeline) = self.pipelines.borrow().get(&kernel) {
            return pipeline.clone();
        }
        let pipeline = self.create_pipeline(kernel);
        self.keep_pipeline(kernel, pipeline.clone());
        pipeline
    }

    /// Compiles a kernel unless it is compiled.
    pub fn compile(&self, kernel: Kernel) {
        self.pipeline(kernel);
    }

    /// Compiles a kernel at once; in a browser, in the background. Returns true if it is compiled.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn compile_beside(self: &Rc<Self>, kernel: Kernel) -> bool {
        self.compile(kernel);
        true
    }

    /// Returns true if a kernel is compiled.
    pub fn is_compiled(&self, kernel: Kernel) -> bool {
        self.pipelines.borrow().contains_key(&kernel)
    }

    pub(super) fn keep_pipeline(&self, kernel: Kernel, pipeline: wgpu::ComputePipeline) {
        self.count(|counters| {
            counters.creates += 1;
            counters.pipelines += 1;
        });
        self.pipelines.borrow_mut().insert(kernel, pipeline);
    }

    pub(super) fn create_pipeline(&self, kernel: Kernel) -> wgpu::ComputePipeline {
        let label = format!("{kernel:?}");
        let bindings = self.layout(kernel);
        let layout = self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            bind_group_layouts: &[Some(&bindings)],
            ..Default::default()
        });
        let source = wgpu::ShaderSource::Wgsl(kernel.source(self.subnormals).into());
        let module = self.device.create_shader_module(wgpu::ShaderModuleDescriptor { label: Some(&label), source });
        self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(&label),
            layout: Some(&layout),
            module: &module,
            entry_point: Some("main"),
            // No kernel reads workgroup memory before writing it.
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: None,
        })
    }

    /// Returns the bind group layout that a kernel's source declares. Kernels with equal bindings share it, and thus bind groups.
    pub(super) fn layout(&self, kernel: Kernel) -> wgpu::BindGroupLayout {
        let mut layouts = self.layouts.borrow_mut();
        if let Some(known) = layouts.iter().find(|known| known.kernels.contains(&kernel)) {
            return known.raw.clone();
        }
        let bindings: Vec<_> = kernel.source(self.subnormals).lines().filter_map(binding).collect();
        if let Some(known) = layouts.iter_mut().find(|known| known.bindings == bindings) {
            known.kernels.push(kernel);
            return known.raw.clone();
        }
        let entry = |&(binding, ty): &Binding| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
            count: None,
        };
        let entries: Vec<_> = bindings.iter().map(entry).collect();
        let descriptor = wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries };
        let raw = self.device.create_bind_group_layout(&descriptor);
        layouts.push(BindLayout { bindings, kernels: vec![kernel], raw: raw.clone() });
        raw
    }
}

/// Number and type of a binding.
type Binding = (u32, wgpu::BufferBindingType);

/// A bind group layout, and the kernels known to have it: finding out needs a kernel's full source.
struct BindLayout {
    bindings: Vec<Binding>,
    kernels: Vec<Kernel>,
    raw: wgpu::BindGroupLayout,
}

fn binding(line: &str) -> Option<Binding> {
    let (number, rest) = line.strip_prefix("@group(0) @binding(")?.split_once(") var<")?;
    let ty = match rest.split_once('>')?.0 {
        "uniform" => wgpu::BufferBindingType::Uniform,
        space => wgpu::BufferBindingType::Storage { read_only: space == "storage, read" },
    };
    Some((number.parse().ok()?, ty))
}

fn unavailable(reason: String) -> Error {
    Error::WebGpuUnavailable { reason }
}

fn describe(adapter: &wgpu::Adapter, options: &GpuOptions) -> DeviceInfo {
    let (found, limits) = (adapter.get_info(), adapter.limits());
    DeviceInfo {
        name: found.name,
        backend: format!("{:?}", found.backend),
        driver: format!("{} {}", found.driver, found.driver_info).trim().to_owned(),
        max_buffer_size: limits.max_buffer_size,
        max_binding_size: match options.max_binding_size {
            0 => limits.max_storage_buffer_binding_size,
            limit => limit.min(limits.max_storage_buffer_binding_size),
        },
        software: found.device_type == wgpu::DeviceType::Cpu,
    }
}

/// Records failures that no call returns.
fn watch(device: &wgpu::Device, failure: &SharedFailure) {
    let lost = failure.clone();
    // A call after a drop is harmless: then nothing reads the failure.
    device.set_device_lost_callback(move |_, message| keep(&lost, DeviceFailure::Lost(message)));
    let uncaptured = failure.clone();
    device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
        let failure = match error {
            wgpu::Error::OutOfMemory { .. } => DeviceFailure::OutOfMemory,
            other => DeviceFailure::Refused(other.to_string()),
        };
        keep(&uncaptured, failure);
    }));
}

/// Keeps the first failure, because others follow from it; a loss replaces any other failure.
fn keep(failure: &SharedFailure, what: DeviceFailure) {
    let mut kept = failure.lock().unwrap_or_else(PoisonError::into_inner);
    match (&*kept, &what) {
        (None, _) | (Some(DeviceFailure::OutOfMemory | DeviceFailure::Refused(_)), DeviceFailure::Lost(_)) => {
            *kept = Some(what)
        }
        _ => {}
    }
}
