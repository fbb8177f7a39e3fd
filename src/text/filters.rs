//! Jinja's filters, where minijinja lacks them or its own differ.

use minijinja::{
    Environment, Error, State, Value, filters,
    value::{Rest, ValueKind, ValueOrKwargs},
};

use super::python::{MAX_JSON, failure, methods, number, positional};

/// Adds them: arguments may be named, and the undefined value is an empty list.
pub(super) fn add_filters(environment: &mut Environment) {
    type Filter = fn(&mut State, &Value, &[Value]) -> Result<Value, Error>;
    let filters: [(&str, &'static [&'static str], Filter); 15] = [
        ("default", &["default_value", "boolean"], |state, value, args| {
            filters::default(state, value, Rest(args.to_vec()))
        }),
        ("d", &["default_value", "boolean"], |state, value, args| filters::default(state, value, Rest(args.to_vec()))),
        ("trim", &["chars"], |state, value, args| methods(state, &text(value), "strip", args)),
        ("replace", &["old", "new", "count"], |state, value, args| {
            let args: Vec<_> = args.iter().map(|arg| if arg.is_number() { arg.clone() } else { text(arg) }).collect();
            methods(state, &text(value), "replace", &args)
        }),
        ("string", &[], |_, value, _| Ok(text(value))),
        ("length", &[], |_, value, _| filters::length(&or_empty(value)).map(Value::from)),
        ("count", &[], |_, value, _| filters::length(&or_empty(value)).map(Value::from)),
        ("first", &[], |_, value, _| filters::first(&or_empty(value))),
        ("last", &[], |_, value, _| filters::last(or_empty(value))),
        ("items", &[], |_, value, _| if value.is_undefined() { Ok(or_empty(value)) } else { filters::items(value) }),
        ("wordcount", &[], |_, value, _| {
            Ok(text(value).as_str().unwrap_or_default().split_whitespace().count().into())
        }),
        ("center", &["width"], |state, value, args| {
            let width = args.first().cloned().unwrap_or(80.into());
            methods(state, &text(value), "center", &[width])
        }),
        ("truncate", &["length", "killwords", "end", "leeway"], |_, value, args| truncate(value, args)),
        ("percent", &[], |state, value, args| {
            let mut all = vec![value.clone()];
            match args {
                [tuple] if tuple.is_tuple() => all.extend(tuple.try_iter()?),
                args => all.extend(args.iter().cloned()),
            }
            state.apply_filter("format", &all)
        }),
        ("indent", &["width", "first", "blank"], |_, value, args| indent(value, args)),
    ];
    // Python's iterators are no sequences.
    environment.add_filter("map", |state: &mut State, value: Value, args: Rest<ValueOrKwargs>| {
        let items = filters::map(state, value, args)?;
        Ok::<_, Error>(Value::make_iterable(move || items.clone().into_iter()))
    });
    for (name, names, filter) in filters {
        environment.add_filter(name, move |state: &mut State, value: &Value, args: Rest<ValueOrKwargs>| {
            let args: Vec<_> = args.iter().map(|arg| Value::clone(arg)).collect();
            filter(state, value, &positional(&args, names)?)
        });
    }
}

/// Python's `str()`.
fn text(value: &Value) -> Value {
    match value.kind() {
        ValueKind::String => value.clone(),
        ValueKind::Number => number(value).into(),
        _ => value.to_string().into(),
    }
}

/// The value; an empty list in place of the undefined one.
fn or_empty(value: &Value) -> Value {
    if value.is_undefined() { Vec::<Value>::new().into() } else { value.clone() }
}

/// Shortens a text at a space, if it is longer than the length and the leeway.
fn truncate(value: &Value, args: &[Value]) -> Result<Value, Error> {
    let value = text(value);
    let whole = value.as_str().unwrap_or_default();
    let number = |place: usize, default| args.get(place).and_then(Value::as_usize).unwrap_or(default);
    let end = args.get(2).and_then(Value::as_str).unwrap_or("...");
    let (length, leeway) = (number(0, 255), number(3, 5));
    if whole.chars().count() <= length.saturating_add(leeway) {
        return Ok(value);
    }
    let Some(room) = length.checked_sub(end.chars().count()) else {
        return Err(failure(format!("truncate: the length is less than that of {end}")));
    };
    let start: String = whole.chars().take(room).collect();
    let cut = if args.get(1).is_some_and(Value::is_true) { None } else { start.rsplit_once(' ') };
    Ok(format!("{}{end}", cut.map_or(start.as_str(), |(before, _)| before)).into())
}

/// Indents a text by a number of spaces, or by a text; blank lines and the first one only if asked to.
fn indent(value: &Value, args: &[Value]) -> Result<Value, Error> {
    let with = match args.first() {
        Some(width) if width.as_str().is_some() => width.to_string(),
        width => " ".repeat(width.and_then(Value::as_usize).unwrap_or(4).min(MAX_JSON)),
    };
    let [first, blank] = [1, 2].map(|place| args.get(place).is_some_and(Value::is_true));
    let value = text(value);
    // As Python's `splitlines` after one more line break.
    let lines = value.as_str().unwrap_or_default().split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    let mut out = String::new();
    for (place, line) in lines.enumerate() {
        if place > 0 {
            out.push('\n');
        }
        if if place == 0 { first } else { blank || !line.is_empty() } {
            out.push_str(&with);
        }
        out.push_str(line);
    }
    Ok(out.into())
}
