//! JSON bodies of any dialect: what is checked before a byte of meaning is read, and how faults
//! name their place.
//!
//! A byte order mark is skipped. Bytes that are not UTF-8, a second value, `NaN` and nesting of
//! [`JSON_DEPTH`] levels or more are refused, even in fields that nobody reads. Escapes of lone
//! surrogates become U+FFFD: agents that cut text in the middle of an emoji send them, and refusing
//! the request would end their run.

use std::borrow::Cow;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::fault::{Fault, FaultKind};
use crate::limits::JSON_DEPTH;

/// Reads a body of this type; a fault names line and column, or the field.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Fault> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    let text = std::str::from_utf8(body)
        .map_err(|error| bad_json(body, error.valid_up_to(), "these bytes are not UTF-8"))?;
    if text.trim_ascii().is_empty() {
        return Err(Fault::new(FaultKind::BadJson, "the request body is empty"));
    }
    let text = mended(text)?;
    let mut json = serde_json::Deserializer::from_str(&text);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let fault = of_serde(error.inner());
        if fault.kind == FaultKind::BadRequest && path != "." { fault.at(path) } else { fault }
    })?;
    json.end().map_err(|error| of_serde(&error))?;
    Ok(value)
}

/// Reads a part of a body that was read raw; a fault names the field below `place`.
pub(super) fn part<'de, T: Deserialize<'de>>(
    raw: &'de RawValue,
    place: impl fmt::Display,
) -> Result<T, Fault> {
    let mut json = serde_json::Deserializer::from_str(raw.get());
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let path = match path.as_str() {
            "." => place.to_string(),
            below if below.starts_with('[') => format!("{place}{below}"),
            below => format!("{place}.{below}"),
        };
        of_serde(error.inner()).at(path)
    })
}

/// Appends a value as JSON.
pub(super) fn write(out: &mut Vec<u8>, value: &impl Serialize) {
    // Neither memory nor our own types can fail to take or give what is written.
    let written = serde_json::to_writer(out, value);
    debug_assert!(written.is_ok(), "{written:?}");
}

/// A valid JSON text without white space between its values: every value as it is written.
pub(super) fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut quoted, mut escaped) = (false, false);
    for char in json.chars() {
        if quoted {
            quoted = escaped || char != '"';
            escaped = !escaped && char == '\\';
        } else if matches!(char, ' ' | '\t' | '\n' | '\r') {
            continue;
        } else {
            quoted = char == '"';
        }
        out.push(char);
    }
    out
}

/// Checks depth and mends lone surrogate escapes; `\ufffd` is as long as what it replaces.
pub(crate) fn mended(text: &str) -> Result<Cow<'_, str>, Fault> {
    let bytes = text.as_bytes();
    let mut lone = Vec::new();
    let (mut at, mut depth, mut in_string) = (0, 0_usize, false);
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => match unit(bytes, at - 1) {
                None => at += 1,
                Some(0xD800..=0xDBFF) if matches!(unit(bytes, at + 5), Some(0xDC00..=0xDFFF)) => {
                    at += 11;
                }
                Some(unit) => {
                    if (0xD800..=0xDFFF).contains(&unit) {
                        lone.push(at - 1);
                    }
                    at += 5;
                }
            },
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth >= JSON_DEPTH {
                    let why = format!("nested {JSON_DEPTH} levels deep or more");
                    return Err(bad_json(bytes, at - 1, &why));
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    if lone.is_empty() {
        return Ok(Cow::Borrowed(text));
    }
    let mut text = text.to_owned();
    for start in lone {
        text.replace_range(start..start + 6, "\\ufffd");
    }
    Ok(Cow::Owned(text))
}

/// The UTF-16 unit of the escape `\uXXXX` at this place, if there is one.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let hex = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    if !hex.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
}

/// A fault at this byte, told as line and column from 1.
fn bad_json(bytes: &[u8], at: usize, why: &str) -> Fault {
    let before = &bytes[..at];
    let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|&&byte| byte != b'\n').count() + 1;
    let why = format!("the request body is not JSON: {why} at line {line} column {column}");
    Fault::new(FaultKind::BadJson, why)
}

fn of_serde(error: &serde_json::Error) -> Fault {
    let what = without_text(&error.to_string());
    match error.classify() {
        serde_json::error::Category::Data => {
            Fault::new(FaultKind::BadRequest, format!("the request is not understood: {what}"))
        }
        _ => Fault::new(FaultKind::BadJson, format!("the request body is not JSON: {what}")),
    }
}

