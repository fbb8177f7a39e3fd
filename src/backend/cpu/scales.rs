//! Scales and offsets of quantised rows, as their file stores them: one base per block, and for some types a factor per group.

use super::instructions::Integers;
use super::simd::unroll;
use crate::weights::Scaling;
use std::collections::TryReserveError;
use std::hint::black_box;

/// A number per group of weights: `base * factor`. Four rows are interleaved.
pub(super) struct StoredScales {
    /// [rows / 4, blocks of a row, 4]
    bases: Vec<[f32; 4]>,
    /// [rows / 4, groups of a row, 4]; `None`: all are 1.
    factors: Option<Vec<[i8; 4]>>,
    /// Groups that share a base.
    shared: usize,
}

impl StoredScales {
    pub fn new(has_factors: bool, shared: usize) -> Self {
        Self { bases: Vec::new(), factors: has_factors.then(Vec::new), shared }
    }

    /// Makes room for `fours` times four rows of `groups` groups.
    pub fn reserve(&mut self, fours: usize, groups: usize) -> Result<(), TryReserveError> {
        self.bases.try_reserve_exact(fours.saturating_mul(groups / self.shared))?;
        self.factors.iter_mut().try_for_each(|factors| factors.try_reserve_exact(fours.saturating_mul(groups)))
    }

    /// Appends the numbers of rows to those of the `rows` existing ones.
    pub fn push(&mut self, scaling: &Scaling, rows: usize, groups: usize) {
        put(&mut self.bases, &scaling.bases, rows, groups / self.shared);
        self.factors.iter_mut().for_each(|factors| put(factors, &scaling.factors, rows, groups));
    }

    /// Returns the bytes in memory.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.bases[..]) + self.factors.iter().map(|factors| size_of_val(&factors[..])).sum::<usize>()
    }

    /// Returns the numbers of four rows, by group. Inlined into code for this processor.
    #[inline(always)]
    pub fn expand<'a, I: Integers>(
        &'a self,
        simd: I,
        four: usize,
        groups: usize,
        to: &'a mut Vec<[f32; 4]>,
    ) -> &'a [[f32; 4]] {
        let blocks = groups / self.shared;
        let bases = &self.bases[four * blocks..][..blocks];
        if self.shared == 1 {
            return bases;
        }
        to.resize(groups, [0.0; 4]);
        // Indexed: calls of iterators of iterators are not inlined.
        if let Some(factors) = &self.factors {
            let factors = factors[four * groups..][..groups].as_chunks::<8>().0;
            let (to, shift) = (to.as_chunks_mut::<8>().0, (self.shared / 8).ilog2());
            for at in 0..factors.len() {
                // Else the compiler computes several groups at once, and gathers their factors byte by byte.
                black_box(());
                let (base, factors) = (&bases[at >> shift], factors[at]);
                unroll!(i in 4 => {
                    let two = simd.scaled(base, &[factors[2 * i], factors[2 * i + 1]]);
                    [to[at][2 * i], to[at][2 * i + 1]] = two;
                });
            }
        } else {
            let shift = self.shared.ilog2();
            for at in 0..groups {
                to[at] = bases[at >> shift];
            }
        }
        to
    }
}

/// Appends rows of `width` numbers to the `rows` existing ones, four rows interleaved.
fn put<T: Copy + Default>(all: &mut Vec<[T; 4]>, numbers: &[T], rows: usize, width: usize) {
    all.resize((rows + numbers.len() / width).div_ceil(4) * width, Default::default());
    for (i, number) in numbers.iter().enumerate() {
        let row = rows + i / width;
        all[row / 4 * width + i % width][row % 4] = *number;
    }
}
