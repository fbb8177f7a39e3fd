//! Threads without shared memory, as in a page: each has some rows of every large matrix.

use super::matrix::Matrix;
use super::rows::{Rows, stride};
use super::share::{MatrixOp, Question, Words};
use crate::options::Arithmetic;
use crate::weights::Dtype;
use bytemuck::{cast_slice, cast_slice_mut};
use std::collections::TryReserveError;
use std::ops::Range;

/// Other threads, each with a [`Share`](super::Share).
pub trait Threads {
    /// Returns the number of other threads.
    fn others(&self) -> usize;

    /// Returns the bytes that fit a question or an answer.
    fn room(&self) -> usize;

    /// Sends a question to a thread that has answered the one before.
    fn ask(&self, other: usize, question: Words, bytes: &[u8]);

    /// Waits for a thread's answer and fills `bytes` with the bytes sent with it.
    fn answer(&self, other: usize, bytes: &mut [u8]) -> f64;
}

/// Shared handle to the other threads.
#[cfg(target_arch = "wasm32")]
pub type Others = std::rc::Rc<dyn Threads>;
/// Shared handle to the other threads.
#[cfg(not(target_arch = "wasm32"))]
pub type Others = std::sync::Arc<dyn Threads + Send + Sync>;

/// Rows of a matrix on the other threads.
struct Shares {
    others: Others,
    /// Number of the matrix on each of them.
    matrix: u32,
}

impl Shares {
    fn new(others: &Others, cols: usize) -> Self {
        let mut shares = Self { others: others.clone(), matrix: 0 };
        for other in 0..others.others() {
            shares.matrix = shares.ask(other, shares.question(MatrixOp::Add, cols), &[], &mut []) as u32;
        }
        shares
    }

    fn question(&self, what: MatrixOp, count: usize) -> Question {
        Question::new(what, self.matrix, count)
    }

    fn ask(&self, other: usize, question: Question, bytes: &[u8], answer: &mut [u8]) -> f64 {
        self.others.ask(other, question.words(), bytes);
        self.others.answer(other, answer)
    }
}

/// Error: not enough memory.
#[derive(Debug)]
pub struct Full;

impl From<TryReserveError> for Full {
    fn from(_: TryReserveError) -> Self {
        Self
    }
}

/// Weights below which an exchange takes as long as the products.
const SMALL: usize = 1 << 15;

/// Matrix [rows, cols], with some rows on other threads.
pub struct DistributedMatrix {
    own: Matrix,
    cols: usize,
    rows: usize,
    shares: Option<Shares>,
    spans: Vec<RowSpan>,
    /// Rows pushed so far.
    pushed: usize,
    /// Bytes on each other thread; entry 0, this thread's, stays 0.
    bytes: Vec<u64>,
}

/// Consecutive rows on one thread.
struct RowSpan {
    /// Thread number; 0: this one.
    thread: usize,
    /// Rows of the whole matrix.
    rows: Range<usize>,
    /// Index of the first row among the thread's rows.
    first: usize,
}

impl DistributedMatrix {
    /// Creates an empty matrix that will have `rows` rows. Others get a share if that pays and a row fits a message.
    pub fn new(cols: usize, rows: usize, others: Option<&Others>) -> Self {
        let has_share = |others: &&Others| rows * cols >= SMALL && 4 * stride(rows.max(cols)) <= others.room();
        let others = others.filter(|others| others.others() > 0).filter(has_share);
        let shares = others.map(|others| Shares::new(others, cols));
        Self { own: Matrix::new(cols), cols, rows: 0, shares, spans: Vec::new(), pushed: 0, bytes: Vec::new() }
    }

    fn threads(&self) -> usize {
        1 + self.shares.as_ref().map_or(0, |shares| shares.others.others())
    }

    /// Returns the number of rows on a thread.
    fn held(&self, thread: usize) -> usize {
        self.spans.iter().filter(|span| span.thread == thread).map(|span| span.rows.len()).sum()
    }

