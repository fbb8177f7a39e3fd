//! Rewrites Jinja that minijinja lacks in the source of a chat template.

/// Rewrites five constructs that templates use.
///
/// - `{% generation %}` marks the assistant's text for training. It becomes `if true`, which has no effect either and keeps the whitespace
///   control.
/// - A sign without effect, as in `+3`, is removed.
/// - Python's formatting of a literal: `'%s' % x` becomes `'%s'|percent(x)`.
/// - A slice with a step: `x[a::-1]` becomes `x.slice(a,none,-1)`. Minijinja's slices differ from Python's and panic if `x` is empty.
/// - `loop.cycle(a, b)` becomes `loop.choose(a, b)`, because minijinja's `cycle` panics without arguments.
pub(super) fn translate(source: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(source.len()), source);
    while let Some(at) = rest.find('{') {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        rest = match after.get(..2) {
            Some("{#") => copy(after, "#}", &mut out),
            Some("{{") => expression(copy(after, "{{", &mut out), "}}", &mut out),
            Some("{%") => tag(copy(after, "{%", &mut out), &mut out),
            _ => copy(after, "{", &mut out),
        };
    }
    out + rest
}

/// Copies the text up to and including `last`, or all of it if `last` does not occur. Returns the rest.
fn copy<'a>(text: &'a str, last: &str, out: &mut String) -> &'a str {
    let (copied, rest) = text.split_at(text.find(last).map_or(text.len(), |at| at + last.len()));
    out.push_str(copied);
    rest
}

/// Copies a tag, starting after its `{%`. Returns the rest.
fn tag<'a>(text: &'a str, out: &mut String) -> &'a str {
    let named = text.trim_start_matches(['-', '+']).trim_start();
    let rest = named.trim_start_matches(is_word);
    let name = &named[..named.len() - rest.len()];
    let control = text[..text.len() - named.len()].trim_end();
    match name {
        "generation" => *out += &format!("{control} if true "),
        "endgeneration" => *out += &format!("{control} endif "),
        _ => out.push_str(&text[..text.len() - rest.len()]),
    }
    let after = expression(rest, "%}", out);
    if name != "raw" {
        return after;
    }
    let end = after.match_indices("{%").find(|(at, _)| {
        let tag = after[at + 2..].trim_start_matches(['-', '+']).trim_start();
        tag.starts_with("endraw")
    });
    let (raw, after) = after.split_at(end.map_or(after.len(), |(at, _)| at));
    out.push_str(raw);
    after
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Kind of the last token in an expression.
#[derive(PartialEq)]
enum Last {
    Operator,
    Operand,
    Literal,
}

/// Copies an expression up to and including `end`, ignoring `end` inside strings and brackets. Returns the rest.
fn expression<'a>(text: &'a str, end: &str, out: &mut String) -> &'a str {
    let (mut rest, mut depth, mut last) = (text, 0_usize, Last::Operator);
    while let Some(c) = rest.chars().next() {
        let is_end = |text: &str| text.trim_start_matches(['-', '+']).starts_with(end);
        if depth == 0 && rest.starts_with(end) {
            return copy(rest, end, out);
        }
        let mut length = c.len_utf8();
        let is_subscript = c == '[' && last != Last::Operator;
        if let Some((after, parts)) = is_subscript.then(|| slice_with_step(rest)).flatten() {
            *out += ".slice(";
            for (place, part) in parts.iter().enumerate() {
                *out += if place > 0 { "," } else { "" };
                expression(if part.trim().is_empty() { "none" } else { part }, end, out);
            }
            *out += ")";
            rest = after;
            last = Last::Operand;
            continue;
        }
        match c {
            '"' | '\'' => {
                length = quoted(rest);
                last = Last::Literal;
            }
            '+' if last == Last::Operator && !is_end(rest) => {
                rest = &rest[1..];
                continue;
            }
            '%' if last == Last::Literal && !is_end(rest) => {
                let from = rest[1..].trim_start();
                let operand = operand(from);
                *out += "|percent(";
                expression(operand, end, out);
                *out += ")";
                rest = &from[operand.len()..];
                last = Last::Operand;
                continue;
            }
            '(' | '[' | '{' => {
                depth += 1;
                last = Last::Operator;
            }
            ')' | ']' | '}' => {
                depth = depth.saturating_sub(1);
                last = Last::Operand;
            }
            _ if is_word(c) => {
                length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                let is_operator = ["and", "or", "not", "in", "is", "if", "else", "elif"].contains(&&rest[..length]);
                last = if is_operator { Last::Operator } else { Last::Operand };
                if &rest[..length] == "cycle" && out.ends_with("loop.") {
                    *out += "choose";
                    rest = &rest[length..];
                    continue;
                }
            }
            _ if c.is_whitespace() => {}
            _ => last = Last::Operator,
        }
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    rest
}

/// Returns the length of the string literal at the start of the text.
fn quoted(text: &str) -> usize {
    let mut chars = text.char_indices();
    let quote = chars.next().map(|(_, quote)| quote);
    while let Some((at, c)) = chars.next() {
        if Some(c) == quote {
            return at + c.len_utf8();
        }
        if c == '\\' {
            chars.next();
        }
    }
    text.len()
}

/// Returns the operand at the start of the text: a string, a word or brackets, with attributes, calls and filters.
fn operand(text: &str) -> &str {
    let mut at = text.len() - text.trim_start_matches(['-', '+']).len();
    loop {
        let rest = &text[at..];
        at += match rest.chars().next() {
            Some('"' | '\'') => quoted(rest),
            Some('(' | '[' | '{') => bracketed(rest),
            Some('.') => 1,
            Some(c) if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            _ => break,
        };
        let rest = &text[at..];
        let filter = rest.trim_start();
        match filter.strip_prefix('|') {
            Some(name) => at = text.len() - name.trim_start().len(),
            None if rest.starts_with(['.', '(', '[']) || text[..at].ends_with('.') => {}
            None => break,
        }
    }
    &text[..at]
}

/// Returns the three parts of the subscript at the start of the text and the text after it; `None` if it does not have three parts.
fn slice_with_step(text: &str) -> Option<(&str, [&str; 3])> {
    let (brackets, after) = text.split_at(bracketed(text));
    let inner = brackets.get(1..brackets.len() - 1)?;
    let (mut at, mut from, mut parts) = (0, 0, Vec::new());
    while let Some(c) = inner[at..].chars().next() {
        if c == ':' {
            parts.push(&inner[from..at]);
            from = at + 1;
        }
        at += match c {
            '"' | '\'' => quoted(&inner[at..]),
            '(' | '[' | '{' => bracketed(&inner[at..]),
            _ => c.len_utf8(),
        };
    }
    parts.push(&inner[from..]);
    Some((after, parts.try_into().ok()?))
}

/// Returns the length of the brackets at the start of the text, contents included.
fn bracketed(text: &str) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(c) = text[at..].chars().next() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        at += if matches!(c, '"' | '\'') { quoted(&text[at..]) } else { c.len_utf8() };
        if depth == 0 {
            break;
        }
    }
    at
}
