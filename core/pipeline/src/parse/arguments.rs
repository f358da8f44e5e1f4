//! Arguments that a model wrote one by one, collected into the text of a JSON object.
//!
//! Keys stand in the order in which they were written. A key written twice stands at its first
//! place with its last value.

use std::collections::BTreeMap;

use super::schema::{Parameters, Typed, quoted};
use crate::turn::Tool;

/// A call's arguments so far.
pub(super) struct Arguments<'a> {
    parameters: Parameters<'a>,
    /// Key and JSON text of the value; none where there is nothing to pass.
    members: Vec<(String, Option<String>)>,
    places: BTreeMap<String, usize>,
    remarks: Vec<&'static str>,
}

impl<'a> Arguments<'a> {
    /// None yet, for the tool with this name.
    pub(super) fn of(tools: &'a [Tool], name: &str) -> Self {
        Self {
            parameters: Parameters::of(tools, name),
            members: Vec::new(),
            places: BTreeMap::new(),
            remarks: Vec::new(),
        }
    }

    /// Adds one; the tool's schema says what its text means.
    pub(super) fn add(&mut self, key: &str, text: &str) {
        let value = match self.parameters.typed(key, text) {
            Typed::Fit(value) => Some(value),
            Typed::Unfit(value) => {
                self.remarks.push("call_value_unfit");
                Some(value)
            }
            Typed::Absent => {
                self.remarks.push("call_value_empty");
                None
            }
        };
        match self.places.get(key) {
            Some(&place) => {
                self.remarks.push("call_key_repeated");
                self.members[place].1 = value;
            }
            None => {
                self.places.insert(key.to_owned(), self.members.len());
                self.members.push((key.to_owned(), value));
            }
        }
    }

    /// Whether the schema lists this key and it is still to come.
    pub(super) fn awaits(&self, key: &str) -> bool {
        !self.places.contains_key(key) && self.parameters.lists(key)
    }

    /// The object's text, and what there was to say.
    pub(super) fn finish(self) -> (String, Vec<&'static str>) {
        let mut text = String::from("{");
        for (key, value) in &self.members {
            let Some(value) = value else { continue };
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&quoted(key));
            text.push(':');
            text.push_str(value);
        }
        text.push('}');
        (text, self.remarks)
    }
}
