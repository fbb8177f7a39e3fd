//! When memory runs out, the CPU device reports the allocation that failed; the program continues.

use common::cap::Cap;
use common::{blueprint_as, path, run};
use foretoken::internals::backend::Backend;
use foretoken::internals::backend::cpu::{CpuBackend, CpuModel, Processor};
use foretoken::internals::model::Capacity;
use foretoken::internals::target::Target;
use foretoken::{Error, KvDtype, Result, WeightDtype};
use std::alloc::System;
use std::rc::Rc;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Additional bytes that the tests may use.
const ROOM: usize = 256 << 20;

fn load(capacity: Capacity) -> Result<CpuModel> {
    let (blueprint, weights) = blueprint_as(&path("models/tales/target"), capacity, WeightDtype::Auto);
    run(CpuModel::load(&Rc::new(Processor::new(None)), &blueprint, &weights, None, &mut |_| ()))
}

/// Returns the refused allocation and its bytes.
fn refused<T>(outcome: Result<T>) -> (String, u64) {
    match outcome {
        Err(Error::OutOfGpuMemory { what, need, .. }) => (what, need),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("there is room for it"),
    }
}

#[test]
fn what_has_no_room_is_an_error_and_smaller_things_work_afterwards() {
    let small = Capacity { max_context: 1024, prefill_chunk: 64, kv_dtype: KvDtype::F16 };
    ALLOCATOR.set_limit(ALLOCATOR.allocated() + ROOM).unwrap();
    // 32 numbers of 4 bytes for each position.
    let long = Capacity { max_context: 1 << 22, ..small };
    assert_eq!(refused(load(long)), ("the rotary tables".into(), 1 << 29));
    let wide = Capacity { prefill_chunk: 1 << 16, ..small };
    let (what, need) = refused(load(wide));
    assert_eq!(what, "the activations");
    assert!(need > ROOM as u64, "{need} bytes");

    let mut engine = CpuBackend::new(load(small).unwrap(), None);
    let tokens: Vec<u32> = (0..256).collect();
    let logits = run(engine.logits(&tokens, 64)).unwrap();
    engine.truncate(0);
    // Less than the logits of all rows need, more than the logits of a few.
    ALLOCATOR.set_limit(ALLOCATOR.allocated() + 4 * logits.len()).unwrap();
    assert_eq!(refused(run(engine.logits(&tokens, 256))).0, "the activations");
    engine.truncate(0);
    let few = run(engine.logits(&tokens[..32], 8)).unwrap();
    assert!(few.iter().zip(&logits).all(|(a, b)| a.to_bits() == b.to_bits()), "other logits than before");
}
