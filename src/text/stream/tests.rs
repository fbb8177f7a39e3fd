//! Tests of `stream`.

use super::*;

#[test]
fn the_window_stays_short_whatever_comes() {
    let bytes = r#"{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}"#;
    let model = r#"{"type": "BPE", "vocab": {"a": 0, "¡": 1, "á": 2}, "merges": []}"#;
    let json = format!(r#"{{"model": {model}, "pre_tokenizer": {bytes}, "decoder": {bytes}}}"#);
    let tokenizer = Tokenizer::from_json("tokenizer.json", json.as_bytes()).unwrap();
    let letter = tokenizer.encode("a", false).unwrap();
    // Bytes that are not text: `¡` is the byte A1, which can only continue a character, and `á` is E1, which can only begin one.
    for broken in ["¡", "á"] {
        let id = tokenizer.token_to_id(broken).unwrap();
        let mut stream = TextStream::new(&letter);
        let mut shown = String::new();
        for _ in 0..1_000 {
            shown += &stream.push(&tokenizer, id).unwrap();
            assert!(stream.window.len() <= 2 * PATIENCE);
        }
        shown += &stream.finish(&tokenizer).unwrap();
        assert_eq!(shown, "\u{FFFD}".repeat(1_000));
    }
}
