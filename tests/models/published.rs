//! Published models, if `node scripts/models.mjs` has fetched them: tokens and greedy texts equal those of transformers.

use common::run;
use foretoken::internals::backend::Device;
use foretoken::internals::backend::cpu::Processor;
use foretoken::internals::checkpoint;
use foretoken::internals::session::Session;
use foretoken::internals::weights::Folder;
use foretoken::{
    ArithmeticChoice, DrafterChoice, GenerateOptions, Generation, LoadOptions, Message, Prompt, Result, Speculation,
};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Returns the results of transformers.
fn golden() -> Value {
    serde_json::from_str(&std::fs::read_to_string(common::path("tests/golden/published.json")).unwrap()).unwrap()
}

/// Returns the models that are here, and prints those that are not.
fn models(golden: &Value) -> Vec<(PathBuf, &Value)> {
    let all = golden["models"].as_object().unwrap().iter();
    all.map(|(file, model)| (common::path("target/models").join(file), model))
        .filter(|(path, _)| {
            let here = path.is_file();
            if !here {
                eprintln!("SKIPPED: {} is not there; `node scripts/models.mjs` fetches it", path.display());
            }
            here
        })
        .collect()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// SplitMix64, as in published.py.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % end
    }
}

/// Returns the lines that published.py makes.
fn lines(golden: &Value) -> Vec<String> {
    let fragments = golden["fragments"].as_array().unwrap();
    let mut random = Random(13);
    let mut line = || {
        let pieces = 1 + random.below(12);
        let mut line = String::new();
        for _ in 0..pieces {
            if random.below(16) > 0 {
                line.push_str(fragments[random.below(fragments.len() as u64) as usize].as_str().unwrap());
            } else {
                line.push(char::from_u32(random.below(0x30000) as u32).unwrap_or('\u{fffd}'));
            }
        }
        line
    };
    (0..golden["lines"].as_u64().unwrap()).map(|_| line()).collect()
}

#[test]
fn the_tokens_of_ten_thousand_lines_are_those_of_transformers() {
    let golden = golden();
    let lines = lines(&golden);
    for (path, model) in models(&golden) {
        let checkpoint = run(checkpoint::open(Box::new(Folder::open(&path).unwrap()), None)).unwrap();
        let tokenizer = run(checkpoint.tokenizer()).unwrap();
        for (hundred, (lines, expected)) in lines.chunks(100).zip(model["hashes"].as_array().unwrap()).enumerate() {
            let mut hash = 0xcbf2_9ce4_8422_2325_u64;
            for line in lines {
                let ids = tokenizer.encode(line, true).unwrap();
                for byte in ids.iter().chain([&u32::MAX]).flat_map(|id| id.to_le_bytes()) {
                    hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
                }
            }
            assert_eq!(format!("{hash:016x}"), *expected, "{}: lines {hundred}00 to {hundred}99", path.display());
        }
    }
}

async fn generate(session: &mut Session, prompt: &Prompt, options: GenerateOptions) -> Result<Generation> {
    session.generate(prompt, &options, &mut |_| std::ops::ControlFlow::Continue(())).await
}

/// Ids may differ from the first token on whose margin in transformers is smaller.
const MARGIN: f64 = 0.02;
/// Number of golden tokens to compare on the CPU.
const TOKENS: usize = 24;
/// Number of golden tokens of one prompt on a GPU: software adapters are slow.
const ON_GPU: usize = 8;

#[test]
fn greedy_texts_are_those_of_transformers_with_and_without_prompt_lookup() {
    let golden = golden();
    for (path, model) in models(&golden) {
        let cases = model["generations"].as_array().unwrap();
        check(&path, &cases[..1], Device::Gpu(common::gpu()), ON_GPU);
        check(&path, cases, Device::Cpu(Rc::new(Processor::new(None))), TOKENS);
    }
}

fn check(path: &Path, cases: &[Value], device: Device, most: usize) {
    // transformers computes with floats.
    let options = LoadOptions::new().max_context(512).arithmetic(ArithmeticChoice::F32);
    let folder = Folder::open(path).unwrap();
    let mut session = run(Session::load(device, Box::new(folder), None, &options, &mut |_, _| ())).unwrap();
    for case in cases {
        let prompt = match &case["prompt"] {
            Value::String(text) => Prompt::Text(text.clone()),
            chat => Prompt::Chat(vec![Message::new("user", chat[0]["content"].as_str().unwrap())]),
        };
        let mut expected = ids(&case["ids"]);
        expected.truncate(most);
        assert_eq!(session.encode(&prompt, &GenerateOptions::new()).unwrap(), ids(&case["prompt_ids"]));
        let plain = GenerateOptions::new().max_new_tokens(expected.len()).speculation(Speculation::Off);
        let found = run(generate(&mut session, &prompt, plain.clone())).unwrap();
        let at = found.token_ids.iter().zip(&expected).take_while(|(found, expected)| found == expected).count();
        if at < expected.len() {
            let margin = case["margins"][at].as_f64().unwrap();
            assert!(margin < MARGIN, "{}: token {at} is another, by {margin}: {:?}", path.display(), found.text);
        }
        let lookup = plain.speculation(Speculation::Auto).drafter(DrafterChoice::Lookup).prompt_lookup_num_tokens(10);
        let looked_up = run(generate(&mut session, &prompt, lookup)).unwrap();
        assert_eq!(looked_up.token_ids, found.token_ids, "{}: {:?}", path.display(), case["prompt"]);
    }
}
