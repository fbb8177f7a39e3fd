//! Memory traffic of the matmul kernels: how much of each memory segment a wave uses, and how often it reads each byte of weights.
//! Addresses are those of `shaders/lib/stored_rows.wgsl`, data are in the order of `interleave`.

use foretoken::internals::gpu::{Epilogues, Kernel, split_grid};
use foretoken::internals::model::Activation;
use foretoken::internals::weights::{Dtype, Format, Row, TOGETHER, UNIT, interleave};
use foretoken::{Arithmetic, KvDtype};
use std::collections::HashSet;

/// Bytes of a memory transaction.
const SEGMENT: usize = 128;
const WAVE: usize = 32;
const LANES: usize = 16;

/// Returns the place of each (row, unit), read back from the loader's layout.
fn places(outs: usize, row: Row) -> Vec<Vec<usize>> {
    let mut packed = vec![0; outs * row.bytes()];
    for (index, unit) in packed.chunks_exact_mut(UNIT).enumerate() {
        unit[..8].copy_from_slice(&(index as u64 + 1).to_le_bytes());
    }
    let mut places = vec![vec![0; row.units]; outs];
    for (place, unit) in interleave(&packed, row).chunks_exact(UNIT).enumerate() {
        let index = u64::from_le_bytes(unit[..8].try_into().unwrap()) as usize;
        if index > 0 {
            places[(index - 1) / row.units][(index - 1) % row.units] = place;
        }
    }
    places
}

/// Returns the output and lane of a thread's load `slot` in a workgroup.
fn reads(kernel: Kernel, thread: usize, slot: usize) -> (usize, Option<usize>) {
    let of = |sixteen: usize| (sixteen + slot / 2) * 16 + thread % 8 * 2 + slot % 2;
    match kernel {
        Kernel::MatmulRows(..) => (of(0), Some(thread / 8)),
        _ => (of(thread / 8 * 2), None),
    }
}

/// Returns the bytes that the waves load, and the bytes of the segments that contain them, over all loads of chunks for one row tile.
fn traffic(kernel: Kernel, threads: usize, outs: usize, row: Row) -> (usize, usize) {
    let places = places(outs, row);
    let [_, tile] = kernel.tile().unwrap();
    let (mut asked, mut touched) = (0, 0);
    for group in 0..outs.div_ceil(tile as usize) {
        for step in 0..row.chunks {
            for (wave, slot) in (0..threads / WAVE).flat_map(|wave| (0..4).map(move |slot| (wave, slot))) {
                let loads = (wave * WAVE..(wave + 1) * WAVE).filter_map(|thread| {
                    let (out, lane) = reads(kernel, thread, slot);
                    let chunk = lane.map_or(step, |lane| step * LANES + lane);
                    places.get(group * tile as usize + out)?.get(..row.chunks)?.get(chunk).copied()
                });
                let units: HashSet<_> = loads.collect();
                let segments: HashSet<_> = units.iter().map(|unit| unit * UNIT / SEGMENT).collect();
                asked += units.len() * UNIT;
                touched += segments.len() * SEGMENT;
            }
        }
    }
    (asked, touched)
}

#[test]
fn nearly_all_of_what_is_read_is_used_and_read_once() {
    let epilogues = Epilogues { activation: Activation::Silu, kv: KvDtype::F16, experts: false };
    for dtype in [Dtype::F16, Dtype::F32, Dtype::Q4_0, Dtype::Q8_0, Dtype::Q4K] {
        let format = Format::of_dtype(dtype);
        for (cols, outs) in [(256, 48), (768, 576), (2048, 256)] {
            let row = format.row(cols);
            for (rows, threads) in [(Some(8), 128), (None, 64)] {
                let kernel = Kernel::matmul(format, Arithmetic::F32, rows, epilogues, false);
                let (asked, touched) = traffic(kernel, threads, outs, row);
                let useful = asked as f64 / touched as f64;
                let codes = outs * row.chunks * UNIT;
                println!("{dtype:?} {cols} to {outs}, {:?}: {:.0} % of segments useful", kernel.tile(), 100.0 * useful);
                assert!(useful >= 0.9, "{kernel:?}: {useful}");
                assert_eq!(asked, codes, "{kernel:?}: each byte once");
            }
            // Bytes on the GPU for each byte of the file.
            let stored = outs * dtype.bytes(cols as u64).unwrap() as usize;
            let placed = outs.next_multiple_of(TOGETHER) * row.bytes();
            assert!(placed as f64 <= 1.1 * stored as f64, "{dtype:?} {cols} to {outs}: {placed} for {stored}");
        }
    }
}

/// 17 to 32 rows take twice the workgroups of 16 rows, one after the other. So instructions and bytes (from memory or from a cache
/// that holds them) double.
#[test]
fn thirty_two_rows_cost_at_most_2_1_times_what_sixteen_do() {
    let epilogues = Epilogues { activation: Activation::Silu, kv: KvDtype::F16, experts: false };
    for format in Format::all() {
        for serial in [false, true] {
            let [rows, _] = Kernel::matmul(format, Arithmetic::F32, Some(16), epilogues, serial).tile().unwrap();
            let groups = |all: u32| f64::from(split_grid(all.div_ceil(rows), 1)[0]);
            assert!(groups(32) / groups(16) <= 2.1 && 16 % rows == 0, "{format:?}: {rows} rows at a time");
        }
    }
}
