//! What there is to know of a model before it is loaded, from its headers alone.

use super::ModelFiles;
use crate::error::Result;
use crate::gpu::DeviceInfo;
use crate::model::Architecture;
use crate::model::{Capacity, Memory};
use crate::weights::Source;
use serde::Serialize;
use std::collections::BTreeMap;

/// A model that is not loaded.
#[derive(Debug, Clone, Serialize)]
pub struct Inspection {
    /// What a person would call it.
    pub model: String,
    /// Its kind.
    pub architecture: Architecture,
    /// Bytes of all files that loading it reads.
    pub download_bytes: u64,
    /// Its weights.
    pub tensors: Tensors,
    /// The room it would get.
    pub capacity: Capacity,
    /// Bytes that it would need on the GPU.
    pub memory: Memory,
    /// All of them.
    pub total: u64,
    /// The device; none where there is none.
    pub device: Option<DeviceInfo>,
    /// Why it would not fit that device's limits; none where it would. How much memory is free, nobody knows before it is asked for.
    pub unfit: Option<String>,
}

/// Weights, counted.
#[derive(Debug, Clone, Serialize)]
pub struct Tensors {
    /// How many.
    pub count: usize,
    /// Bytes in the files.
    pub bytes: u64,
    /// By their type.
    pub dtypes: BTreeMap<&'static str, Share>,
}

/// Weights of one type.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Share {
    /// How many.
    pub count: usize,
    /// Bytes in the files.
    pub bytes: u64,
}

impl<S: Source + 'static> ModelFiles<S> {
    /// Describes it, and compares it with the limits of a device.
    ///
    /// # Errors
    /// Those of the source.
    pub async fn inspect(&self, device: Option<DeviceInfo>) -> Result<Inspection> {
        let (Self { blueprint, .. }, weights) = (self, self.checkpoint.weights());
        let mut dtypes = BTreeMap::<_, Share>::new();
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
