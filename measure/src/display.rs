//! Display of numbers of bytes and of devices.

use foretoken::DeviceInfo;
use std::fmt;

/// Number of bytes, for display.
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{size} B"),
            1_000..1_000_000 => write!(f, "{:.1} kB", size / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.1} MB", size / 1e6),
            _ => write!(f, "{:.2} GB", size / 1e9),
        }
    }
}

/// Returns the device's name, with its API if it is a GPU.
pub fn name_device(device: &DeviceInfo) -> String {
    let DeviceInfo { name, backend, .. } = device;
    if backend == "Cpu" { name.clone() } else { format!("{name}, {backend}") }
}
