//! Python functions that chat templates use beyond Jinja, with the same output: `json.dumps`, `strftime`, string methods.

use minijinja::{
    Error, ErrorKind, State, Value,
    value::{Kwargs, Tuple, ValueKind},
};
use minijinja_contrib::pycompat::unknown_method_callback;

/// Maximum nesting depth of JSON. It is far from overflowing the stack of a WASM module.
const MAX_DEPTH: usize = 64;
/// Maximum size of JSON, in bytes.
pub(super) const MAX_JSON: usize = 4 << 20;
/// Last second of the year 9999.
const END_OF_TIME: i64 = 253_402_300_799;

/// Implements Python's `json.dumps` with the defaults of transformers: no escaping for HTML or ASCII.
pub(super) fn tojson(value: &Value, ensure_ascii: Option<bool>, options: Kwargs) -> Result<Value, Error> {
    let ensure_ascii = options.get::<Option<bool>>("ensure_ascii")?.or(ensure_ascii).unwrap_or(false);
    let indent = options.get::<Option<usize>>("indent")?.map(|indent| indent.min(16));
    let separators = options.get::<Option<Vec<String>>>("separators")?;
    let sort_keys = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    options.assert_all_used()?;
    let (item, key) = match separators.as_deref() {
        None => (if indent.is_some() { "," } else { ", " }, ": "),
        Some([item, key]) => (item.as_str(), key.as_str()),
        Some(_) => return Err(failure("tojson: separators must be two strings")),
    };
    let mut out = String::new();
    Json { ensure_ascii, indent, item, key, sort_keys }.write_value(&mut out, value, 0)?;
    Ok(Value::from(out))
}

struct Json<'a> {
    ensure_ascii: bool,
    indent: Option<usize>,
    item: &'a str,
    key: &'a str,
    sort_keys: bool,
}

impl Json<'_> {
    fn write_value(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH || out.len() > MAX_JSON {
            return Err(failure("tojson: too deep or too large"));
        }
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(&number(value)),
            ValueKind::String => self.write_str(out, value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                out.push('[');
                let mut empty = true;
                for item in value.try_iter()?.checked() {
                    self.next(out, &mut empty, depth);
                    self.write_value(out, &item?, depth + 1)?;
                }
                self.close(out, empty, depth, ']');
            }
            ValueKind::Map => {
                out.push('{');
                let mut keys = value.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?;
                if self.sort_keys {
                    keys.sort();
                }
                let mut empty = true;
                for key in keys {
                    self.next(out, &mut empty, depth);
                    self.write_str(out, &key.to_string());
                    out.push_str(self.key);
                    self.write_value(out, &value.get_item(&key)?, depth + 1)?;
                }
                self.close(out, empty, depth, '}');
            }
            kind => return Err(failure(format!("tojson: {kind} is not JSON"))),
        }
        Ok(())
    }

    fn next(&self, out: &mut String, empty: &mut bool, depth: usize) {
        if !std::mem::replace(empty, false) {
            out.push_str(self.item);
        }
        self.new_line(out, depth + 1);
    }

    fn close(&self, out: &mut String, empty: bool, depth: usize, bracket: char) {
        if !empty {
            self.new_line(out, depth);
        }
        out.push(bracket);
    }

    fn new_line(&self, out: &mut String, depth: usize) {
        if let Some(indent) = self.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    }

    fn write_str(&self, out: &mut String, text: &str) {
        let quoted = serde_json::Value::from(text).to_string();
        if !self.ensure_ascii {
            out.push_str(&quoted);
            return;
        }
        for c in quoted.chars() {
            if c.is_ascii() && c != '\x7F' {
                out.push(c);
            } else {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
            }
        }
    }
}

/// Formats a number like Python: floats with the fewest digits, and with an exponent from 1e16 on and below 1e-4.
pub(super) fn number(value: &Value) -> String {
    let Some(float) = f64::try_from(value.clone()).ok().filter(|float| float.is_finite() && !value.is_integer()) else {
        return value.to_string();
    };
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..16).contains(&exponent) => {
            format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
        }
        _ => format!("{float:?}"),
    }
}

/// Converts named arguments to positional ones. Functions of Jinja and Python accept both.
pub(super) fn positional(args: &[Value], names: &[&str]) -> Result<Vec<Value>, Error> {
    let Some((last, before)) = args.split_last().filter(|(last, _)| last.is_kwargs()) else {
        return Ok(args.to_vec());
    };
    let (named, mut found) = (Kwargs::try_from(last.clone())?, before.to_vec());
    for name in names.iter().skip(found.len()) {
        found.push(named.get::<Option<Value>>(name)?.unwrap_or_default());
    }
    named.assert_all_used()?;
    found.truncate(found.iter().rposition(|value| !value.is_undefined()).map_or(0, |last| last + 1));
    Ok(found)
}

