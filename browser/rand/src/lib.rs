//! The parts of `rand` that `tokenizers` uses, without randomness. It draws at random only in training (BPE dropout, sampled segmentations);
//! a text is always split the same way here.

/// The generator. It has no state.
#[derive(Debug, Clone, Copy)]
pub struct ThreadRng;

/// Returns the generator.
pub fn rng() -> ThreadRng {
    ThreadRng
}

/// Numbers of a generator.
pub trait Rng {
    /// Returns 1, which is above every probability of dropout.
    fn random<T: From<u8>>(&mut self) -> T {
        T::from(1)
    }
}

impl Rng for ThreadRng {}

/// Traits that are imported together.
pub mod prelude {
    pub use crate::{Rng, distr::Distribution};
}

/// Distributions.
pub mod distr {
    /// A distribution of values of type `T`.
    pub trait Distribution<T> {
        /// Returns a value.
        fn sample<R: ?Sized>(&self, rng: &mut R) -> T;
    }

    /// A distribution of indices.
    pub mod weighted {
        use super::Distribution;
        use std::borrow::Borrow;

        /// The index of the largest weight.
        #[derive(Debug, Clone, Copy)]
        pub struct WeightedIndex(usize);

        /// There are no weights.
        #[derive(Debug, Clone, Copy)]
        pub struct Empty;

        impl WeightedIndex {
            /// Finds the largest weight.
            ///
            /// # Errors
            /// [`Empty`], if there is none.
            pub fn new<W: Borrow<f64>>(weights: impl IntoIterator<Item = W>) -> Result<Self, Empty> {
                let weights = weights.into_iter().map(|weight| *weight.borrow()).enumerate();
                weights.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(index, _)| Self(index)).ok_or(Empty)
            }
        }

        impl Distribution<usize> for WeightedIndex {
            fn sample<R: ?Sized>(&self, _: &mut R) -> usize {
                self.0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{distr::weighted::WeightedIndex, prelude::*, rng};

    #[test]
    fn nothing_is_random() {
        assert_eq!(rng().random::<f32>(), 1.0);
        let index = WeightedIndex::new([0.1, 0.7, 0.2]).unwrap();
        assert_eq!(index.sample(&mut rng()), 1);
        assert!(WeightedIndex::new([0_f64; 0]).is_err());
    }
}
