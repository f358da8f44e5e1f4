//! A call while it is written, in any of the three forms.

use serde_json::value::RawValue;

use crate::parse::call::{self, Written};
use crate::parse::object::{self, Start};

/// The open call.
#[derive(Default)]
pub struct Pending {
    /// What followed the opener, markers included.
    pub text: Vec<u8>,
    /// Where in it the id stands, behind its marker.
    id_at: Option<usize>,
    /// Where in it the arguments' marker stands, and where the arguments begin.
    args_at: Option<(usize, usize)>,
    /// Where in it the name ends.
    name_end: Option<usize>,
}

/// Calls with the ids that were written for them, and where the text behind them begins.
pub type Read = (Vec<(Written, Option<String>)>, usize);

impl Pending {
    /// Forgets markers that a stop text cut off.
    pub fn forget_what_was_cut(&mut self) {
        let len = self.text.len();
        self.args_at = self.args_at.filter(|(_, end)| *end <= len);
        self.name_end = self.name_end.filter(|end| *end <= len);
    }

    /// Whether an id may come.
    pub fn awaits_id(&self) -> bool {
        self.id_at.is_none() && self.args_at.is_none()
    }

    /// Whether arguments may come.
    pub fn awaits_arguments(&self) -> bool {
        self.args_at.is_none()
    }

    /// The id follows this marker.
    pub fn begin_id(&mut self, marker: &[u8]) {
        self.name_end = Some(self.text.len());
        self.text.extend_from_slice(marker);
        self.id_at = Some(self.text.len());
    }

    /// The arguments follow this marker.
    pub fn begin_arguments(&mut self, marker: &[u8]) {
        let before = self.text.len();
        self.name_end.get_or_insert(before);
        self.text.extend_from_slice(marker);
        self.args_at = Some((before, self.text.len()));
    }

    /// Whether this is a try at a call rather than prose about the marker.
    pub fn is_attempt(&self) -> bool {
        let text = self.text.trim_ascii_start();
        self.args_at.is_some() || text.starts_with(b"[{") || text.starts_with(b"{")
    }

    /// The calls, or a remark that says why there is none.
    pub fn read(&self) -> Result<Read, &'static str> {
        let text = &self.text;
        if let (Some((id_end, args_at)), Some(name_end)) = (self.args_at, self.name_end) {
            let id = self.id_at.and_then(|at| std::str::from_utf8(text.get(at..id_end)?).ok());
            let id = id.map(|id| id.trim().to_owned());
            let (written, behind) = named(&text[..name_end], &text[args_at..])?;
            return Ok((vec![(written, id)], text.len() - behind));
        }
        let json = text.trim_ascii_start();
        if json.starts_with(b"[") || json.starts_with(b"{") {
            let (json, behind) = value(json)?;
            let items: Vec<&RawValue> = match json.starts_with('[') {
                true => serde_json::from_str(json).map_err(|_| "call_bad_json")?,
                false => vec![serde_json::from_str(json).map_err(|_| "call_bad_json")?],
            };
            if items.is_empty() {
                return Err("call_no_name");
            }
            let calls: Result<Vec<_>, _> =
                items.into_iter().map(|item| object::call(item.get())).collect();
            return Ok((calls?, text.len() - behind.len()));
        }
        if self.id_at.is_some() {
            return Err("call_no_arguments");
        }
        let brace = text.iter().position(|&b| b == b'{').ok_or("call_unclosed")?;
        let (written, behind) = named(&text[..brace], &text[brace..])?;
        Ok((vec![(written, None)], text.len() - behind))
    }
}

/// A call whose name stands before its arguments, and how many bytes stand behind these.
fn named(name: &[u8], arguments: &[u8]) -> Result<(Written, usize), &'static str> {
    let name = std::str::from_utf8(name).map_err(|_| "call_no_name")?.trim();
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("call_no_name");
    }
    let (json, behind) = value(arguments)?;
    let (arguments, as_string) = call::arguments(json)?;
    Ok((Written { name: name.to_owned(), arguments, as_string }, behind.len()))
}

fn value(text: &[u8]) -> Result<(&str, &[u8]), &'static str> {
    match object::start(text) {
        Start::Value(json, behind) => Ok((json, behind)),
        Start::Unfinished => Err("call_unclosed"),
        Start::Other if text.trim_ascii().is_empty() => Err("call_unclosed"),
        Start::Other => Err("call_bad_json"),
    }
}
