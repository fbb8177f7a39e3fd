//! Tests of `events`.

use super::*;

#[test]
fn events_come_in_pieces_of_any_length() {
    let text = "data: {\"a\": 1}\r\n\r\n: a comment\nevent: x\ndata:2\n\ndata: [DONE]\n\n".as_bytes();
    for length in 1..text.len() {
        let mut events = Events::default();
        let data: Vec<String> = text.chunks(length).flat_map(|piece| events.push(piece).unwrap()).collect();
        assert_eq!(data, ["{\"a\": 1}", "2", "[DONE]"], "{length}");
    }
    assert!(Events::default().push(&vec![b'x'; LONGEST + 1]).is_err());
}
