//! Tests of `engine`.

use super::*;
use crate::error::Error;
use crate::options::{DeviceChoice, LoadOptions};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn load() -> Engine {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/models/tales/draft");
    Engine::builder(model).options(LoadOptions::new().device(DeviceChoice::Cpu)).load().unwrap()
}

struct Ends(Arc<AtomicBool>);

impl Drop for Ends {
    fn drop(&mut self) {
        thread::sleep(Duration::from_millis(50));
        self.0.store(true, Ordering::SeqCst);
    }
}

thread_local! {
    static KEPT: Cell<Option<Ends>> = const { Cell::new(None) };
}

#[test]
fn the_thread_ends_with_the_last_engine_or_text() {
    let engine = load();
    let has_ended = Arc::new(AtomicBool::new(false));
    let ends = Ends(has_ended.clone());
    let keep = move |_: &mut Generator| {
        KEPT.set(Some(ends));
        Ok(())
    };
    engine.call(keep).wait().unwrap();
    let mut text = engine.generate("Once", GenerateOptions::new());
    drop(engine);
    text.next().unwrap().unwrap();
    assert!(!has_ended.load(Ordering::SeqCst));
    drop(text);
    assert!(has_ended.load(Ordering::SeqCst));
}

#[test]
fn a_breakdown_is_told() {
    let engine = load();
    let broken = engine.call::<()>(|_| panic!("on purpose"));
    assert!(matches!(broken.wait(), Err(Error::Internal { .. })));
    assert!(matches!(engine.generate("Once", GenerateOptions::new()).wait(), Err(Error::Internal { .. })));
}
