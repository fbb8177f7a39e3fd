//! Describes a model before it is loaded, from its headers alone.

use super::ModelFiles;
use crate::error::Result;
use crate::gpu::DeviceInfo;
use crate::model::Architecture;
use crate::model::{Capacity, Memory};
use serde::Serialize;
use std::collections::BTreeMap;

/// Description of a model that is not loaded.
#[derive(Debug, Clone, Serialize)]
pub struct Inspection {
    /// Display name of the model.
    pub model: String,
    /// Architecture of the model.
    pub architecture: Architecture,
    /// Bytes of all files that loading reads.
    pub download_bytes: u64,
    /// Weights of the model.
    pub tensors: Tensors,
    /// Context and chunk sizes that it would get.
    pub capacity: Capacity,
    /// Bytes needed on the GPU, by purpose.
    pub memory: Memory,
    /// Sum of `memory`.
    pub total: u64,
    /// The device; `None` if there is none.
    pub device: Option<DeviceInfo>,
    /// Limit of the device that the model exceeds; `None` if it fits. Free memory is unknown until it is allocated.
    pub unfit: Option<String>,
}

/// Number and size of weights.
#[derive(Debug, Clone, Serialize)]
pub struct Tensors {
    /// Number of tensors.
    pub count: usize,
    /// Bytes in the files.
    pub bytes: u64,
    /// Share of each type.
    pub dtypes: BTreeMap<&'static str, DtypeShare>,
}

/// Weights of one type.
#[derive(Debug, Clone, Default, Serialize)]
pub struct DtypeShare {
    /// Number of tensors.
    pub count: usize,
    /// Bytes in the files.
    pub bytes: u64,
}

impl ModelFiles {
    /// Describes the model, and compares it with the limits of a device.
    ///
    /// # Errors
    /// Errors of the source.
    pub async fn inspect(&self, device: Option<DeviceInfo>) -> Result<Inspection> {
        let (Self { blueprint, .. }, weights) = (self, self.checkpoint.weights());
        let mut dtypes = BTreeMap::<_, DtypeShare>::new();
        for (_, tensor) in weights.iter() {
            let share = dtypes.entry(tensor.dtype.name()).or_default();
            share.count += 1;
            share.bytes += tensor.bytes();
        }
        let (count, bytes) =
            dtypes.values().fold((0, 0), |(count, bytes), share| (count + share.count, bytes + share.bytes));
        let memory = blueprint.memory();
        let unfit = device.as_ref().and_then(|device| blueprint.check(device).err());
        Ok(Inspection {
            model: weights.source().model_name(),
            architecture: blueprint.spec.architecture,
            download_bytes: weights.download_bytes().await?,
            tensors: Tensors { count, bytes, dtypes },
            capacity: blueprint.capacity,
            memory,
            total: memory.total(),
            device,
            unfit: unfit.map(|error| error.to_string()),
        })
    }
}
