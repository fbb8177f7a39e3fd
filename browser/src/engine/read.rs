//! JavaScript values as JSON. Numbers that JSON lacks, and deep nesting, are errors with the option's name.

use foretoken::internals::options::{GenerateOptions, LoadOptions};
use foretoken::internals::session::Prompt;
use foretoken::{Error, Result};
use js_sys::{Array, Number, Object};
use serde_json::{Map, Value};
use wasm_bindgen::prelude::*;

/// Maximum nesting of lists and objects; far below what overflows the stack of a WASM module.
const MAX_DEPTH: usize = 64;

pub(super) fn load_options(given: &JsValue) -> Result<LoadOptions> {
    LoadOptions::from_json(options(given)?)
}

pub(super) fn generate_options(given: &JsValue) -> Result<GenerateOptions> {
    GenerateOptions::from_json(options(given)?)
}

pub(super) fn prompt(given: &JsValue) -> Result<Prompt> {
    Prompt::from_json(read("prompt", given, 0)?)
}

fn options(given: &JsValue) -> Result<Value> {
    if !given.is_object() {
        return read("options", given, 0);
    }
    let fields = entries(given).map(|(name, value)| {
        let value = read(&name, &value, 0)?;
        Ok((name, value))
    });
    fields.collect::<Result<Map<_, _>>>().map(Value::Object)
}

/// Returns the names and values of an object.
fn entries(object: &JsValue) -> impl Iterator<Item = (String, JsValue)> + use<> {
    let entries = Object::entries(object.unchecked_ref()).into_iter().map(JsValue::unchecked_into::<Array>);
    entries.map(|entry| (entry.get(0).as_string().unwrap_or_default(), entry.get(1)))
}

fn read(option: &str, given: &JsValue, depth: usize) -> Result<Value> {
    let bad = |value: String, allowed: String| {
        let option = option.to_owned().into();
        Err(Error::BadOption { option, value, allowed })
    };
    if depth > MAX_DEPTH {
        return bad("deep nesting".into(), format!("lists and objects, nested at most {MAX_DEPTH} deep"));
    }
    if given.is_null() || given.is_undefined() {
        Ok(Value::Null)
    } else if let Some(value) = given.as_bool() {
        Ok(value.into())
    } else if let Some(text) = given.as_string() {
        Ok(text.into())
    } else if let Some(number) = given.as_f64() {
        if Number::is_safe_integer(given) {
            return Ok((number as i64).into());
        }
        let finite = serde_json::Number::from_f64(number).map(Value::Number);
        finite.map_or_else(|| bad(number.to_string(), "a finite number".into()), Ok)
    } else if let Ok(number) = i64::try_from(given.clone()) {
        // A BigInt.
        Ok(number.into())
    } else if let Ok(number) = u64::try_from(given.clone()) {
        Ok(number.into())
    } else if Array::is_array(given) {
        given.unchecked_ref::<Array>().iter().map(|item| read(option, &item, depth + 1)).collect()
    } else if given.is_object() {
        let fields = entries(given).map(|(name, value)| Ok((name, read(option, &value, depth + 1)?)));
        fields.collect::<Result<Map<_, _>>>().map(Value::Object)
    } else {
        bad(format!("{given:?}"), "values that JSON has".into())
    }
}
