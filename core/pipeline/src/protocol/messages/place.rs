//! Where in a request something stands, and reading what stands there.
//!
//! Blocks are read one by one as the type says that each names, so that fields of types that nobody
//! knows are never looked at.

use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::fault::{Fault, FaultKind};
use crate::protocol::json;

/// A path such as `messages[3].content[0]`.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    above: Option<&'a Place<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

impl<'a> Place<'a> {
    /// A field of the body.
    pub(super) fn top(key: &'a str) -> Self {
        Self { above: None, step: Step::Key(key) }
    }

    /// A field of what stands here.
    pub(super) fn key(&'a self, key: &'a str) -> Self {
        Self { above: Some(self), step: Step::Key(key) }
    }

    /// An entry of the list that stands here.
    pub(super) fn index(&'a self, index: usize) -> Self {
        Self { above: Some(self), step: Step::Index(index) }
    }

    /// A fault of the request here.
    pub(super) fn bad(&self, why: &str) -> Fault {
        Fault::new(FaultKind::BadRequest, why).at(self.to_string())
    }

    /// Reads what stands here.
    pub(super) fn read<'de, T: Deserialize<'de>>(&self, raw: &'de RawValue) -> Result<T, Fault> {
        json::part(raw, self)
    }

    /// The entries of what stands here: nothing, one text, or a list.
    pub(super) fn content<'de>(&self, raw: Option<&'de RawValue>) -> Result<Content<'de>, Fault> {
        let Some(raw) = raw else { return Ok(Content::List(Vec::new())) };
        match raw.get().as_bytes().first() {
            Some(b'"') => Ok(Content::Text(self.read(raw)?)),
            Some(b'[') => Ok(Content::List(self.read(raw)?)),
            Some(b'n') => Ok(Content::List(Vec::new())),
            _ => Err(self.bad("a text or a list of content blocks is needed")),
        }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(above) = self.above {
            above.fmt(f)?;
        }
        match self.step {
            Step::Key(key) if self.above.is_none() => f.write_str(key),
            Step::Key(key) => write!(f, ".{key}"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Content as sent.
pub(super) enum Content<'de> {
    /// One text.
    Text(String),
    /// Blocks, unread.
    List(Vec<&'de RawValue>),
}
