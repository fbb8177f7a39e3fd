//! Every composed kernel parses and validates; its structs are those of Rust.

use foretoken::gpu::Kernel;
use naga::valid::{Capabilities, ValidationFlags, Validator};

#[test]
fn every_variant_is_valid() {
    for kernel in Kernel::all() {
        let source = kernel.source();
        let module = naga::front::wgsl::parse_str(&source)
            .unwrap_or_else(|error| panic!("{kernel:?}: {}", error.emit_to_string(&source)));
        let mut validator = Validator::new(ValidationFlags::all(), Capabilities::SHADER_FLOAT16_IN_FLOAT32);
        validator.validate(&module).unwrap_or_else(|error| panic!("{kernel:?}: {}", error.emit_to_string(&source)));
        let entries: Vec<_> = module.entry_points.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(entries, ["main"], "{kernel:?}");
    }
}
