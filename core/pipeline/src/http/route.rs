//! Which call a request is, whose key it carries, which scene it names.
//!
//! `[/k/KEY][/scene/NAME][/v1]/CALL[?QUERY]`, in every spelling that base URLs lead to. No message
//! of this file repeats what was sent: any part of it may be a key.

use super::coding::Coding;
use super::{Method, RequestHead};
use crate::fault::{Fault, FaultKind};
use crate::id::SessionKey;
use crate::protocol::Dialect;
use crate::scene::Scene;

/// A call of the agents' port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call {
    /// `POST chat/completions`.
    Chat,
    /// `POST responses`.
    Responses,
    /// `POST responses/compact`.
    Compact,
    /// `POST messages`.
    Messages,
    /// `POST messages/count_tokens`.
    CountTokens,
    /// `GET models`.
    Models,
    /// `GET models/ID`.
    Model(String),
    /// `HEAD|GET /`, `/api/hello`: a sign of life.
    Hello,
    /// `GET /healthz`.
    Health,
    /// `OPTIONS` on any of these paths; the methods that it takes.
    Options(&'static str),
}

impl Call {
    /// The methods that it takes, besides `OPTIONS`; as a list and as a header has them.
    fn methods(&self) -> (&'static [Method], &'static str) {
        match self.asks() {
            true => (&[Method::Post], "POST, OPTIONS"),
            false => (&[Method::Get, Method::Head], "GET, HEAD, OPTIONS"),
        }
    }

    /// Whether it has a body that asks something of the model.
    pub fn asks(&self) -> bool {
        matches!(
            self,
            Call::Chat | Call::Responses | Call::Compact | Call::Messages | Call::CountTokens
        )
    }

    /// The dialect in which it is answered.
    pub fn dialect(&self) -> Dialect {
        match self {
            Call::Responses | Call::Compact => Dialect::Responses,
            Call::Messages | Call::CountTokens => Dialect::Messages,
            Call::Chat
            | Call::Models
            | Call::Model(_)
            | Call::Hello
            | Call::Health
            | Call::Options(_) => Dialect::Chat,
        }
    }
}

/// Where a request goes.
#[derive(Clone, PartialEq, Debug)]
pub struct Route {
    /// The call.
    pub call: Call,
    /// The key, where one was sent.
    pub key: Option<SessionKey>,
    /// The scene that the URL names.
    pub scene: Option<Scene>,
}

/// Routes a request; a fault comes with the dialect to answer it in.
pub fn route(head: &RequestHead) -> Result<Route, (Dialect, Fault)> {
    find(head).map_err(|fault| (guessed(head), fault))
}

/// The dialect of a request whose call has none, or that leads nowhere: by its path, else by the
/// header that every client of Anthropic's API sends.
pub fn guessed(head: &RequestHead) -> Dialect {
    let path = head.target.split(['?', '#']).next().unwrap_or_default();
    let called = |name: &str| path.split('/').any(|part| part == name);
    match () {
        () if called("messages") => Dialect::Messages,
        () if called("responses") => Dialect::Responses,
        () if called("completions") => Dialect::Chat,
        () if head.header("anthropic-version").is_some() => Dialect::Messages,
        () => Dialect::Chat,
    }
}

fn find(head: &RequestHead) -> Result<Route, Fault> {
    if head.upgrade {
        let why = "WebSocket is not spoken here; send the request as a plain HTTP POST";
        return Err(Fault::new(FaultKind::UpgradeRefused, why));
    }
    let path = Path::split(&head.target)?;
    let call = call(&path.call)?;
    let (methods, allow) = call.methods();
    if head.method == Method::Options {
        return Ok(Route { call: Call::Options(allow), key: None, scene: path.scene });
    }
    if !methods.contains(&head.method) {
        let want = if call.asks() { "POST" } else { "GET" };
        let why = format!("this path exists, but it takes {want} only");
        return Err(Fault { allow: Some(allow), ..Fault::new(FaultKind::WrongMethod, why) });
    }
    if call.asks() {
        Coding::of(head)?;
    }
    // A sign of life needs no key, so none is looked at.
    let key = match call {
        Call::Hello | Call::Health => None,
        _ => key(head, path.key)?,
    };
    Ok(Route { call, key, scene: path.scene })
}

