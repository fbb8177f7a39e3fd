//! Every composed kernel is valid, fits WebGPU's default limits, and agrees with its Rust side. Every WGSL file is used and has a
//! description.

use common::fancy_regex::Regex;
use common::naga::valid::{Capabilities, ValidationFlags, Validator};
use common::naga::{AddressSpace, Module, ScalarKind, TypeInner};
use foretoken::internals::gpu::{Kernel, Subnormals};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Limits that every WebGPU device has.
const STORAGE_BUFFERS: usize = 8;
const UNIFORM_BUFFERS: usize = 12;
const WORKGROUP_BYTES: u32 = 16_384;
const WORKGROUP_INVOCATIONS: u32 = 256;

/// Maximum lines of a WGSL file.
const LINES: usize = 150;

/// Returns every kernel, for both kinds of drivers.
fn sources() -> impl Iterator<Item = (Kernel, String)> {
    Kernel::all().into_iter().flat_map(|kernel| {
        let kept = kernel.source(Subnormals::Kept);
        let flushed = Some(kernel.source(Subnormals::Flushed)).filter(|flushed| *flushed != kept);
        [Some(kept), flushed].into_iter().flatten().map(move |source| (kernel, source))
    })
}

fn modules() -> impl Iterator<Item = (Kernel, Module)> {
    sources().map(|(kernel, source)| {
        let module = common::naga::front::wgsl::parse_str(&source)
            .unwrap_or_else(|error| panic!("{kernel:?}: {}", error.emit_to_string(&source)));
        (kernel, module)
    })
}

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Returns the kernels or fragments of a folder: name and text. A file holds one, or several after lines with their names.
fn files(folder: &str) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let stems = names.filter_map(|name| Some(name.strip_suffix(".wgsl")?.to_owned()));
    let parts = stems.flat_map(|stem| {
        let text = read(&format!("{folder}/{stem}.wgsl"));
        assert!(text.lines().count() <= LINES, "{stem} has more than {LINES} lines");
        let parts: Vec<_> = text.split("// Fragment ").skip(1).map(|part| part.split_once('\n').unwrap()).collect();
        let parts: Vec<_> = parts.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        if parts.is_empty() { vec![(stem, text)] } else { parts }
    });
    parts.collect()
}

#[test]
fn every_variant_is_valid() {
    for (kernel, module) in modules() {
        let mut validator = Validator::new(ValidationFlags::all(), Capabilities::SHADER_FLOAT16_IN_FLOAT32);
        validator.validate(&module).unwrap_or_else(|error| panic!("{kernel:?}: {}", error.as_inner()));
        let entries: Vec<_> = module.entry_points.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(entries, ["main"], "{kernel:?}");
    }
}

#[test]
fn every_variant_fits_the_default_limits() {
    for (kernel, module) in modules() {
        let mut bindings = BTreeSet::new();
        let (mut storage, mut uniform, mut workgroup) = (0, 0, 0);
        for (_, variable) in module.global_variables.iter() {
            match variable.space {
                AddressSpace::Storage { .. } => storage += 1,
                AddressSpace::Uniform => uniform += 1,
                AddressSpace::WorkGroup => {
                    workgroup += module.types[variable.ty].inner.size(module.to_ctx()).next_multiple_of(16);
                }
                _ => {}
            }
            if let Some(binding) = &variable.binding {
                assert_eq!(binding.group, 0, "{kernel:?}");
                assert!(bindings.insert(binding.binding), "{kernel:?}: binding {} twice", binding.binding);
            }
        }
        assert!(storage <= STORAGE_BUFFERS, "{kernel:?}: {storage} storage buffers");
        assert!(uniform <= UNIFORM_BUFFERS, "{kernel:?}: {uniform} uniform buffers");
        assert!(workgroup <= WORKGROUP_BYTES, "{kernel:?}: {workgroup} bytes of workgroup memory");
        let invocations: u32 = module.entry_points[0].workgroup_size.iter().product();
        assert!(invocations <= WORKGROUP_INVOCATIONS, "{kernel:?}: {invocations} invocations");
    }
}

/// A struct's members: name, offset, type.
type Members = Vec<(String, u32, &'static str)>;

/// Returns the `#[repr(C)]` structs of a Rust source whose fields are all `pub name: u32,` or `f32`.
fn rust_structs(source: &str) -> BTreeMap<String, Members> {
    let mut structs = BTreeMap::new();
    for text in source.split("#[repr(C)]").skip(1) {
        let (head, rest) = text.split_once('{').unwrap();
        let (body, _) = rest.split_once("\n}").unwrap();
        let name = head.split_whitespace().last().unwrap();
        let fields = body.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("///"));
        let members = fields.zip(0..).map(|(field, index)| {
            let (field, kind) = field.strip_prefix("pub ").and_then(|field| field.split_once(": ")).unwrap();
            let kind = match kind {
                "u32," => "u32",
                "f32," => "f32",
                other => panic!("{name}.{field}: {other} is neither u32 nor f32"),
            };
            (field.to_owned(), 4 * index, kind)
        });
        structs.insert(name.to_owned(), members.collect());
    }
    structs
}

fn wgsl_members(module: &Module, inner: &TypeInner) -> Option<Members> {
    let TypeInner::Struct { members, .. } = inner else { return None };
    let kind = |member: &common::naga::StructMember| match module.types[member.ty].inner {
        TypeInner::Scalar(scalar) if scalar.width == 4 && scalar.kind == ScalarKind::Uint => "u32",
        TypeInner::Scalar(scalar) if scalar.width == 4 && scalar.kind == ScalarKind::Float => "f32",
        ref other => panic!("{:?} is a {other:?}", member.name),
    };
    Some(members.iter().map(|member| (member.name.clone().unwrap(), member.offset, kind(member))).collect())
}

