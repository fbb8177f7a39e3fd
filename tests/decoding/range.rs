//! Keys that are too large for a KV cache in f16.

use common::altered::with_large_keys;
use common::{gpu, path, run};
use foretoken::internals::backend::Device;
use foretoken::internals::backend::cpu::Processor;
use foretoken::internals::session::Session;
use foretoken::internals::weights::InMemory;
use foretoken::{Error, GenerateOptions, KvDtype, LoadOptions, Prompt, Result};
use std::ops::ControlFlow;
use std::rc::Rc;

fn generate(device: &Device, source: InMemory, kv_dtype: Option<KvDtype>) -> Result<Vec<u32>> {
    let load = LoadOptions::new().max_context(128).kv_dtype(kv_dtype);
    let mut session = run(Session::load(device.clone(), Box::new(source), None, &load, &mut |_, _| ()))?;
    let prompt = Prompt::Text("Once upon a time there was a king.".into());
    let options = GenerateOptions::new().max_new_tokens(24);
    Ok(run(session.generate(&prompt, &options, &mut |_| ControlFlow::Continue(())))?.token_ids)
}

#[test]
fn keys_too_large_for_f16_need_no_option_and_an_error_names_the_remedy() {
    let folder = path("models/tales/target");
    for device in [Device::Gpu(gpu()), Device::Cpu(Rc::new(Processor::new(None)))] {
        let large = || with_large_keys(&folder, 4096.0);
        let expected = generate(&device, with_large_keys(&folder, 1.0), None).unwrap();
        assert_eq!(generate(&device, large(), None).unwrap(), expected);
        assert_eq!(generate(&device, large(), Some(KvDtype::F32)).unwrap(), expected);
        match generate(&device, large(), Some(KvDtype::F16)) {
            Err(error @ Error::NonFiniteLogits { .. }) => {
                assert!(error.to_string().contains("kv_dtype f32"), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
}
