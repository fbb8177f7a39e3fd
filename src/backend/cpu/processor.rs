//! The CPU as a device, and its threads.

use super::instructions::dot_products;
use super::{Matrices, Others, parts, simd};
use crate::gpu::DeviceInfo;
use std::fmt;
use std::time::Duration;

/// Longest time that other tasks of the thread wait. In a page, a pause may last 4 ms, because browsers delay consecutive timers.
const LONGEST_WAIT: Duration = Duration::from_millis(if cfg!(target_arch = "wasm32") { 100 } else { 50 });

/// The CPU, with the threads that compute.
pub struct Processor {
    info: DeviceInfo,
    /// Longest time that other tasks of the thread wait for a pass.
    pub(super) longest_wait: Duration,
    /// Pool of a requested size; `None`: rayon's global pool.
    #[cfg(not(target_arch = "wasm32"))]
    pool: Option<rayon::ThreadPool>,
    /// Matrices of the model that it is going to have, if other instances of it are on this machine.
    pub(super) shared: Matrices,
    /// Other threads of a page, which share no memory.
    pub(super) others: Option<Others>,
}

impl fmt::Debug for Processor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info.fmt(formatter)
    }
}

fn info(threads: usize) -> DeviceInfo {
    DeviceInfo {
        name: format!("CPU with {threads} {}", if threads == 1 { "thread" } else { "threads" }),
        backend: "Cpu".into(),
        driver: simd::level() + dot_products(),
        max_buffer_size: isize::MAX as u64,
        max_binding_size: isize::MAX as u64,
        software: true,
    }
}

impl Processor {
    /// Creates a device with `threads` threads; `None`: one per core.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn new(threads: Option<usize>) -> Self {
        // If the system refuses the threads, all cores compute.
        let pool = threads.and_then(|threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().ok());
        let mut processor =
            Self { info: info(0), longest_wait: LONGEST_WAIT, pool, shared: Matrices::new(), others: None };
        processor.info = info(processor.threads());
        processor
    }

    /// Returns the number of threads.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn threads(&self) -> usize {
        self.pool.as_ref().map_or_else(parts::threads, rayon::ThreadPool::current_num_threads)
    }

    /// Shares a model's matrices with other instances of it.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn sharing(self, shared: Matrices) -> Self {
        Self { shared, ..self }
    }

    /// Lets other tasks of the thread run after this time, between two steps of a pass.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn yielding_after(self, longest_wait: Duration) -> Self {
        Self { longest_wait, ..self }
    }

    /// Creates a device of this thread and `others`.
    #[cfg(target_arch = "wasm32")]
    pub fn new(others: Option<Others>) -> Self {
        let threads = parts::threads() + others.as_ref().map_or(0, |others| others.others());
        Self { info: info(threads), longest_wait: LONGEST_WAIT, shared: Matrices::new(), others }
    }

    /// Returns the device's description.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Calls `run` on a pool thread, so that others take parts of it without being woken each time.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn run_in_pool<T: Send>(&self, run: impl FnOnce() -> T + Send) -> T {
        match &self.pool {
            Some(pool) => pool.install(run),
            None => rayon::scope(|_| run()),
        }
    }

    /// Calls `run`.
    #[cfg(target_arch = "wasm32")]
    pub(super) fn run_in_pool<T>(&self, run: impl FnOnce() -> T) -> T {
        run()
    }
}
