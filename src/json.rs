//! JSON parsing that keeps all digits of integers; `serde_json::Value` would round those beyond 64 bits.

use serde_json::Value;

/// Prefix of a string that holds the digits of an integer: a private-use character, which normal text does not begin with.
const DIGITS: char = '\u{F8FF}';

/// Parses JSON. An integer beyond 64 bits becomes a string that [`integer`] reads.
///
/// # Errors
/// The parser's error, if the text is not JSON.
pub fn parse(text: &str) -> serde_json::Result<Value> {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    let (mut quoted, mut escaped) = (false, false);
    while let Some(c) = rest.chars().next() {
        let mut length = c.len_utf8();
        if quoted {
            quoted = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else if c == '-' || c.is_ascii_digit() {
            length = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c)).unwrap_or(rest.len());
            let number = &rest[..length];
            let digits = number.trim_start_matches('-');
            let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
            if is_integer && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
                out.extend(['"', DIGITS]);
                out.push_str(number);
                out.push('"');
                rest = &rest[length..];
                continue;
            }
        } else {
            quoted = c == '"';
        }
        let (token, after) = rest.split_at(length);
        out.push_str(token);
        rest = after;
    }
    serde_json::from_str(&out)
}

/// Returns the digits of an integer beyond 64 bits, if the string holds one.
pub(crate) fn integer(text: &str) -> Option<&str> {
    text.strip_prefix(DIGITS)
}
