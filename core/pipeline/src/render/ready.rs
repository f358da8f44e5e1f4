//! Tools in the form in which they are rendered, made once for all the renders that show them.
//!
//! A template reads them as it reads any list of objects. What it makes of one with `tojson` is kept
//! beside it, since that is most of what a first turn renders.

use std::fmt;
use std::sync::{Arc, OnceLock};

use minijinja::value::{Enumerator, Object, ObjectRepr};
use minijinja::{Error, Value};

use super::control::{ControlTexts, Guard};
use super::harmony;
use super::python::Dumps;
use super::value;
use crate::exact;
use crate::turn::Tool;

/// The tools of a request, and their ready form where there is one.
#[derive(Clone, Copy)]
pub(super) struct Offer<'a> {
    pub tools: &'a [Tool],
    pub ready: Option<&'a ReadyTools>,
}

impl<'a> Offer<'a> {
    /// Tools whose ready form is not at hand.
    pub fn of(tools: &'a [Tool]) -> Self {
        Self { tools, ready: None }
    }
}

/// Tools as the renderer wants them, guarded by the guard that is tried first.
#[derive(Debug)]
pub(super) struct ReadyTools {
    /// For a template.
    value: Value,
    /// For the format that is written in code.
    namespace: Option<String>,
    placed: bool,
    sentinel: bool,
    /// About how much memory it takes, in bytes.
    pub bytes: usize,
}

/// What all sentinels of a turn's end begin with.
pub(super) const SENTINEL: &str = "end-of-turn-";

impl ReadyTools {
    /// `None` where that guard would collide.
    pub fn new(tools: &[Tool], texts: Option<&ControlTexts>, in_code: bool) -> Option<Self> {
        let guard = Guard::new(texts, 0);
        let (mut namespace, mut value) = (None, Value::from(()));
        match in_code {
            true => namespace = Some(harmony::namespace(tools, &guard)),
            false => value = known_list(tools, &guard),
        }
        if guard.collided() {
            return None;
        }
        let sizes: Vec<usize> = tools.iter().map(size).collect();
        let sentinel = tools.iter().any(|tool| tool.to_string().contains(SENTINEL));
        // As they came, as values, and as text.
        let bytes = 4 * sizes.iter().sum::<usize>();
        Some(Self { value, namespace, placed: guard.placed(), sentinel, bytes })
    }

    /// The list, for a render with this guard.
    pub fn value(&self, guard: &Guard<'_>) -> Value {
        guard.take_in(self.placed);
        self.value.clone()
    }

    /// The namespace, for a render with this guard.
    pub fn namespace(&self, guard: &Guard<'_>) -> Option<&str> {
        guard.take_in(self.placed);
        self.namespace.as_deref()
    }

    /// Whether their text has the beginning of a sentinel in it.
    pub fn mentions_sentinel(&self) -> bool {
        self.sentinel
    }
}

/// About how many bytes a value takes.
fn size(value: &serde_json::Value) -> usize {
    const EACH: usize = 48;
    use serde_json::Value as Json;
    EACH + match value {
        Json::String(text) => text.len(),
        Json::Array(items) => items.iter().map(size).sum(),
        Json::Object(map) => map.iter().map(|(key, value)| key.len() + EACH + size(value)).sum(),
        _ => 0,
    }
}

/// Whether two JSON values are written alike: names in one order, numbers in one spelling.
pub(super) fn written_alike(one: &serde_json::Value, other: &serde_json::Value) -> bool {
    use serde_json::Value as Json;
    match (one, other) {
        (Json::Object(one), Json::Object(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|((name, value), (other_name, other_value))| {
                    name == other_name && written_alike(value, other_value)
                })
        }
        (Json::Array(one), Json::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| written_alike(a, b))
        }
        (Json::Number(one), Json::Number(other)) => one.to_string() == other.to_string(),
        (one, other) => one == other,
    }
}

fn known_list(tools: &[Tool], guard: &Guard<'_>) -> Value {
    let list: Vec<Value> =
        tools.iter().map(|tool| Known::object(known_tool(tool, guard))).collect();
    Known::object(list.into())
}

/// A tool; its function is known by itself, since some templates write no more than that.
fn known_tool(tool: &Tool, guard: &Guard<'_>) -> Value {
    let Some(map) = tool.as_object().filter(|map| exact::digits(map).is_none()) else {
        return value::from_json(tool, guard);
    };
    let part = |(name, value): (&String, &serde_json::Value)| {
        let value = value::from_json(value, guard);
        let value = if name == "function" { Known::object(value) } else { value };
        (Value::from(guard.apply(name).as_ref()), value)
    };
    map.iter().map(part).collect()
}

/// A list or an object that keeps what `tojson` makes of it.
#[derive(Debug)]
pub(super) struct Known {
    inner: Value,
    /// The first form that was asked for.
    json: OnceLock<(Dumps, Value)>,
}

impl Known {
    fn object(inner: Value) -> Value {
        match inner.as_object().map(|object| object.repr()) {
            Some(ObjectRepr::Map | ObjectRepr::Seq) => {
                Value::from_object(Self { inner, json: OnceLock::new() })
            }
            _ => inner,
        }
    }

    /// What `tojson` makes of it.
    pub fn dumped(
        &self,
        form: Dumps,
        write: impl FnOnce(&Dumps) -> Result<Value, Error>,
    ) -> Result<Value, Error> {
        if let Some((known, text)) = self.json.get()
            && *known == form
        {
            return Ok(text.clone());
        }
        let text = write(&form)?;
        // Another form than the first is not kept.
        let _ = self.json.set((form, text.clone()));
        Ok(text)
    }
}

/// All is as with the value that it stands for.
impl Object for Known {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        self.inner.as_object().map_or(ObjectRepr::Plain, |inner| inner.repr())
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.inner.as_object()?.get_value(key)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.inner.as_object()?.get_value_by_str(key)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.inner.as_object().map_or(Enumerator::NonEnumerable, |inner| inner.enumerate())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        self.inner.as_object()?.enumerator_len()
    }

    fn is_true(self: &Arc<Self>) -> bool {
        self.inner.is_true()
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}
