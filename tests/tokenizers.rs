//! Tokenizers of published models: ids, texts and streams are those of Python's `tokenizers`. They are tested where
//! `node scripts/tokenizers.mjs` has put them.

mod common;
use common::tokenizers::{Random, file};
use foretoken::text::{ChatTemplate, TextStream, Tokenizer};
use serde_json::Value;
use std::path::PathBuf;

/// A text of phrases and characters, as tests/golden/tokenizers.py makes it.
fn line(random: &mut Random, phrases: &[&str]) -> String {
    let count = random.below(12);
    let mut text = String::new();
    for _ in 0..count {
        if random.below(5) > 0 { text += random.pick(phrases) } else { text.push(random.char()) }
    }
    text
}

/// FNV-1a of 64 bits.
fn fnv(bytes: impl IntoIterator<Item = u8>) -> String {
    let step = |state: u64, byte: u8| (state ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
    format!("{:016x}", bytes.into_iter().fold(0xCBF2_9CE4_8422_2325, step))
}

#[test]
fn tokenizers_of_published_models_are_those_of_python() {
    let golden: Value = serde_json::from_slice(&file("tests/golden/tokenizers.json")).unwrap();
    let phrases: Vec<&str> =
        golden["phrases"].as_array().unwrap().iter().map(|phrase| phrase.as_str().unwrap()).collect();
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/tokenizers");
    for (name, expected) in golden["tokenizers"].as_object().unwrap() {
        let Ok(bytes) = std::fs::read(folder.join(name).join("tokenizer.json")) else {
            println!("{name} is not here: node scripts/tokenizers.mjs fetches it");
            continue;
        };
        // What these say besides is what tokenizer.json says.
        let config = std::fs::read(folder.join(name).join("tokenizer_config.json")).unwrap();
        let tokenizer = Tokenizer::from_files("tokenizer.json", &bytes, Some(&config)).unwrap();
        ChatTemplate::from_files(Some(&config), None).unwrap();
        let greeting: Vec<u32> = serde_json::from_value(expected["greeting"].clone()).unwrap();
        assert_eq!(tokenizer.encode("Hello wörld <s>", true).unwrap(), greeting, "{name}");
        let mut random = Random(20);
        for (at, block) in expected["blocks"].as_array().unwrap().iter().enumerate() {
            let lines: Vec<String> =
                (0..golden["block"].as_u64().unwrap()).map(|_| line(&mut random, &phrases)).collect();
            let ids: Vec<Vec<u32>> = lines.iter().map(|line| tokenizer.encode(line, true).unwrap()).collect();
            let words = ids.iter().flat_map(|ids| ids.iter().copied().chain([u32::MAX])).flat_map(u32::to_le_bytes);
            assert_eq!(fnv(words), block[0], "{name}: ids of block {at}");
            let texts: Vec<String> = ids.iter().map(|ids| tokenizer.decode(ids, true).unwrap()).collect();
            let bytes = texts.iter().flat_map(|text| text.bytes().chain([0xFF]));
            assert_eq!(fnv(bytes), block[1], "{name}: texts of block {at}");
            for (ids, text) in ids.iter().zip(&texts).step_by(10) {
                let mut stream = TextStream::new(&[]);
                let mut streamed: String = ids.iter().map(|&id| stream.push(&tokenizer, id).unwrap()).collect();
                streamed += &stream.finish(&tokenizer).unwrap();
                assert_eq!(&streamed, text, "{name}: {ids:?}");
            }
            // No text of a user becomes a special token.
            for line in lines.iter().step_by(10) {
                let literal = tokenizer.encode_literal(line).unwrap();
                let found = literal
                    .iter()
                    .find(|&&id| tokenizer.is_special(id) && line.contains(&tokenizer.id_to_token(id).unwrap()));
                assert_eq!(found, None, "{name}: {line:?}");
            }
        }
    }
}
