//! Speculation with several targets: simulated, on threads, on servers.

mod cancelled;
mod cluster;
mod dsi;
mod parallel;
mod remote;
mod simulate;
