//! Waits for events of the device: natively by polling the driver, in a browser by the event loop.

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
    /// Waits for the submission.
    pub async fn wait(mut self, gpu: &Gpu) -> Result<()> {
        gpu.reported(&mut self.receiver, Some(self.submission)).await
    }
}

impl Gpu {
    /// Returns the end of the latest submission.
    pub fn done(&self, Submitted(submission): Submitted) -> Done {
        let (sender, receiver) = oneshot::channel();
        self.queue.on_submitted_work_done(move || {
            // The receiver is gone only if the caller stopped waiting.
            let _ = sender.send(());
        });
        Done { submission, receiver }
    }

    /// Submits pending writes and waits for them, so that uploads do not accumulate in memory.
    pub async fn flush(&self) -> Result<()> {
        let submitted = Submitted(self.queue.submit([]));
        self.count(|counters| counters.submits += 1);
        self.done(submitted).wait(self).await
    }

    /// Waits for a device callback that sends to `receiver` when the submission is done; `None`: all submissions.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] and errors of [`Gpu::check`].
    pub(super) async fn reported<T>(
        &self,
        receiver: &mut Receiver<T>,
        submission: Option<wgpu::SubmissionIndex>,
    ) -> Result<T> {
        // Blocks natively; does nothing in a browser.
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

    /// Firefox checks for finished work only every 100 ms and at each submission, so an empty one triggers the check.
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

    /// Returns true if this browser reports finished work late.
    pub(super) async fn reports_late(&self) -> Result<bool> {
        /// Seconds: far more than an idle device needs, far less than 100 ms.
        const LATE: f64 = 0.03;
        // The first wait may end early; the second one starts just after the browser has checked.
        self.flush().await?;
        let began = web_time::Instant::now();
        self.flush().await?;
        Ok(began.elapsed().as_secs_f64() > LATE)
    }
}
