//! Tokenizers of several kinds, and difficult texts for them.

use foretoken::internals::text::Tokenizer;
use serde_json::{Value, json};

pub fn file(path: &str) -> Vec<u8> {
    let path = crate::path(path);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub fn tales() -> Tokenizer {
    Tokenizer::from_json("tokenizer.json", &file("models/tales/target/tokenizer.json")).unwrap()
}

pub fn built(json: &Value) -> Tokenizer {
    Tokenizer::from_json("built.json", json.to_string().as_bytes()).unwrap()
}

pub fn added(id: usize, content: &str, special: bool) -> Value {
    json!({ "id": id, "content": content, "special": special, "normalized": false,
            "single_word": false, "lstrip": false, "rstrip": false })
}

/// Returns a tokenizer like Llama 2's: BPE over `▁`, unknown characters as byte tokens, one leading space stripped.
pub fn byte_fallback() -> Value {
    let mut tokens = vec!["<unk>".to_owned(), "<s>".to_owned(), "</s>".to_owned()];
    tokens.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
    tokens.extend(["▁", "a", "b", "c", "d", "e", ".", "\u{FFFD}", "ab", "▁c", "▁ab"].map(str::to_owned));
    let vocab: serde_json::Map<String, Value> = tokens.into_iter().zip((0..).map(Value::from)).collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [added(0, "<unk>", true), added(1, "<s>", true), added(2, "</s>", true)],
        "normalizer": { "type": "Sequence", "normalizers": [
            { "type": "Prepend", "prepend": "▁" },
            { "type": "Replace", "pattern": { "String": " " }, "content": "▁" } ] },
        "pre_tokenizer": null,
        "post_processor": { "type": "TemplateProcessing",
            "single": [{ "SpecialToken": { "id": "<s>", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } }],
            "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 1 } }],
            "special_tokens": { "<s>": { "id": "<s>", "ids": [1], "tokens": ["<s>"] } } },
        "decoder": { "type": "Sequence", "decoders": [
            { "type": "Replace", "pattern": { "String": "▁" }, "content": " " },
            { "type": "ByteFallback" }, { "type": "Fuse" },
            { "type": "Strip", "content": " ", "start": 1, "stop": 0 } ] },
        "model": { "type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
            "vocab": vocab, "merges": [["a", "b"], ["▁", "c"], ["▁", "ab"]] },
    })
}

/// Returns a Unigram tokenizer with Metaspace and special tokens among its words.
pub fn metaspace() -> Value {
    let words = ["<unk>", "<s>", "</s>", "▁", "▁▁", "a", "b", "▁a", "▁ab", "ab", "<", "/", "s", ">", "ü", "▁—"];
    let vocab: Vec<Value> = words.iter().map(|word| json!([word, -(word.len() as f64)])).collect();
    let metaspace = json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": false });
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [added(0, "<unk>", true), added(1, "<s>", true), added(2, "</s>", true)],
        "normalizer": null, "pre_tokenizer": metaspace, "post_processor": null, "decoder": metaspace,
        "model": { "type": "Unigram", "unk_id": 0, "vocab": vocab, "byte_fallback": false },
    })
}

/// SplitMix64: seeded, so that failures are reproducible.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % n as u64) as usize
    }

    pub fn pick<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T {
        list[self.below(list.len())]
    }

    pub fn char(&mut self) -> char {
        let ranges = [
            (0x20, 0x7F),
            (0, 0x20),
            (0xA0, 0x250),
            (0x400, 0x1400),
            (0x2000, 0x3100),
            (0x4E00, 0xA000),
            (0xE000, 0xFFFF),
            (0x1_0000, 0x1_FB00),
            (0xF_0000, 0x11_0000),
        ];
        let (low, high) = ranges[self.below(ranges.len())];
        char::from_u32((low + self.below(high - low)) as u32).unwrap_or('x')
    }

    pub fn text(&mut self) -> String {
        let words = [
            " the",
            "king",
            "  ",
            "\n\n",
            "'s",
            "👩‍👩‍👧",
            "é",
            "e\u{301}",
            "一二",
            "\r\n",
            "\t",
            "1234",
            "…",
            "<|im_end|>",
            "<|im_",
            "ﬁ",
            "\u{200D}",
        ];
        let mut text = String::new();
        for _ in 0..self.below(12) {
            if self.below(2) == 0 { text += self.pick(&words) } else { text.push(self.char()) }
        }
        text
    }

    pub fn ids(&mut self, tokenizer: &Tokenizer, most: usize) -> Vec<u32> {
        // Some ids are past the vocabulary: a padded output layer can produce them.
        let end = tokenizer.vocab_size() + 5;
        (0..self.below(most)).map(|_| self.below(end) as u32).collect()
    }
}