/// A target, taken apart.
struct Path<'a> {
    key: Option<&'a str>,
    scene: Option<Scene>,
    call: Vec<&'a str>,
}

impl<'a> Path<'a> {
    fn split(target: &'a str) -> Result<Self, Fault> {
        let path = target.split(['?', '#']).next().unwrap_or_default();
        // Proxies may name the host in the target.
        let path = match path.split_once("://") {
            Some((_, rest)) => rest.find('/').map_or("", |at| &rest[at..]),
            None => path,
        };
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (key, parts) = match parts.as_slice() {
            ["k", key, rest @ ..] => (Some(*key), rest),
            all => (None, all),
        };
        let (scene, mut parts) = match parts {
            ["scene", name, rest @ ..] => {
                (Some(Scene::parse(name).ok_or_else(unknown_scene)?), rest)
            }
            all => (None, all),
        };
        while let ["v1", rest @ ..] = parts {
            parts = rest;
        }
        Ok(Self { key, scene, call: parts.to_vec() })
    }
}

fn call(parts: &[&str]) -> Result<Call, Fault> {
    match parts {
        [] | ["api", "hello"] => Ok(Call::Hello),
        ["healthz"] => Ok(Call::Health),
        ["chat", "completions"] => Ok(Call::Chat),
        ["responses"] => Ok(Call::Responses),
        ["responses", "compact"] => Ok(Call::Compact),
        ["messages"] => Ok(Call::Messages),
        ["messages", "count_tokens"] => Ok(Call::CountTokens),
        ["models"] => Ok(Call::Models),
        // Names of models hold slashes, encoded or not.
        ["models", name @ ..] => Ok(Call::Model(percent_decoded(&name.join("/")))),
        _ => Err(Fault::new(
            FaultKind::UnknownPath,
            "nothing is served at this path; served are POST chat/completions, POST responses, \
             POST responses/compact, POST messages, POST messages/count_tokens, GET models, GET \
             models/ID and GET healthz, each with or without /v1, after an optional /k/KEY and an \
             optional /scene/NAME",
        )),
    }
}

fn unknown_scene() -> Fault {
    let known: Vec<&str> = Scene::ALL.iter().map(|scene| scene.name()).collect();
    let why = format!("the URL names an unknown scene; known are {}", known.join(", "));
    Fault::new(FaultKind::UnknownPath, why)
}

/// The key, wherever it is. Empty header values are what clients send that were given no key.
fn key(head: &RequestHead, in_path: Option<&str>) -> Result<Option<SessionKey>, Fault> {
    let mut found = None;
    let in_headers = head.headers.iter().filter_map(|header| match header.name.as_str() {
        "authorization" => Some(credentials(&header.value)),
        "x-api-key" => Some(header.value.as_str()),
        _ => None,
    });
    for text in in_path.into_iter().chain(in_headers.filter(|text| !text.is_empty())) {
        let Some(key) = SessionKey::parse(text) else {
            return Err(wrong_key(
                "the key is not a session key (`rg-` and 32 hex digits); set the agent's API key \
                 to the session's key",
            ));
        };
        if found.as_ref().is_some_and(|other| *other != key) {
            return Err(wrong_key(
                "the request carries two different keys; send one, or one twice",
            ));
        }
        found = Some(key);
    }
    Ok(found)
}

fn wrong_key(why: &str) -> Fault {
    Fault::new(FaultKind::WrongKey, why)
}

/// What follows the scheme; the whole value under any scheme but `Bearer`, which is no key.
fn credentials(value: &str) -> &str {
    match value.split_once(' ') {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("bearer") => rest.trim(),
        None if value.eq_ignore_ascii_case("bearer") => "",
        _ => value,
    }
}

