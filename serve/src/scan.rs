//! Scanning of text that may be cut off: white space, JSON values, and beginnings of marks.

use serde_json::Value;

/// Returns true for the white space of JavaScript, so that both implementations read an answer in one way.
pub(crate) fn is_space(c: char) -> bool {
    c == '\u{FEFF}' || (c.is_whitespace() && c != '\u{85}')
}

/// Returns true for characters of words.
pub(crate) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns true for characters of a tool's name.
pub(crate) fn is_name(c: char) -> bool {
    is_word(c) || c == '.' || c == '-'
}

/// Returns the position after all characters from `from` on for which `is` holds.
pub(crate) fn skip(text: &str, from: usize, is: impl Fn(char) -> bool) -> usize {
    text[from..].find(|c| !is(c)).map_or(text.len(), |length| from + length)
}

/// Returns the position after a mark; `None`: the mark is not there.
pub(crate) fn after(text: &str, at: usize, mark: &str) -> Option<usize> {
    text[at..].starts_with(mark).then_some(at + mark.len())
}

/// Returns the number of bytes at the end of a text that may be the beginning of `mark`, which is ASCII.
pub(crate) fn begun(text: &str, mark: &str) -> usize {
    (1..mark.len()).rev().find(|length| text.ends_with(&mark[..*length])).unwrap_or(0)
}

/// Returns the position after the string literal that begins with the quote at `from`; `None` if it is cut off.
pub(crate) fn end_of_string(text: &str, from: usize) -> Option<usize> {
    let mut letters = text[from..].char_indices();
    let (_, quote) = letters.next()?;
    while let Some((at, c)) = letters.next() {
        match c {
            '\\' => drop(letters.next()?),
            c if c == quote => return Some(from + at + c.len_utf8()),
            _ => {}
        }
    }
    None
}

/// Returns the end of the JSON value that begins at `from`; `None` if it is cut off.
pub(crate) fn end_of_value(text: &str, from: usize) -> Option<usize> {
    let is_separator = |c: char| is_space(c) || c == ',' || c == ':';
    let (mut at, mut depth) = (from, 0);
    while let Some(c) = text[at..].chars().next() {
        at = match c {
            '"' => end_of_string(text, at)?,
            '[' | '{' => {
                depth += 1;
                at + 1
            }
            ']' | '}' => {
                depth -= 1;
                at + 1
            }
            c if is_separator(c) => {
                at = skip(text, at, is_separator);
                continue;
            }
            _ => skip(text, at, |c| !is_separator(c) && !"\"[]{}".contains(c)),
        };
        if depth <= 0 {
            // A number at the end may continue.
            return (at < text.len() || text[..at].ends_with(['"', ']', '}'])).then_some(at);
        }
    }
    None
}

/// Escapes control characters in the strings of JSON, or of its beginning: small models write plain line breaks. A backslash before one
/// becomes part of its escape, because it may have been streamed already.
pub(crate) fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut is_quoted = false;
    let mut letters = json.chars();
    while let Some(c) = letters.next() {
        let (slash, c) = match c {
            '\\' if is_quoted => match letters.next() {
                Some(next) => ("\\", next),
                None => ("", c),
            },
            c => ("", c),
        };
        if is_quoted && c < ' ' {
            let literal = quoted(c.encode_utf8(&mut [0; 4]));
            out.push_str(&literal[1..literal.len() - 1]);
        } else {
            is_quoted ^= c == '"' && slash.is_empty();
            out.push_str(slash);
            out.push(c);
        }
    }
    out
}

/// Returns a text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Parses JSON whose strings may have control characters.
pub(crate) fn parsed(json: &str) -> Option<Value> {
    serde_json::from_str(&escaped(json)).ok()
}
