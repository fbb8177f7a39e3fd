//! Commands of a chat: meanings of input lines.

use foretoken::{Error, Result};

/// Meaning of an input line.
#[derive(Debug, PartialEq)]
pub(super) enum Line<'a> {
    Nothing,
    Message(&'a str),
    Reset,
    Stats,
    System(&'a str),
    Help,
    Exit,
}

/// Returns the meaning of an input line.
pub(super) fn parse(line: &str) -> Result<Line<'_>> {
    if !line.starts_with('/') {
        return Ok(if line.trim().is_empty() { Line::Nothing } else { Line::Message(line) });
    }
    let (name, text) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match (name, text.trim()) {
        ("/system", text) => Ok(Line::System(text)),
        ("/reset", "") => Ok(Line::Reset),
        ("/stats", "") => Ok(Line::Stats),
        ("/help", "") => Ok(Line::Help),
        ("/exit", "") => Ok(Line::Exit),
        _ => Err(Error::BadOption {
            option: "command".into(),
            value: line.into(),
            allowed: "/reset, /stats, /system TEXT, /help, /exit; a message that begins with / needs a space before it"
                .into(),
        }),
    }
}

#[cfg(test)]
mod tests;