fn percent_decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&(mut byte), after)) = rest.split_first() {
        let digit = |at: usize| after.get(at).and_then(|&digit| char::from(digit).to_digit(16));
        (byte, rest) = match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => ((high * 16 + low) as u8, &after[2..]),
            _ => (byte, after),
        };
        out.push(byte);
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{Framing, Header};

    const KEY: &str = "rg-0123456789abcdef0123456789abcdef";
    const OTHER: &str = "rg-ffffffffffffffffffffffffffffffff";

    fn head(line: &str, fields: &[(&str, &str)]) -> RequestHead {
        let (method, target) = line.split_once(' ').unwrap();
        let method = match method {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "POST" => Method::Post,
            "OPTIONS" => Method::Options,
            _ => Method::Delete,
        };
        let header = |(name, value): &(&str, &str)| Header {
            name: (*name).to_owned(),
            value: (*value).to_owned(),
        };
        RequestHead {
            method,
            target: target.to_owned(),
            headers: fields.iter().map(header).collect(),
            framing: Framing::None,
            keep_alive: true,
            expect_continue: false,
            http10: false,
            upgrade: fields.iter().any(|(name, _)| *name == "upgrade"),
        }
    }

    fn check(line: &str, fields: &[(&str, &str)], want: &str) {
        let got = match route(&head(line, fields)) {
            Ok(Route { call, key, scene }) => {
                let key = key.map_or("no key", |key| if key.expose() == KEY { "key" } else { "?" });
                let scene = scene.map_or("no scene", Scene::name);
                format!("{call:?}, {key}, {scene}")
            }
            Err((_, fault)) => {
                assert!(!fault.message.contains("rg-0"), "{fault}");
                assert!(!fault.message.contains("rg-f"), "{fault}");
                fault.kind.label().to_owned()
            }
        };
        assert_eq!(got, want, "{line} {fields:?}");
    }

    #[test]
    fn l13_the_key_is_found_wherever_it_is() {
        let bearer = format!("Bearer {KEY}");
        let bare = "POST /v1/chat/completions";
        let with_key = "Chat, key, no scene";
        check(bare, &[], "Chat, no key, no scene");
        check(bare, &[("authorization", &bearer)], with_key);
        check(bare, &[("authorization", &format!("bearer   {KEY}"))], with_key);
        check(bare, &[("x-api-key", KEY)], with_key);
        check(bare, &[("x-api-key", KEY), ("authorization", &bearer)], with_key);
        check(bare, &[("authorization", "Bearer ")], "Chat, no key, no scene");
        check(bare, &[("authorization", "Bearer")], "Chat, no key, no scene");
        let in_path = format!("POST /k/{KEY}/v1/chat/completions");
        check(&in_path, &[], with_key);
        check(&in_path, &[("x-api-key", "")], with_key);
        check(&in_path, &[("authorization", &bearer)], with_key);

        check(&in_path, &[("x-api-key", OTHER)], "wrong_key");
        check(bare, &[("x-api-key", OTHER), ("authorization", &bearer)], "wrong_key");
        check(bare, &[("x-api-key", KEY), ("authorization", "Bearer dummy")], "wrong_key");
        check(bare, &[("authorization", &format!("Basic {KEY}"))], "wrong_key");
        check(bare, &[("authorization", KEY)], with_key);
        check(&format!("POST /k/{KEY}0/v1/chat/completions"), &[], "wrong_key");
    }

    #[test]
    fn l23_every_spelling_of_a_base_url_leads_there() {
        for prefix in ["", "/v1", "/v1/", "/v1/v1", "//v1", "/", "http://host:80/v1"] {
            check(&format!("POST {prefix}/chat/completions"), &[], "Chat, no key, no scene");
            check(&format!("GET {prefix}/models/?limit=1"), &[], "Models, no key, no scene");
        }
        let path = format!("POST /k/{KEY}/scene/title/v1/chat/completions/?beta=true");
        check(&path, &[], "Chat, key, title");
        check("POST /scene/subagent/chat/completions", &[], "Chat, no key, subagent");
    }

    #[test]
    fn l21_probes_are_answered() {
        check("HEAD /", &[], "Hello, no key, no scene");
        check("GET /", &[("authorization", "Bearer dummy")], "Hello, no key, no scene");
        check("GET /api/hello", &[], "Hello, no key, no scene");
        check("GET /healthz", &[], "Health, no key, no scene");
        check("GET /v1/models?client_version=1", &[], "Models, no key, no scene");
        let model = "Model(\"Qwen/Qwen3-8B\"), no key, no scene";
        check("GET /v1/models/Qwen/Qwen3-8B", &[], model);
        check("GET /v1/models/Qwen%2FQwen3-8B", &[], model);
        check("GET /v1/models/a%zz%2", &[], "Model(\"a%zz%2\"), no key, no scene");
        for path in ["GET /props", "GET /version", "POST /api/show"] {
            check(path, &[("authorization", "Bearer dummy")], "unknown_path");
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        check(&format!("GET /K/{KEY}/models"), &[], "unknown_path");
        check(&format!("POST /scene/{KEY}/chat/completions"), &[], "unknown_path");
        check("GET /v1/chat/completions", &[], "wrong_method");
        check("DELETE /v1/models", &[], "wrong_method");
        check("POST /healthz", &[], "wrong_method");
        for (line, allow) in
            [("GET /v1/messages", "POST, OPTIONS"), ("PUT /v1/models/x", "GET, HEAD, OPTIONS")]
        {
            let (_, fault) = route(&head(line, &[])).unwrap_err();
            assert_eq!(fault.allow, Some(allow), "{line}");
        }
        let (_, fault) = route(&head("POST /scene/x/models", &[])).unwrap_err();
        assert!(fault.message.contains("main, subagent, compaction"), "{fault}");
        let (_, fault) = route(&head("POST /v1/message", &[])).unwrap_err();
        assert!(fault.message.contains("POST chat/completions"), "{fault}");
    }

    #[test]
    fn whoever_asks_what_a_path_takes_needs_no_key() {
        let asked = [("access-control-request-method", "POST"), ("x-api-key", "dummy")];
        let posts = "Options(\"POST, OPTIONS\"), no key, no scene";
        check("OPTIONS /v1/messages", &asked, posts);
        check("OPTIONS /v1/models", &asked, "Options(\"GET, HEAD, OPTIONS\"), no key, no scene");
        check("OPTIONS /v1/nothing", &asked, "unknown_path");
    }

    #[test]
    fn faults_are_told_in_the_dialect_that_is_spoken() {
        let anthropic = [("anthropic-version", "2023-06-01")];
        let cases = [
            ("POST /v1/message", &[][..], Dialect::Chat),
            ("POST /v1/message", &anthropic[..], Dialect::Messages),
            ("POST /v1/messages/batches", &[][..], Dialect::Messages),
            ("GET /v1/messages?beta=true", &[][..], Dialect::Messages),
            ("GET /v1/responses/resp_1", &[][..], Dialect::Responses),
            ("GET /v1/chat/completions", &anthropic[..], Dialect::Chat),
            ("POST /scene/nonsense/v1/messages", &[][..], Dialect::Messages),
        ];
        for (line, fields, want) in cases {
            let (dialect, _) = route(&head(line, fields)).unwrap_err();
            assert_eq!(dialect, want, "{line} {fields:?}");
        }
    }

    #[test]
    fn l20_upgrades_are_refused_on_every_path() {
        for path in ["GET /v1/responses", "GET /", "GET /v1/chat/completions"] {
            check(path, &[("upgrade", "websocket")], "upgrade_refused");
        }
    }

    #[test]
    fn l06_codings_that_are_not_read_are_refused() {
        let cases = [
            ("identity", "Chat, no key, no scene"),
            ("", "Chat, no key, no scene"),
            ("gzip", "Chat, no key, no scene"),
            ("Deflate", "Chat, no key, no scene"),
            ("identity, ZSTD", "Chat, no key, no scene"),
            ("identity, br", "unsupported_encoding"),
            ("gzip, gzip", "unsupported_encoding"),
            ("foo", "unsupported_encoding"),
        ];
        for (coding, want) in cases {
            check("POST /chat/completions", &[("content-encoding", coding)], want);
        }
    }
}
