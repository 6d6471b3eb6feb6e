//! Schemas: checks of a parsed value, put together from small ones.

use crate::errors::{Outcome, malformed};
use crate::json::Value;

/// A check of one value.
pub type Check<'a> = &'a dyn Fn(&Value) -> Outcome<()>;

/// The refusal of a value that is something else.
pub fn expected<T>(what: &str) -> Outcome<T> {
    malformed(format!("expected {what}"))
}

pub fn text(value: &Value) -> Outcome<()> {
    value.text().map_or_else(|| expected("text"), |_| Ok(()))
}

pub fn flag(value: &Value) -> Outcome<()> {
    if matches!(value, Value::Bool(_)) { Ok(()) } else { expected("true or false") }
}

pub fn number(value: &Value) -> Outcome<()> {
    if matches!(value, Value::Whole(_) | Value::Real(_)) { Ok(()) } else { expected("a number") }
}

pub fn whole(value: &Value) -> Outcome<()> {
    value.whole().map_or_else(|| expected("a whole number"), |_| Ok(()))
}

/// 64 lower-case hex digits.
pub fn key32(value: &Value) -> Outcome<()> {
    match value.text().and_then(from_hex) {
        Some(bytes) if bytes.len() == 32 => Ok(()),
        _ => expected("64 lower-case hex digits"),
    }
}

pub fn or_null(value: &Value, check: Check) -> Outcome<()> {
    if *value == Value::Null { Ok(()) } else { check(value) }
}

pub fn among(value: &Value, words: &[&str]) -> Outcome<()> {
    match value.text() {
        Some(word) if words.contains(&word) => Ok(()),
        _ => expected(&words.join(" or ")),
    }
}

pub fn list(value: &Value, check: Check) -> Outcome<()> {
    let Value::List(entries) = value else { return expected("a list") };
    entries.iter().try_for_each(check)
}

/// An object of these fields: all required ones, and no others than these and the optional ones.
pub fn object(value: &Value, required: &[(&str, Check)], optional: &[(&str, Check)]) -> Outcome<()> {
    let Value::Object(fields) = value else { return expected("an object") };
    for (name, _) in fields {
        if !required.iter().chain(optional).any(|(known, _)| known == name) {
            let shown: String = name.chars().take(80).collect();
            return malformed(format!("unknown field {shown}"));
        }
    }
    for (name, check) in required {
        match value.get(name) {
            Some(field) => check(field)?,
            None => return malformed(format!("the field {name} is missing")),
        }
    }
    for (name, check) in optional {
        value.get(name).map_or(Ok(()), check)?;
    }
    Ok(())
}

/// A whole number of an object's field, within these bounds.
pub fn bounded(value: &Value, name: &str, low: i128, high: i128) -> Outcome<u64> {
    match value.get(name).and_then(Value::whole) {
        Some(number) if low <= number && number <= high => Ok(number as u64),
        _ => expected(&format!("{name} from {low} to {high}")),
    }
}

/// Bytes of lower-case hex; none for any other spelling.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let bytes = text.as_bytes();
    if bytes.len() % 2 == 1 {
        return None;
    }
    bytes.chunks(2).map(|pair| Some(digit(pair[0])? * 16 + digit(pair[1])?)).collect()
}

/// Lower-case hex.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
