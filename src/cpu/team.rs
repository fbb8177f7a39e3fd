//! Threads that share no memory with this one, as in a page: each has some rows of every large matrix.

use super::matrix::Matrix;
use super::rows::{Rows, stride};
use super::share::{Question, What, Words};
use crate::options::Arithmetic;
use crate::weights::Dtype;
use bytemuck::{cast_slice, cast_slice_mut};
use std::collections::TryReserveError;
use std::ops::Range;

/// The other threads, each with a [`Share`](super::Share).
pub trait Team {
    /// How many there are.
    fn others(&self) -> usize;

    /// Bytes that can come with a question, and with an answer.
    fn room(&self) -> usize;

    /// Asks one of them, which has answered what it was asked before.
    fn ask(&self, other: usize, question: Words, bytes: &[u8]);

    /// Waits for its answer; as many bytes as there is room for come with it.
    fn answer(&self, other: usize, bytes: &mut [u8]) -> f64;
}

/// Whoever has it can be asked wherever the matrices are.
#[cfg(target_arch = "wasm32")]
pub type Others = std::rc::Rc<dyn Team>;
/// Whoever has it can be asked wherever the matrices are.
#[cfg(not(target_arch = "wasm32"))]
pub type Others = std::sync::Arc<dyn Team + Send + Sync>;

/// What the others have of a matrix.
struct Shares {
    others: Others,
    /// Its number.
    matrix: u32,
}

impl Shares {
    fn new(others: &Others, cols: usize) -> Self {
        let mut shares = Self { others: others.clone(), matrix: 0 };
        for other in 0..others.others() {
            shares.matrix = shares.ask(other, shares.question(What::Add, cols), &[], &mut []) as u32;
        }
        shares
    }

    fn question(&self, what: What, count: usize) -> Question {
        Question::new(what, self.matrix, count)
    }

    fn ask(&self, other: usize, question: Question, bytes: &[u8], answer: &mut [u8]) -> f64 {
        self.others.ask(other, question.words(), bytes);
        self.others.answer(other, answer)
    }
}

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
    shares: Option<Shares>,
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
        let has_share = |others: &&Others| rows * cols >= SMALL && 4 * stride(rows.max(cols)) <= others.room();
        let others = others.filter(|others| others.others() > 0).filter(has_share);
        let shares = others.map(|others| Shares::new(others, cols));
        Self { own: Matrix::new(cols), cols, rows: 0, shares, spans: Vec::new(), pushed: 0, bytes: Vec::new() }
    }

    fn threads(&self) -> usize {
        1 + self.shares.as_ref().map_or(0, |shares| shares.others.others())
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
            match &self.shares {
                _ if part.is_empty() => continue,
                Some(shares) if thread > 0 => {
                    let question = shares.question(What::Reserve, part.len()).of(dtype);
                    if shares.ask(thread - 1, question, &[], &mut []) == 0.0 {
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
            match &self.shares {
                Some(shares) if *thread > 0 => {
                    let question = shares.question(What::Push, 0).of(dtype);
                    for part in part.chunks(shares.others.room() / row_bytes * row_bytes) {
                        let bytes = shares.ask(thread - 1, question, part, &mut []);
                        self.bytes[*thread] = if bytes < 0.0 { return Err(Full) } else { bytes as u64 };
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
        match &self.shares {
            Some(shares) if *thread > 0 => {
                let mut values = vec![0.0; self.cols];
                let question = shares.question(What::Row, at);
                shares.ask(thread - 1, question, &[], cast_slice_mut(&mut values));
                values
            }
            _ => self.own.row(at),
        }
    }

    /// As [`Matrix::times`].
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
            let question = shares.question(What::Times, part.len()).with(arithmetic).words();
            asked.iter().for_each(|thread| others.ask(thread - 1, question, cast_slice(part.data())));
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
                others.answer(thread - 1, cast_slice_mut(products.data_mut()));
                put(thread, &products);
            }
        }
        y
    }
}

impl Drop for Distributed {
    fn drop(&mut self) {
        let Some(shares) = &self.shares else { return };
        for other in 0..shares.others.others() {
            shares.ask(other, shares.question(What::Remove, 0), &[], &mut []);
        }
    }
}
