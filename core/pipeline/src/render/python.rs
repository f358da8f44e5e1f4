//! What chat templates expect of Python: how values print, `json.dumps`, string methods.
//!
//! The contract is byte-equality with what Hugging Face `transformers` renders, since every byte
//! becomes a prompt id.

use std::cmp::Ordering;

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State, Value};

use super::ready::Known;
use super::strftime;
use super::value::Integer;

/// Teaches an environment Python's ways.
pub(super) fn install(env: &mut Environment<'static>) {
    env.set_unknown_method_callback(method);
    env.set_formatter(print);
    env.add_filter("tojson", tojson);
    env.add_filter("string", |value: Value| display(&value));
    env.add_function("raise_exception", raise_exception);
    env.add_function("strftime_now", strftime_now);
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

/// The time comes from the render's `now`, in seconds since the epoch: nothing here reads a clock.
fn strftime_now(state: &State<'_, '_>, format: &str) -> Result<String, Error> {
    let now = state.lookup("now").and_then(|now| now.as_i64()).ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidOperation,
            "the template asks for the time (strftime_now): pin it with the template argument \
             `now`, in seconds since 1970",
        )
    })?;
    strftime::format(now, format).map_err(|error| Error::new(ErrorKind::InvalidOperation, error))
}

/// Methods that the Python-compatibility layer of the template engine does not have.
fn method(
    state: &State<'_, '_>,
    value: &Value,
    name: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let affix = || args.first().and_then(Value::as_str).unwrap_or("");
    match (value.as_str(), name) {
        (Some(text), "removeprefix") => Ok(text.strip_prefix(affix()).unwrap_or(text).into()),
        (Some(text), "removesuffix") => Ok(text.strip_suffix(affix()).unwrap_or(text).into()),
        _ => minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args),
    }
}

/// How `{{ value }}` prints.
fn print(out: &mut Output<'_>, _state: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    let text = match value.as_str() {
        Some(text) => return out.write_str(text).map_err(Error::from),
        None => display(value)?,
    };
    out.write_str(&text).map_err(Error::from)
}

/// Python's `str(value)`.
fn display(value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_owned());
    }
    let mut out = String::new();
    repr(value, &mut out)?;
    Ok(out)
}

/// Python's `repr(value)`.
fn repr(value: &Value, out: &mut String) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Undefined => {}
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => number(value, ["nan", "inf", "-inf"], out),
        ValueKind::String => repr_text(value.as_str().unwrap_or(""), out),
        ValueKind::Map => {
            out.push('{');
            for (at, key) in value.try_iter()?.enumerate() {
                out.push_str(if at == 0 { "" } else { ", " });
                repr(&key, out)?;
                out.push_str(": ");
                repr(&value.get_item(&key)?, out)?;
            }
            out.push('}');
        }
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            for (at, item) in value.try_iter()?.enumerate() {
                out.push_str(if at == 0 { "" } else { ", " });
                repr(&item, out)?;
            }
            out.push(']');
        }
        _ => out.push_str(&value.to_string()),
    }
    Ok(())
}

fn repr_text(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            c if (c as u32) < 0x20 || (0x7F..0xA1).contains(&(c as u32)) || c == '\u{AD}' => {
                out.push_str(&format!("\\x{:02x}", c as u32));
            }
            c => out.push(c),
        }
    }
    out.push(quote);
}

/// A number as Python writes it. `odd` are the spellings of not-a-number and the infinities.
fn number(value: &Value, odd: [&str; 3], out: &mut String) {
    if value.is_integer() {
        out.push_str(&value.to_string());
        return;
    }
    let float = f64::try_from(value.clone()).unwrap_or(f64::NAN);
    if float.is_nan() {
        return out.push_str(odd[0]);
    }
    if float.is_infinite() {
        return out.push_str(if float > 0.0 { odd[1] } else { odd[2] });
    }
    // Rust and Python agree on the shortest digits; they differ in when to use an exponent.
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        out.push_str(&format!("{float:?}"));
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        out.push_str(&format!("{digits}e{sign}{:02}", exponent.abs()));
    }
}

