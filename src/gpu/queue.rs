//! Waiting for what was submitted, without reading anything back.

use super::device::Gpu;
use super::record::Submitted;
use crate::error::{Error, Result};
use futures_channel::oneshot;

/// The end of a submission.
pub struct Done {
    submission: wgpu::SubmissionIndex,
    receiver: oneshot::Receiver<()>,
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
}

impl Done {
    /// Waits for it.
    ///
    /// # Errors
    /// As [`Gpu::check`].
    pub async fn wait(self, gpu: &Gpu) -> Result<()> {
        let lost = |reason: String| Error::DeviceLost { reason };
        // As in `Readback::wait`: natively this waits, in a browser the event loop does.
        let wait = wgpu::PollType::Wait { submission_index: Some(self.submission), timeout: None };
        gpu.device.poll(wait).map_err(|error| lost(error.to_string()))?;
        let done = self.receiver.await;
        gpu.check()?;
        done.map_err(|_| lost("the queue never finished".into()))
    }
}
