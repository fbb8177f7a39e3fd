//! GGUF files: a file that breaks each rule, values of every type, split files, tokenizers, and two hundred thousand mutants.

use crate::weights::Watched;
use common::attention;
use common::gguf::{ARRAY, BOOL, F32, File, I32, TEXT, U8, U16, U32, U64, array, text, texts};
use foretoken::internals::checkpoint::{self, Checkpoint};
use foretoken::internals::model::{DeltaSpec, ModelSpec, Residual, RopeScaling};
use foretoken::internals::text::Vocabulary;
use foretoken::internals::weights::{Dtype, InMemory, Metadata, Weights};
use foretoken::{Error, Result, WeightsRule as Rule};
use pollster::block_on;
use serde_json::{Value, json};
use std::borrow::Cow;

const FILE: &str = "model.gguf";
const PARTS: [&str; 2] = ["model-00001-of-00002.gguf", "model-00002-of-00002.gguf"];

/// Opens a built file.
trait Opened {
    fn open(&self) -> Result<(Weights, Metadata)>;
    /// Returns the rule that the file breaks.
    fn rule(&self) -> Rule;
}

impl Opened for File {
    fn open(&self) -> Result<(Weights, Metadata)> {
        open(&self.bytes())
    }

    #[track_caller]
    fn rule(&self) -> Rule {
        rule(self.open())
    }
}

