//! Counters of a device's work.

use serde::Serialize;

/// Counts since the device was opened; differences show what a round does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Queue submissions.
    pub submits: u64,
    /// Submissions whose commands were encoded while the device computed another.
    pub prepared: u64,
    /// Submissions made before the tokens of the previous round were read.
    pub ahead: u64,
    /// Times that the CPU waited for bytes from the GPU.
    pub blocking_readbacks: u64,
    /// Bytes read back.
    pub readback_bytes: u64,
    /// Buffers, bind groups and pipelines created.
    pub creates: u64,
    /// Pipelines among `creates`: kernel variants compiled.
    pub pipelines: u64,
    /// Kernel calls.
    pub dispatches: u64,
    /// Bytes of all buffers created and not dropped.
    pub allocated: u64,
}

impl Counters {
    /// Returns the counts since `earlier`; `allocated` remains the current amount.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            submits: self.submits - earlier.submits,
            prepared: self.prepared - earlier.prepared,
            ahead: self.ahead - earlier.ahead,
            blocking_readbacks: self.blocking_readbacks - earlier.blocking_readbacks,
            readback_bytes: self.readback_bytes - earlier.readback_bytes,
            creates: self.creates - earlier.creates,
            pipelines: self.pipelines - earlier.pipelines,
            dispatches: self.dispatches - earlier.dispatches,
            allocated: self.allocated,
        }
    }
}
