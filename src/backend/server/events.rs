//! Parser for the subset of server-sent events that model servers use: lines `data: ...`.

/// Maximum length of a line, in bytes.
const LONGEST: usize = 1 << 20;

/// Parser of bytes that arrive in pieces.
#[derive(Debug, Default)]
pub(super) struct Events {
    line: Vec<u8>,
}

impl Events {
    /// Returns the data of the lines that end in these bytes. Fails if a line is too long.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, String> {
        let mut data = Vec::new();
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.line.extend_from_slice(piece);
            if self.line.len() > LONGEST {
                return Err("an event has no end".into());
            }
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                let line = String::from_utf8_lossy(&line);
                data.extend(line.strip_prefix("data:").map(|data| data.trim().to_owned()));
            }
        }
        Ok(data)
    }
}

#[cfg(test)]
mod tests {
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
}
