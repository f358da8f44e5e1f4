//! JSON in one spelling.

use serde_json::Value;

use crate::exact;

/// Arguments in one spelling: keys sorted, no spaces, whole numbers without fraction. Integers count
/// digit by digit, however long; fractions as the 64-bit floats that agents read them as. Text that
/// is not JSON stands for itself.
pub(super) fn canonical_arguments(arguments: &str) -> String {
    match exact::read(arguments) {
        Some(value) => {
            let mut out = String::with_capacity(arguments.len());
            write_canonical(&value, &mut out);
            out
        }
        None if arguments.trim().is_empty() => "{}".to_owned(),
        None => arguments.trim().to_owned(),
    }
}

pub(super) fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) if exact::digits(map).is_some() => {
            out.push_str(exact::digits(map).unwrap_or_default());
        }
        Value::Object(map) => {
            let mut keys: Vec<_> = map.keys().collect();
            keys.sort_unstable();
            out.push('{');
            for key in keys {
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_canonical(&map[key], out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write_canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9e15 => {
                out.push_str(&(float as i64).to_string());
            }
            _ => out.push_str(&number.to_string()),
        },
        other => out.push_str(&other.to_string()),
    }
}
