//! Jinja's filters and tests: minijinja's, and replacements for missing or different ones.

use minijinja::{
    Environment, Error, State, Value, filters, functions, tests,
    value::{Rest, ValueKind, ValueOrKwargs},
};

use super::python::{MAX_JSON, failure, methods, number, positional};

/// Maximum number of items, equal to the limit of minijinja's `range`.
const MAX_ITEMS: usize = 100_000;

/// Adds the built-ins that minijinja shares with Python's Jinja. Templates cannot use its other ones, which would only enlarge the module
/// that pages load.
pub(super) fn add_builtins(environment: &mut Environment) {
    macro_rules! add {
        ($add:ident, $($names:expr => $function:path),*) => { $(for name in $names { environment.$add(name, $function); })* };
    }
    add!(
        add_filter,
        ["abs"] => filters::abs,
        ["attr"] => filters::attr,
        ["capitalize"] => filters::capitalize,
        ["dictsort"] => filters::dictsort,
        ["escape", "e"] => filters::escape,
        ["format"] => filters::format,
        ["groupby"] => filters::groupby,
        ["join"] => filters::join,
        ["list"] => filters::list,
        ["lower"] => filters::lower,
        ["max"] => filters::max,
        ["min"] => filters::min,
        ["pprint"] => filters::pprint,
        ["reject"] => filters::reject,
        ["rejectattr"] => filters::rejectattr,
        ["reverse"] => filters::reverse,
        ["round"] => filters::round,
        ["safe"] => filters::safe,
        ["select"] => filters::select,
        ["selectattr"] => filters::selectattr,
        ["sort"] => filters::sort,
        ["sum"] => filters::sum,
        ["title"] => filters::title,
        ["unique"] => filters::unique,
        ["upper"] => filters::upper
    );
    add!(
        add_test,
        ["boolean"] => tests::is_boolean,
        ["defined"] => tests::is_defined,
        ["even"] => tests::is_even,
        ["filter"] => tests::is_filter,
        ["float"] => tests::is_float,
        ["in"] => tests::is_in,
        ["integer"] => tests::is_integer,
        ["lower"] => tests::is_lower,
        ["mapping"] => tests::is_mapping,
        ["none"] => tests::is_none,
        ["number"] => tests::is_number,
        ["odd"] => tests::is_odd,
        ["sameas"] => tests::is_sameas,
        ["string"] => tests::is_string,
        ["test"] => tests::is_test,
        ["true"] => tests::is_true,
        ["false"] => tests::is_false,
        ["undefined"] => tests::is_undefined,
        ["upper"] => tests::is_upper,
        ["==", "eq", "equalto"] => tests::is_eq,
        ["!=", "ne"] => tests::is_ne,
        ["<", "lt", "lessthan"] => tests::is_lt,
        ["<=", "le"] => tests::is_le,
        [">", "gt", "greaterthan"] => tests::is_gt,
        [">=", "ge"] => tests::is_ge,
        ["escaped"] => tests::is_safe
    );
    environment.add_function("namespace", functions::namespace);
    environment.add_function("range", functions::range);
}

/// Adds the other filters. They accept named arguments. Filters of lists treat an undefined value as an empty list.
pub(super) fn add_filters(environment: &mut Environment) {
    type Filter = fn(&mut State, &Value, &[Value]) -> Result<Value, Error>;
    let filters: [(&str, &'static [&'static str], Filter); 17] = [
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
        ("int", &["default", "base"], |_, value, args| Ok(int(value, args))),
        ("float", &["default"], |_, value, args| {
            Ok(float(value).map_or_else(|| given(args).unwrap_or(0.0.into()), Value::from))
        }),
    ];
    type Listing = fn(&State, Value, usize, Option<Value>) -> Result<Value, Error>;
    for (name, filter) in [("batch", filters::batch as Listing), ("slice", filters::slice)] {
        environment.add_filter(name, move |state: &State, value: Value, count: usize, fill: Option<Value>| {
            if count > MAX_ITEMS { Err(failure("too many items")) } else { filter(state, value, count, fill) }
        });
    }
    environment.add_test("divisibleby", |value: &Value, by: &Value| match *by == Value::from(0) {
        true => Err(failure("divisibleby: division by zero")),
        false => Ok(tests::is_divisibleby(value, by)),
    });
    // Iterators are not sequences in Python.
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

/// Implements Python's `str()`.
fn text(value: &Value) -> Value {
    match value.kind() {
        ValueKind::String => value.clone(),
        ValueKind::Number => number(value).into(),
        _ => value.to_string().into(),
    }
}

fn or_empty(value: &Value) -> Value {
    if value.is_undefined() { Vec::<Value>::new().into() } else { value.clone() }
}

/// Implements Python's `int()`. Returns the default if the value is not a number.
fn int(value: &Value, args: &[Value]) -> Value {
    let base = args.get(1).and_then(Value::as_usize).filter(|base| (2..=36).contains(base)).unwrap_or(10);
    let text = value.as_str().unwrap_or_default().trim();
    let prefix = [(2, "0b"), (8, "0o"), (16, "0x")].into_iter().find(|(of, _)| *of == base);
    let digits = prefix.and_then(|(_, prefix)| text.strip_prefix(prefix)).unwrap_or(text);
    match i128::from_str_radix(digits, u32::try_from(base).unwrap_or(10)) {
        Ok(int) => int.into(),
        Err(_) if value.is_integer() => value.clone(),
        Err(_) => float(value)
            .and_then(|float| i128::try_from(Value::from(float.trunc())).ok())
            .map_or_else(|| given(args).unwrap_or(0.into()), Value::from),
    }
}

/// Returns the first argument if it is set. It can be undefined if a later argument is passed by name.
fn given(args: &[Value]) -> Option<Value> {
    args.first().filter(|value| !value.is_undefined()).cloned()
}

fn float(value: &Value) -> Option<f64> {
    match value.kind() {
        ValueKind::String => value.as_str().and_then(|text| text.trim().parse().ok()),
        ValueKind::Bool => Some(value.is_true().into()),
        _ => f64::try_from(value.clone()).ok(),
    }
}

/// Shortens a text at a space if it is longer than `length` plus `leeway`.
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

/// Indents a text by a number of spaces or by a string. Blank lines and the first line are indented only on request.
fn indent(value: &Value, args: &[Value]) -> Result<Value, Error> {
    let with = match args.first() {
        Some(width) if width.as_str().is_some() => width.to_string(),
        width => " ".repeat(width.and_then(Value::as_usize).unwrap_or(4).min(MAX_JSON)),
    };
    let [first, blank] = [1, 2].map(|place| args.get(place).is_some_and(Value::is_true));
    let value = text(value);
    // Equivalent to Python's `splitlines` after appending a line break.
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
