//! Compiling kernels while the device computes, in browsers: they can, wgpu 30 cannot.

use super::device::Gpu;
use super::kernels::Kernel;
use js_sys::{Function, Promise, Reflect};
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};

/// What wgpu calls on a device.
const CREATE: &str = "createComputePipeline";

impl Gpu {
    /// Compiles a kernel, in a browser while the device computes. Returns whether it is compiled.
    pub fn compile_beside(self: &Rc<Self>, kernel: Kernel) -> bool {
        if self.is_compiled(kernel) {
            return true;
        }
        if self.coming.borrow_mut().insert(kernel) {
            let gpu = self.clone();
            spawn_local(async move {
                // What is refused is refused again, and then reported as any other.
                let pipeline = gpu.compile_async(kernel).await.unwrap_or_else(|_| gpu.create_pipeline(kernel));
                gpu.keep_pipeline(kernel, pipeline);
            });
        }
        false
    }

    /// wgpu writes the descriptor and wraps what it is given: first it describes the pipeline to `createComputePipelineAsync`, then
    /// it is given what came of that.
    async fn compile_async(&self, kernel: Kernel) -> Result<wgpu::ComputePipeline, JsValue> {
        let device: JsValue = self.device.as_webgpu().ok_or(JsValue::NULL)?.clone().into();
        let (sender, mut receiver) = futures_channel::oneshot::channel();
        let create: Function = Reflect::get(&device, &format!("{CREATE}Async").into())?.dyn_into()?;
        let this = device.clone();
        self.create_by(&device, kernel, move |descriptor| {
            let promise = create.call1(&this, &descriptor).unwrap_or(JsValue::NULL);
            let _ = sender.send(promise.clone());
            promise
        })?;
        let promise = receiver.try_recv().ok().flatten().unwrap_or(JsValue::NULL);
        let pipeline = JsFuture::from(promise.dyn_into::<Promise>()?).await?;
        self.create_by(&device, kernel, |_| pipeline)
    }

    /// The pipeline that wgpu creates when the browser answers what `answer` does.
    fn create_by(
        &self,
        device: &JsValue,
        kernel: Kernel,
        answer: impl FnOnce(JsValue) -> JsValue + 'static,
    ) -> Result<wgpu::ComputePipeline, JsValue> {
        // An own property hides that of the prototype.
        let answer = Closure::once(answer);
        Reflect::set(device, &CREATE.into(), answer.as_ref())?;
        let pipeline = self.create_pipeline(kernel);
        Reflect::delete_property::<js_sys::Object>(device.unchecked_ref(), &CREATE.into())?;
        Ok(pipeline)
    }
}