/// The arguments of `json.dumps` that templates use.
#[derive(PartialEq, Debug)]
pub(super) struct Dumps {
    ensure_ascii: bool,
    sort_keys: bool,
    /// What one level is indented by; `None` is one line.
    indent: Option<String>,
    between: String,
    after_key: String,
}

/// `json.dumps(value, ensure_ascii=False, …)`, as `transformers` defines it.
fn tojson(value: Value, positional: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let argument = |at: usize, name: &str| -> Result<Option<Value>, Error> {
        let found = match positional.get(at) {
            Some(value) => Some(value.clone()),
            None => named.get::<Option<Value>>(name)?,
        };
        Ok(found.filter(|value| !value.is_none() && !value.is_undefined()))
    };
    let truth = |value: Option<Value>| value.is_some_and(|value| value.is_true());
    let ensure_ascii = truth(argument(0, "ensure_ascii")?);
    let indent = argument(1, "indent")?.map(|value| match value.as_str() {
        Some(text) => text.to_owned(),
        None => " ".repeat(value.as_usize().unwrap_or(0)),
    });
    let (between, after_key) = match argument(2, "separators")? {
        Some(pair) => {
            (display(&pair.get_item_by_index(0)?)?, display(&pair.get_item_by_index(1)?)?)
        }
        None if indent.is_some() => (",".to_owned(), ": ".to_owned()),
        None => (", ".to_owned(), ": ".to_owned()),
    };
    let sort_keys = truth(argument(3, "sort_keys")?);
    named.assert_all_used()?;
    let dumps = Dumps { ensure_ascii, sort_keys, indent, between, after_key };
    let write = |dumps: &Dumps| {
        let mut out = String::new();
        dumps.write(&value, 0, &mut out)?;
        Ok(Value::from(out))
    };
    match value.downcast_object_ref::<Known>() {
        Some(known) => known.dumped(dumps, write),
        None => write(&dumps),
    }
}

impl Dumps {
    fn write(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => number(value, ["NaN", "Infinity", "-Infinity"], out),
            ValueKind::String => self.text(value.as_str().unwrap_or(""), out),
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort_keys {
                    keys.sort_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
                }
                self.frame(['{', '}'], keys.len(), depth, out, |at, out| {
                    self.key(&keys[at], out)?;
                    out.push_str(&self.after_key);
                    self.write(&value.get_item(&keys[at])?, depth + 1, out)
                })?;
            }
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.frame(['[', ']'], items.len(), depth, out, |at, out| {
                    self.write(&items[at], depth + 1, out)
                })?;
            }
            _ if value.downcast_object_ref::<Integer>().is_some() => {
                out.push_str(&value.to_string());
            }
            kind => {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    format!("tojson cannot write a value that is {kind}"),
                ));
            }
        }
        Ok(())
    }

    /// JSON keys are text; Python turns other keys into it.
    fn key(&self, key: &Value, out: &mut String) -> Result<(), Error> {
        if let Some(text) = key.as_str() {
            self.text(text, out);
            return Ok(());
        }
        let mut text = String::new();
        self.write(key, 0, &mut text)?;
        self.text(&text, out);
        Ok(())
    }

    fn frame(
        &self,
        brackets: [char; 2],
        count: usize,
        depth: usize,
        out: &mut String,
        mut item: impl FnMut(usize, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let line = |depth: usize, out: &mut String| {
            if let Some(indent) = &self.indent {
                out.push('\n');
                (0..depth).for_each(|_| out.push_str(indent));
            }
        };
        out.push(brackets[0]);
        for at in 0..count {
            out.push_str(if at == 0 { "" } else { &self.between });
            line(depth + 1, out);
            item(at, out)?;
        }
        if count > 0 {
            line(depth, out);
        }
        out.push(brackets[1]);
        Ok(())
    }

    fn text(&self, text: &str, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
                c if self.ensure_ascii && !(' '..='~').contains(&c) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}
