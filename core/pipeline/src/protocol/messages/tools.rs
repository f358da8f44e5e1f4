//! Tools on offer, and which of them may be called.
//!
//! A tool with `defer_loading` is not shown to the model until a result refers to it; its definition
//! then stands in that result, and never in the list. So the list, on which a tree's root depends,
//! stays the same when an agent loads a tool.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::blocks::Skipped;
use super::place::Place;
use crate::exact;
use crate::fault::Fault;
use crate::protocol::media::skip;
use crate::turn::{Tool, ToolChoice, Tools};

/// A tool as sent, as far as it is looked at.
#[derive(Deserialize)]
#[serde(expecting = "a tool object")]
pub(crate) struct RawTool {
    r#type: Option<String>,
    name: Option<String>,
    description: Option<String>,
    input_schema: Option<Box<RawValue>>,
    defer_loading: Option<bool>,
}

/// A list of tools.
#[derive(Default)]
pub(crate) struct Listed {
    /// Shown to the model, in canonical form and the order sent.
    pub(super) tools: Tools,
    /// Shown only where a result refers to it, by name.
    pub(super) deferred: Deferrals,
    /// Tools that run on Anthropic's servers, by type.
    pub(super) skipped: Skipped,
}

/// Tools that the list does not show, by name.
pub(super) type Deferrals = BTreeMap<String, Deferred>;

/// What the model may do with the tools.
pub(super) struct Offer {
    pub(super) tools: Tools,
    /// Which may be called.
    pub(super) choice: ToolChoice,
    /// Whether more than one call per answer is welcome.
    pub(super) parallel: Option<bool>,
}

/// A tool that the list does not show.
pub(crate) struct Deferred {
    /// In canonical form.
    pub(super) tool: Tool,
    /// Its definition as it is told to the model, JSON.
    pub(super) text: String,
}

/// Reads a list of tools.
pub(super) fn listed(raw: Vec<RawTool>) -> Result<Listed, Fault> {
    let mut list = List::default();
    for (index, tool) in raw.into_iter().enumerate() {
        list.take(&Place::top("tools").index(index), tool)?;
    }
    Ok(Listed { tools: list.tools.into(), deferred: list.deferred, skipped: list.skipped })
}

/// Reads the choice among these tools. Without tools there is nothing to choose; with `none` there
/// are no tools.
pub(super) fn offer(listed: Result<&Listed, Fault>, choice: Option<Value>) -> Result<Offer, Fault> {
    let (choice, parallel) = choose(choice.unwrap_or(Value::Null))?;
    let listed = listed?;
    let mut tools = listed.tools.clone();
    if tools.is_empty() && listed.deferred.is_empty() {
        return Ok(Offer { tools, choice: ToolChoice::Auto, parallel: None });
    }
    if choice == ToolChoice::None {
        tools = Tools::default();
    }
    if let ToolChoice::Named(name) = &choice
        && !tools.iter().any(|tool| tool["function"]["name"] == **name)
        && !listed.deferred.contains_key(name)
    {
        return Err(Place::top("tool_choice").key("name").bad("no tool of this name is on offer"));
    }
    Ok(Offer { tools, choice, parallel })
}

/// A list of tools in the making.
#[derive(Default)]
struct List {
    tools: Vec<Tool>,
    deferred: Deferrals,
    skipped: Skipped,
}

impl List {
    fn take(&mut self, place: &Place<'_>, raw: RawTool) -> Result<(), Fault> {
        let kind = raw.r#type.as_deref().unwrap_or("custom");
        if kind != "custom" && raw.input_schema.is_none() {
            // Without a schema it is Anthropic's own, which its servers run or its models know.
            skip(&mut self.skipped, kind);
            return Ok(());
        }
        let name = raw.name.clone().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| {
            place.key("name").bad("a tool needs a name, a text that is not empty")
        })?;
        let schema = raw.input_schema.as_deref().map_or(NO_PARAMETERS, RawValue::get);
        // Schemas become prompt text: their integers are exact.
        let parameters = exact::read(schema).filter(Value::is_object);
        let parameters = parameters
            .ok_or_else(|| place.key("input_schema").bad("a JSON schema is needed, an object"))?;
        let text = match raw.defer_loading {
            Some(true) => Some(definition(&name, &raw)),
            _ => None,
        };
        let mut function = Map::new();
        function.insert("name".to_owned(), name.as_str().into());
        if let Some(description) = raw.description {
            function.insert("description".to_owned(), description.into());
        }
        function.insert("parameters".to_owned(), parameters);
        let tool = json!({"type": "function", "function": function});
        match text {
            Some(text) => drop(self.deferred.insert(name, Deferred { tool, text })),
            None => self.tools.push(tool),
        }
        Ok(())
    }
}

fn definition(name: &str, raw: &RawTool) -> String {
    let definition = Definition {
        name,
        description: raw.description.as_deref(),
        parameters: raw.input_schema.as_deref(),
    };
    serde_json::to_string(&definition).unwrap_or_default()
}

/// The schema of a tool that has none.
const NO_PARAMETERS: &str = r#"{"type":"object","properties":{}}"#;

/// A deferred tool as it is told to the model: the schema to the letter.
#[derive(Serialize)]
struct Definition<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice {
    r#type: Option<String>,
    name: Option<String>,
    disable_parallel_tool_use: Option<bool>,
}

fn choose(raw: Value) -> Result<(ToolChoice, Option<bool>), Fault> {
    let place = Place::top("tool_choice");
    let raw: Option<Choice> = serde_json::from_value(raw)
        .map_err(|_| place.bad("an object with a type and flags is needed"))?;
    let Some(raw) = raw else { return Ok((ToolChoice::Auto, None)) };
    let choice = match raw.r#type.as_deref() {
        Some("auto") => ToolChoice::Auto,
        Some("any") => ToolChoice::Required,
        Some("none") => ToolChoice::None,
        Some("tool") => {
            let name = raw.name.filter(|name| !name.is_empty());
            ToolChoice::Named(name.ok_or_else(|| place.key("name").bad("a name is missing"))?)
        }
        _ => return Err(place.key("type").bad("the type is none of auto, any, tool, none")),
    };
    let parallel = match choice {
        ToolChoice::None => None,
        _ => raw.disable_parallel_tool_use.map(|disabled| !disabled),
    };
    Ok((choice, parallel))
}
