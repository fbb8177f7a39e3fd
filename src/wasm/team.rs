//! Threads of a page: workers with an instance of this module each, which have some rows of every large matrix.

use crate::cpu::{Matrix, Others, Rows, Team};
use crate::error::{Error, Result};
use crate::options::Arithmetic;
use crate::weights::Dtype;
use js_sys::Float32Array;
use std::rc::Rc;
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    /// The workers (www/team.js).
    #[wasm_bindgen(js_name = Team)]
    pub type JsTeam;

    /// Starts them, so that there are so many threads, if that can be; fulfils with how many others there are.
    #[wasm_bindgen(method)]
    async fn start(this: &JsTeam, threads: Option<usize>) -> JsValue;
    #[wasm_bindgen(method, getter)]
    fn others(this: &JsTeam) -> usize;
    #[wasm_bindgen(method, getter)]
    fn room(this: &JsTeam) -> usize;
    #[wasm_bindgen(method)]
    fn add(this: &JsTeam, cols: usize) -> u32;
    #[wasm_bindgen(method)]
    fn remove(this: &JsTeam, matrix: u32);
    #[wasm_bindgen(method)]
    fn reserve(this: &JsTeam, other: usize, matrix: u32, dtype: usize, rows: usize) -> bool;
    /// Negative where there is no room.
    #[wasm_bindgen(method)]
    fn push(this: &JsTeam, other: usize, matrix: u32, dtype: usize, bytes: &[u8]) -> f64;
    #[wasm_bindgen(method)]
    fn row(this: &JsTeam, other: usize, matrix: u32, row: usize, values: &mut [f32]);
    #[wasm_bindgen(method)]
    fn begin(this: &JsTeam, other: usize, matrix: u32, x: &[f32], rows: usize, has_integers: bool);
    #[wasm_bindgen(method)]
    fn end(this: &JsTeam, other: usize, products: &mut [f32]);
}

/// Dtypes have numbers between two instances.
fn number(dtype: Dtype) -> usize {
    Dtype::all().iter().position(|one| *one == dtype).unwrap_or_default()
}

impl Team for JsTeam {
    fn others(&self) -> usize {
        self.others()
    }

    fn room(&self) -> usize {
        self.room()
    }

    fn add(&self, cols: usize) -> u32 {
        self.add(cols)
    }

    fn remove(&self, matrix: u32) {
        self.remove(matrix);
    }

    fn reserve(&self, other: usize, matrix: u32, dtype: Dtype, rows: usize) -> bool {
        self.reserve(other, matrix, number(dtype), rows)
    }

    fn push(&self, other: usize, matrix: u32, dtype: Dtype, bytes: &[u8]) -> Option<u64> {
        let bytes = self.push(other, matrix, number(dtype), bytes);
        (bytes >= 0.0).then_some(bytes as u64)
    }

    fn row(&self, other: usize, matrix: u32, row: usize, values: &mut [f32]) {
        self.row(other, matrix, row, values);
    }

    fn begin(&self, other: usize, matrix: u32, x: &Rows, arithmetic: Arithmetic) {
        self.begin(other, matrix, x.data(), x.len(), arithmetic == Arithmetic::Int8);
    }

    fn end(&self, other: usize, products: &mut [f32]) {
        self.end(other, products);
    }
}

/// The other threads, where there are any.
pub(super) async fn others(team: JsTeam, threads: Option<usize>) -> Option<Others> {
    let others = team.start(threads).await.as_f64().unwrap_or(0.0);
    (others > 0.0).then(|| Rc::new(team) as Others)
}

/// What another thread has: some rows of matrices, which have numbers.
#[wasm_bindgen(js_name = Share)]
#[derive(Default)]
pub struct JsShare(Vec<Held>);

struct Held {
    cols: usize,
    rows: Matrix,
}

#[wasm_bindgen(js_class = Share)]
impl JsShare {
    /// Of nothing.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    fn matrix(&mut self, matrix: usize) -> Result<&mut Held> {
        self.0.get_mut(matrix).ok_or_else(|| Error::Internal { reason: "no such matrix".into() })
    }

    /// As [`Team::add`].
    pub fn add(&mut self, cols: usize) {
        self.0.push(Held { cols, rows: Matrix::new(cols) });
    }

    /// As [`Team::remove`].
    ///
    /// # Errors
    /// `internal` for a matrix that is not there, as below.
    pub fn remove(&mut self, matrix: usize) -> Result<()> {
        let Held { cols, rows } = self.matrix(matrix)?;
        *rows = Matrix::new(*cols);
        Ok(())
    }

    /// As [`Team::reserve`].
    ///
    /// # Errors
    /// As above.
    pub fn reserve(&mut self, matrix: usize, dtype: usize, rows: usize) -> Result<bool> {
        Ok(self.matrix(matrix)?.rows.reserve(Dtype::all()[dtype], rows).is_ok())
    }

    /// As [`Team::push`]; negative where there is no room.
    ///
    /// # Errors
    /// As above.
    pub fn push(&mut self, matrix: usize, dtype: usize, bytes: &[u8]) -> Result<f64> {
        let Held { rows, .. } = self.matrix(matrix)?;
        Ok(rows.push(Dtype::all()[dtype], bytes).map_or(-1.0, |()| rows.bytes() as f64))
    }

    /// As [`Team::row`].
    ///
    /// # Errors
    /// As above.
    pub fn row(&mut self, matrix: usize, row: usize, values: &Float32Array) -> Result<()> {
        values.copy_from(&self.matrix(matrix)?.rows.row(row));
        Ok(())
    }

    /// As [`Team::begin`] and [`Team::end`]: x as it came, products to go.
    ///
    /// # Errors
    /// As above.
    pub fn times(
        &mut self,
        matrix: usize,
        x: &Float32Array,
        rows: usize,
        has_integers: bool,
        products: &Float32Array,
    ) -> Result<()> {
        let Held { cols, rows: weights } = self.matrix(matrix)?;
        let mut activations = Rows::new(rows, *cols);
        x.copy_to(activations.data_mut());
        let arithmetic = if has_integers { Arithmetic::Int8 } else { Arithmetic::F32 };
        let found = weights.times(&activations, arithmetic);
        products.subarray(0, found.data().len() as u32).copy_from(found.data());
        Ok(())
    }
}
