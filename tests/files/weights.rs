//! Weight files: a file that breaks each rule, round trips with the safetensors crate, and two hundred thousand mutants.

use async_trait::async_trait;
use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use common::tempfile::TempDir;
use foretoken::internals::weights::{Dtype, Folder, InMemory, Source, Weights, read_small, widen};
use foretoken::{Error, Result, WeightsRule as Rule};
use half::{bf16, f16};
use pollster::block_on;
use safetensors::tensor::{SafeTensors, TensorView, serialize};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const SHARDS: [&str; 2] = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];

// Helpers.

/// Returns a file: the true length of the header, the header, and `data` zeros.
fn file(header: impl AsRef<[u8]>, data: usize) -> Vec<u8> {
    let header = header.as_ref();
    [&(header.len() as u64).to_le_bytes(), header, &vec![0; data]].concat()
}

fn entry(name: &str, dtype: &str, shape: &str, offsets: &str) -> String {
    format!(r#""{name}":{{"dtype":"{dtype}","shape":[{shape}],"data_offsets":[{offsets}]}}"#)
}

fn header(entries: &[String]) -> String {
    format!("{{{}}}", entries.join(","))
}

fn memory(files: &[(&'static str, &[u8])]) -> InMemory {
    InMemory::new("test", files.iter().map(|(name, bytes)| (*name, Cow::Owned(bytes.to_vec()))))
}

fn open(bytes: &[u8]) -> Result<Weights> {
    block_on(Weights::open(Box::new(memory(&[(SINGLE, bytes)]))))
}

fn open_sharded(index: &str, shards: [&[u8]; 2]) -> Result<Weights> {
    block_on(Weights::open(Box::new(memory(&[
        (INDEX, index.as_bytes()),
        (SHARDS[0], shards[0]),
        (SHARDS[1], shards[1]),
    ]))))
}

/// Returns two tensors of two f32, `a` and `b`, one in each shard.
fn two_shards() -> [Vec<u8>; 2] {
    ["a", "b"].map(|name| file(header(&[entry(name, "F32", "2", "0,8")]), 8))
}

fn index(pairs: &[(&str, &str)]) -> String {
    let pairs: Vec<_> = pairs.iter().map(|(tensor, shard)| format!(r#""{tensor}":"{shard}""#)).collect();
    format!(r#"{{"metadata":{{"total_size":16}},"weight_map":{{{}}}}}"#, pairs.join(","))
}

/// Returns the broken rule. Its message must fit one line of a terminal.
#[track_caller]
fn rule<T>(result: Result<T>) -> Rule {
    let Err(error) = result else { panic!("nothing was found") };
    let message = error.to_string();
    assert!(message.len() < 1000 && !message.contains(char::is_control), "{message:?}");
    match error {
        Error::BadWeights { rule, .. } => rule,
        other => panic!("not a rule of weight files: {other}"),
    }
}

/// Returns the rule that a file with one f32 tensor of the given shape and offsets breaks, with 16 bytes of data.
#[track_caller]
fn rule_of_one(shape: &str, offsets: &str) -> Rule {
    rule(open(&file(header(&[entry("t", "F32", shape, offsets)]), 16)))
}

fn t() -> String {
    "t".to_owned()
}

/// Returns the bytes of values in a type, as a checkpoint stores them.
fn bytes_of(dtype: Dtype, values: &[f32]) -> Vec<u8> {
    let narrow = |value: &f32| match dtype {
        Dtype::F32 => value.to_le_bytes().to_vec(),
        Dtype::F16 => f16::from_f32(*value).to_le_bytes().to_vec(),
        Dtype::Bf16 => bf16::from_f32(*value).to_le_bytes().to_vec(),
        _ => panic!("{dtype:?} has no single elements"),
    };
    values.iter().flat_map(narrow).collect()
}

fn vector(dtype: Dtype, bytes: &[u8]) -> Vec<u8> {
    let (elements, end) = ((bytes.len() / dtype.block().bytes) as u64, bytes.len());
    let header = header(&[entry("t", dtype.name(), &elements.to_string(), &format!("0,{end}"))]);
    [file(header, 0).as_slice(), bytes].concat()
}

// One test per rule, named after it.

#[test]
fn each_rule_has_its_test() {
    let (_, rules) = include_str!("../../src/error/weights_rule.rs").split_once("\nrules! {").unwrap();
    let names =
        rules.lines().filter_map(|line| line.strip_prefix("    ")).filter(|line| line.starts_with(char::is_uppercase));
    let mut found = 0;
    for name in names.filter_map(|line| line.split(' ').next()) {
        let snake: String = name
            .char_indices()
            .flat_map(|(at, c)| (at > 0 && c.is_uppercase()).then_some('_').into_iter().chain(c.to_lowercase()))
            .collect();
        let tests = [include_str!("weights.rs"), include_str!("gguf.rs"), include_str!("../models/quantised.rs")];
        let wanted = format!("fn {snake}()");
        assert!(tests.iter().any(|tests| tests.contains(&wanted)), "no test is called {snake}");
        found += 1;
    }
    assert!(found >= 38, "{found}");
}

#[test]
fn missing_tensor() {
    let weights = open(&file("{}", 0)).unwrap();
    assert_eq!(rule(weights.expect("t", &[1])), Rule::MissingTensor { tensor: t() });
    assert_eq!(rule(block_on(weights.read_f32("t"))), Rule::MissingTensor { tensor: t() });
    assert!(weights.get("t").is_none() && !weights.contains("t"));
}

#[test]
fn wrong_shape() {
    let weights = open(&file(header(&[entry("t", "F32", "2,2", "0,16")]), 16)).unwrap();
    assert_eq!(weights.expect("t", &[2, 2]).unwrap().range.end, 8 + 57 + 16);
    assert_eq!(rule(weights.expect("t", &[4])), Rule::WrongShape { tensor: t(), found: vec![2, 2], expected: vec![4] });
}

#[test]
fn unsupported_dtype() {
    let sizes = [("BOOL", 1), ("U8", 1), ("I8", 1), ("F8_E4M3", 1), ("F8_E5M2", 1), ("F8_E8M0", 1), ("I16", 2)];
    let more = [("U16", 2), ("I32", 4), ("U32", 4), ("I64", 8), ("U64", 8), ("F64", 8), ("C64", 8)];
    for (dtype, size) in sizes.into_iter().chain(more) {
        let bytes = 3 * size;
        let tensors =
            [entry("t", dtype, "3", &format!("0,{bytes}")), entry("good", "F32", "0", &format!("{bytes},{bytes}"))];
        // The second tensor is empty. It may begin at the end of the first only if that is a multiple of its own 4 bytes.
        let tensors = if bytes % 4 == 0 { &tensors[..] } else { &tensors[..1] };
        let weights = open(&file(header(tensors), bytes)).unwrap();
        let expected = Rule::UnsupportedDtype { tensor: t(), dtype: dtype.to_owned() };
        assert_eq!(rule(weights.expect("t", &[3])), expected);
        assert_eq!(rule(block_on(weights.read_rows("t", 0..1))), expected);
        assert!(weights.contains("t") && weights.get("t").is_none());
        assert_eq!(weights.iter().count(), tensors.len() - 1);
        // Even if the tensor is unused, its size must be right.
        let wrong = file(header(&[entry("t", dtype, "4", &format!("0,{bytes}"))]), bytes);
        assert_eq!(
            rule(open(&wrong)),
            Rule::SizeMismatch { tensor: t(), expected: 4 * size as u64, found: bytes as u64 }
        );
    }
}

#[test]
fn non_finite() {
    const LENGTH: usize = 9003;
    for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
        let largest = match dtype {
            Dtype::F32 => f32::MAX,
            Dtype::F16 => f16::MAX.to_f32(),
            _ => bf16::MAX.to_f32(),
        };
        let values: Vec<f32> = (0..LENGTH).map(|i| if i % 2 == 0 { largest } else { -largest }).collect();
        let weights = open(&vector(dtype, &bytes_of(dtype, &values))).unwrap();
        assert_eq!(block_on(weights.read_f32("t")).unwrap(), values);
        // The check works in blocks of 4 KiB, in words of 8 bytes and on a tail: all borders, and a second bad value at the end.
        for index in [0, 1, 2, 3, 4, 1023, 1024, 2047, 2048, 4095, 4096, 8999, 9000, 9001, 9002] {
            for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut values = values.clone();
                values[index] = bad;
                values[LENGTH - 1] = f32::NAN;
                let weights = open(&vector(dtype, &bytes_of(dtype, &values))).unwrap();
                let expected = Rule::NonFinite { tensor: t(), index: index as u64 };
                assert_eq!(rule(block_on(weights.read_f32("t"))), expected);
                // The index counts from the start of the tensor, for any rows.
                let rows = (index as u64).saturating_sub(5)..LENGTH as u64;
                assert_eq!(rule(block_on(weights.read_rows("t", rows))), expected);
                assert!(block_on(weights.read_rows("t", 0..index as u64)).is_ok());
            }
        }
    }
}

#[test]
fn truncated() {
    /// Reports a longer file than it has, like a file that was truncated after it was opened.
    struct Cut(InMemory);
    #[async_trait(?Send)]
    impl Source for Cut {
        async fn size(&self, file: &str) -> Result<Option<u64>> {
            Ok(self.0.size(file).await?.map(|bytes| bytes + 4))
        }
        async fn read_range(&self, file: &str, range: Range<u64>) -> Result<Vec<u8>> {
            let end = self.0.size(file).await?.unwrap_or(0);
            self.0.read_range(file, range.start..range.end.min(end)).await
        }
        fn name(&self) -> String {
            self.0.name()
        }
    }
    let bytes = file(header(&[entry("t", "F32", "5", "0,20")]), 16);
    let cut = Rule::Truncated { expected: 20, found: 16 };
    let weights = block_on(Weights::open(Box::new(Cut(memory(&[(SINGLE, &bytes)]))))).unwrap();
    assert_eq!(rule(block_on(weights.read_f32("t"))), cut);
    assert_eq!(rule(block_on(memory(&[(SINGLE, &[0; 16])]).read_range(SINGLE, 0..20))), cut);
}

#[test]
fn file_too_large() {
    let source = memory(&[("config.json", b"{}  ")]);
    assert_eq!(block_on(read_small(&source, "config.json", 4)).unwrap().unwrap(), b"{}  ");
    assert_eq!(rule(block_on(read_small(&source, "config.json", 3))), Rule::FileTooLarge { bytes: 4, limit: 3 });
    assert_eq!(block_on(read_small(&source, "other.json", 3)).unwrap(), None);
}

#[test]
fn file_too_short() {
    for bytes in 0..8 {
        assert_eq!(rule(open(&vec![0; bytes])), Rule::FileTooShort { bytes: bytes as u64 });
    }
}

#[test]
fn lfs_pointer() {
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
    assert_eq!(rule(open(pointer)), Rule::LfsPointer);
}

#[test]
fn empty_header() {
    assert_eq!(rule(open(&file("", 16))), Rule::EmptyHeader);
}

#[test]
fn header_too_large() {
    const LIMIT: u64 = 16 << 20;
    for bytes in [LIMIT + 1, 1 << 32, u64::MAX - 7, u64::MAX] {
        assert_eq!(rule(open(&bytes.to_le_bytes())), Rule::HeaderTooLarge { bytes, limit: LIMIT });
    }
    assert_eq!(rule(open(b"<!DOCTYPE html>")), Rule::HeaderTooLarge { bytes: 0x5059_5443_4f44_213c, limit: LIMIT });
    // Exactly at the limit.
    assert!(open(&file([b"{}".to_vec(), vec![b' '; LIMIT as usize - 2]].concat(), 0)).is_ok());
}

#[test]
fn header_beyond_file() {
    let mut bytes = file("{}", 0);
    bytes[0] = 3;
    assert_eq!(rule(open(&bytes)), Rule::HeaderBeyondFile { bytes: 3, left: 2 });
    assert_eq!(rule(open(&(16u64 << 20).to_le_bytes())), Rule::HeaderBeyondFile { bytes: 16 << 20, left: 0 });
}

#[test]
fn header_not_object() {
    for header in ["[]", " {}", "\u{feff}{}", "null", "\0"] {
        assert_eq!(rule(open(&file(header, 0))), Rule::HeaderNotObject, "{header:?}");
    }
}

#[test]
fn header_not_utf8() {
    assert_eq!(rule(open(&file(b"{\"\xff\":0}", 0))), Rule::HeaderNotUtf8);
    assert_eq!(rule(open(&file(b"{}\xf0\x9f", 0))), Rule::HeaderNotUtf8);
}

#[test]
fn header_not_json() {
    let open_braces = format!(r#"{{"t":{}"#, r#"{"a":"#.repeat(100_000));
    for header in [
        "{",
        "{]",
        r#"{"t":}"#,
        r#"{"t":{"dtype":"F32",}"#,
        "{1:2}",
        r#"{"\ud800":1}"#,
        "{},{",
        &open_braces[..5],
        &open_braces,
    ] {
        let rule = rule(open(&file(header, 0)));
        assert!(matches!(rule, Rule::HeaderNotJson { .. } | Rule::HeaderTail), "{header:?}: {rule}");
    }
    // Deep nesting is read without recursion, and refused at its first level.
    let nested = format!("{open_braces}1{}", "}".repeat(100_001));
    assert!(matches!(rule(open(&file(nested, 0))), Rule::BadTensorInfo { .. }));
}

#[test]
fn header_tail() {
    for header in ["{}x", "{}\0", "{}   {}", "{} \u{a0}"] {
        assert_eq!(rule(open(&file(header, 0))), Rule::HeaderTail, "{header:?}");
    }
    assert!(open(&file("{}   ", 0)).is_ok());
}

#[test]
fn bad_metadata() {
    for value in ["1", "null", "[]", r#"{"a":1}"#, r#"{"a":{}}"#, r#"{"a":"1","a":"1"}"#] {
        let rule = rule(open(&file(format!(r#"{{"__metadata__":{value}}}"#), 0)));
        assert!(matches!(rule, Rule::BadMetadata { .. }), "{value}: {rule}");
    }
    let many: Vec<_> = (0..65_537).map(|i| format!(r#""{i}":"""#)).collect();
    assert!(matches!(
        rule(open(&file(format!(r#"{{"__metadata__":{}}}"#, header(&many)), 0))),
        Rule::BadMetadata { .. }
    ));
    assert_eq!(open(&file(r#"{"__metadata__":{"format":"pt"}}"#, 0)).unwrap().iter().count(), 0);
}

#[test]
fn bad_tensor_info() {
    for info in [
        "1",
        "null",
        "{}",
        r#"["F32",[1],[0,4]]"#,
        r#"{"dtype":"F32","shape":[1]}"#,
        r#"{"dtype":"F32","data_offsets":[0,4]}"#,
        r#"{"shape":[1],"data_offsets":[0,4]}"#,
        r#"{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}"#,
        r#"{"dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1}"#,
        r#"{"dtype":1,"shape":[1],"data_offsets":[0,4]}"#,
        r#"{"dtype":"F32","shape":1,"data_offsets":[0,4]}"#,
        r#"{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}"#,
        r#"{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}"#,
        r#"{"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,4]}"#,
        r#"{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}"#,
        r#"{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}"#,
        r#"{"dtype":"F32","shape":[1],"data_offsets":[0]}"#,
        r#"{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}"#,
        r#"{"dtype":"F32","shape":[1],"data_offsets":{"0":4}}"#,
    ] {
        let rule = rule(open(&file(format!(r#"{{"t":{info}}}"#), 4)));
        assert!(matches!(&rule, Rule::BadTensorInfo { tensor, .. } if tensor == "t"), "{info}: {rule}");
    }
}

#[test]
fn too_many_tensors() {
    let name = |shard: usize, i: usize| entry(&format!("{shard}-{i}"), "F32", "0", "0,0");
    let full: Vec<_> = (0..65_536).map(|i| name(0, i)).collect();
    let mut over = full.clone();
    over.push(name(0, 65_536));
    let limit = Rule::TooManyTensors { limit: 65_536 };
    assert_eq!(open(&file(header(&full), 0)).unwrap().iter().count(), 65_536);
    assert_eq!(rule(open(&file(header(&over), 0))), limit);
    // The limit applies to the model, not to a shard.
    let shards = [file(header(&full), 0), file(header(&[name(1, 0)]), 0)];
    let index = index(&[("0-0", SHARDS[0]), ("1-0", SHARDS[1])]);
    assert_eq!(rule(open_sharded(&index, [&shards[0], &shards[1]])), limit);
}

#[test]
fn empty_name() {
    assert_eq!(rule(open(&file(header(&[entry("", "F32", "1", "0,4")]), 4))), Rule::EmptyName);
}

#[test]
fn long_name() {
    let named = |bytes: usize| open(&file(header(&[entry(&"é".repeat(bytes / 2), "F32", "1", "0,4")]), 4));
    assert!(named(256).is_ok());
    assert_eq!(rule(named(258)), Rule::LongName { bytes: 258, limit: 256 });
}

#[test]
fn control_in_name() {
    let bytes = file(header(&[entry(r"a\u001b[2J", "F32", "1", "0,4")]), 4);
    assert_eq!(rule(open(&bytes)), Rule::ControlInName { tensor: r"a\u{1b}[2J".to_owned() });
}

#[test]
fn duplicate_tensor() {
    let twice = [entry("t", "F32", "1", "0,4"), entry("t", "F32", "1", "4,8")];
    assert_eq!(rule(open(&file(header(&twice), 8))), Rule::DuplicateTensor { tensor: t() });
    // The same name, spelt in two ways.
    let escaped = [entry("t", "F32", "1", "0,4"), entry(r"\u0074", "F32", "1", "0,4")];
    assert_eq!(rule(open(&file(header(&escaped), 4))), Rule::DuplicateTensor { tensor: t() });
    let metadata = r#"{"__metadata__":{},"__metadata__":{}}"#;
    assert_eq!(rule(open(&file(metadata, 0))), Rule::DuplicateTensor { tensor: "__metadata__".to_owned() });
}

#[test]
fn duplicate_across_shards() {
    let [a, _] = two_shards();
    let index = index(&[("a", SHARDS[0]), ("b", SHARDS[1])]);
    assert_eq!(
        rule(open_sharded(&index, [&a, &a])),
        Rule::DuplicateAcrossShards { tensor: "a".to_owned(), other: SHARDS[0].to_owned() }
    );
}

#[test]
fn unknown_dtype() {
    for dtype in ["", "f32", "F32 ", "F4", "Q4_K"] {
        let bytes = file(header(&[entry("t", dtype, "1", "0,4")]), 4);
        assert_eq!(rule(open(&bytes)), Rule::UnknownDtype { tensor: t(), dtype: dtype.to_owned() });
    }
    let long = file(header(&[entry("t", &"F".repeat(1 << 20), "1", "0,4")]), 4);
    assert!(matches!(rule(open(&long)), Rule::UnknownDtype { dtype, .. } if dtype.len() < 200));
}

#[test]
fn too_many_dims() {
    assert_eq!(rule_of_one("1,1,1,2,2", "0,16"), Rule::TooManyDims { tensor: t(), limit: 4 });
    assert_eq!(rule_of_one(&["1"; 100_000].join(","), "0,16"), Rule::TooManyDims { tensor: t(), limit: 4 });
    assert!(open(&file(header(&[entry("t", "F32", "1,1,2,2", "0,16")]), 16)).is_ok());
}

#[test]
fn size_overflow() {
    // Too many elements, too many bytes, a product that wraps around to the right size, and an overflow after a zero.
    for shape in ["4294967296,4294967296", "4611686018427387904", "4611686018427387905,4", "0,4294967296,4294967296"] {
        assert_eq!(rule_of_one(shape, "0,16"), Rule::SizeOverflow { tensor: t() }, "{shape}");
    }
}

#[test]
fn offsets_reversed() {
    assert_eq!(rule_of_one("4", "16,0"), Rule::OffsetsReversed { tensor: t() });
}

#[test]
fn offset_beyond_file() {
    let header = header(&[entry("t", "F32", "4", "0,16")]);
    let whole = file(&header, 16);
    assert!(open(&whole).is_ok());
    // Truncated anywhere in its data.
    for bytes in 8 + header.len()..whole.len() {
        let expected = Rule::OffsetBeyondFile { tensor: t(), end: whole.len() as u64, bytes: bytes as u64 };
        assert_eq!(rule(open(&whole[..bytes])), expected);
    }
    // Offsets near the end of 64 bits must not wrap around.
    for offsets in ["0,18446744073709551615", "18446744073709551599,18446744073709551615"] {
        let rule = rule_of_one("4", offsets);
        assert!(matches!(rule, Rule::OffsetBeyondFile { end: u64::MAX, .. }), "{offsets}: {rule}");
    }
}

#[test]
fn size_mismatch() {
    assert_eq!(rule_of_one("3", "0,16"), Rule::SizeMismatch { tensor: t(), expected: 12, found: 16 });
    assert_eq!(rule_of_one("5", "0,16"), Rule::SizeMismatch { tensor: t(), expected: 20, found: 16 });
    assert_eq!(rule_of_one("0,4", "0,16"), Rule::SizeMismatch { tensor: t(), expected: 0, found: 16 });
    assert_eq!(rule_of_one("", "0,16"), Rule::SizeMismatch { tensor: t(), expected: 4, found: 16 });
}

/// The format requires no alignment.
#[test]
fn tensors_may_begin_at_any_offset() {
    for (dtype, offset) in [("BOOL", 1), ("F8_E4M3", 1), ("BF16", 2)] {
        let shifted = [
            entry("s", dtype, "1", &format!("0,{offset}")),
            entry("t", "F32", "1", &format!("{offset},{}", offset + 4)),
        ];
        assert!(open(&file(header(&shifted), offset + 4)).is_ok(), "{dtype}");
    }
}

#[test]
fn overlap() {
    let s = || entry("s", "F32", "2", "0,8");
    let found = Rule::Overlap { tensor: t(), other: "s".to_owned() };
    assert_eq!(rule(open(&file(header(&[entry("t", "F32", "2", "4,12"), s()]), 12))), found);
    // The same bytes under two names, and an empty tensor in the middle of another.
    assert_eq!(rule(open(&file(header(&[s(), entry("t", "F32", "2", "0,8")]), 8))), found);
    assert_eq!(rule(open(&file(header(&[s(), entry("t", "F32", "0", "4,4")]), 8))), found);
}

#[test]
fn gap() {
    let hole = [entry("s", "F32", "1", "0,4"), entry("t", "F32", "1", "8,12")];
    assert_eq!(rule(open(&file(header(&hole), 12))), Rule::Gap { tensor: t(), bytes: 4 });
    assert_eq!(rule_of_one("2", "8,16"), Rule::Gap { tensor: t(), bytes: 8 });
}

#[test]
fn data_tail() {
    assert_eq!(rule_of_one("2", "0,8"), Rule::DataTail { bytes: 8 });
    assert_eq!(rule(open(&file("{}", 3))), Rule::DataTail { bytes: 3 });
}

#[test]
fn bad_index() {
    let twice = index(&[("a", SHARDS[0]), ("b", SHARDS[1]), ("a", SHARDS[1])]);
    for index in [
        "",
        "{}",
        "[]",
        "[{}]",
        "{",
        r#"{"weight_map":[]}"#,
        r#"{"weight_map":{},"weight_map":{}}"#,
        r#"{"weight_map":{"a":1}}"#,
        "{\"\u{fffd}",
        &twice,
    ] {
        let [a, b] = two_shards();
        let rule = rule(open_sharded(index, [&a, &b]));
        assert!(matches!(rule, Rule::BadIndex { .. }), "{index}: {rule}");
    }
    let not_utf8 = block_on(Weights::open(Box::new(memory(&[(INDEX, b"{\"weight_map\":{\"\xff\":\"\"}}")]))));
    assert!(matches!(rule(not_utf8), Rule::BadIndex { .. }));
}

#[test]
fn shard_name() {
    let far = ["../a.safetensors", "/etc/a.safetensors", r"..\\a.safetensors", "b/a.safetensors", "a..safetensors"];
    let odd =
        ["", "..", "c:a.safetensors", "%2e%2e%2fa.safetensors", "a.safetensors?", "a b.safetensors", "config.json"];
    for shard in far.into_iter().chain(odd) {
        let [a, b] = two_shards();
        let rule = rule(open_sharded(&index(&[("a", SHARDS[0]), ("b", shard)]), [&a, &b]));
        assert!(matches!(rule, Rule::ShardName { .. }), "{shard}: {rule}");
    }
}

#[test]
fn missing_shard() {
    let [a, b] = two_shards();
    let index = index(&[("a", SHARDS[0]), ("b", "other.safetensors")]);
    assert_eq!(rule(open_sharded(&index, [&a, &b])), Rule::MissingShard { shard: "other.safetensors".to_owned() });
}

#[test]
fn tensor_not_in_shard() {
    let [a, b] = two_shards();
    let found =
        |tensor: &str, shard: &str| Rule::TensorNotInShard { tensor: tensor.to_owned(), shard: shard.to_owned() };
    let wrong_file = index(&[("a", SHARDS[0]), ("b", SHARDS[0])]);
    assert_eq!(rule(open_sharded(&wrong_file, [&a, &b])), found("b", SHARDS[0]));
    let swapped = index(&[("a", SHARDS[1]), ("b", SHARDS[0])]);
    assert_eq!(rule(open_sharded(&swapped, [&a, &b])), found("a", SHARDS[1]));
    let nowhere = index(&[("a", SHARDS[0]), ("b", SHARDS[1]), ("c", SHARDS[1])]);
    assert_eq!(rule(open_sharded(&nowhere, [&a, &b])), found("c", SHARDS[1]));
}

/// A rule that was serialised as JSON, for another process, keeps its message.
#[test]
fn other() {
    let error = Error::BadWeights { file: "a".into(), rule: Rule::MissingTensor { tensor: t() } };
    let read: Error = serde_json::from_str(&serde_json::to_string(&error).unwrap()).unwrap();
    let Error::BadWeights { rule: Rule::Other { message }, .. } = &read else { panic!("{read:?}") };
    assert_eq!((read.to_string(), message.contains("t")), (error.to_string(), true));
}

#[test]
fn rows_out_of_range() {
    let tensors =
        [entry("t", "F32", "3,2", "0,24"), entry("scalar", "F32", "", "24,28"), entry("zero", "F32", "0,5", "28,28")];
    let weights = open(&file(header(&tensors), 28)).unwrap();
    let rows = |name, rows| block_on(weights.read_rows(name, rows)).map(|bytes| bytes.len());
    assert_eq!((rows("t", 0..3), rows("t", 1..2), rows("t", 3..3)), (Ok(24), Ok(8), Ok(0)));
    assert_eq!((rows("scalar", 0..1), rows("zero", 0..0)), (Ok(4), Ok(0)));
    for (start, end) in [(0, 4), (4, 4), (2, 1), (0, u64::MAX)] {
        assert_eq!(rule(rows("t", Range { start, end })), Rule::RowsOutOfRange { tensor: t(), start, end, rows: 3 });
    }
    assert!(matches!(rule(rows("zero", 0..1)), Rule::RowsOutOfRange { rows: 0, .. }));
}

// Valid files.

/// Returns values that all three types represent exactly, so that conversions keep them.
fn exact(elements: usize, seed: usize) -> Vec<f32> {
    (0..elements).map(|i| ((i * 37 + seed * 11) % 255) as f32 / 8.0 - 16.0).collect()
}

#[test]
fn files_of_the_safetensors_crate() {
    use safetensors::Dtype as Theirs;
    let all = [
        ("model.embed", Dtype::Bf16, Theirs::BF16, vec![5, 3, 2]),
        ("model.norm", Dtype::F32, Theirs::F32, vec![7]),
        ("model.q", Dtype::F16, Theirs::F16, vec![3, 9]),
        ("scale", Dtype::F32, Theirs::F32, vec![]),
    ];
    let values: Vec<_> = all.iter().enumerate().map(|(i, (.., shape))| exact(shape.iter().product(), i)).collect();
    let bytes: Vec<_> = all.iter().zip(&values).map(|((_, ours, ..), values)| bytes_of(*ours, values)).collect();
    let view = |i: usize| (all[i].0, TensorView::new(all[i].2, all[i].3.clone(), &bytes[i]).unwrap());

    let metadata = Some([("format".to_owned(), "pt".to_owned())].into());
    let single = open(&serialize((0..4).map(view), metadata).unwrap()).unwrap();
    let shards = [0..2, 2..4].map(|part| serialize(part.map(view), None).unwrap());
    let index: Vec<_> = (0..4).map(|i| (all[i].0, SHARDS[i / 2])).collect();
    let sharded = open_sharded(&self::index(&index), [&shards[0], &shards[1]]).unwrap();

    for weights in [single, sharded] {
        assert_eq!(weights.iter().map(|(name, _)| name).collect::<Vec<_>>(), all.each_ref().map(|row| row.0));
        for (((name, ours, _, shape), values), bytes) in all.iter().zip(&values).zip(&bytes) {
            let shape: Vec<_> = shape.iter().map(|&dim| dim as u64).collect();
            let tensor = weights.expect(name, &shape).unwrap();
            assert_eq!((tensor, tensor.dtype, &tensor.shape), (weights.get(name).unwrap(), *ours, &shape));
            assert_eq!(&block_on(weights.read_f32(name)).unwrap(), values);
            let row = bytes.len() / tensor.rows() as usize;
            assert_eq!(row as u64, tensor.row_bytes());
            for start in 0..tensor.rows() {
                for end in start..=tensor.rows() {
                    let part = block_on(weights.read_rows(name, start..end)).unwrap();
                    assert_eq!(part, bytes[row * start as usize..row * end as usize]);
                }
            }
        }
    }
}

#[test]
fn widening_is_exact_for_all_patterns() {
    let patterns: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let halves = open(&vector(Dtype::F16, &patterns)).unwrap();
    let brains = open(&vector(Dtype::Bf16, &patterns)).unwrap();
    let (wide_halves, wide_brains) = (widen(Dtype::F16, &patterns), widen(Dtype::Bf16, &patterns));
    for bits in 0..=u16::MAX {
        let (half, brain) = (wide_halves[bits as usize], wide_brains[bits as usize]);
        assert_eq!(half.to_bits(), f16::from_bits(bits).to_f32().to_bits());
        assert_eq!(brain.to_bits(), bf16::from_bits(bits).to_f32().to_bits());
        // Compared with the definitions of the types too.
        let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
        let magnitude =
            if exponent == 0 { mantissa } else { (mantissa + 1024.0) * 2f32.powi(exponent - 1) } / 2f32.powi(24);
        if exponent < 31 {
            assert_eq!(half, if bits >> 15 == 0 { magnitude } else { -magnitude });
        }
        if !brain.is_nan() {
            assert_eq!(brain.to_bits(), u32::from(bits) << 16);
        }
        // The check accepts exactly the finite values.
        let row = u64::from(bits)..u64::from(bits) + 1;
        assert_eq!(block_on(halves.read_rows("t", row.clone())).is_ok(), half.is_finite(), "{bits:#x}");
        assert_eq!(block_on(brains.read_rows("t", row)).is_ok(), brain.is_finite(), "{bits:#x}");
    }
    assert_eq!(widen(Dtype::F32, &[0, 0, 128, 63, 9]), [1.0]);
}

#[test]
fn a_folder_on_disk() {
    let scratch = TempDir::new().unwrap();
    let path = scratch.path().join("model");
    let not_found = |result: Result<Folder>, reason: &str| match result {
        Err(Error::NotFound { reason: found, .. }) => assert!(found.starts_with(reason), "{found}"),
        other => panic!("{other:?}"),
    };
    not_found(Folder::open(&path), "is not there");
    std::fs::create_dir_all(path.join("folder.json")).unwrap();
    let folder = Folder::open(&path).unwrap();
    let nothing = block_on(Weights::open(Box::new(folder.clone()))).err().unwrap();
    assert!(nothing.code() == "not-found" && nothing.to_string().contains(SINGLE), "{nothing}");

    let bytes = vector(Dtype::F32, &bytes_of(Dtype::F32, &exact(6, 0)));
    std::fs::write(path.join(SINGLE), &bytes).unwrap();
    not_found(Folder::open(path.join(SINGLE)), "is neither a folder nor a GGUF file");
    let weights = block_on(Weights::open(Box::new(folder))).unwrap();
    assert_eq!(block_on(weights.read_f32("t")).unwrap(), exact(6, 0));
    assert_eq!(block_on(weights.source().size("config.json")), Ok(None));
    assert_eq!(block_on(weights.source().read_range(SINGLE, 0..0)), Ok(vec![]));
    for name in ["", "..", "../config.json", "/etc/passwd", "a/../../b", "folder.json"] {
        assert_eq!(block_on(weights.source().size(name)).unwrap_err().code(), "not-found", "{name}");
    }
    assert_eq!(block_on(weights.source().read_range("config.json", 0..1)).unwrap_err().code(), "not-found");

    // A range that no file has allocates no memory; a file that shrinks is noticed.
    let huge = block_on(weights.source().read_range(SINGLE, 0..u64::MAX));
    assert_eq!(rule(huge), Rule::Truncated { expected: u64::MAX, found: bytes.len() as u64 });
    std::fs::write(path.join(SINGLE), &bytes[..bytes.len() - 4]).unwrap();
    assert_eq!(rule(block_on(weights.read_f32("t"))), Rule::Truncated { expected: 24, found: 20 });
}

// Two hundred thousand random mutants.

/// Refuses a read outside its file, so the file's size also bounds each allocation for a read.
pub struct Watched {
    files: InMemory,
    /// Bytes of all reads, and of the largest one.
    bytes: Rc<Cell<[u64; 2]>>,
}

impl Watched {
    pub fn new(files: InMemory) -> (Self, Rc<Cell<[u64; 2]>>) {
        let bytes = Rc::new(Cell::default());
        (Self { files, bytes: bytes.clone() }, bytes)
    }
}

#[async_trait(?Send)]
impl Source for Watched {
    async fn size(&self, file: &str) -> Result<Option<u64>> {
        self.files.size(file).await
    }
    async fn read_range(&self, file: &str, range: Range<u64>) -> Result<Vec<u8>> {
        let size = self.files.size(file).await?.expect("only files that are there are read");
        assert!(range.start <= range.end && range.end <= size, "{range:?} of {size}");
        let ([all, largest], read) = (self.bytes.get(), range.end - range.start);
        self.bytes.set([all + read, largest.max(read)]);
        self.files.read_range(file, range).await
    }
    fn name(&self) -> String {
        self.files.name()
    }
}

/// SplitMix64: the same mutants everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

fn mutate_bytes(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len() + 1);
        match random.below(5) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..bytes.len().min(at + 1 + random.below(9)))),
            2 => {
                let junk: Vec<u8> = (0..random.below(9)).map(|_| random.next() as u8).collect();
                drop(bytes.splice(at..at, junk));
            }
            3 if at < bytes.len() => bytes[at] = *random.pick(b"{}[]\",:0129 \\\x00\xff"),
            _ if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            _ => bytes.push(0),
        }
    }
}

/// Changes strings, numbers and punctuation, so that most mutants are still JSON and reach the later rules.
fn mutate_json(random: &mut Random, json: &str) -> String {
    const NUMBERS: [&str; 12] = [
        "0",
        "1",
        "2",
        "4",
        "8",
        "16",
        "24",
        "-1",
        "0.5",
        "4294967296",
        "18446744073709551615",
        "99999999999999999999",
    ];
    const STRINGS: [&str; 12] = [
        r#""F32""#,
        r#""F16""#,
        r#""I64""#,
        r#""U8""#,
        r#""F64""#,
        r#""a""#,
        r#""b""#,
        r#""""#,
        r#""dtype""#,
        r#""__metadata__""#,
        r#""model-00001-of-00002.safetensors""#,
        r#""../x""#,
    ];
    let mut tokens: Vec<String> = Vec::new();
    let (mut quoted, mut numeric) = (false, false);
    for c in json.chars() {
        let joins = quoted || (numeric && c.is_ascii_digit());
        match tokens.last_mut() {
            Some(last) if joins => last.push(c),
            _ => tokens.push(c.to_string()),
        }
        quoted ^= c == '"';
        numeric = !quoted && c.is_ascii_digit();
    }
    for _ in 0..=random.below(2) {
        let (at, other) = (random.below(tokens.len()), random.below(tokens.len()));
        match random.below(8) {
            0 => drop(tokens.remove(at)),
            1 => tokens.insert(at, tokens[other].clone()),
            2 => tokens.swap(at, other),
            3 => drop(tokens.splice(at..at, tokens[at.min(other)..at.max(other)].to_vec())),
            kind => {
                let (first, all) = if kind < 6 { ('"', STRINGS) } else { ('0', NUMBERS) };
                let same =
                    |token: &str| token.starts_with(|c: char| c == first || (first == '0' && c.is_ascii_digit()));
                let places: Vec<_> = (0..tokens.len()).filter(|&i| same(&tokens[i])).collect();
                if !places.is_empty() {
                    tokens[*random.pick(&places)] = (*random.pick(&all)).to_owned();
                }
            }
        }
    }
    tokens.concat()
}

/// Opens and reads all files; true if all of it was accepted.
fn survives(files: &[(&'static str, &[u8])]) -> bool {
    let (source, bytes) = Watched::new(memory(files));
    let opened = block_on(Weights::open(Box::new(source)));
    let Ok(weights) = opened else {
        let message = opened.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(message.len() < 1500 && !message.contains(char::is_control), "{message:?}");
        return false;
    };
    for (name, tensor) in weights.iter() {
        let elements: u64 = tensor.shape.iter().product();
        assert_eq!(tensor.range.end - tensor.range.start, tensor.dtype.bytes(elements).unwrap());
        match block_on(weights.read_f32(name)) {
            Ok(values) => assert!(values.len() as u64 == elements && values.iter().all(|value| value.is_finite())),
            Err(error) => assert!(matches!(rule::<()>(Err(error)), Rule::NonFinite { .. })),
        }
    }
    assert!(bytes.get()[1] <= 16 << 20);
    true
}

#[test]
fn mutants_are_refused_or_right() {
    let mut random = Random(0x5eed);
    let tensors = [
        entry("a", "F32", "2,3", "0,24"),
        entry("mask", "I64", "2", "24,40"),
        entry("b", "F16", "5", "40,50"),
        entry("c", "BF16", "1,1,1", "50,52"),
    ];
    let good_header = header(&[&[r#""__metadata__":{"format":"pt"}"#.to_owned()], tensors.as_slice()].concat());
    let good = file(&good_header, 52);
    assert!(survives(&[(SINGLE, &good)]));
    let mut accepted = 0;
    for turn in 0..140_000 {
        let mut bytes = if turn % 2 == 0 { file(mutate_json(&mut random, &good_header), 52) } else { good.clone() };
        if turn % 4 != 0 {
            mutate_bytes(&mut random, &mut bytes);
        }
        // Half of the mutants of another length get the length of their header; otherwise all would fail there.
        if turn % 8 > 3 && bytes.len() > 60 {
            let length = (bytes.len() - 60) as u64;
            bytes[..8].copy_from_slice(&length.to_le_bytes());
        }
        if survives(&[(SINGLE, &bytes)]) {
            accepted += 1;
            // An accepted file is valid for the format's own library, too: these checks are stricter.
            SafeTensors::deserialize(&bytes).unwrap();
        }
    }
    // Mutants that are all refused early would prove little.
    assert!(accepted > 1000, "{accepted}");

    let [a, b] = two_shards();
    let good_index = index(&[("a", SHARDS[0]), ("b", SHARDS[1])]);
    for turn in 0..20_000 {
        let mut bytes = mutate_json(&mut random, &good_index).into_bytes();
        if turn % 2 == 0 {
            mutate_bytes(&mut random, &mut bytes);
        }
        survives(&[(INDEX, &bytes), (SHARDS[0], &a), (SHARDS[1], &b)]);
    }
}

/// Tables with well-formed entries whose offsets are often wrong: accepted exactly if each byte has one owner.
#[test]
fn tables_are_accepted_if_each_byte_has_one_owner() {
    let mut random = Random(0x7ab1e);
    let mut counts = [0; 2];
    for _ in 0..40_000 {
        let data = 2 * random.below(13);
        let (mut owners, mut valid, mut next) = (vec![0; data], true, 0);
        let mut tensors: Vec<_> = (0..1 + random.below(4))
            .map(|i| {
                let (dtype, size) = *random.pick(&[("F32", 4), ("F16", 2), ("BF16", 2), ("U8", 1), ("I64", 8)]);
                let dims: Vec<_> = (0..random.below(4)).map(|_| *random.pick(&[0, 1, 1, 2, 2, 3])).collect();
                let bytes = size * dims.iter().product::<usize>();
                let start = if random.below(8) == 0 { random.below(data + 2) } else { next };
                next = start + bytes;
                valid &= next <= data;
                owners.iter_mut().take(next).skip(start).for_each(|owners| *owners += 1);
                let dims: Vec<_> = dims.iter().map(usize::to_string).collect();
                (start, next, entry(&i.to_string(), dtype, &dims.join(","), &format!("{start},{next}")))
            })
            .collect();
        // An empty tensor owns no byte, but must be on a border.
        let inside = |at: usize| tensors.iter().any(|(start, end, _)| *start < at && at < *end);
        valid &= owners.iter().all(|&owners| owners == 1);
        valid &= !tensors.iter().any(|(start, end, _)| start == end && inside(*start));
        // The order in the header is free.
        let (one, other) = (random.below(tensors.len()), random.below(tensors.len()));
        tensors.swap(one, other);
        let entries: Vec<_> = tensors.into_iter().map(|(.., entry)| entry).collect();
        let bytes = file(header(&entries), data);
        assert_eq!(survives(&[(SINGLE, &bytes)]), valid, "{entries:?} over {data} bytes");
        assert!(!valid || SafeTensors::deserialize(&bytes).is_ok());
        counts[usize::from(valid)] += 1;
    }
    assert!(counts.iter().all(|&count| count > 1000), "{counts:?}");
}
