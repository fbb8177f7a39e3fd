//! Threads that share no memory with this one, as in a page: each has some rows of every large matrix.

use super::matrix::Matrix;
use super::rows::{Rows, stride};
use crate::options::Arithmetic;
use crate::weights::Dtype;
use std::collections::TryReserveError;
use std::ops::Range;

/// The other threads. What one of them is asked is done when the call returns, but for [`Team::begin`].
pub trait Team {
    /// How many there are.
    fn others(&self) -> usize;

    /// Numbers that a call of [`Team::begin`] or [`Team::end`] can carry, and four times as many bytes that one of [`Team::push`] can.
    fn room(&self) -> usize;

    /// Adds a matrix of no rows to each; returns its number.
    fn add(&self, cols: usize) -> u32;

    /// Forgets it.
    fn remove(&self, matrix: u32);

    /// As [`Matrix::reserve`]; false where there is no room.
    fn reserve(&self, other: usize, matrix: u32, dtype: Dtype, rows: usize) -> bool;

    /// As [`Matrix::push`]; returns what [`Matrix::bytes`] is then, none where there is no room.
    fn push(&self, other: usize, matrix: u32, dtype: Dtype, bytes: &[u8]) -> Option<u64>;

    /// As [`Matrix::row`].
    fn row(&self, other: usize, matrix: u32, row: usize, values: &mut [f32]);

    /// Begins [`Matrix::times`].
    fn begin(&self, other: usize, matrix: u32, x: &Rows, arithmetic: Arithmetic);

    /// Waits for its products [x rows, rows], as [`Rows::data`] has them.
    fn end(&self, other: usize, products: &mut [f32]);
}

/// Whoever has it can be asked wherever the matrices are.
#[cfg(target_arch = "wasm32")]
pub type Others = std::rc::Rc<dyn Team>;
/// Whoever has it can be asked wherever the matrices are.
#[cfg(not(target_arch = "wasm32"))]
pub type Others = std::sync::Arc<dyn Team + Send + Sync>;

/// There is no room for so much.
#[derive(Debug)]
pub struct Full;

impl From<TryReserveError> for Full {
    fn from(_: TryReserveError) -> Self {
        Self
    }
}

/// Weights below which an exchange takes as long as the products.
const SMALL: usize = 1 << 15;

/// A matrix [rows, cols] of which others have some rows.
pub struct Distributed {
    own: Matrix,
    cols: usize,
    rows: usize,
    others: Option<(Others, u32)>,
    spans: Vec<Span>,
    /// Rows that were pushed.
    pushed: usize,
    /// Bytes that each of the others has, this thread being the first.
    bytes: Vec<u64>,
}

/// Rows that stand together at one thread.
struct Span {
    /// 0 is this one.
    thread: usize,
    /// Of the whole matrix.
    rows: Range<usize>,
    /// The first one's place among the thread's rows.
    first: usize,
}

impl Distributed {
    /// One of no rows yet, and of `rows` at last. Others get a share where that pays, and where a row has room in a message.
    pub fn new(cols: usize, rows: usize, others: Option<&Others>) -> Self {
        let has_share = |others: &&Others| rows * cols >= SMALL && stride(rows.max(cols)) <= others.room();
        let others = others.filter(|others| others.others() > 0).filter(has_share);
        let others = others.map(|others| (others.clone(), others.add(cols)));
        Self { own: Matrix::new(cols), cols, rows: 0, others, spans: Vec::new(), pushed: 0, bytes: Vec::new() }
    }

    fn threads(&self) -> usize {
        1 + self.others.as_ref().map_or(0, |(others, _)| others.others())
    }

    /// Rows that a thread has.
    fn held(&self, thread: usize) -> usize {
        self.spans.iter().filter(|span| span.thread == thread).map(|span| span.rows.len()).sum()
    }

