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
mod tests;
