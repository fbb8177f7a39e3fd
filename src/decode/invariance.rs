//! The check on the user's device of the promise on which speculation rests, and what is done where a driver breaks it.

use super::engine::Engine;
use super::flight::Ahead;
use super::memory::{BLOCK, FEW_ROWS};
use crate::error::Result;
use crate::gpu::Kernel;
use crate::target::Target;
use web_time::Instant;

/// Where among the variants of a matmul the tile is: behind those of [`Kernel::ROWS`].
pub(super) const TILE: usize = Kernel::ROWS.len();

/// Which of the matmul kernels that compute the same were compared on this device, and which of them differ from the one for a
/// single row: those are not used. A bit for each of [`Kernel::ROWS`], then one for the tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variants {
    compared: u8,
    differing: u8,
}

impl Default for Variants {
    fn default() -> Self {
        Self { compared: 1, differing: 0 }
    }
}

impl Variants {
    const ALL: u8 = (2 << TILE) - 1;
    /// All but the tile.
    pub const NO_TILES: Self = Self { compared: Self::ALL, differing: 1 << TILE };
    /// The one for a single row serves all.
    pub const ONE: Self = Self { compared: Self::ALL, differing: Self::ALL - 1 };

    /// The variant for so many rows: the one that is made for them; else one for more rows, else for fewer, several times over.
    pub(super) fn choose(self, rows: usize) -> usize {
        let made_for = match rows {
            rows if rows > FEW_ROWS => TILE,
            rows => Kernel::ROWS.iter().position(|most| *most as usize >= rows).unwrap_or(TILE - 1),
        };
        let larger = made_for..TILE.max(made_for + 1);
        larger.chain((0..made_for).rev()).find(|variant| self.differing >> variant & 1 == 0).unwrap_or(0)
    }

    /// That variant, where it was not compared yet.
    fn unknown(self, rows: usize) -> Option<usize> {
        Some(self.choose(rows)).filter(|variant| self.compared >> variant & 1 == 0)
    }

    fn learn(&mut self, variant: usize, differs: bool) {
        self.compared |= 1 << variant;
        self.differing |= u8::from(differs) << variant;
    }

    /// What the user should know of them.
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

impl Engine {
    /// Compares the kernels that read prompts with those that write, as [`Engine::compare`] does; the others are compared when
    /// a pass first needs them. Nothing is cached afterwards.
    ///
    /// # Errors
    /// What the device reports.
    pub async fn check_invariance(&mut self) -> Result<Variants> {
        self.truncate(0);
        let rows = self.target.chunk().min(self.capacity());
        // The last rows see two blocks of positions, where there is room for them.
        let last = (BLOCK + rows / 2).min(self.capacity());
        self.compare(rows, last.saturating_sub(rows)).await?;
        Ok(self.target.variants())
    }

    /// Where the kernel variant for so many rows was not in use yet: compiles it, and compares the bits of a token's logits by
    /// it, and by the variant for a single row. Shader compilers may reorder sums; a variant that differs is never used. A
    /// few layers that between them have every kernel, and a part of the head, are enough for that. It overwrites the cache
    /// from `position` on. Returns the seconds that it took.
    ///
    /// # Errors
    /// What the device reports.
    pub(super) async fn compare(&mut self, rows: usize, position: usize) -> Result<f64> {
        let mut variants = self.target.variants();
        if variants.unknown(rows).is_none() {
            return Ok(0.0);
        }
        let began = Instant::now();
        let vocab = self.target.spec().vocab_size;
        let tokens: Vec<u32> = (0..rows).map(|i| (i * 37 % vocab) as u32).collect();
        while let Some(variant) = variants.unknown(rows) {
            let together = self.probe(&tokens, position).await?;
            let alone = self.probe(&tokens[rows - 1..], position + rows - 1).await?;
            variants.learn(variant, together != alone);
            self.target.use_variants(variants);
        }
        self.ahead = Ahead::default();
        Ok(began.elapsed().as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Most rows at a time of what is chosen for so many rows; 0: the tile.
    fn chosen(variants: Variants, rows: usize) -> u32 {
        Kernel::ROWS.get(variants.choose(rows)).copied().unwrap_or(0)
    }

    #[test]
    fn what_differs_is_not_used() {
        let all = Variants::default();
        let expected = [(1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (16, 16), (17, 16), (32, 16), (33, 0), (500, 0)];
        assert_eq!(expected.map(|(rows, _)| (rows, chosen(all, rows))), expected);
        let mut known = all;
        assert_eq!((known.unknown(1), known.unknown(4), known.unknown(64)), (None, Some(2), Some(TILE)));
        known.learn(2, false);
        assert_eq!((known.unknown(4), known.warning()), (None, None));
        // One that differs gives way to larger ones, then to smaller ones.
        known.learn(3, true);
        assert_eq!((chosen(known, 4), chosen(known, 7), known.unknown(7)), (4, 16, Some(4)));
        known.learn(4, true);
        assert_eq!((chosen(known, 7), chosen(known, 20), known.unknown(7)), (4, 4, None));
        assert_eq!(chosen(known, 64), 0);
        known.learn(TILE, true);
        assert_eq!(chosen(known, 64), 4);
        assert_eq!((chosen(Variants::NO_TILES, 64), chosen(Variants::NO_TILES, 3)), (16, 4));
        assert_eq!((chosen(Variants::ONE, 64), chosen(Variants::ONE, 3)), (1, 1));
        assert!(Variants::NO_TILES.warning() != known.warning() && known.warning().is_some());
    }
}
