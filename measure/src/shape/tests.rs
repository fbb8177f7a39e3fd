//! Tests of `shape`.

use super::*;
use foretoken::internals::weights::{Dtype, Source, widen};
use pollster::block_on;

fn spec(name: &str) -> ModelSpec {
    let shapes: Value = serde_json::from_str(include_str!("../shapes.json")).unwrap();
    parse_config(shapes[name].to_string().as_bytes(), None).unwrap()
}

fn open(name: &str, wanted: WeightDtype) -> Weights {
    block_on(Weights::open_gguf(Box::new(RandomFile::new(name, &spec(name), wanted)), random::FILE)).unwrap().0
}

#[test]
fn every_shape_has_the_tensors_of_its_plan_in_every_type() {
    for name in SHAPES {
        let capacity = Capacity { max_context: 64, prefill_chunk: 64, kv_dtype: KvDtype::F16 };
        for wanted in [WeightDtype::Auto, WeightDtype::F32, WeightDtype::Q8, WeightDtype::Q4] {
            let weights = open(name, wanted);
            let blueprint = Blueprint::new(spec(name), &weights, capacity, WeightDtype::Auto).unwrap();
            let expected = Blueprint::without_weights(spec(name), capacity, wanted);
            assert_eq!(blueprint.sections, expected.sections, "{name} {wanted:?}");
        }
    }
}

#[test]
fn weights_are_small_and_vectors_are_ones() {
    for (wanted, dtype) in
        [(WeightDtype::Auto, Dtype::F16), (WeightDtype::Q8, Dtype::Q8_0), (WeightDtype::Q4, Dtype::Q4_1)]
    {
        let weights = open("qwen3.5-0.8b", wanted);
        let rows = block_on(weights.read_rows("model.embed_tokens.weight", 9000..9003)).unwrap();
        let numbers = widen(dtype, &rows);
        assert!(numbers.iter().all(|weight| weight.abs() < 0.04), "{wanted:?}");
        assert!(numbers.iter().any(|weight| weight.abs() > 0.02), "{wanted:?}");
        // This model stores gains minus one.
        let gains = block_on(weights.read_f32("model.norm.weight")).unwrap();
        assert!(gains.iter().all(|gain| *gain == 0.0), "{:?}", &gains[..4]);
    }
}

#[test]
fn parts_of_the_file_are_those_of_the_whole() {
    let file = RandomFile::new("smollm2-135m", &spec("smollm2-135m"), WeightDtype::Q4);
    let size = block_on(file.size(random::FILE)).unwrap().unwrap();
    for range in [0..200_000, 1 << 20..9 << 20, size - 100_000..size] {
        let part = |range| block_on(file.read_range(random::FILE, range)).unwrap();
        let middle = range.start + (range.end - range.start) / 3;
        let parts = [part(range.start..middle), part(middle..range.end)].concat();
        assert!(parts == part(range.clone()) && parts.len() as u64 == range.end - range.start);
    }
    assert!(block_on(file.read_range(random::FILE, size - 1..size + 1)).is_err());
}
