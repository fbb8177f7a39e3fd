// What a matmul does with its results: which of these, the dimensions say, so all matmuls of a format are one kernel.
const STORE = 0u;
const RESIDUAL = 1u;
const GATE = 2u;
const ACTIVATE = 3u;
const ROTARY = 4u;

@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(9) var<storage, read_write> gained: array<f32>;  // (rows, leaves): the residual times the next norm's gain
