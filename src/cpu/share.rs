//! What another thread has of large matrices, and what it is asked about them.

use super::matrix::Matrix;
use super::rows::Rows;
use crate::error::{Error, Result};
use crate::options::Arithmetic;
use crate::weights::Dtype;
use bytemuck::{CheckedBitPattern, NoUninit, cast_slice, cast_slice_mut};

/// A question as it travels.
pub type Words = [u32; 4];

/// What is asked about a matrix.
#[derive(Debug, Clone, Copy, NoUninit, CheckedBitPattern)]
#[repr(u32)]
pub enum What {
    /// To add one of no rows and `count` columns; answered with its number.
    Add,
    /// To forget it.
    Remove,
    /// [`Matrix::reserve`] for `count` rows of the dtype `kind`; answered with 1, or 0 where there is no room.
    Reserve,
    /// [`Matrix::push`] of the bytes that come with the question, of the dtype `kind`; answered with [`Matrix::bytes`], or -1 where there is
    /// no room.
    Push,
    /// [`Matrix::row`] number `count`, which comes with the answer.
    Row,
    /// [`Matrix::times`] for `count` rows, which come with the question as [`Rows::data`] has them, with the arithmetic `kind`; the products
    /// come with the answer, likewise.
    Times,
}

/// A question to another thread.
#[derive(Debug, Clone, Copy, NoUninit, CheckedBitPattern)]
#[repr(C)]
pub struct Question {
    what: What,
    matrix: u32,
    kind: u32,
    count: u32,
}

impl Question {
    /// About rows or columns.
    pub fn new(what: What, matrix: u32, count: usize) -> Self {
        Self { what, matrix, kind: 0, count: count as u32 }
    }

    /// About rows of a type.
    pub fn of(self, dtype: Dtype) -> Self {
        let kind = Dtype::all().iter().position(|one| *one == dtype).unwrap_or_default() as u32;
        Self { kind, ..self }
    }

    /// About products.
    pub fn with(self, arithmetic: Arithmetic) -> Self {
        Self { kind: u32::from(arithmetic == Arithmetic::Int8), ..self }
    }

    /// As it travels.
    pub fn words(self) -> Words {
        bytemuck::cast(self)
    }
}

/// Some rows of matrices, which have numbers.
#[derive(Default)]
pub struct Share(Vec<Matrix>);

impl Share {
    /// Answers. `read` fills what it is given with the bytes that came, `length` of them; `write` takes those that go.
    ///
    /// # Errors
    /// `internal` for what is no question, and for a matrix that is not there.
    pub fn answer(
        &mut self,
        question: Words,
        length: usize,
        read: impl FnOnce(&mut [u8]),
        write: impl FnOnce(&[u8]),
    ) -> Result<f64> {
        let broken = |reason: &str| Error::Internal { reason: reason.into() };
        let question: Question = bytemuck::checked::try_cast(question).map_err(|_| broken("no such question"))?;
        let Question { what, matrix, kind, count } = question;
        let count = count as usize;
        if let What::Add = what {
            self.0.push(Matrix::new(count));
            return Ok((self.0.len() - 1) as f64);
        }
        let matrix = self.0.get_mut(matrix as usize).ok_or_else(|| broken("no such matrix"))?;
        let dtype = || Dtype::all().get(kind as usize).copied().ok_or_else(|| broken("no such dtype"));
        match what {
            What::Add | What::Remove => *matrix = Matrix::new(matrix.cols()),
            What::Reserve => return Ok(if matrix.reserve(dtype()?, count).is_ok() { 1.0 } else { 0.0 }),
            What::Push => {
                let mut bytes = vec![0; length];
                read(&mut bytes);
                return Ok(matrix.push(dtype()?, &bytes).map_or(-1.0, |()| matrix.bytes() as f64));
            }
            What::Row => write(cast_slice(&matrix.row(count))),
            What::Times => {
                let mut x = Rows::new(count, matrix.cols());
                read(cast_slice_mut(x.data_mut()));
                let arithmetic = if kind > 0 { Arithmetic::Int8 } else { Arithmetic::F32 };
                write(cast_slice(matrix.times(&x, arithmetic).data()));
            }
        }
        Ok(0.0)
    }
}
