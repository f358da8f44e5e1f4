//! JSON in one spelling.

use serde_json::Value;

/// Arguments in one spelling: keys sorted, no spaces, whole numbers without fraction. Text that is
/// not JSON stands for itself.
pub(super) fn canonical_arguments(arguments: &str) -> String {
    match serde_json::from_str::<Value>(arguments) {
        // A number beyond what is read exactly must not make two calls equal.
        Ok(_) if has_long_number(arguments) => arguments.trim().to_owned(),
        Ok(value) => {
            let mut out = String::with_capacity(arguments.len());
            write_canonical(&value, &mut out);
            out
        }
        Err(_) if arguments.trim().is_empty() => "{}".to_owned(),
        Err(_) => arguments.trim().to_owned(),
    }
}

fn has_long_number(text: &str) -> bool {
    text.as_bytes()
        .chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit())
        .any(|run| run.len() > LONG_NUMBER_DIGITS && run[0].is_ascii_digit())
}

/// Numbers of up to this many digits survive a 64-bit float.
const LONG_NUMBER_DIGITS: usize = 15;

pub(super) fn write_canonical(value: &Value, out: &mut String) {
    match value {
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
            Some(float) if float.fract() == 0.0 && float.abs() < 9e15 => {
                out.push_str(&(float as i64).to_string());
            }
            _ => out.push_str(&number.to_string()),
        },
        other => out.push_str(&other.to_string()),
    }
}
