//! Waiting for what the device reports: natively the driver is asked, in a browser the event loop brings it.

use super::device::Gpu;
use super::record::Submitted;
use crate::error::{Error, Result};
use futures_channel::oneshot::{self, Canceled, Receiver};

/// The end of a submission.
pub struct Done {
    submission: wgpu::SubmissionIndex,
    receiver: Receiver<()>,
}

impl Done {
    /// Waits for it.
    ///
    /// # Errors
    /// As [`Gpu::check`].
    pub async fn wait(mut self, gpu: &Gpu) -> Result<()> {
        gpu.reported(&mut self.receiver, Some(self.submission)).await
    }
}

impl Gpu {
    /// The end of the submission that was made last.
    pub fn done(&self, Submitted(submission): Submitted) -> Done {
        let (sender, receiver) = oneshot::channel();
        self.queue.on_submitted_work_done(move || {
            // The receiver is gone only when nobody waits.
            let _ = sender.send(());
        });
        Done { submission, receiver }
    }

    /// Sends what was written so far and waits for it, so that uploads do not pile up in memory.
    ///
    /// # Errors
    /// As [`Done::wait`].
    pub async fn flush(&self) -> Result<()> {
        let submitted = Submitted(self.queue.submit([]));
        self.count(|counters| counters.submits += 1);
        self.done(submitted).wait(self).await
    }

    /// Waits for a callback of the device that sends to `receiver` once the submission, or all, are done.
    ///
    /// # Errors
    /// [`Error::DeviceLost`]; what [`Gpu::check`] reports.
    pub(super) async fn reported<T>(
        &self,
        receiver: &mut Receiver<T>,
        submission: Option<wgpu::SubmissionIndex>,
    ) -> Result<T> {
        // Blocks natively; in a browser it does nothing.
        let wait = wgpu::PollType::Wait { submission_index: submission, timeout: None };
        self.device.poll(wait).map_err(|error| Error::DeviceLost { reason: error.to_string() })?;
        let reported = self.urge(receiver).await;
        self.check()?;
        reported.map_err(|_| Error::DeviceLost { reason: "the device never answered".into() })
    }

    #[cfg(not(target_arch = "wasm32"))]
    async fn urge<T>(&self, receiver: &mut Receiver<T>) -> std::result::Result<T, Canceled> {
        receiver.await
    }

    /// Firefox looks whether a device is done only every 100 ms, and at each submission: an empty one makes it look.
    #[cfg(target_arch = "wasm32")]
    async fn urge<T>(&self, receiver: &mut Receiver<T>) -> std::result::Result<T, Canceled> {
        use gloo_timers::future::TimeoutFuture;
        use std::pin::Pin;

        if !self.reports_late {
            return receiver.await;
        }
        let mut timer = TimeoutFuture::new(1);
        std::future::poll_fn(|context| {
            let reported = Pin::new(&mut *receiver).poll(context);
            while reported.is_pending() && Pin::new(&mut timer).poll(context).is_ready() {
                self.queue.submit([]);
                timer = TimeoutFuture::new(1);
            }
            reported
        })
        .await
    }

    /// Whether this browser reports late what the device has done.
    ///
    /// # Errors
    /// As [`Gpu::flush`].
    pub(super) async fn reports_late(&self) -> Result<bool> {
        /// Seconds: far more than an idle device needs, far less than 100 ms.
        const LATE: f64 = 0.03;
        // The first wait may end early; the second one begins when the browser has just looked.
        self.flush().await?;
        let began = web_time::Instant::now();
        self.flush().await?;
        Ok(began.elapsed().as_secs_f64() > LATE)
    }
}
