//! Elements of vectors, made of the numbers that a checkpoint stores.

/// Elements of a vector, made of stored numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Elements {
    /// The number and a constant.
    Plus(f32),
    /// The number times a constant.
    Times(f32),
    /// `e^number`.
    Exponential,
    /// The number with the other sign.
    Negative,
}

impl Elements {
    /// Returns the element made of a stored number.
    pub fn from_stored(self, stored: f32) -> f32 {
        match self {
            Self::Plus(more) => stored + more,
            Self::Times(factor) => stored * factor,
            Self::Exponential => stored.exp(),
            Self::Negative => -stored,
        }
    }

    /// Returns the number that is stored for an element.
    pub fn to_stored(self, element: f32) -> f32 {
        match self {
            Self::Plus(more) => element - more,
            Self::Times(factor) => element / factor,
            Self::Exponential => element.ln(),
            Self::Negative => -element,
        }
    }
}