fn memory(files: &[(&'static str, &[u8])]) -> InMemory {
    InMemory::new("test", files.iter().map(|(name, bytes)| (*name, Cow::Owned(bytes.to_vec()))))
}

fn open(bytes: &[u8]) -> Result<(Weights, Metadata)> {
    block_on(Weights::open_gguf(Box::new(memory(&[(FILE, bytes)])), FILE))
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

fn t() -> String {
    "t".to_owned()
}

// One test per rule, named after it.

#[test]
fn not_gguf() {
    assert_eq!(rule(open(b"GGML\x03\0\0\0")), Rule::NotGguf);
    assert_eq!(rule(open(b"<!doctype html>")), Rule::NotGguf);
    assert_eq!(rule(open(b"version https://git-lfs.github.com/spec/v1\n")), Rule::LfsPointer);
}

#[test]
fn gguf_version() {
    for version in [0, 1, 4, 70_000] {
        let file = File { version, ..File::default() };
        let found = file.rule();
        assert!(found == Rule::GgufVersion { version } || version == 0 && found == Rule::BigEndian, "{found}");
    }
    assert!(File { version: 2, ..File::default() }.open().is_ok());
}

#[test]
fn big_endian() {
    for version in [2_u32, 3] {
        assert_eq!(File { version: version.swap_bytes(), ..File::default() }.rule(), Rule::BigEndian);
    }
}

#[test]
fn header_cut() {
    let file = File::default().key("k", ARRAY, texts(&["a", "b"])).tensor("t", &[2], 0, &[0; 8]).bytes();
    for end in 0..file.len() - 8 {
        let found = rule(open(&file[..end]));
        assert!(matches!(found, Rule::HeaderCut { .. } | Rule::OffsetBeyondFile { .. }), "{end}: {found}");
    }
    // A length that no file has allocates no memory.
    let huge = [u64::MAX, 1 << 60, 1 << 32]
        .map(|count| array(U64, &[]).split_at(4).0.iter().copied().chain(count.to_le_bytes()).collect::<Vec<_>>());
    for value in huge {
        assert!(matches!(File::default().key("k", ARRAY, value).rule(), Rule::HeaderCut { .. }));
    }
}

#[test]
fn header_too_large_in_gguf() {
    let limit = 64 << 20;
    let count = limit as u64;
    let value = [&U8.to_le_bytes()[..], &count.to_le_bytes()].concat();
    let mut bytes = File::default().key("k", ARRAY, value).bytes();
    let end = bytes.len() as u64;
    bytes.resize(bytes.len() + limit, 0);
    match rule(open(&bytes)) {
        Rule::HeaderTooLarge { bytes, limit: found } => {
            assert!(found == limit as u64 && bytes > found && bytes <= found + end)
        }
        other => panic!("{other}"),
    }
}

#[test]
fn too_many_keys() {
    let mut bytes = File::default().bytes();
    bytes[16..24].copy_from_slice(&5000_u64.to_le_bytes());
    assert_eq!(rule(open(&bytes)), Rule::TooManyKeys { limit: 4096 });
    bytes[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    assert_eq!(rule(open(&bytes)), Rule::TooManyTensors { limit: 65_536 });
}

#[test]
fn duplicate_key() {
    let file = File::default().key("k", U8, [1]).key("k", U8, [1]);
    assert_eq!(file.rule(), Rule::DuplicateKey { key: "k".into() });
    let file = File::default().tensor("t", &[1], 0, &[0; 4]).tensor("t", &[1], 0, &[0; 4]);
    assert_eq!(file.rule(), Rule::DuplicateTensor { tensor: t() });
}

#[test]
fn bad_value() {
    let reason = |kind, value: Vec<u8>| match File::default().key("k", kind, value).rule() {
        Rule::BadValue { key, reason } if key == "k" => reason,
        other => panic!("{other}"),
    };
    assert_eq!(reason(13, vec![0; 8]), "a value of the unknown type 13");
    assert_eq!(reason(ARRAY, array(99, &[vec![0; 8]])), "a value of the unknown type 99");
    assert_eq!(reason(BOOL, vec![2]), "a bool that is neither 0 nor 1");
    assert_eq!(reason(ARRAY, array(BOOL, &[vec![1], vec![3]])), "a bool that is neither 0 nor 1");
    let deep = (0..5).fold(array(U8, &[]), |inner, _| array(ARRAY, &[inner]));
    assert_eq!(reason(ARRAY, deep), "more than 4 arrays in one another");
    assert_eq!(File::default().key("k", TEXT, [1, 0, 0, 0, 0, 0, 0, 0, 0xff]).rule(), Rule::HeaderNotUtf8);
}

#[test]
fn names_in_gguf() {
    assert_eq!(File::default().key("", U8, [0]).rule(), Rule::EmptyName);
    assert_eq!(File::default().tensor("", &[1], 0, &[0; 4]).rule(), Rule::EmptyName);
    assert_eq!(File::default().key(&"k".repeat(300), U8, [0]).rule(), Rule::LongName { bytes: 300, limit: 256 });
    assert_eq!(File::default().tensor("a\n", &[1], 0, &[0; 4]).rule(), Rule::ControlInName { tensor: "a\\n".into() });
}

#[test]
fn bad_alignment() {
    let with = |kind, value: Vec<u8>| File::default().key("general.alignment", kind, value);
    for (kind, value, alignment) in [
        (U32, 0_u32.to_le_bytes().to_vec(), "0"),
        (U32, 48_u32.to_le_bytes().to_vec(), "48"),
        (U32, (1_u32 << 21).to_le_bytes().to_vec(), "2097152"),
        (TEXT, text("x"), "\\\"x\\\""),
    ] {
        assert_eq!(with(kind, value).rule(), Rule::BadAlignment { alignment: alignment.into() });
    }
    let mut file = with(U32, 64_u32.to_le_bytes().to_vec());
    file.alignment = 64;
    let file = file.tensor("a", &[1], 0, &[0; 4]).tensor("b", &[1], 0, &1_f32.to_le_bytes());
    assert_eq!(block_on(file.open().unwrap().0.read_f32("b")), Ok(vec![1.0]));
}

#[test]
fn misaligned() {
    let mut file = File::default().tensor("a", &[8], 0, &[0; 32]).tensor("t", &[4, 2], 0, &[0; 32]);
    file.tensors[1].3 = 8;
    assert_eq!(file.rule(), Rule::Misaligned { tensor: t(), offset: 8, size: 32 });
}

#[test]
fn places_in_gguf() {
    let two = File::default().tensor("a", &[8], 0, &[0; 32]).tensor("t", &[4, 2], 0, &[0; 32]);
    assert!(two.open().is_ok());
    let moved = |offset: u64, data: usize| {
        let mut file = two.clone();
        file.tensors[1].3 = offset;
        file.data.resize(data, 0);
        file.rule()
    };
    assert_eq!(moved(0, 64), Rule::Overlap { tensor: t(), other: "a".into() });
    assert_eq!(moved(64, 96), Rule::Gap { tensor: t(), bytes: 32 });
    assert!(matches!(moved(u64::MAX - 31, 64), Rule::OffsetBeyondFile { .. }));
    assert!(matches!(moved(32, 60), Rule::OffsetBeyondFile { .. }));
    assert_eq!(moved(32, 96), Rule::DataTail { bytes: 32 });
    let shaped = |dims: &[u64], kind| File::default().tensor("t", dims, kind, &[0; 64]).rule();
    assert_eq!(shaped(&[1; 5], 0), Rule::TooManyDims { tensor: t(), limit: 4 });
    for dims in [[1 << 40, 1 << 30, 1], [0, 1 << 40, 1 << 30]] {
        assert_eq!(shaped(&dims, 0), Rule::SizeOverflow { tensor: t() });
    }
    let rule = Rule::RowNotWholeBlocks { tensor: t(), elements: 48, dtype: "Q8_0", block: 32 };
    assert_eq!(shaped(&[48, 1], 8), rule);
}

#[test]
fn types_that_cannot_be_used_are_named_when_asked_for() {
    for (kind, name) in [(16, "IQ2_XXS"), (26, "I32"), (40, "NVFP4"), (77, "type 77"), (u32::MAX, "type 4294967295")] {
        let (weights, _) = File::default().tensor("t", &[32], kind, &[0; 64]).open().unwrap();
        let rule = rule(weights.expect("t", &[32]));
        assert!(matches!(&rule, Rule::UnsupportedDtype { dtype, .. } if dtype == name), "{rule}");
        assert!(weights.contains("t") && weights.get("t").is_none());
    }
}

#[test]
fn split_name() {
    let part = |number: u16, count: u16| {
        let file =
            File::default().key("split.no", U16, number.to_le_bytes()).key("split.count", U16, count.to_le_bytes());
        file.tensor(["a", "b"][usize::from(number)], &[1], 0, &[0; 4])
    };
    assert_eq!(part(0, 2).rule(), Rule::SplitName { parts: 2 });
    let open = |parts: [File; 2]| {
        let bytes = parts.map(|part| part.bytes());
        let files = memory(&[(PARTS[0], &bytes[0]), (PARTS[1], &bytes[1])]);
        block_on(Weights::open_gguf(Box::new(files), PARTS[1]))
    };
    assert_eq!(rule(open([part(0, 3), part(1, 3)])), Rule::SplitName { parts: 3 });
    assert_eq!(rule(open([part(0, 2), part(1, 3)])), Rule::SplitName { parts: 3 });
    let (weights, metadata) = open([part(0, 2), part(1, 2)]).unwrap();
    assert_eq!(
        (weights.get("a").unwrap().file.as_str(), weights.get("b").unwrap().file.as_str()),
        (PARTS[0], PARTS[1])
    );
    assert_eq!(metadata.get("split.no"), Some(json!(0)));
    let again = part(1, 2).tensor("a", &[1], 0, &[0; 4]);
    assert_eq!(
        rule(open([part(0, 2), again])),
        Rule::DuplicateAcrossShards { tensor: "a".into(), other: PARTS[0].into() }
    );
}

#[test]
fn split_number() {
    let part = |number: u16| {
        let file =
            File::default().key("split.no", U16, number.to_le_bytes()).key("split.count", U16, 2_u16.to_le_bytes());
        file.bytes()
    };
    let files = memory(&[(PARTS[0], &part(0)), (PARTS[1], &part(0))]);
    assert_eq!(
        rule(block_on(Weights::open_gguf(Box::new(files), PARTS[0]))),
        Rule::SplitNumber { expected: 1, found: 0 }
    );
    let alone = memory(&[(PARTS[0], &part(0))]);
    assert_eq!(
        rule(block_on(Weights::open_gguf(Box::new(alone), PARTS[0]))),
        Rule::MissingShard { shard: PARTS[1].into() }
    );
}

#[test]
fn split_tensors() {
    let file = File::default().key("split.tensors.count", U32, 2_u32.to_le_bytes()).tensor("t", &[1], 0, &[0; 4]);
    assert_eq!(file.rule(), Rule::SplitTensors { expected: 2, found: 1 });
}

// Valid files.

#[test]
fn values_of_every_type() {
    let file = File::default()
        .key("u8", 0, [200])
        .key("i8", 1, [200])
        .key("u16", 2, 60_000_u16.to_le_bytes())
        .key("i16", 3, (-3_i16).to_le_bytes())
        .key("u32", 4, u32::MAX.to_le_bytes())
        .key("i32", 5, i32::MIN.to_le_bytes())
        .key("f32", 6, 1e-5_f32.to_le_bytes())
        .key("nan", 6, f32::NAN.to_le_bytes())
        .key("bool", 7, [1])
        .key("text", 8, text("añ"))
        .key("u64", 10, u64::MAX.to_le_bytes())
        .key("i64", 11, (-1_i64).to_le_bytes())
        .key("f64", 12, 0.1_f64.to_le_bytes())
        .key("numbers", ARRAY, array(F32, &[1_f32.to_le_bytes().into(), f32::NEG_INFINITY.to_le_bytes().into()]))
        .key("texts", ARRAY, texts(&["a", "", "b"]))
        .key("nested", ARRAY, array(ARRAY, &[texts(&["a"]), array(U8, &[vec![1]])]));
    let (_, metadata) = file.open().unwrap();
    let expected = [
        ("u8", json!(200)),
        ("i8", json!(-56)),
        ("u16", json!(60_000)),
        ("i16", json!(-3)),
        ("u32", json!(u32::MAX)),
        ("i32", json!(i32::MIN)),
        ("f32", json!(1e-5)),
        ("nan", Value::Null),
        ("bool", json!(true)),
        ("text", json!("añ")),
        ("u64", json!(u64::MAX)),
        ("i64", json!(-1)),
        ("f64", json!(0.1)),
        ("numbers", json!([1.0, null])),
        ("texts", json!(["a", "", "b"])),
        ("nested", Value::Null),
    ];
    for (key, value) in expected {
        assert_eq!(metadata.get(key), Some(value), "{key}");
    }
    assert_eq!(metadata.get("other"), None);
    assert_eq!(metadata.texts("texts").unwrap().collect::<Vec<_>>(), ["a", "", "b"]);
    assert!(
        metadata.texts("numbers").is_none() && metadata.numbers("texts").is_none() && metadata.numbers("u8").is_none()
    );
    let numbers: Vec<_> = metadata.numbers("numbers").unwrap().collect();
    assert!(numbers[0] == 1.0 && numbers[1].is_nan());
}

#[test]
fn tensors_have_their_shape_type_and_bytes() {
    let values: Vec<u8> = (0..6).flat_map(|value| (value as f32).to_le_bytes()).collect();
    let file = File::default().tensor("m", &[3, 2], 0, &values).tensor("q", &[32, 2], 8, &[0; 68]).tensor(
        "s",
        &[],
        0,
        &[0; 4],
    );
    let (weights, _) = file.open().unwrap();
    assert_eq!(weights.get("m").unwrap().shape, [2, 3]);
    assert_eq!(block_on(weights.read_rows("m", 1..2)).unwrap(), values[12..]);
    assert_eq!(
        (weights.get("q").unwrap().dtype, weights.get("q").unwrap().shape.as_slice()),
        (Dtype::Q8_0, &[2, 32][..])
    );
    assert_eq!(block_on(weights.read_f32("q")).unwrap(), [0.0; 64]);
    assert_eq!(weights.get("s").unwrap().shape, [0; 0]);
}

#[test]
fn a_header_is_read_piece_by_piece_and_the_data_is_not() {
    let many: Vec<String> = (0..300_000).map(|id| format!("token {id}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let bytes =
        File::default().key("tokens", ARRAY, texts(&many)).tensor("t", &[1 << 22], 0, &vec![0; 1 << 24]).bytes();
    let header = (bytes.len() - (1 << 24)) as u64;
    let (source, read) = Watched::new(memory(&[(FILE, &bytes)]));
    let (_, metadata) = block_on(Weights::open_gguf(Box::new(source), FILE)).unwrap();
    let [read, _] = read.get();
    assert!(read >= header && read < 2 * header, "{read} bytes were read of a header of {header}");
    assert!(metadata.texts("tokens").unwrap().eq(many));
}

#[test]
fn a_key_that_is_wrong_is_named_as_in_the_file() {
    let open =
        |file: &File| block_on(checkpoint::open(Box::new(memory(&[(FILE, &file.bytes())])), None)).err().unwrap();
    let unknown = File::default().key("general.architecture", TEXT, text("rwkv6"));
    assert_eq!(open(&unknown).code(), "unsupported-architecture");
    let llama = |key: &str| {
        let sizes =
            ["context_length", "block_count", "embedding_length", "feed_forward_length", "attention.head_count"];
        let file = File::default().key("general.architecture", TEXT, text("llama"));
        let there = sizes.iter().filter(|size| **size != key);
        there.fold(file, |file, size| {
            let value = if *size == "embedding_length" { 64_u32 } else { 8 };
            file.key(&format!("llama.{size}"), U32, value.to_le_bytes())
        })
    };
    let refused = |file: File, key: &str| match open(&file) {
        Error::BadConfig { file, key: found, .. } => {
            assert_eq!((file.as_str(), found.as_str()), ("test/model.gguf", key))
        }
        other => panic!("{other}"),
    };
    refused(llama(""), "tokenizer.ggml.tokens");
    for key in ["context_length", "block_count", "embedding_length", "attention.head_count"] {
        refused(llama(key), &format!("llama.{key}"));
    }
    refused(llama("").key("llama.expert_count", U32, 8_u32.to_le_bytes()), "llama.expert_count");
    refused(llama("").key("llama.attention.causal", BOOL, [0]), "llama.attention.causal");
    let ntk = llama("").key("llama.rope.scaling.type", TEXT, text("ntk"));
    refused(ntk.key("tokenizer.ggml.tokens", ARRAY, texts(&["a"])), "llama.rope.scaling.type");
}

/// Returns the spec of a file with these integers, as keys of its architecture, and tensors without data.
fn spec(architecture: &str, numbers: &[(&str, u32)], tensors: &[&str], more: impl Fn(File) -> File) -> ModelSpec {
    described(architecture, numbers, tensors, more).spec().clone()
}

fn described(
    architecture: &str,
    numbers: &[(&str, u32)],
    tensors: &[&str],
    more: impl Fn(File) -> File,
) -> Box<dyn Checkpoint> {
    let sizes =
        [("context_length", 512), ("block_count", 12), ("feed_forward_length", 96), ("attention.head_count", 4)];
    let mut file = File::default().key("general.architecture", TEXT, text(architecture));
    let usual = sizes.iter().filter(|(size, _)| numbers.iter().all(|(key, _)| key != size));
    for (key, value) in usual.chain(numbers) {
        file = file.key(&format!("{architecture}.{key}"), U32, value.to_le_bytes());
    }
    file = more(file.tensor("token_embd.weight", &[32, 50], 0, &[0; 6400]));
    file = tensors.iter().fold(file, |file, name| file.tensor(name, &[1], 0, &[0; 4]));
    let opened = block_on(checkpoint::open(Box::new(memory(&[(FILE, &file.bytes())])), None));
    opened.unwrap_or_else(|error| panic!("{architecture}: {error}"))
}

/// Converters wrote -1 for ids that a model does not have.
#[test]
fn ids_that_are_not_needed_and_not_there_are_passed_over_with_a_warning() {
    let warnings = |key: &'static str, kind: u32, id: &[u8]| {
        let more = |file: File| file.key(&format!("tokenizer.ggml.{key}_token_id"), kind, id);
        described("llama", &[("embedding_length", 32)], &[], more).warnings().to_vec()
    };
    for key in ["padding", "unknown"] {
        for (kind, id, shown) in [(U32, u32::MAX, "4294967295"), (I32, u32::MAX, "-1"), (U32, 50, "50")] {
            let [warning] = &warnings(key, kind, &id.to_le_bytes())[..] else { panic!("{key} {shown}") };
            assert_eq!(*warning, format!("tokenizer.ggml.{key}_token_id {shown} is ignored: the model has 50 tokens"));
        }
        assert!(warnings(key, U32, &49_u32.to_le_bytes()).is_empty());
    }
}

#[test]
fn templates_that_are_no_text_are_refused_by_key() {
    let template = |key: &'static str, kind: u32, value: &[u8]| {
        let more = |file: File| {
            let file = if key.ends_with('e') { file } else { file.key("tokenizer.chat_template", TEXT, text("a")) };
            file.key(key, kind, value)
        };
        block_on(described("llama", &[("embedding_length", 32)], &[], more).template())
    };
    for key in ["tokenizer.chat_template", "tokenizer.chat_template.rag"] {
        assert!(template(key, TEXT, &text("b")).unwrap().is_some());
        let refused = template(key, U32, &[0; 4]).unwrap_err();
        assert_eq!(refused.to_string(), format!("chat template: {key} in the GGUF file is no text"));
    }
}

/// Qwen3.5 with two layers that draft, and with or without a flag for each layer.
#[test]
fn metadata_say_which_layers_are_delta_nets() {
    let numbers = [
        ("embedding_length", 32),
        ("block_count", 10),
        ("nextn_predict_layers", 2),
        ("full_attention_interval", 3),
        ("ssm.conv_kernel", 4),
        ("ssm.state_size", 16),
        ("ssm.group_count", 2),
        ("ssm.time_step_rank", 6),
        ("ssm.inner_size", 144),
    ];
    let attends =
        |spec: &ModelSpec| -> Vec<bool> { spec.layers.iter().map(|layer| layer.attention().is_some()).collect() };
    let by_interval = spec("qwen35", &numbers, &[], |file| file);
    assert_eq!(attends(&by_interval), [false, false, true, false, false, true, false, false]);
    let delta = DeltaSpec { key_heads: 2, value_heads: 6, key_dim: 16, value_dim: 24, taps: 4, replaces: true };
    assert_eq!(by_interval.layers[0].delta_net(), Some(&delta));
    let recurs = [1, 0, 0, 1, 1, 1, 1, 1, 0, 0].map(|flag| vec![flag]);
    let by_flags = spec("qwen35", &numbers, &[], |file| {
        file.key("qwen35.attention.recurrent_layers", ARRAY, array(BOOL, &recurs))
    });
    assert_eq!(attends(&by_flags), [false, true, true, false, false, false, false, false]);

    let mut wrong = numbers;
    wrong[8].1 = 145;
    let file =
        wrong.iter().fold(File::default().key("general.architecture", TEXT, text("qwen35")), |file, (key, value)| {
            file.key(&format!("qwen35.{key}"), U32, value.to_le_bytes())
        });
    let error = block_on(checkpoint::open(Box::new(memory(&[(FILE, &file.bytes())])), None)).map(drop).unwrap_err();
    assert!(error.to_string().contains("qwen35.ssm.inner_size"), "{error}");
}

#[test]
fn metadata_say_what_a_model_is() {
    let same = |file| file;
    let llama = spec("llama", &[("embedding_length", 32)], &["output.weight"], same);
    assert_eq!(
        (llama.vocab_size, attention(&llama, 0).head_dim, attention(&llama, 0).kv_heads, llama.tie_word_embeddings),
        (50, 8, 4, false)
    );
    assert_eq!((llama.ropes[0].theta, llama.ropes[0].rotary_dim, llama.qkv_bias), (10_000.0, 8, false));
    assert_eq!((llama.bos_token_id, llama.eos_token_id.as_slice()), (None, &[][..]));

    // Llama 3 has its factors in a tensor.
    let factors: Vec<u8> = [1_f32, 1.0, 4.0, 8.0].iter().flat_map(|factor| factor.to_le_bytes()).collect();
    let scaled =
        spec("llama", &[("embedding_length", 32)], &[], |file| file.tensor("rope_freqs.weight", &[4], 0, &factors));
    let RopeScaling::LongRope { short_factor, long_factor, attention_factor, .. } = &scaled.ropes[0].scaling else {
        panic!()
    };
    assert_eq!((short_factor, long_factor, *attention_factor), (&vec![1.0, 1.0, 4.0, 8.0], short_factor, 1.0));

    let numbers = [
        ("embedding_length", 32),
        ("attention.key_length", 16),
        ("attention.value_length", 16),
        ("attention.head_count_kv", 2),
    ];
    let qwen3 = spec("qwen3", &numbers, &[], same);
    assert_eq!(
        (
            attention(&qwen3, 0).head_dim,
            attention(&qwen3, 0).kv_heads,
            qwen3.qk_norm.is_some(),
            qwen3.tie_word_embeddings
        ),
        (16, 2, true, true)
    );

    let numbers = [("embedding_length", 32), ("attention.key_length", 16), ("attention.sliding_window", 64)];
    let scaling = |file: File| {
        file.key("gemma3.rope.scaling.type", TEXT, text("linear")).key(
            "gemma3.rope.scaling.factor",
            F32,
            8_f32.to_le_bytes(),
        )
    };
    let gemma3 = spec("gemma3", &numbers, &[], scaling);
    let full: Vec<_> = (0..12).filter(|layer| attention(&gemma3, *layer).window.is_none()).collect();
    assert_eq!((full, attention(&gemma3, 0).window, gemma3.attention_scale), (vec![5, 11], Some(64), 0.25));
    // The Gemma 3 that scales scores by hidden size / heads is recognised by its number of layers.
    let larger = [&numbers[..], &[("block_count", 62)]].concat();
    assert_eq!(spec("gemma3", &larger, &[], same).attention_scale, (32.0_f32 / 4.0).powf(-0.5));
    assert_eq!(
        (&gemma3.ropes[0].scaling, &gemma3.ropes[1].scaling),
        (&RopeScaling::Linear { factor: 8.0 }, &RopeScaling::None)
    );

    let short: Vec<u8> = [1_f32; 4].iter().chain(&[2_f32; 4]).flat_map(|factor| factor.to_le_bytes()).collect();
    let numbers =
        [("embedding_length", 32), ("rope.scaling.original_context_length", 128), ("attention.sliding_window", 100)];
    let phi3 = spec("phi3", &numbers, &[], |file| {
        let file = file.key("phi3.rope.scaling.attn_factor", F32, 1.25_f32.to_le_bytes());
        file.tensor("rope_factors_short.weight", &[4], 0, &short[..16]).tensor(
            "rope_factors_long.weight",
            &[4],
            0,
            &short[16..],
        )
    });
    let RopeScaling::LongRope { short_factor, long_factor, attention_factor, original_max_position_embeddings } =
        &phi3.ropes[0].scaling
    else {
        panic!()
    };
    assert_eq!((short_factor, long_factor), (&vec![1.0; 4], &vec![2.0; 4]));
    assert_eq!(
        (*attention_factor, *original_max_position_embeddings, attention(&phi3, 0).window),
        (1.25, 128.0, Some(100))
    );

    let epsilon = |name: &'static str| {
        move |file: File| file.key(&format!("{name}.attention.layer_norm_epsilon"), F32, 1e-4_f32.to_le_bytes())
    };
    let gpt2 = spec("gpt2", &[("embedding_length", 32)], &[], epsilon("gpt2"));
    assert_eq!((gpt2.norm_eps, gpt2.layers[0].intermediate_size, gpt2.learned_positions), (1e-4, 96, true));
    let starcoder = spec("starcoder", &[("embedding_length", 32), ("attention.head_count_kv", 1)], &[], same);
    assert_eq!((attention(&starcoder, 0).kv_heads, starcoder.learned_positions), (1, true));
    let neox =
        spec("gptneox", &[("embedding_length", 32), ("rope.dimension_count", 2)], &["blk.0.attn_qkv.bias"], |file| {
            file.key("gptneox.use_parallel_residual", BOOL, [0])
        });
    assert_eq!((neox.ropes[0].rotary_dim, neox.qkv_bias, neox.residual), (2, true, Residual::Sequential));
    let smollm3 = spec("smollm3", &[("embedding_length", 32)], &[], same);
    assert_eq!((attention(&smollm3, 2).rope, attention(&smollm3, 3).rope), (Some(0), None));
}

// Tokenizers.

/// Returns a vocabulary: `<s>`, `</s>`, bytes, then tokens with falling scores.
fn sentence_piece() -> Vocabulary<'static> {
    let tokens =
        ["<unk>", "<s>", "</s>", "<0x0A>", "<0xC3>", "<0xA9>", "▁", "a", "b", "ab", "▁a", "▁ab", "  ", "<tool>"];
    let types = [2, 3, 3, 6, 6, 6, 1, 1, 1, 1, 1, 1, 1, 4];
    Vocabulary {
        model: "llama",
        types: types.map(f64::from).to_vec(),
        scores: (0..tokens.len()).map(|id| -(id as f64)).collect(),
        tokens: tokens.to_vec(),
        unknown: Some(0),
        bos: Some(1),
        eos: Some(2),
        ..Vocabulary::default()
    }
}

#[test]
fn a_sentence_piece_vocabulary_merges_by_its_scores() {
    let tokenizer = sentence_piece().tokenizer(FILE).unwrap();
    // "ab" has a higher score than "▁a".
    assert_eq!(tokenizer.encode("ab ab", true).unwrap(), [1, 11, 11]);
    assert_eq!(tokenizer.encode("a<tool>b</s>", false).unwrap(), [10, 13, 6, 8, 2]);
    assert_eq!(tokenizer.encode("é\n", false).unwrap(), [6, 4, 5, 3]);
    // A run of spaces is a token of its own.
    assert_eq!(tokenizer.encode("   a", false).unwrap(), [12, 6, 10]);
    assert_eq!(tokenizer.decode(&[1, 11, 4, 5, 3, 10], true).unwrap(), "abé\n a");
    assert!(tokenizer.is_special(1) && !tokenizer.is_special(13));
    let plain = Vocabulary { space_prefix: Some(false), add_bos: Some(false), add_eos: true, ..sentence_piece() }
        .tokenizer(FILE)
        .unwrap();
    assert_eq!(plain.encode("ab ab", true).unwrap(), [9, 11, 2]);
    // Without scores the order of the ids counts, which is the same here.
    let ordered = Vocabulary { scores: vec![], ..sentence_piece() }.tokenizer(FILE).unwrap();
    assert_eq!(ordered.encode("ab ab", true).unwrap(), [1, 11, 11]);
    let mut other = sentence_piece();
    other.tokens[11] = "x";
    assert_eq!(other.tokenizer(FILE).unwrap().encode("ab", false).unwrap(), [6, 9]);
    other.scores[10] = 0.0;
    assert_eq!(other.tokenizer(FILE).unwrap().encode("ab", false).unwrap(), [10, 8]);
}

/// Returns a byte-level vocabulary of all the bytes that the texts need, and merges.
fn byte_level(pre: &'static str) -> Vocabulary<'static> {
    let tokens =
        ["<eos>", "a", "b", "1", "2", "Ġ", "'", "S", "Ċ", "12", "ĠĠ", "'S", "Ġa", "ab", "A", "Ì", "Ĭ", "Ã", "ħ"];
    Vocabulary {
        model: "gpt2",
        pre,
        types: tokens.iter().enumerate().map(|(id, _)| if id == 0 { 3.0 } else { 1.0 }).collect(),
        tokens: tokens.to_vec(),
        merges: Some(vec!["1 2", "Ġ Ġ", "' S", "Ġ a", "a b"]),
        eos: Some(0),
        ..Vocabulary::default()
    }
}

#[test]
fn a_byte_level_vocabulary_splits_as_its_kind_says() {
    for (pre, text, ids) in [
        ("gpt-2", "12  a", &[9, 5, 12][..]),
        ("gpt-2", "  12", &[5, 5, 9]),
        ("phi-2", "a'S", &[1, 6, 7]),
        ("smollm", "12", &[3, 4]),
        ("smollm", "  12", &[10, 3, 4]),
        ("llama-bpe", "12ab'S", &[9, 13, 11]),
        ("qwen2", "12", &[3, 4]),
        // NFC.
        ("qwen2", "A\u{30a}", &[17, 18]),
        ("llama-bpe", "A\u{30a}", &[14, 15, 16]),
        ("tekken", "12'S", &[3, 4, 11]),
        ("gpt-4o", "12'S", &[9, 11]),
        ("deepseek-coder", "12ab", &[3, 4, 13]),
        ("deepseek-v3", "12ab", &[9, 13]),
    ] {
        let tokenizer = byte_level(pre).tokenizer(FILE).unwrap();
        assert_eq!(tokenizer.encode(text, true).unwrap(), ids, "{pre}: {text}");
        let composed = if text.contains('\u{30a}') { "Å" } else { text };
        let decoded = tokenizer.decode(ids, false).unwrap();
        assert!(decoded == text || decoded == composed, "{pre}: {decoded:?}");
    }
    let tokenizer = byte_level("gpt-2").tokenizer(FILE).unwrap();
    assert_eq!(tokenizer.encode("a<eos>", false).unwrap(), [1, 0]);
}

#[test]
fn what_is_no_tokenizer_is_refused_by_name() {
    let reason = |vocabulary: Vocabulary| match vocabulary.tokenizer(FILE) {
        Err(Error::BadTokenizer { file, reason }) if file == FILE => reason,
        other => panic!("{other:?}"),
    };
    for model in ["bert", "t5", "rwkv", ""] {
        let refused = reason(Vocabulary { model, ..byte_level("gpt-2") });
        assert!(refused.contains(&format!("{model:?} is not supported; supported: gpt2, llama")), "{refused}");
    }
    for pre in ["poro-chat", "default", ""] {
        assert!(reason(byte_level(pre)).contains(&format!("{pre:?} is not supported")));
    }
    assert!(reason(Vocabulary { merges: None, ..byte_level("gpt-2") }).contains("merges is missing"));
    assert!(reason(Vocabulary { merges: Some(vec!["ab"]), ..byte_level("gpt-2") }).contains("without a space"));
    // The tokenizer library would end the process for these merges.
    assert!(reason(Vocabulary { merges: Some(vec!["ab ab"]), ..byte_level("gpt-2") }).contains("make no token"));
    assert!(reason(Vocabulary { types: vec![1.0], ..byte_level("gpt-2") }).contains("1 entries for 19 tokens"));
    assert!(reason(Vocabulary { special: vec![99], ..byte_level("gpt-2") }).contains("there is no token 99"));
    assert!(reason(Vocabulary { bos: Some(99), add_bos: Some(true), ..byte_level("gpt-2") }).contains("bos_token_id"));
    assert!(
        reason(Vocabulary { tokens: vec![], types: vec![], eos: None, merges: Some(vec![]), ..byte_level("gpt-2") })
            .contains("token ids")
    );
}

// Two hundred thousand random mutants.

/// SplitMix64: the same mutants everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) % end as u64) as usize
    }
}

fn mutate(bytes: &mut Vec<u8>, header: usize, random: &mut Random) {
    const NUMBERS: [u64; 12] = [0, 1, 2, 31, 32, 33, 255, 1 << 31, u32::MAX as u64, 1 << 40, (1 << 63) - 1, u64::MAX];
    for _ in 0..=random.below(2) {
        let at = random.below(header.min(bytes.len()));
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.below(256) as u8,
            2 | 3 => {
                let number = NUMBERS[random.below(NUMBERS.len())].to_le_bytes();
                let width = if random.below(2) == 0 { 4 } else { 8 };
                bytes.iter_mut().skip(at).zip(&number[..width]).for_each(|(to, from)| *to = *from);
            }
            4 => drop(bytes.splice(at..at, vec![0; random.below(9)])),
            _ => drop(bytes.drain(at..(at + random.below(40)).min(bytes.len()))),
        }
    }
}

