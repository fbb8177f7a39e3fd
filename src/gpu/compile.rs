//! Compiles kernels while the device computes, in browsers: they support this, wgpu 30 does not.

use super::device::Gpu;
use super::kernels::Kernel;
use js_sys::Reflect;
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use wgpu::webgpu::GpuDevice;

/// Method that wgpu calls on a device.
const CREATE: &str = "createComputePipeline";

impl Gpu {
    /// Compiles a kernel in the background. Returns true if it is already compiled.
    pub fn compile_beside(self: &Rc<Self>, kernel: Kernel) -> bool {
        if self.is_compiled(kernel) {
            return true;
        }
        if self.coming.borrow_mut().insert(kernel) {
            let gpu = self.clone();
            spawn_local(async move {
                // After an error the synchronous call fails too, and reports it as usual.
                let pipeline = gpu.compile_async(kernel).await.unwrap_or_else(|_| gpu.create_pipeline(kernel));
                gpu.keep_pipeline(kernel, pipeline);
            });
        }
        false
    }

    /// Compiles by `createComputePipelineAsync`. wgpu writes the descriptor and wraps the result: a first call passes the
    /// descriptor on, a second one gets the finished pipeline.
    async fn compile_async(&self, kernel: Kernel) -> Result<wgpu::ComputePipeline, JsValue> {
        let device = self.device.as_webgpu().ok_or(JsValue::NULL)?;
        let (this, (sender, mut receiver)) = (device.clone(), futures_channel::oneshot::channel());
        self.create_by(device, kernel, move |descriptor| {
            let promise = this.create_compute_pipeline_async(descriptor.unchecked_ref());
            let answer = promise.clone().into();
            let _ = sender.send(promise);
            answer
        })?;
        let promise = receiver.try_recv().ok().flatten().ok_or(JsValue::NULL)?;
        let pipeline = JsFuture::from(promise).await?;
        self.create_by(device, kernel, |_| pipeline.into())
    }

    /// Creates a pipeline by wgpu, with `answer` in place of the browser's method.
    fn create_by(
        &self,
        device: &GpuDevice,
        kernel: Kernel,
        answer: impl FnOnce(JsValue) -> JsValue + 'static,
    ) -> Result<wgpu::ComputePipeline, JsValue> {
        // An own property hides the prototype's method. No type has a setter for it.
        let answer = Closure::once(answer);
        Reflect::set(device, &CREATE.into(), answer.as_ref())?;
        let pipeline = self.create_pipeline(kernel);
        Reflect::delete_property::<js_sys::Object>(device.unchecked_ref(), &CREATE.into())?;
        Ok(pipeline)
    }
}