/// Calls a method of a Python value: minijinja-contrib's methods with named arguments, and methods that it lacks and templates use.
pub(super) fn method(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let names: &[&str] = match method {
        "split" | "rsplit" => &["sep", "maxsplit"],
        "replace" => &["old", "new", "count"],
        "splitlines" => &["keepends"],
        // `format` and methods of mappings accept any names.
        _ => return methods(state, value, method, args),
    };
    methods(state, value, method, &positional(args, names)?)
}

pub(super) fn methods(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let list = |parts: Vec<&str>| Ok(Value::from(parts.into_iter().map(Value::from).collect::<Vec<_>>()));
    let tuple = |parts: [&str; 3]| Ok(Tuple::from(parts.map(Value::from)).into());
    match (method, args) {
        ("copy", []) => return Ok(value.clone()),
        ("slice", [start, stop, step]) => return slice(value, [start, stop, step]),
        ("choose", [_, ..]) => {
            let place = value.get_attr("index0")?.as_usize().unwrap_or(0);
            return Ok(args[place % args.len()].clone());
        }
        _ => {}
    }
    let Some(text) = value.as_str() else {
        return match (method, args) {
            ("index", [wanted]) if value.kind() == ValueKind::Seq => {
                let place = value.try_iter()?.checked().position(|item| item.is_ok_and(|item| item == *wanted));
                place.map(Value::from).ok_or_else(|| failure(format!("{wanted} is not in the list")))
            }
            _ => unknown_method_callback(state, value, method, args),
        };
    };
    let number = |place: usize| args.get(place).and_then(Value::as_usize);
    let spaces = |count: usize| " ".repeat(count);
    let missing = number(0).unwrap_or(0).min(MAX_JSON).saturating_sub(text.chars().count());
    match (method, args) {
        ("isdecimal", []) => Ok((!text.is_empty() && text.chars().all(char::is_numeric)).into()),
        ("rsplit", _) if args.first().is_none_or(|by| by.is_none() || by.is_undefined()) => {
            let (mut rest, mut parts) = (text.trim_end(), Vec::new());
            while let Some((before, part)) =
                rest.rsplit_once(char::is_whitespace).filter(|_| Some(parts.len()) != number(1))
            {
                parts.push(part);
                rest = before.trim_end();
            }
            parts.push(rest);
            parts.reverse();
            parts.retain(|part| !part.is_empty());
            list(parts)
        }
        ("ljust", [_]) => Ok(format!("{text}{}", spaces(missing)).into()),
        ("rjust", [_]) => Ok(format!("{}{text}", spaces(missing)).into()),
        ("center", [width]) => {
            let left = missing / 2 + (missing & width.as_usize().unwrap_or(0) & 1);
            Ok(format!("{}{text}{}", spaces(left), spaces(missing - left)).into())
        }
        ("zfill", [_]) => {
            let digits = text.trim_start_matches(['+', '-']);
            let (sign, zeros) = (&text[..text.len() - digits.len()], "0".repeat(missing));
            Ok(format!("{sign}{zeros}{digits}").into())
        }
        ("title", []) => {
            let mut out = String::new();
            for c in text.chars() {
                match out.chars().next_back().is_some_and(char::is_alphabetic) {
                    true => out.extend(c.to_lowercase()),
                    false => out.extend(c.to_uppercase()),
                }
            }
            Ok(out.into())
        }
        ("index" | "find", [wanted, rest @ ..]) if wanted.as_str().is_some() && rest.len() < 2 => {
            let (wanted, from) = (wanted.as_str().unwrap_or_default(), number(1).unwrap_or(0));
            let start = text.char_indices().nth(from).map_or(text.len(), |(at, _)| at);
            match text[start..].find(wanted).map(|at| text[..start + at].chars().count()) {
                Some(place) => Ok(place.into()),
                None if method == "find" => Ok((-1).into()),
                None => Err(failure(format!("{wanted} is not in the text"))),
            }
        }
        (_, [by, rest @ ..]) => {
            let Some(by) = by.as_str() else { return unknown_method_callback(state, value, method, args) };
            match (method, rest) {
                ("removeprefix", []) => Ok(text.strip_prefix(by).unwrap_or(text).into()),
                ("removesuffix", []) => Ok(text.strip_suffix(by).unwrap_or(text).into()),
                ("partition", []) if !by.is_empty() => {
                    tuple(text.split_once(by).map_or([text, "", ""], |(before, after)| [before, by, after]))
                }
                ("rpartition", []) if !by.is_empty() => {
                    tuple(text.rsplit_once(by).map_or(["", "", text], |(before, after)| [before, by, after]))
                }
                ("startswith" | "endswith" | "count", [start, rest @ ..]) if rest.len() < 2 => {
                    let none = Value::from(());
                    let part = slice(value, [start, rest.first().unwrap_or(&none), &none])?;
                    methods(state, &part, method, &args[..1])
                }
                ("rsplit", [..]) if !by.is_empty() && rest.len() < 2 => {
                    let most = number(1).map_or(usize::MAX, |most| most.saturating_add(1));
                    let mut parts: Vec<_> = text.rsplitn(most, by).collect();
                    parts.reverse();
                    list(parts)
                }
                _ => unknown_method_callback(state, value, method, args),
            }
        }
        _ => unknown_method_callback(state, value, method, args),
    }
}