/// Opens and reads the whole file; true if all of it was accepted.
fn survives(bytes: &[u8]) -> bool {
    let (source, _) = Watched::new(memory(&[(FILE, bytes)]));
    let (weights, metadata) = match block_on(Weights::open_gguf(Box::new(source), FILE)) {
        Ok(opened) => opened,
        Err(error) => {
            let message = error.to_string();
            assert!(message.len() < 1500 && !message.contains(char::is_control), "{message:?}");
            return false;
        }
    };
    for (name, tensor) in weights.iter() {
        let elements: u64 = tensor.shape.iter().product();
        assert!(tensor.range.start <= tensor.range.end && tensor.range.end <= bytes.len() as u64);
        if let Ok(values) = block_on(weights.read_f32(name)) {
            assert!(values.iter().all(|value| value.is_finite()));
            assert!(values.len() as u64 == elements || tensor.row_bytes() == 0, "{tensor:?}");
        }
    }
    for key in ["general.architecture", "tokenizer.ggml.tokens", "scores", "k"] {
        let _ =
            (metadata.get(key), metadata.texts(key).map(Iterator::count), metadata.numbers(key).map(Iterator::count));
    }
    true
}

#[test]
fn two_hundred_thousand_mutants() {
    let file = File::default()
        .key("general.architecture", TEXT, text("llama"))
        .key("general.alignment", U32, 32_u32.to_le_bytes())
        .key("k", BOOL, [1])
        .key("tokenizer.ggml.tokens", ARRAY, texts(&["a", "bc", ""]))
        .key("scores", ARRAY, array(F32, &[1_f32.to_le_bytes().into(), 2_f32.to_le_bytes().into()]))
        .tensor("a", &[4, 2], 0, &[0; 32])
        .tensor("b", &[32, 2], 8, &[0; 68])
        .tensor("c", &[8], 26, &[0; 32])
        .tensor("d", &[3], 1, &[0; 6]);
    let original = file.bytes();
    assert!(survives(&original));
    let header = original.len() - file.data.len();
    let mut random = Random(1);
    let accepted = (0..200_000).filter(|_| {
        let mut bytes = original.clone();
        mutate(&mut bytes, header, &mut random);
        survives(&bytes)
    });
    let accepted = accepted.count();
    assert!((2_000..150_000).contains(&accepted), "{accepted} were accepted");
}
