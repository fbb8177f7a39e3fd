//! Drafters and schedules, without a device.

mod adaptive;
mod drafters;
mod suffix;