    /// As [`Matrix::reserve`]: the rows that are pushed next are these.
    ///
    /// # Errors
    /// Where there is not so much memory.
    pub fn reserve(&mut self, dtype: Dtype, rows: usize) -> Result<(), Full> {
        let threads = self.threads();
        // Products are computed by four.
        let cut = |thread: usize| (rows * thread / threads).next_multiple_of(4).min(rows);
        for thread in 0..threads {
            let part = cut(thread)..cut(thread + 1);
            match &self.others {
                _ if part.is_empty() => continue,
                Some((others, matrix)) if thread > 0 => {
                    if !others.reserve(thread - 1, *matrix, dtype, part.len()) {
                        return Err(Full);
                    }
                }
                _ => self.own.reserve(dtype, part.len())?,
            }
            let first = self.held(thread);
            self.spans.push(Span { thread, rows: self.rows + part.start..self.rows + part.end, first });
        }
        self.rows += rows;
        self.bytes.resize(threads, 0);
        Ok(())
    }

    /// As [`Matrix::push`].
    ///
    /// # Errors
    /// Where there is not so much memory.
    pub fn push(&mut self, dtype: Dtype, bytes: &[u8]) -> Result<(), Full> {
        let row_bytes = dtype.bytes(self.cols as u64).map_or(usize::MAX, |bytes| bytes.max(1) as usize);
        let pushed = self.pushed..self.pushed + bytes.len() / row_bytes;
        for Span { thread, rows, .. } in &self.spans {
            let rows = rows.start.max(pushed.start)..rows.end.min(pushed.end);
            if rows.is_empty() {
                continue;
            }
            let part = &bytes[(rows.start - pushed.start) * row_bytes..(rows.end - pushed.start) * row_bytes];
            match &self.others {
                Some((others, matrix)) if *thread > 0 => {
                    let most = 4 * others.room() / row_bytes * row_bytes;
                    for part in part.chunks(most) {
                        self.bytes[*thread] = others.push(thread - 1, *matrix, dtype, part).ok_or(Full)?;
                    }
                }
                _ => self.own.push(dtype, part)?,
            }
        }
        self.pushed = pushed.end;
        Ok(())
    }

    /// Bytes in memory, those of the others included.
    pub fn bytes(&self) -> u64 {
        self.own.bytes() + self.bytes.iter().sum::<u64>()
    }

    /// As [`Matrix::row`].
    pub fn row(&self, row: usize) -> Vec<f32> {
        let Some(Span { thread, rows, first }) = self.spans.iter().find(|span| span.rows.contains(&row)) else {
            return Vec::new();
        };
        let at = first + row - rows.start;
        match &self.others {
            Some((others, matrix)) if *thread > 0 => {
                let mut values = vec![0.0; self.cols];
                others.row(thread - 1, *matrix, at, &mut values);
                values
            }
            _ => self.own.row(at),
        }
    }

    /// As [`Matrix::times`].
    pub fn times(&self, x: &Rows, arithmetic: Arithmetic) -> Rows {
        let Some((others, matrix)) = &self.others else { return self.own.times(x, arithmetic) };
        let threads = self.threads();
        let widths: Vec<usize> = (0..threads).map(|thread| stride(self.held(thread))).collect();
        let widest = widths.iter().fold(x.padded_width(), |most, width| most.max(*width));
        let most = others.room() / widest.max(1);
        let mut y = Rows::new(x.len(), self.rows);
        for first in (0..x.len()).step_by(most) {
            let all = first..x.len().min(first + most);
            let part = x.part(all.clone());
            let asked: Vec<usize> = (1..threads).filter(|thread| widths[*thread] > 0).collect();
            asked.iter().for_each(|thread| others.begin(thread - 1, *matrix, &part, arithmetic));
            let mut put = |thread: usize, products: &Rows| {
                for Span { rows, first, .. } in self.spans.iter().filter(|span| span.thread == thread) {
                    for (at, row) in all.clone().enumerate() {
                        let from = &products.row(at)[*first..first + rows.len()];
                        y.row_mut(row)[rows.clone()].copy_from_slice(from);
                    }
                }
            };
            put(0, &self.own.times(&part, arithmetic));
            for thread in asked {
                let mut products = Rows::new(all.len(), self.held(thread));
                others.end(thread - 1, products.data_mut());
                put(thread, &products);
            }
        }
        y
    }
}

impl Drop for Distributed {
    fn drop(&mut self) {
        if let Some((others, matrix)) = &self.others {
            others.remove(*matrix);
        }
    }
}
