//! What values of a task, a hook or an evaluation make no sense, in words.

use std::collections::BTreeMap;

use super::Command;
use crate::limits::LONGEST;

pub(crate) fn filled(command: &Command, name: &str) -> Result<(), String> {
    let empty = match command {
        Command::Shell(text) => text.trim().is_empty(),
        Command::Argv(argv) => argv.first().is_none_or(String::is_empty),
    };
    if empty { Err(format!("`{name}` is empty")) } else { Ok(()) }
}

pub(crate) fn positive(seconds: Option<f64>, name: &str) -> Result<(), String> {
    let most = LONGEST.as_secs_f64();
    match seconds {
        Some(s) if !(s > 0.0 && s <= most) => {
            Err(format!("`{name}` must be over 0 and at most {most} seconds"))
        }
        _ => Ok(()),
    }
}

/// Paths inside a sandbox.
pub(crate) fn paths<'a>(
    paths: impl IntoIterator<Item = &'a String>,
    name: &str,
) -> Result<(), String> {
    let bad = |path: &&String| {
        path.is_empty() || path.contains('\0') || path.split('/').any(|part| part == "..")
    };
    match paths.into_iter().find(bad) {
        Some(path) => {
            Err(format!("path `{path}` of `{name}` may not hold `..` or NUL, nor be empty"))
        }
        None => Ok(()),
    }
}

/// Names of environment variables.
pub(crate) fn names(env: &BTreeMap<String, String>, name: &str) -> Result<(), String> {
    let bad = |name: &&String| name.is_empty() || name.contains(['=', '\0']);
    match env.keys().find(bad) {
        Some(key) => Err(format!("`{name}` holds a name that cannot be one: `{key}`")),
        None => Ok(()),
    }
}

pub(crate) fn url(url: &str, name: &str) -> Result<(), String> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let plain = |c: char| !c.is_whitespace() && !c.is_control();
    match rest {
        Some(rest) if !rest.is_empty() && !rest.starts_with('/') && url.chars().all(plain) => {
            Ok(())
        }
        _ => Err(format!("`{name}` must be a URL that begins with http:// or https://: {url:?}")),
    }
}

pub(crate) fn headers(headers: &BTreeMap<String, String>, name: &str) -> Result<(), String> {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    for (header, value) in headers {
        if header.is_empty() || !header.chars().all(token) {
            return Err(format!("`{name}` holds a name that cannot be one: `{header}`"));
        }
        if value.contains(['\r', '\n', '\0']) {
            return Err(format!("the value of `{header}` in `{name}` holds a line break or NUL"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_headers_are_what_they_say() {
        for good in ["http://127.0.0.1:1", "https://a.example/b?c=d"] {
            assert_eq!(url(good, "url"), Ok(()), "{good}");
        }
        for bad in ["", "a.example", "file:///x", "http://", "http:///x", "http://a b"] {
            assert!(url(bad, "url").is_err(), "{bad}");
        }
        let check = |name: &str, value: &str| {
            headers(&[(name.to_owned(), value.to_owned())].into(), "headers")
        };
        assert_eq!(check("X-Key", "a b"), Ok(()));
        assert!(check("X Key", "a").is_err() && check("X", "a\r\nY: z").is_err());
    }
}
