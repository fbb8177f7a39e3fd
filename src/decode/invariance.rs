//! The check on the user's device of the promise on which speculation rests, and what is done where a driver breaks it.

use super::engine::Engine;
use super::flight::Ahead;
use super::memory::MATMUL_ROWS;
use super::target::Target;
use crate::error::Result;
use crate::gpu::Kernel;

/// Which of the kernels that compute the same are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Variants {
    /// All: variants for 1, 2, 4, 8 and 16 rows, and tiles for more.
    #[default]
    All,
    /// Those for up to 16 rows. There are no passes of more.
    NoTiles,
    /// The one for the most rows, whatever their number. There are no passes of more than 16.
    One,
}

impl Variants {
    /// Those that give the same bits, from the bits of one token's logits: by tiles, and by the variants for fewer rows.
    fn that_agree(by_tiles: &[u32], by_rows: &[Vec<u32>]) -> Self {
        match by_rows.first() {
            Some(first) if by_rows.iter().any(|bits| bits != first) => Self::One,
            Some(first) if by_tiles != first => Self::NoTiles,
            _ => Self::All,
        }
    }

    /// What the user should know of them.
    pub fn warning(self) -> Option<&'static str> {
        match self {
            Self::All => None,
            Self::NoTiles => Some(
                "this device's driver computes a row differently in a batch of more than 16: there are none, which keeps \
                 the text exact and makes prompts slower",
            ),
            Self::One => Some(
                "this device's driver computes a row differently alone and in a batch: one kernel variant serves all row \
                 counts, which keeps the text exact and makes prompts and plain decoding slower",
            ),
        }
    }
}

impl Engine {
    /// Computes a token's logits by each kernel variant, and compares their bits: shader compilers may reorder sums. From
    /// now on only variants that agree are in use. Nothing is cached afterwards.
    ///
    /// # Errors
    /// What the device reports.
    pub async fn check_invariance(&mut self) -> Result<Variants> {
        let vocab = self.target.spec().vocab_size;
        // Two blocks of positions, where there is room for them.
        let tokens: Vec<u32> = (0..self.capacity().min(70)).map(|i| (i * 37 % vocab) as u32).collect();
        let batch = |rows: usize| tokens.len() - rows.min(tokens.len());
        self.truncate(0);
        self.prefill(&tokens[..batch(MATMUL_ROWS + 1)]).await?;
        // From the largest batch to the smallest, each finds the positions before it computed.
        let first = batch(MATMUL_ROWS + 1);
        let by_tiles = self.last_logits(&tokens[first..], first).await?;
        let mut by_rows = Vec::new();
        for rows in Kernel::ROWS.into_iter().rev() {
            let first = batch(rows as usize);
            by_rows.push(self.last_logits(&tokens[first..], first).await?);
        }
        self.truncate(0);
        let variants = Variants::that_agree(&by_tiles, &by_rows);
        self.target.use_variants(variants);
        self.ahead = Ahead::default();
        Ok(variants)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_agree_is_not_used() {
        let (right, wrong) = (vec![1, 2, 3], vec![1, 2, 4]);
        let rows = vec![right.clone(); Kernel::ROWS.len()];
        assert_eq!(Variants::that_agree(&right, &rows), Variants::All);
        assert_eq!(Variants::that_agree(&wrong, &rows), Variants::NoTiles);
        for variant in 0..rows.len() {
            let mut rows = rows.clone();
            rows[variant] = wrong.clone();
            for tiles in [&right, &wrong] {
                assert_eq!(Variants::that_agree(tiles, &rows), Variants::One, "variant {variant}");
            }
        }
        assert_eq!(Variants::All.warning(), None);
        assert!(Variants::NoTiles.warning() != Variants::One.warning());
    }
}
