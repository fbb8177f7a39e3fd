//! Tests of `load`.

use super::*;
use crate::gpu::{Arithmetic, GpuOptions};
use crate::options::WeightDtype;
use crate::weights::Folder;

/// A replacement for a lost device must not measure again: another arithmetic could change the text midway.
#[test]
fn what_was_chosen_for_a_model_stays_with_it() {
    pollster::block_on(async {
        let gpu = Rc::new(Gpu::open(&GpuOptions::default()).await.unwrap());
        let source = Folder::open(concat!(env!("CARGO_MANIFEST_DIR"), "/models/tales/draft")).unwrap();
        let options = LoadOptions::new().dtype(WeightDtype::Q8).max_context(64);
        let loadable = ModelFiles::open(Box::new(source), &options).await.unwrap().into_loadable();
        let Blueprint { spec, capacity, .. } = &loadable.blueprint;
        let buffers = RoundBuffers::new(&gpu, capacity, spec.vocab_size).unwrap();
        let measured = loadable.put(&gpu, &buffers, None, &mut |_| ()).await.unwrap().arithmetic();
        assert_eq!(loadable.arithmetic.get(), measured.into());
        let other = if measured == Arithmetic::F32 { Arithmetic::Int8 } else { Arithmetic::F32 };
        loadable.arithmetic.set(other.into());
        assert_eq!(loadable.put(&gpu, &buffers, None, &mut |_| ()).await.unwrap().arithmetic(), other);
    });
}
