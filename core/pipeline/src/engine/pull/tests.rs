//! Numbers and skipping, against the book.

use proptest::prelude::*;

use super::*;

fn float(text: &str) -> Option<f32> {
    Pull::whole(text.as_bytes(), Pull::float)
}

#[test]
fn numbers_are_what_json_has() {
    for (text, value) in [
        ("0", Some(0.0)),
        ("-0", Some(-0.0)),
        (" -0.5 ", Some(-0.5)),
        ("1e-5", Some(1e-5)),
        ("-1.5E+2", Some(-150.0)),
        ("16777217", Some(16_777_216.0)),
        // Next to the middle of two: a shortened reader errs here.
        ("0.50000002980232238", Some(0.5)),
        ("0.5000000298023225", Some(0.500_000_06)),
        ("1e39", Some(f32::INFINITY)),
        ("1e400", None),
        ("00.5", None),
        (".5", None),
        ("5.", None),
        ("-", None),
        ("+1", None),
        ("1e", None),
        ("NaN", None),
        ("Infinity", None),
        ("0x1", None),
        ("", None),
    ] {
        assert_eq!(float(text).map(f32::to_bits), value.map(f32::to_bits), "{text}");
    }
    for (text, value) in [
        ("0", Some(0)),
        ("151645", Some(151_645)),
        ("4294967295", Some(u32::MAX)),
        ("4294967296", None),
        ("18446744073709551617", None),
        ("-1", None),
        ("01", None),
        ("1.0", None),
        ("1e3", None),
        ("", None),
    ] {
        assert_eq!(Pull::whole(text.as_bytes(), Pull::integer), value, "{text}");
    }
}

#[test]
fn what_is_no_json_is_not_passed_over() {
    let whole = |text: &str| Pull::whole(text.as_bytes(), Pull::skip).is_some();
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    for good in [
        r#"{"a":[1,-2.5e3,"x\n\u00e9\"",{},[],null,true,false]}"#,
        " [ 1 , { \"a\" : 2 } ] ",
        "\"0123456789abcdef\u{e9}\u{7f} long\"",
        &nested(DEPTH as usize),
    ] {
        assert!(whole(good), "{good}");
        assert!(serde_json::from_str::<serde::de::IgnoredAny>(good).is_ok(), "{good}");
    }
    for bad in [
        "",
        "[",
        "[1,]",
        "[1 2]",
        "{,}",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "\"a",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"a\nb\"",
        "\"0123456789\t\"",
        "nul",
        "True",
        "01",
        "1 2",
        "]",
        "{]",
    ] {
        assert!(!whole(bad), "{bad}");
    }
    assert!(!whole(&nested(DEPTH as usize + 1)), "left to the other reader");
}

proptest! {
    #[test]
    fn floats_are_read_as_they_were_written(bits: u32, wide: f64, digits in "[0-9]{1,21}") {
        let value = f32::from_bits(bits);
        if value.is_finite() {
            // As Python writes a number that a tensor held, and in short.
            for text in [serde_json::json!(f64::from(value)).to_string(), format!("{value:e}")] {
                prop_assert_eq!(float(&text).map(f32::to_bits), Some(bits), "{}", text);
            }
        }
        for text in [format!("{wide:e}"), format!("-0.{digits}"), format!("7.{digits}")] {
            let exact = text.parse::<f64>().map(|wide| (wide as f32).to_bits());
            prop_assert_eq!(float(&text).map(f32::to_bits), exact.ok(), "{}", text);
        }
    }

    #[test]
    fn passes_over_what_serde_passes_over(text in r#"[\[\]{}",:\\a1-9.en \n]{0,12}"#) {
        let ours = Pull::whole(text.as_bytes(), Pull::skip).is_some();
        let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
        prop_assert!(theirs || !ours, "{}", text);
    }
}
