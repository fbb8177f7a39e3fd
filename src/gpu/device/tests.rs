//! Tests of `device`.

use super::*;

fn open() -> Gpu {
    Rc::into_inner(pollster::block_on(Gpu::open(&GpuOptions::default())).expect("an adapter")).unwrap()
}

#[test]
fn a_loss_is_told_for_ever_and_other_failures_once() {
    let gpu = open();
    let refusal = || DeviceFailure::Refused("too far".into());
    for (failures, code) in [
        (vec![DeviceFailure::OutOfMemory], "out-of-gpu-memory"),
        (vec![refusal()], "internal"),
        (vec![DeviceFailure::OutOfMemory, refusal()], "out-of-gpu-memory"),
        (vec![refusal(), DeviceFailure::OutOfMemory], "internal"),
    ] {
        failures.into_iter().for_each(|failure| keep(&gpu.failure, failure));
        assert_eq!(gpu.check().unwrap_err().code(), code);
        assert_eq!(gpu.check(), Ok(()));
        assert!(gpu.buffer("another", 16).is_ok());
    }
    keep(&gpu.failure, DeviceFailure::OutOfMemory);
    keep(&gpu.failure, DeviceFailure::Lost("it fell off".into()));
    keep(&gpu.failure, refusal());
    for _ in 0..2 {
        assert_eq!(gpu.check(), Err(Error::DeviceLost { reason: "it fell off".into() }));
    }
}

#[test]
fn a_device_of_the_same_kind_takes_the_place_of_a_lost_one_if_there_is_one() {
    let mut gpu = open();
    assert_eq!(pollster::block_on(gpu.reopen()).unwrap().info(), gpu.info());
    gpu.info.name = "one that was pulled out".into();
    let found = pollster::block_on(gpu.reopen()).unwrap();
    assert_ne!(found.info(), gpu.info());
}