    /// Makes room as [`Matrix::reserve`], and assigns the next rows to threads.
    pub fn reserve(&mut self, dtype: Dtype, rows: usize) -> Result<(), Full> {
        let threads = self.threads();
        // Products are computed for four rows at a time.
        let cut = |thread: usize| (rows * thread / threads).next_multiple_of(4).min(rows);
        for thread in 0..threads {
            let part = cut(thread)..cut(thread + 1);
            match &self.shares {
                _ if part.is_empty() => continue,
                Some(shares) if thread > 0 => {
                    let question = shares.question(MatrixOp::Reserve, part.len()).with_dtype(dtype);
                    if shares.ask(thread - 1, question, &[], &mut []) == 0.0 {
                        return Err(Full);
                    }
                }
                _ => self.own.reserve(dtype, part.len())?,
            }
            let first = self.held(thread);
            self.spans.push(RowSpan { thread, rows: self.rows + part.start..self.rows + part.end, first });
        }
        self.rows += rows;
        self.bytes.resize(threads, 0);
        Ok(())
    }

    /// Appends rows as [`Matrix::push`].
    pub fn push(&mut self, dtype: Dtype, bytes: &[u8]) {
        let row_bytes = dtype.bytes(self.cols as u64).map_or(usize::MAX, |bytes| bytes.max(1) as usize);
        let pushed = self.pushed..self.pushed + bytes.len() / row_bytes;
        for RowSpan { thread, rows, .. } in &self.spans {
            let rows = rows.start.max(pushed.start)..rows.end.min(pushed.end);
            if rows.is_empty() {
                continue;
            }
            let part = &bytes[(rows.start - pushed.start) * row_bytes..(rows.end - pushed.start) * row_bytes];
            match &self.shares {
                Some(shares) if *thread > 0 => {
                    let question = shares.question(MatrixOp::Push, 0).with_dtype(dtype);
                    for part in part.chunks(shares.others.room() / row_bytes * row_bytes) {
                        self.bytes[*thread] = shares.ask(thread - 1, question, part, &mut []) as u64;
                    }
                }
                _ => self.own.push(dtype, part),
            }
        }
        self.pushed = pushed.end;
    }

    /// Returns the bytes in memory, other threads included.
    pub fn bytes(&self) -> u64 {
        self.own.bytes() + self.bytes.iter().sum::<u64>()
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns a row as [`Matrix::row`].
    pub fn row(&self, row: usize) -> Vec<f32> {
        let Some(RowSpan { thread, rows, first }) = self.spans.iter().find(|span| span.rows.contains(&row)) else {
            return Vec::new();
        };
        let at = first + row - rows.start;
        match &self.shares {
            Some(shares) if *thread > 0 => {
                let mut values = vec![0.0; self.cols];
                let question = shares.question(MatrixOp::Row, at);
                shares.ask(thread - 1, question, &[], cast_slice_mut(&mut values));
                values
            }
            _ => self.own.row(at),
        }
    }

    /// Returns products as [`Matrix::times`].
    pub fn times(&self, x: &Rows, arithmetic: Arithmetic) -> Rows {
        let Some(shares) = &self.shares else { return self.own.times(x, arithmetic) };
        let others = &shares.others;
        let threads = self.threads();
        let widths: Vec<usize> = (0..threads).map(|thread| stride(self.held(thread))).collect();
        let widest = widths.iter().fold(x.padded_width(), |most, width| most.max(*width));
        let most = others.room() / (4 * widest.max(1));
        let mut y = Rows::new(x.len(), self.rows);
        for first in (0..x.len()).step_by(most) {
            let all = first..x.len().min(first + most);
            let part = x.part(all.clone());
            let asked: Vec<usize> = (1..threads).filter(|thread| widths[*thread] > 0).collect();
            let question = shares.question(MatrixOp::Times, part.len()).with(arithmetic).words();
            asked.iter().for_each(|thread| others.ask(thread - 1, question, cast_slice(part.data())));
            let mut put = |thread: usize, products: &Rows| {
                for RowSpan { rows, first, .. } in self.spans.iter().filter(|span| span.thread == thread) {
                    for (at, row) in all.clone().enumerate() {
                        let from = &products.row(at)[*first..first + rows.len()];
                        y.row_mut(row)[rows.clone()].copy_from_slice(from);
                    }
                }
            };
            put(0, &self.own.times(&part, arithmetic));
            for thread in asked {
                let mut products = Rows::new(all.len(), self.held(thread));
                others.answer(thread - 1, cast_slice_mut(products.data_mut()));
                put(thread, &products);
            }
        }
        y
    }
}

impl Drop for DistributedMatrix {
    fn drop(&mut self) {
        let Some(shares) = &self.shares else { return };
        for other in 0..shares.others.others() {
            shares.ask(other, shares.question(MatrixOp::Remove, 0), &[], &mut []);
        }
    }
}
