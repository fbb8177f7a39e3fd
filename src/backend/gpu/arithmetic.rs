//! Selects float or integer products for quantised weights: as requested, or the faster one on this device.

use super::bind::Binder;
use super::dims::Step;
use super::node::{GpuPass, Node};
use super::variants::Variants;
use crate::error::{Error, Result};
use crate::gpu::{Arithmetic, Gpu, Uniforms};
use crate::model::{Blueprint, Op};
use crate::options::ArithmeticChoice;
use std::iter;
use std::time::Duration;
use web_time::Instant;

/// Outputs of the timed matrix: enough for many workgroups.
const OUTS: u32 = 4096;
/// Target duration of one timing: some browsers' clocks tick in milliseconds.
const LONG: Duration = Duration::from_millis(20);
const MOST: f64 = 512.0;
/// Timings of each kind; the shortest counts.
const TIMES: usize = 2;
/// Numbers of rows, each with the largest accepted ratio of integer to float time. One row is bound by reading the weights; if it is slower,
/// dot products are emulated, and larger kernels are not compiled. Eight rows must gain more than rounding and extra dispatches cost.
const ROWS: [(u32, f64); 2] = [(1, 1.05), (8, 0.9)];

impl Binder<'_> {
    /// Sets the requested arithmetic. For `auto`, times one of the largest layer matrices, whose weights need not be loaded.
    /// Chooses integers if they are clearly faster for 8 rows and hardly slower for one.
    ///
    /// # Errors
    /// [`Error::BadOption`] if integers are requested but WGSL lacks integer dot products; device errors.
    pub async fn choose_arithmetic(&mut self, gpu: &Gpu, blueprint: &Blueprint) -> Result<()> {
        self.arithmetic = match blueprint.arithmetic {
            _ if !blueprint.may_quantise() => Arithmetic::F32,
            ArithmeticChoice::Int8 if gpu.multiplies_codes() => Arithmetic::Int8,
            ArithmeticChoice::Int8 => {
                let allowed = "auto or f32: WGSL has no packed_4x8_integer_dot_product here".into();
                return Err(Error::BadOption { option: "arithmetic".into(), value: "int8".into(), allowed });
            }
            ArithmeticChoice::Auto if gpu.multiplies_codes() => self.faster(gpu, blueprint).await?,
            _ => Arithmetic::F32,
        };
        Ok(())
    }

    async fn faster(&mut self, gpu: &Gpu, blueprint: &Blueprint) -> Result<Arithmetic> {
        let matmuls = blueprint.plan.body.iter().filter(|op| {
            let Op::Matmul { matrix, .. } = op else { return false };
            // Experts have no rows yet.
            blueprint.plan.matrices[matrix.0].experts == 1
                && self.matrices[matrix.0].pieces.iter().all(|piece| piece.format().multiplies_codes())
        });
        let size = |op: &&Op| match op {
            Op::Matmul { matrix, .. } => {
                self.matrices[matrix.0].pieces.iter().map(|piece| piece.rows * piece.row.units).sum()
            }
            _ => 0,
        };
        let Some(op) = matmuls.max_by_key(size) else { return Ok(Arithmetic::F32) };
        for (rows, most) in ROWS {
            let floats = self.time(gpu, op, Arithmetic::F32, rows).await?;
            let integers = self.time(gpu, op, Arithmetic::Int8, rows).await?;
            // A coarse clock may report a time of zero.
            if integers >= floats * most {
                return Ok(Arithmetic::F32);
            }
        }
        Ok(Arithmetic::Int8)
    }

    /// Returns the seconds per product, with repetitions queued.
    async fn time(&mut self, gpu: &Gpu, op: &Op, arithmetic: Arithmetic, rows: u32) -> Result<f64> {
        self.step.write_bytes(gpu, bytemuck::bytes_of(&Step { rows, ..bytemuck::Zeroable::zeroed() }));
        let mut uniforms = Uniforms::default();
        self.arithmetic = arithmetic;
        let lowered = self.lower_all(iter::once(op), &mut uniforms).into_iter().flatten();
        let blocks = uniforms.upload(gpu, "dimensions")?;
        let nodes: Vec<Node> = lowered.map(|lowered| lowered.bind(gpu, &blocks)).collect();
        let pass = GpuPass { rows, positions: &(0..=0), variants: Variants::default(), outs: OUTS };
        let (mut repeats, mut shortest) = (1.0, f64::INFINITY);
        // The first run compiles; the second one determines the number of repetitions.
        for turn in 0..2 + TIMES {
            let began = Instant::now();
            let mut recorder = gpu.record();
            for _ in 0..repeats as u32 {
                nodes.iter().for_each(|node| node.record(&mut recorder, pass));
            }
            recorder.submit(None);
            gpu.flush().await?;
            let seconds = began.elapsed().as_secs_f64() / repeats;
            match turn {
                0 => {}
                1 => repeats = (LONG.as_secs_f64() / seconds).clamp(1.0, MOST).floor(),
                _ => shortest = shortest.min(seconds),
            }
        }
        Ok(shortest)
    }
}
