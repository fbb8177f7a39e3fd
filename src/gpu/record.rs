//! Records kernel calls, which are bound once and recorded many times. A submission is a pass of dispatches and one copy, and may
//! be encoded in advance.

use super::buffers::{Buffer, Slice};
use super::device::Gpu;
use super::kernels::Kernel;
use super::readback::Readback;
use std::cell::OnceCell;
use std::rc::Rc;

/// Buffers by binding number, for a kernel and for all kernels with the same layout.
#[derive(Clone)]
pub struct Group {
    raw: wgpu::BindGroup,
    /// Keeps the buffers alive; a buffer without holders is destroyed.
    _buffers: Rc<[Buffer]>,
}

/// A kernel with its buffers; compiled when first recorded, if necessary.
pub struct Call {
    kernel: Kernel,
    pipeline: OnceCell<wgpu::ComputePipeline>,
    group: Group,
}

impl Call {
    /// Returns the kernel.
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }
}

impl Group {
    /// Creates a call of a kernel that has the group's layout.
    pub fn call(&self, kernel: Kernel) -> Call {
        Call { kernel, pipeline: OnceCell::new(), group: self.clone() }
    }
}

impl Gpu {
    /// Binds buffers by binding number, in the layout of `kernel`.
    pub fn group(&self, kernel: Kernel, bindings: &[(u32, Slice)]) -> Group {
        let entries: Vec<_> = bindings
            .iter()
            .map(|(binding, slice)| wgpu::BindGroupEntry {
                binding: *binding,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer: slice.buffer.raw(),
                    offset: slice.offset,
                    size: wgpu::BufferSize::new(slice.size),
                }),
            })
            .collect();
        let raw = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &self.layout(kernel),
            entries: &entries,
        });
        self.count(|counters| counters.creates += 1);
        Group { raw, _buffers: bindings.iter().map(|(_, slice)| slice.buffer.clone()).collect() }
    }

    /// Creates a call with its own bind group.
    pub fn call(&self, kernel: Kernel, bindings: &[(u32, Slice)]) -> Call {
        self.group(kernel, bindings).call(kernel)
    }

    /// Starts recording a submission.
    pub fn record(&self) -> Recorder<'_> {
        let mut encoder = self.device.create_command_encoder(&Default::default());
        let pass = encoder.begin_compute_pass(&Default::default()).forget_lifetime();
        Recorder { gpu: self, pass, encoder, dispatches: 0 }
    }

    /// Submits commands that were encoded while the device computed others.
    pub fn submit_prepared(&self, prepared: Prepared) -> Submitted {
        self.count(|counters| counters.prepared += 1);
        self.submit(prepared)
    }

    /// Submits commands before the tokens of the previous round were read.
    pub fn submit_ahead(&self, prepared: Prepared) -> Submitted {
        self.count(|counters| counters.ahead += 1);
        self.submit_prepared(prepared)
    }

    /// Submits commands.
    pub fn submit(&self, Prepared { commands, dispatches }: Prepared) -> Submitted {
        self.count(|counters| {
            counters.submits += 1;
            counters.dispatches += dispatches;
        });
        Submitted(self.queue.submit([commands]))
    }
}

/// A submission being recorded: all its dispatches are in one compute pass.
pub struct Recorder<'a> {
    gpu: &'a Gpu,
    pass: wgpu::ComputePass<'static>,
    encoder: wgpu::CommandEncoder,
    dispatches: u64,
}

impl Recorder<'_> {
    /// Returns the device.
    pub fn gpu(&self) -> &Gpu {
        self.gpu
    }

    /// Adds a kernel call.
    pub fn dispatch(&mut self, call: &Call, grid: [u32; 3]) {
        self.pass.set_pipeline(call.pipeline.get_or_init(|| self.gpu.pipeline(call.kernel)));
        self.pass.set_bind_group(0, &call.group.raw, &[]);
        let [x, y, z] = grid;
        self.pass.dispatch_workgroups(x, y, z);
        self.dispatches += 1;
    }

    /// Submits, with an optional copy of `bytes` from `offset` of a buffer into a readback.
    pub fn submit(self, copy: Option<(&Buffer, u64, u64, &Readback)>) -> Submitted {
        let gpu = self.gpu;
        gpu.submit(self.encode(copy))
    }

    /// Encodes what [`Recorder::submit`] would submit, for later.
    pub fn encode(self, copy: Option<(&Buffer, u64, u64, &Readback)>) -> Prepared {
        let Self { pass, mut encoder, dispatches, .. } = self;
        drop(pass);
        if let Some((from, offset, bytes, to)) = copy {
            encoder.copy_buffer_to_buffer(from.raw(), offset, to.raw(), 0, bytes);
        }
        Prepared { commands: encoder.finish(), dispatches }
    }
}

/// A submission that can be waited for.
pub struct Submitted(pub(super) wgpu::SubmissionIndex);

/// Encoded commands, to be submitted once.
pub struct Prepared {
    commands: wgpu::CommandBuffer,
    dispatches: u64,
}

/// Returns the grid for a matmul. Row tiles are in x, so that workgroups that read the same weights follow each other. Output tiles
/// are in y and z, because a dimension holds at most 65,535.
pub fn split_grid(rows: u32, outs: u32) -> [u32; 3] {
    let z = outs.div_ceil(65_535).max(1);
    [rows, outs.div_ceil(z), z]
}
