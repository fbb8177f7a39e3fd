//! Speculation with several targets: simulated, on threads, on servers.

mod cluster;
mod dsi;
mod parallel;
mod remote;
mod simulate;
