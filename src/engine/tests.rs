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
    let has_ended = flag_of_end(&engine);
    let mut text = engine.generate("Once", GenerateOptions::new());
    drop(engine);
    text.next().unwrap().unwrap();
    assert!(!has_ended.load(Ordering::SeqCst));
    drop(text);
    assert!(has_ended.load(Ordering::SeqCst));
}

/// Keeps a value on the engine's thread; returns a flag that is set when the thread has ended.
fn flag_of_end(engine: &Engine) -> Arc<AtomicBool> {
    let has_ended = Arc::new(AtomicBool::new(false));
    let ends = Ends(has_ended.clone());
    let keep = move |_: &mut Generator| {
        KEPT.set(Some(ends));
        Ok(())
    };
    engine.call(keep).wait().unwrap();
    has_ended
}

#[test]
fn closing_ends_the_text_and_joins_the_thread_and_later_calls_are_refused() {
    let engine = load();
    let other = engine.clone();
    let has_ended = flag_of_end(&engine);
    // Long enough to be closed before it ends by itself, unless the machine is very busy.
    let mut text = engine.generate("Once", GenerateOptions::new().min_new_tokens(900).max_new_tokens(900));
    let waiting = other.tokenize("Once", GenerateOptions::new());
    text.next().unwrap().unwrap();
    engine.close();
    assert!(has_ended.load(Ordering::SeqCst));
    let refused = |error: Error| assert!(matches!(error, Error::Aborted { .. }), "{error}");
    match (text.wait(), waiting.wait()) {
        (Ok(text), _) => assert_eq!(text.token_ids.len(), 900, "no part of a text is taken for all of it"),
        (text, waiting) => {
            [text.map(drop), waiting.map(drop)].into_iter().for_each(|ended| refused(ended.unwrap_err()))
        }
    }
    refused(other.tokenize("Once", GenerateOptions::new()).wait().unwrap_err());
    refused(other.generate("Once", GenerateOptions::new()).wait().unwrap_err());
    // Once more, and with a clone.
    engine.close();
    other.close();
}

#[test]
fn a_panic_of_the_thread_is_reported() {
    let engine = load();
    let broken = engine.call::<()>(|_| panic!("on purpose"));
    assert!(matches!(broken.wait(), Err(Error::Internal { .. })));
    assert!(matches!(engine.generate("Once", GenerateOptions::new()).wait(), Err(Error::Internal { .. })));
}
