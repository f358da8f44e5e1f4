//! Which call a request is, whose key it carries, which scene it names.
//!
//! `[/k/KEY][/scene/NAME][/v1]/CALL[?QUERY]`, in every spelling that base URLs lead to. No message
//! of this file repeats what was sent: any part of it may be a key.

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
    /// `GET models`.
    Models,
    /// `GET models/ID`.
    Model(String),
    /// `HEAD|GET /`, `/api/hello`: a sign of life.
    Hello,
    /// `GET /healthz`.
    Health,
}

impl Call {
    /// The methods that it takes.
    fn methods(&self) -> &'static [Method] {
        match self {
            Call::Chat => &[Method::Post],
            Call::Models | Call::Model(_) => &[Method::Get],
            Call::Hello | Call::Health => &[Method::Get, Method::Head],
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
    // The one dialect so far; calls of others will choose theirs by path.
    find(head).map_err(|fault| (Dialect::Chat, fault))
}

fn find(head: &RequestHead) -> Result<Route, Fault> {
    if head.upgrade {
        let why = "WebSocket is not spoken here; send the request as a plain HTTP POST";
        return Err(Fault::new(FaultKind::UpgradeRefused, why));
    }
    let path = Path::split(&head.target)?;
    let call = call(&path.call)?;
    if !call.methods().contains(&head.method) {
        let want = if call == Call::Chat { "POST" } else { "GET" };
        let why = format!("this path exists, but it takes {want} only");
        return Err(Fault::new(FaultKind::WrongMethod, why));
    }
    if call == Call::Chat {
        plain_body(head)?;
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
        ["models"] => Ok(Call::Models),
        // Names of models hold slashes, encoded or not.
        ["models", name @ ..] => Ok(Call::Model(percent_decoded(&name.join("/")))),
        _ => Err(Fault::new(
            FaultKind::UnknownPath,
            "nothing is served at this path; served are POST chat/completions, GET models, GET \
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

/// Refuses a compressed body.
fn plain_body(head: &RequestHead) -> Result<(), Fault> {
    let plain = head
        .headers
        .iter()
        .filter(|header| header.name == "content-encoding")
        .flat_map(|header| header.value.split(','))
        .all(|coding| matches!(coding.trim().to_ascii_lowercase().as_str(), "" | "identity"));
    if plain {
        return Ok(());
    }
    Err(Fault::new(
        FaultKind::UnsupportedEncoding,
        "compressed request bodies are not read; turn request compression off in the agent",
    ))
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
