//! A test bench for single kernels: inputs and outputs with guard bands, and bounds on the difference from their twins.

use crate::{gpu, run};
use bytemuck::cast_slice;
use foretoken::internals::gpu::{Buffer, Gpu, Kernel, Slice};
use foretoken::internals::target::StatePass;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::rc::Rc;

/// Initial contents of outputs: a NaN, so that a missing write is found, and so is one too many.
pub const UNTOUCHED: u32 = 0x7fc0_dead;
/// Words after the data of every binding. Nothing may be written there, and a read yields a NaN.
pub const GUARD: usize = 64;

pub struct Lab {
    pub gpu: Rc<Gpu>,
    pub random: Random,
    /// Worst error and bound by kernel.
    pub worst: BTreeMap<&'static str, (f64, f64)>,
}

/// A buffer that a kernel writes, with its guard band inside the binding.
pub struct Output {
    pub buffer: Buffer,
    pub words: usize,
}

impl Output {
    pub fn slice(&self) -> Slice {
        self.buffer.whole()
    }
}

impl Lab {
    pub fn new(seed: u64) -> Self {
        Self { gpu: gpu(), random: Random(seed), worst: BTreeMap::new() }
    }

    pub fn uniform(&self, words: &[u32]) -> Slice {
        self.gpu.buffer_of("uniform", words).unwrap().whole()
    }

    pub fn step(&self, position: usize, rows: usize) -> Slice {
        self.step_of([position, rows, 0, 0], StatePass::default())
    }

    /// Returns a step that reads and writes recurrent states.
    pub fn step_of(&self, [position, rows, token, logit_row]: [usize; 4], states: StatePass) -> Slice {
        let StatePass { slot, base, save_slot, save_at } = states;
        let save_at = save_at.unwrap_or(u32::MAX as usize);
        let words = [position, rows, token, logit_row, 0, 0, slot, base, save_slot, save_at, 0, 0, 0, 0];
        self.uniform(&words.map(|word| word as u32))
    }

    /// Returns a step whose last `masks` rows read the mask token.
    pub fn masked_step(&self, [position, rows, token]: [usize; 3], masks: usize) -> Slice {
        let words = [position, rows, token, 0, 0, 0, 0, 0, 0, u32::MAX as usize, masks, 0, 0, 0];
        self.uniform(&words.map(|word| word as u32))
    }

    pub fn input(&self, bytes: &[u8]) -> Slice {
        let mut guarded = bytes.to_vec();
        guarded.resize(bytes.len().next_multiple_of(4), 0);
        guarded.extend_from_slice(cast_slice(&[UNTOUCHED; GUARD]));
        self.gpu.buffer_of("input", &guarded).unwrap().whole()
    }

    pub fn output(&self, before: &[u32]) -> Output {
        let words = [before, &[UNTOUCHED; GUARD]].concat();
        Output { buffer: self.gpu.buffer_of("output", &words).unwrap(), words: before.len() }
    }

    pub fn run(&self, kernel: Kernel, grid: [u32; 3], bindings: &[(u32, Slice)]) {
        let mut recorder = self.gpu.record();
        recorder.dispatch(&self.gpu.call(kernel, bindings), grid);
        recorder.submit(None);
    }

    pub fn read(&self, output: &Output) -> Vec<u32> {
        let mut words = run(self.gpu.read_buffer(&output.buffer, 0, output.buffer.size())).unwrap();
        let guard = words.split_off(output.words);
        assert!(guard.iter().all(|word| *word == UNTOUCHED), "a kernel wrote into the guard band");
        words
    }

    /// Reads rows of `width` that a kernel wrote into rows of `stride`. The padding must be untouched.
    pub fn rows(&self, output: &Output, stride: usize, width: usize) -> Vec<f32> {
        let words = self.read(output);
        let rows = words.chunks_exact(stride).flat_map(|row| {
            assert!(row[width..].iter().all(|word| *word == UNTOUCHED), "a kernel wrote behind its row");
            row[..width].iter().map(|word| f32::from_bits(*word))
        });
        rows.collect()
    }

    /// Compares a kernel's result with its twin's. A result that is not finite fails. Differences up to `floor` are ignored: a device
    /// that treats subnormals as zeros may lose that much.
    pub fn close(&mut self, kernel: &'static str, bound: f64, case: &dyn Debug, got: &[f32], want: &[f32], floor: f64) {
        assert_eq!(got.len(), want.len(), "{kernel} {case:?}");
        let (mut errors, mut squares) = (0.0, 0.0);
        for (got, want) in got.iter().zip(want) {
            assert!(got.is_finite() && want.is_finite(), "{kernel} {case:?}: {got} where {want} was expected");
            let error = (f64::from(*got) - f64::from(*want)).abs();
            errors += if error > floor { error * error } else { 0.0 };
            squares += f64::from(*want) * f64::from(*want);
        }
        let nmse = if errors == 0.0 { 0.0 } else { errors / squares };
        let entry = self.worst.entry(kernel).or_insert((0.0, bound));
        *entry = (entry.0.max(nmse), bound.min(entry.1));
        assert!(nmse <= bound, "{kernel} {case:?}: NMSE {nmse:.1e} > {bound:.0e}");
    }

    pub fn report(&self) {
        for (kernel, (worst, bound)) in &self.worst {
            println!("{}: {kernel}: worst NMSE {worst:.1e}, bound {bound:.0e}", self.gpu.info().name);
        }
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014).
pub struct Random(pub u64);

impl Random {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let a = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        b ^ (b >> 31)
    }

    /// Returns a number in 0..n.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    /// Returns a number in 1..=n.
    pub fn upto(&mut self, n: usize) -> usize {
        1 + self.below(n)
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn normals(&mut self, n: usize) -> Vec<f32> {
        let mut normal = || {
            let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
            (radius * (std::f64::consts::TAU * self.unit()).cos()) as f32
        };
        (0..n).map(|_| normal()).collect()
    }

    pub fn values(&mut self, input: Input, n: usize) -> Vec<f32> {
        let mut values = self.normals(n);
        match input {
            Input::Normal => {}
            Input::Outlier => values[self.below(n)] = 1e4,
            Input::Zero => values.fill(0.0),
            Input::SubnormalF16 => values.iter_mut().for_each(|value| *value *= 1e-5),
            Input::SubnormalF32 => values.iter_mut().for_each(|value| *value *= 1e-39),
        }
        values
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Input {
    Normal,
    /// One element is 1e4.
    Outlier,
    Zero,
    /// Subnormal in f16; no device may lose them.
    SubnormalF16,
    /// Subnormal in f32; a device may treat them as zeros.
    SubnormalF32,
}

pub const INPUTS: [Input; 5] = [Input::Normal, Input::Outlier, Input::Zero, Input::SubnormalF16, Input::SubnormalF32];
