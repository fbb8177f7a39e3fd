//! Estimated speed of decoding: the bandwidth of the device, divided by the bytes that a token reads.

use foretoken::internals::backend::Device;
use foretoken::internals::backend::cpu::Matrix;
use foretoken::internals::gpu::GpuOptions;
use foretoken::internals::model::{Blueprint, Mixer, Section, VectorPlan};
use foretoken::{DeviceInfo, LoadOptions};
use foretoken_measure::{Bytes, bandwidth};
use serde::Serialize;
use std::fmt;

/// Cached positions of the text whose speed is estimated.
const KV_LENGTH: usize = 512;

/// The device that would run the models.
pub(super) struct Machine {
    /// `None`: there is none.
    device: Option<Device>,
    /// Reason why there is no device, or why it is the CPU.
    pub reason: Option<String>,
    /// Measured bandwidth in GB/s, once it was needed; `None` in it: the probe failed.
    bandwidth: Option<Option<f64>>,
}

impl Machine {
    /// Opens the device that the options select.
    pub async fn open(options: &LoadOptions) -> Self {
        let (device, reason) = match Device::open(options, &GpuOptions::default()).await {
            Ok((device, reason)) => (Some(device), reason),
            Err(error) => (None, Some(error.to_string())),
        };
        Self { device, reason, bandwidth: None }
    }

    /// Returns the description of the device.
    pub fn info(&self) -> Option<&DeviceInfo> {
        self.device.as_ref().map(Device::info)
    }

    /// Returns the bandwidth in GB/s, if an estimate needed it.
    pub fn gb_per_s(&self) -> Option<f64> {
        self.bandwidth.flatten()
    }

    /// Estimates the speed of a model. The first call measures the bandwidth.
    pub async fn estimate(&mut self, blueprint: &Blueprint) -> Option<SpeedEstimate> {
        let device = self.device.as_ref()?;
        if self.bandwidth.is_none() {
            self.bandwidth = Some(match bandwidth(device).await {
                Ok(bandwidth) => Some(bandwidth),
                Err(error) => {
                    eprintln!("warning: the bandwidth of {} cannot be measured: {error}", device.info().name);
                    None
                }
            });
        }
        let bytes_per_token = match self.device.as_ref()? {
            Device::Gpu(_) => blueprint.memory().read_per_token,
            Device::Cpu(_) => read_on_cpu(blueprint),
        };
        Some(SpeedEstimate::new(bytes_per_token, kv_bytes(blueprint), self.gb_per_s()?))
    }
}

/// Upper estimate of the speed without drafts.
#[derive(Serialize)]
pub(super) struct SpeedEstimate {
    /// Bytes of weights read per token, as in a bench.
    bytes_per_token: u64,
    /// Bytes of the KV cache read per token, in a text of [`KV_LENGTH`] tokens.
    kv_bytes_per_token: u64,
    /// Bandwidth of the device.
    probe_gb_per_s: f64,
    /// Quotient of the bandwidth and the bytes.
    pub estimated_tokens_per_second: f64,
}

impl SpeedEstimate {
    fn new(bytes_per_token: u64, kv_bytes_per_token: u64, probe_gb_per_s: f64) -> Self {
        let bytes = (bytes_per_token + kv_bytes_per_token).max(1) as f64;
        let estimated_tokens_per_second = probe_gb_per_s * 1e9 / bytes;
        Self { bytes_per_token, kv_bytes_per_token, probe_gb_per_s, estimated_tokens_per_second }
    }
}

/// Returns the bytes of weights that a token reads on the CPU, whose layout differs from that of a GPU.
fn read_on_cpu(blueprint: &Blueprint) -> u64 {
    let section = |cols: usize, section: &Section| {
        // Rows are stored in fours, so four of them show the size of all.
        let bytes = 4 * section.dtype.bytes(cols as u64).unwrap_or(0);
        let mut four = Matrix::new(cols);
        four.push(section.dtype, &vec![0; bytes as usize]);
        four.bytes() * section.rows.len() as u64 / 4
    };
    let matrices = blueprint.plan.matrices.iter().zip(&blueprint.sections);
    let bytes: Vec<u64> =
        matrices.map(|(matrix, sections)| sections.iter().map(|rows| section(matrix.cols, rows)).sum()).collect();
    // Missing biases are not stored.
    let is_stored = |vector: &&VectorPlan| !vector.layout.parts.is_empty() || vector.elements.from_stored(0.0) != 0.0;
    let vectors: usize = blueprint.plan.vectors.iter().filter(is_stored).map(|vector| 4 * vector.len).sum();
    blueprint.read_per_token(&bytes) + vectors as u64
}

/// Returns the bytes of keys, values and recurrent states that a token reads.
fn kv_bytes(blueprint: &Blueprint) -> u64 {
    let positions = KV_LENGTH.min(blueprint.capacity.max_context);
    let layers = blueprint.spec.layers.iter().zip(blueprint.copied(positions, positions));
    let read = layers.map(|(layer, parts)| {
        let bytes: u64 = parts.into_iter().map(|part| part.end - part.start).sum();
        match &layer.mixer {
            // Positions before the window are not read.
            Mixer::Attention(attention) => {
                let window = attention.window.unwrap_or(positions).min(positions);
                bytes / positions as u64 * window as u64
            }
            _ => bytes,
        }
    });
    read.sum()
}

impl fmt::Display for SpeedEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [weights, kv] = [self.bytes_per_token, self.kv_bytes_per_token].map(Bytes);
        write!(
            f,
            "at most about {} tokens/s without drafts: each reads {weights} of weights and {kv} of KV cache (up to \
             {KV_LENGTH} positions), at {:.1} GB/s",
            Rate(self.estimated_tokens_per_second),
            self.probe_gb_per_s
        )
    }
}

/// Tokens per second, for display.
pub(super) struct Rate(pub f64);

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = if self.0 < 10.0 { 1 } else { 0 };
        write!(f, "{:.digits$}", self.0)
    }
}
