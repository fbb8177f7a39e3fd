//! Matmul variants: which are compiled, and which give other bits than the one for a single row.

use super::memory::FEW_ROWS;
use crate::gpu::Kernel;

/// Index of the tile among the matmul variants, after those of [`Kernel::ROWS`].
pub(super) const TILE: usize = Kernel::ROWS.len();

/// Matmul variants that are ready: compiled, and compared with the one for a single row. Variants that differ from it are never
/// used. A mask has a bit per entry of [`Kernel::ROWS`], then one for the tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variants {
    ready: u8,
    differing: u8,
}

impl Default for Variants {
    fn default() -> Self {
        Self { ready: 1, differing: 0 }
    }
}

impl Variants {
    const EACH: u8 = (2 << TILE) - 1;
    /// All variants.
    pub const ALL: Self = Self { ready: Self::EACH, differing: 0 };
    /// All variants except the tile.
    pub const NO_TILES: Self = Self { ready: Self::EACH, differing: 1 << TILE };
    /// Only the variant for a single row.
    pub const ONE: Self = Self { ready: Self::EACH, differing: Self::EACH - 1 };

    /// Returns the ready variant for `rows` rows: the matching one, else a larger one, else a smaller one in several runs.
    pub fn choose(self, rows: usize) -> usize {
        self.nearest(rows, self.ready & !self.differing)
    }

    fn nearest(self, rows: usize, of: u8) -> usize {
        let made_for = match rows {
            rows if rows > FEW_ROWS => TILE,
            rows => Kernel::ROWS.iter().position(|most| *most as usize >= rows).unwrap_or(TILE - 1),
        };
        let larger = made_for..TILE.max(made_for + 1);
        larger.chain((0..made_for).rev()).find(|variant| of >> variant & 1 == 1).unwrap_or(0)
    }

    /// Returns true if the variant for `rows` rows computes all (at most 16) at once.
    pub(super) fn serves(self, rows: usize) -> bool {
        Kernel::ROWS.get(self.choose(rows)).is_none_or(|most| *most as usize >= rows.min(16))
    }

    /// Returns the variant that would be chosen for `rows` rows if all were ready.
    pub(super) fn best(self, rows: usize) -> usize {
        self.nearest(rows, !self.differing)
    }

    /// Returns the best variant if it is not ready.
    pub fn missing(self, rows: usize) -> Option<usize> {
        Some(self.best(rows)).filter(|variant| self.ready >> variant & 1 == 0)
    }

    /// Records that a variant is ready, and if it differs.
    pub fn learn(&mut self, variant: usize, differs: bool) {
        self.ready |= 1 << variant;
        self.differing |= u8::from(differs) << variant;
    }

    /// Returns a warning if variants differ.
    pub fn warning(self) -> Option<&'static str> {
        match self.differing {
            0 => None,
            tile if tile == Self::NO_TILES.differing => Some(
                "this device's driver computes a row differently in a batch of more than 32: other kernels read prompts, which \
                 keeps the text exact and makes prompts slower",
            ),
            _ => Some(
                "this device's driver computes a row differently alone and in a batch: fewer kernel variants are used, which \
                 keeps the text exact and makes prompts and speculation slower",
            ),
        }
    }
}
