//! Rows of large matrices on other threads, and questions about them.

use super::matrix::Matrix;
use super::rows::Rows;
use crate::error::{Error, Result};
use crate::options::Arithmetic;
use crate::weights::Dtype;
use bytemuck::{CheckedBitPattern, NoUninit, cast_slice, cast_slice_mut};

/// Question as it is sent.
pub type Words = [u32; 4];

/// Operation on a matrix.
#[derive(Debug, Clone, Copy, NoUninit, CheckedBitPattern)]
#[repr(u32)]
pub enum MatrixOp {
    /// Creation of a matrix with `count` columns and no rows. Answer: its number.
    Add,
    /// Removal of all rows.
    Remove,
    /// [`Matrix::reserve`] for `count` rows of the dtype `kind`. Answer: 1, or 0 if memory is short.
    Reserve,
    /// [`Matrix::push`] of the question's bytes, of the dtype `kind`. Answer: [`Matrix::bytes`].
    Push,
    /// [`Matrix::row`] number `count`, sent with the answer.
    Row,
    /// [`Matrix::times`] for `count` rows with the arithmetic `kind`. Rows come with the question, products with the answer, as in
    /// [`Rows::data`].
    Times,
}

/// Question to another thread.
#[derive(Debug, Clone, Copy, NoUninit, CheckedBitPattern)]
#[repr(C)]
pub struct Question {
    what: MatrixOp,
    matrix: u32,
    kind: u32,
    count: u32,
}

impl Question {
    /// Creates a question about `count` rows or columns.
    pub fn new(what: MatrixOp, matrix: u32, count: usize) -> Self {
        Self { what, matrix, kind: 0, count: count as u32 }
    }

    /// Sets the dtype of the rows.
    pub fn with_dtype(self, dtype: Dtype) -> Self {
        let kind = Dtype::all().iter().position(|one| *one == dtype).unwrap_or_default() as u32;
        Self { kind, ..self }
    }

    /// Sets the arithmetic of the products.
    pub fn with(self, arithmetic: Arithmetic) -> Self {
        Self { kind: u32::from(arithmetic == Arithmetic::Int8), ..self }
    }

    /// Returns the question as it is sent.
    pub fn words(self) -> Words {
        bytemuck::cast(self)
    }
}

/// Matrices of this thread by number, each some rows of a whole matrix.
#[derive(Default)]
pub struct Share(Vec<Matrix>);

impl Share {
    /// Answers a question. `read` gets the question's bytes, `length` in total; `write` takes the answer's bytes.
    ///
    /// # Errors
    /// `internal` for an invalid question and a missing matrix.
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
        if let MatrixOp::Add = what {
            self.0.push(Matrix::new(count));
            return Ok((self.0.len() - 1) as f64);
        }
        let matrix = self.0.get_mut(matrix as usize).ok_or_else(|| broken("no such matrix"))?;
        let dtype = || Dtype::all().get(kind as usize).copied().ok_or_else(|| broken("no such dtype"));
        match what {
            MatrixOp::Add | MatrixOp::Remove => *matrix = Matrix::new(matrix.cols()),
            MatrixOp::Reserve => return Ok(if matrix.reserve(dtype()?, count).is_ok() { 1.0 } else { 0.0 }),
            MatrixOp::Push => {
                let mut bytes = vec![0; length];
                read(&mut bytes);
                matrix.push(dtype()?, &bytes);
                return Ok(matrix.bytes() as f64);
            }
            MatrixOp::Row => write(cast_slice(&matrix.row(count))),
            MatrixOp::Times => {
                let mut x = Rows::new(count, matrix.cols());
                read(cast_slice_mut(x.data_mut()));
                let arithmetic = if kind > 0 { Arithmetic::Int8 } else { Arithmetic::F32 };
                write(cast_slice(matrix.times(&x, arithmetic).data()));
            }
        }
        Ok(0.0)
    }
}