/// serde's message without the string that it quotes, which may be of a prompt.
fn without_text(message: &str) -> String {
    match (message.split_once(" string \""), message.rsplit_once("\", expected ")) {
        (Some((what, _)), Some((_, expected))) => format!("{what} string, expected {expected}"),
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn refused(body: &[u8]) -> String {
        let fault = read::<Value>(body).unwrap_err();
        assert_eq!(fault.kind, FaultKind::BadJson);
        fault.message
    }

    #[test]
    fn m01_lone_surrogates_become_replacement_characters() {
        let cases = [
            (r#""cut \ud83d""#, "cut \u{fffd}"),
            (r#""\ude00x""#, "\u{fffd}x"),
            (r#""\ud83d\ud83d""#, "\u{fffd}\u{fffd}"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (r#""\uD83D\uDE00""#, "\u{1f600}"),
            (r#""\\ud83d""#, "\\ud83d"),
            (r#""\\\ud83d""#, "\\\u{fffd}"),
            (r#""\ud83d\n""#, "\u{fffd}\n"),
        ];
        for (body, text) in cases {
            assert_eq!(read::<Value>(body.as_bytes()), Ok(Value::from(text)), "{body}");
        }
    }

    #[test]
    fn m02_deep_nesting_is_refused_even_where_nobody_reads() {
        #[derive(serde::Deserialize, PartialEq, Debug)]
        struct Empty {}
        let nested = |depth: usize| format!("{{\"x\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(read::<Empty>(nested(JSON_DEPTH - 2).as_bytes()).is_ok());
        assert!(read::<Value>(nested(JSON_DEPTH - 2).as_bytes()).is_ok());
        for depth in [JSON_DEPTH - 1, JSON_DEPTH, 100_000] {
            let fault = read::<Empty>(nested(depth).as_bytes()).unwrap_err();
            assert_eq!(fault.kind, FaultKind::BadJson);
            assert!(fault.message.contains("nested 128"), "{fault}");
        }
        let opaque = serde_json::to_vec(&"[".repeat(5_000)).unwrap();
        assert!(read::<Value>(&opaque).is_ok());
    }

    #[test]
    fn m03_not_a_number_is_refused() {
        for body in ["{\"t\": NaN}", "[-Infinity]", "[1e999]"] {
            refused(body.as_bytes());
        }
    }

    #[test]
    fn m04_invalid_utf8_is_refused_with_its_place() {
        assert!(refused(b"{\"a\":\n\"\xFF\"}").ends_with("line 2 column 2"));
    }

    #[test]
    fn m06_marks_blanks_and_trailing_bytes() {
        assert_eq!(read::<Value>(b"\xEF\xBB\xBF 1"), Ok(Value::from(1)));
        let blanks = format!("1{}", " ".repeat(100_000));
        assert_eq!(read::<Value>(blanks.as_bytes()), Ok(Value::from(1)));
        assert!(refused(b"{}{}").ends_with("line 1 column 3"));
        assert!(refused(b"").contains("empty"));
        assert!(refused(b" \n").contains("empty"));
        assert!(refused(b"{\n \"a\" 1}").ends_with("line 2 column 6"));
    }

    #[test]
    fn a_fault_quotes_no_text() {
        let fault = read::<Vec<u8>>(br#"["my \", expected secret"]"#).unwrap_err();
        assert_eq!((fault.kind, fault.param.as_deref()), (FaultKind::BadRequest, Some("[0]")));
        assert!(!fault.message.contains("secret"), "{fault}");
        assert!(fault.message.contains("expected u8"), "{fault}");
    }

    #[test]
    fn compacting_keeps_values_as_they_are_written() {
        let text = "{\r\n\t\"a b\" : [ 18446744073709551616 , 1.50 ,\n -0 ],\n \"q\\\"\\\\\" : \" x \" }\n";
        let want = r#"{"a b":[18446744073709551616,1.50,-0],"q\"\\":" x "}"#;
        assert_eq!(compact(text), want);
        assert_eq!(compact(want), want);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = read::<Value>(&body);
        }

        #[test]
        fn sound_json_is_never_changed(text in "[\\\\ud8DcC0-9f\"\\[\\{a\u{1f600}]{0,40}") {
            let body = serde_json::to_string(&text).unwrap();
            prop_assert!(matches!(mended(&body), Ok(Cow::Borrowed(_))));
            prop_assert_eq!(read::<String>(body.as_bytes()), Ok(text));
        }
    }
}