/// Implements Python's `value[start:stop:step]`.
fn slice(value: &Value, parts: [&Value; 3]) -> Result<Value, Error> {
    let items: Vec<Value> = match value.kind() {
        ValueKind::String => value.as_str().unwrap_or_default().chars().map(Value::from).collect(),
        ValueKind::Seq | ValueKind::Iterable => value.try_iter()?.checked().collect::<Result<_, _>>()?,
        kind => return Err(failure(format!("{kind} cannot be sliced"))),
    };
    let [start, stop, step] =
        parts.map(|part| if part.is_none() { Ok(None) } else { i64::try_from(part.clone()).map(Some) });
    let (start, stop, step) = (start?, stop?, step?.unwrap_or(1));
    if step == 0 {
        return Err(failure("the step of a slice is 0"));
    }
    let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let (least, most) = if step < 0 { (-1, count - 1) } else { (0, count) };
    let (first, end) = if step < 0 { (most, least) } else { (least, most) };
    let place = |at: i64| if at < 0 { at.saturating_add(count).max(least) } else { at.min(most) };
    let (mut at, stop) = (start.map_or(first, place), stop.map_or(end, place));
    let mut picked = Vec::new();
    while if step < 0 { at > stop } else { at < stop } {
        picked.extend(usize::try_from(at).ok().and_then(|at| items.get(at)).cloned());
        at = at.saturating_add(step);
    }
    Ok(match value.kind() {
        ValueKind::String => picked.iter().map(Value::to_string).collect::<String>().into(),
        _ if value.is_tuple() => Tuple::new(picked).into(),
        _ => picked.into(),
    })
}

/// Implements Python's `strftime`, in UTC and English, for the codes that chat templates use.
pub(super) fn strftime(format: &str, now: i64) -> Result<String, Error> {
    const MONTHS: &str = "January February March April May June July August September October November December";
    const DAYS: &str = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday";
    let name = |names: &'static str, index: i64| names.split(' ').nth(index as usize).unwrap_or_default();
    let short = |name: &str| name[..3].to_owned();
    let now = now.clamp(0, END_OF_TIME);
    let (days, seconds) = (now / 86_400, now % 86_400);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let (year, month, day, day_of_year) = civil(days);
    // The first day was a Thursday.
    let weekday = (days + 4) % 7;
    let (month_name, day_name) = (name(MONTHS, month - 1), name(DAYS, weekday));
    let (mut out, mut rest) = (String::new(), format.chars());
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut code = rest.next();
        let padded = code != Some('-');
        if !padded {
            code = rest.next();
        }
        let two = |number: i64| if padded { format!("{number:02}") } else { number.to_string() };
        out += &match code {
            Some('Y') => year.to_string(),
            Some('y') => two(year % 100),
            Some('m') => two(month),
            Some('d') => two(day),
            Some('e') => format!("{day:2}"),
            Some('B') => month_name.to_owned(),
            Some('b' | 'h') => short(month_name),
            Some('A') => day_name.to_owned(),
            Some('a') => short(day_name),
            Some('H') => two(hour),
            Some('I') => two((hour + 11) % 12 + 1),
            Some('p') => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            Some('M') => two(minute),
            Some('S') => two(second),
            Some('F') => strftime("%Y-%m-%d", now)?,
            Some('T' | 'X') => strftime("%H:%M:%S", now)?,
            Some('j') => format!("{:03}", day_of_year + 1),
            Some('D' | 'x') => strftime("%m/%d/%y", now)?,
            Some('R') => strftime("%H:%M", now)?,
            Some('c') => strftime("%a %b %e %T %Y", now)?,
            Some('w') => weekday.to_string(),
            Some('u') => ((weekday + 6) % 7 + 1).to_string(),
            Some('U') => two((day_of_year + 7 - weekday) / 7),
            Some('s') => now.to_string(),
            Some('Z') => "UTC".to_owned(),
            Some('z') => "+0000".to_owned(),
            Some('%') => "%".to_owned(),
            other => return Err(failure(format!("strftime_now: %{} is not known", other.unwrap_or(' ')))),
        };
    }
    Ok(out)
}

/// Returns year, month (from 1), day of the month (from 1) and day of the year (from 0) for a day counted from 1970-01-01.
fn civil(days: i64) -> (i64, i64, i64, i64) {
    let (mut year, mut day_of_year) = (1970, days);
    let length = |year: i64| 365 + i64::from(year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
    while day_of_year >= length(year) {
        day_of_year -= length(year);
        year += 1;
    }
    let (mut month, mut day) = (1, day_of_year);
    for length in [31, length(year) - 337, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    (year, month, day + 1, day_of_year)
}

pub(super) fn failure(reason: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason.into())
}