#[test]
fn parameter_structs_equal_their_rust_twins() {
    let rust = rust_structs(&read("src/backend/gpu/dims.rs"));
    let mut seen = BTreeSet::new();
    for (kernel, module) in modules() {
        let uniforms = module.global_variables.iter().filter(|(_, variable)| variable.space == AddressSpace::Uniform);
        for (_, variable) in uniforms {
            let kind = &module.types[variable.ty];
            let Some(members) = wgsl_members(&module, &kind.inner) else { continue };
            let name = kind.name.clone().unwrap();
            assert_eq!(Some(&members), rust.get(&name), "{kernel:?}: {name}");
            seen.insert(name);
        }
    }
    for name in [
        "Step",
        "MatmulDims",
        "HeadDims",
        "QkNormDims",
        "EmbedDims",
        "NormDims",
        "QuantiseDims",
        "SampleDims",
        "SamplingBlock",
    ] {
        assert!(seen.contains(name), "no kernel has a {name}");
    }
    let unused: Vec<_> = rust.keys().filter(|name| !seen.contains(*name)).collect();
    assert!(unused.is_empty(), "no kernel reads {unused:?}");
}

#[test]
fn every_file_is_used_and_described() {
    let readme = read("shaders/README.md");
    let sources: Vec<_> = sources().map(|(_, source)| source).collect();
    let kernels = files("shaders").into_iter().map(|(name, text)| (name, text, 1));
    let fragments = files("shaders/lib").into_iter().map(|(name, text)| (format!("lib/{name}"), text, 0));
    for (name, text, mains) in kernels.chain(fragments) {
        let packed = Path::new(env!("OUT_DIR")).join("shaders").join(format!("{name}.wgsl"));
        let code = std::fs::read_to_string(packed).unwrap();
        // Lines with a # are repeated.
        let parts: Vec<String> =
            code.split('\n').collect::<Vec<_>>().split(|line| line.contains('#')).map(|part| part.join("\n")).collect();
        let is_used = |source: &String| parts.iter().all(|part| source.contains(part));
        assert!(sources.iter().any(is_used), "no kernel uses {name}");
        assert_eq!(text.matches("fn main(").count(), mains, "{name}: fn main");
        let entry = format!("- `{name}`: ");
        let described = readme.lines().filter(|line| line.starts_with(&entry)).count();
        assert_eq!(described, 1, "descriptions of {name} in shaders/README.md");
    }
}

/// The table in `shaders/README.md` lists every fragment, and the functions that its kind must define.
#[test]
fn every_fragment_is_in_the_table_of_its_kind() {
    let quoted = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let fragments = files("shaders/lib");
    let mut listed = BTreeMap::new();
    for row in read("shaders/README.md").lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(quoted).collect();
        let [_, names, files] = &cells[..] else { continue };
        for file in files {
            let text = fragments.get(file).unwrap_or_else(|| panic!("shaders/lib has no {file}"));
            let defines = |kind: &str, name: &String| {
                text.match_indices(&format!("{kind} {name}")).any(|(at, found)| {
                    let after = text[at + found.len()..].chars().next();
                    !after.is_some_and(|c| c.is_alphanumeric() || c == '_')
                })
            };
            for name in names {
                let found = ["fn", "struct", "alias", "const"].iter().any(|kind| defines(kind, name));
                assert!(found, "{file} does not define {name}");
            }
            listed.insert(file.clone(), ());
        }
    }
    let missing: Vec<_> = fragments.keys().filter(|name| !listed.contains_key(*name)).collect();
    assert!(missing.is_empty(), "shaders/README.md does not list {missing:?}");
}

/// A loop variable without a value is zero only in the first iteration, in Chromium (Tint) and in Firefox.
#[test]
fn every_variable_is_given_a_value() {
    for (name, text) in files("shaders").into_iter().chain(files("shaders/lib")) {
        let without = text.lines().find(|line| line.trim_start().starts_with("var ") && !line.contains('='));
        assert_eq!(without, None, "{name}");
    }
}

/// On lavapipe such a loop is compiled again for each dispatch.
#[test]
fn no_loop_ends_at_a_uniform() {
    let at_uniform = Regex::new(r"= \d+u; \w+ <=? (dims|heads|sampling|step)\.\w+;").unwrap();
    for (name, text) in files("shaders").into_iter().chain(files("shaders/lib")) {
        let found = text.lines().find(|line| line.contains("for (") && at_uniform.is_match(line).unwrap());
        assert_eq!(found, None, "{name}");
    }
}

/// The twin of a kernel or epilogue is `reference::{name}`, or the function named by the first words of its name.
#[test]
fn every_kernel_has_a_twin() {
    let parts = ["reference.rs", "reference/delta.rs", "reference/mlp.rs"];
    let reference = parts.map(|part| read(&format!("tests/common/{part}"))).concat();
    let has_twin = |name: &str| {
        let ends = name.match_indices('_').map(|(end, _)| end).chain([name.len()]);
        ends.into_iter().any(|end| reference.contains(&format!("\npub fn {}(", &name[..end])))
    };
    // probe and fill only serve benchmarks; halves tests the driver.
    for name in files("shaders").keys().filter(|name| !["probe", "fill", "halves"].contains(&name.as_str())) {
        assert!(has_twin(name), "reference.rs has no {name}");
    }
    // store writes the sums unchanged.
    for epilogue in ["residual", "gate", "activate", "rotary"] {
        assert!(has_twin(epilogue), "reference.rs has no {epilogue}");
    }
}
