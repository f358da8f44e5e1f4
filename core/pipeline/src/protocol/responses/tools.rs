//! Tools on offer, under flat names, and the way back to the names and forms of the wire.

mod functions;

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value, json};

use self::functions::{
    custom_function, function_of, joined, plain_function, put_before, search_function,
    shell_function, text,
};
use super::request::bad;
use crate::fault::Fault;
use crate::turn::{self, Tool, ToolChoice, WireForm, WireTool, WireTools};

/// Canonical name of the search for tools that an agent makes.
pub(super) const TOOL_SEARCH: &str = "tool_search";
/// Canonical name of the agent's own shell.
pub(super) const LOCAL_SHELL: &str = "local_shell";

/// The tools of a request.
#[derive(Default)]
pub(crate) struct Tools {
    /// What the model is shown, in the order in which it was sent.
    pub shown: turn::Tools,
    /// What searches found, in the order of their results.
    pub loaded: turn::Tools,
    /// What is shown, in the making.
    offered: Vec<Tool>,
    /// What goes by another form on the wire.
    pub wire: WireTools,
    /// Types of tools that only their provider can run.
    pub hosted: Vec<String>,
    /// What searches found, by the index of their result.
    pub found: BTreeMap<usize, Vec<Tool>>,
    /// Flat names by what tools go by on the wire.
    names: HashMap<WireTool, String>,
    taken: HashSet<String>,
    /// The next number to try behind a name that is taken.
    next: HashMap<String, u32>,
    /// Whether the agent can look for tools that are not shown.
    searchable: bool,
}

/// A list of tools and its place in the request.
pub(super) struct ToolList {
    pub place: String,
    pub tools: Vec<Value>,
    /// Index of the item by which they were found: the model reads of them in the search's result.
    pub found_by: Option<usize>,
}

impl Tools {
    /// Plain functions keep their names, whatever comes before them.
    pub(super) fn read(lists: Vec<ToolList>) -> Result<Self, Fault> {
        let mut tools = Self::default();
        for tool in lists.iter().flat_map(|list| &list.tools) {
            match text(tool, "type") {
                "function" => {
                    tools.taken.insert(text(function_of(tool), "name").to_owned());
                }
                TOOL_SEARCH => tools.searchable |= text(tool, "execution") == "client",
                _ => {}
            }
        }
        for ToolList { place, tools: list, found_by } in lists {
            for (index, tool) in list.into_iter().enumerate() {
                tools.add(&format!("{place}[{index}]"), tool, found_by)?;
            }
        }
        tools.shown = std::mem::take(&mut tools.offered).into();
        tools.loaded = tools.found.values().flatten().cloned().collect::<Vec<_>>().into();
        Ok(tools)
    }

    fn add(&mut self, place: &str, tool: Value, found_by: Option<usize>) -> Result<(), Fault> {
        let kind = text(&tool, "type").to_owned();
        match kind.as_str() {
            "function" | "custom" => self.declare(place, None, tool, found_by).map(|_| ()),
            "namespace" => self.add_namespace(place, tool, found_by),
            TOOL_SEARCH if text(&tool, "execution") == "client" => {
                let function = search_function(tool);
                self.special(TOOL_SEARCH, WireForm::ToolSearch, function, found_by);
                Ok(())
            }
            LOCAL_SHELL => {
                self.special(LOCAL_SHELL, WireForm::LocalShell, shell_function(), found_by);
                Ok(())
            }
            "" => Err(bad(format!("{place}.type"), "a tool needs a type")),
            _ => {
                self.hosted.push(kind);
                Ok(())
            }
        }
    }

    fn add_namespace(
        &mut self,
        place: &str,
        mut tool: Value,
        found_by: Option<usize>,
    ) -> Result<(), Fault> {
        let namespace = text(&tool, "name").to_owned();
        if namespace.is_empty() {
            return Err(bad(format!("{place}.name"), "a namespace needs a name"));
        }
        let mut about = text(&tool, "description").to_owned();
        let nested = tool.get_mut("tools").and_then(Value::as_array_mut).map(std::mem::take);
        for (index, mut nested) in nested.unwrap_or_default().into_iter().enumerate() {
            let place = format!("{place}.tools[{index}]");
            match text(&nested, "type") {
                "function" | "custom" => {
                    // What is said of all of them stands once, where the first of them is read.
                    if !about.is_empty() {
                        put_before(&about, &mut nested);
                    }
                    if self.declare(&place, Some(&namespace), nested, found_by)? {
                        about.clear();
                    }
                }
                "" => return Err(bad(format!("{place}.type"), "a tool needs a type")),
                other => self.hosted.push(other.to_owned()),
            }
        }
        Ok(())
    }

    /// A function or custom tool; whether the model reads of it here. One that was declared before
    /// in the same form is the same one again.
    fn declare(
        &mut self,
        place: &str,
        namespace: Option<&str>,
        tool: Value,
        found_by: Option<usize>,
    ) -> Result<bool, Fault> {
        let custom = text(&tool, "type") == "custom";
        let name = text(function_of(&tool), "name").to_owned();
        if name.is_empty() {
            let why = "a tool needs a name, a text that is not empty";
            return Err(bad(format!("{place}.name"), why));
        }
        let form = if custom { WireForm::Custom } else { WireForm::Function };
        let key = WireTool { namespace: namespace.map(str::to_owned), name: name.clone(), form };
        let known = self.names.get(&key).cloned();
        let again = known.is_some();
        let flat = known.unwrap_or_else(|| match (namespace, custom) {
            (None, false) => name.clone(),
            _ => self.free(joined(namespace, &name)),
        });
        let deferred = tool.get("defer_loading") == Some(&Value::Bool(true)) && self.searchable;
        let list = match found_by {
            Some(index) => Some(self.found.entry(index).or_default()),
            None if again || deferred => None,
            None => Some(&mut self.offered),
        };
        let listed = list.is_some();
        if let Some(list) = list {
            list.push(match custom {
                true => custom_function(&flat, &tool),
                false => plain_function(&flat, tool),
            });
        }
        if again {
            return Ok(listed);
        }
        if custom || namespace.is_some() {
            self.wire.insert(flat.clone(), key.clone());
        }
        self.names.insert(key, flat);
        Ok(listed)
    }

    /// A tool that has a form of its own on the wire.
    fn special(
        &mut self,
        name: &str,
        form: WireForm,
        mut function: Map<String, Value>,
        found_by: Option<usize>,
    ) {
        let key = WireTool { namespace: None, name: name.to_owned(), form };
        if self.names.contains_key(&key) {
            return;
        }
        let flat = self.free(name.to_owned());
        function.insert("name".to_owned(), flat.clone().into());
        self.wire.insert(flat.clone(), key.clone());
        self.names.insert(key, flat);
        if found_by.is_none() {
            self.offered.push(json!({"type": "function", "function": function}));
        }
    }

    /// The name, or one like it that no other tool has.
    fn free(&mut self, name: String) -> String {
        if self.taken.insert(name.clone()) {
            return name;
        }
        // Where the search left off: thousands of tools of one name must not cost their square.
        let number = self.next.entry(name.clone()).or_insert(2);
        loop {
            let flat = format!("{name}_{number}");
            *number += 1;
            if self.taken.insert(flat.clone()) {
                return flat;
            }
        }
    }

    /// The flat name of a call; of a tool that is not declared any more, the one that it would have.
    pub(super) fn flat(&self, namespace: Option<&str>, name: &str, form: WireForm) -> String {
        self.declared(namespace, name, form).unwrap_or_else(|| joined(namespace, name))
    }

    /// The tool of this form, else one of another: a call whose arguments do not fit its tool's form
    /// went out as a function's.
    fn declared(&self, namespace: Option<&str>, name: &str, form: WireForm) -> Option<String> {
        use WireForm::{Custom, Function, LocalShell, ToolSearch};
        let (namespace, name) = (namespace.map(str::to_owned), name.to_owned());
        let mut tool = WireTool { namespace, name, form };
        [form, Function, Custom, ToolSearch, LocalShell].into_iter().find_map(|form| {
            tool.form = form;
            self.names.get(&tool).cloned()
        })
    }

    /// Which tools may be called.
    pub(super) fn choice(&self, choice: Option<&Value>) -> Result<ToolChoice, Fault> {
        let Some(choice) = choice else { return Ok(ToolChoice::Auto) };
        let named = |namespace, name: &str, form| match self.declared(namespace, name, form) {
            Some(flat) => Ok(ToolChoice::Named(flat)),
            None => Err(bad("tool_choice", "it names a tool that is not among `tools`")),
        };
        let word = match (choice, text(choice, "type")) {
            (_, kind @ ("function" | "custom")) => {
                let namespace = Some(text(choice, "namespace")).filter(|name| !name.is_empty());
                let form = if kind == "custom" { WireForm::Custom } else { WireForm::Function };
                return named(namespace, text(function_of(choice), "name"), form);
            }
            (_, kind @ TOOL_SEARCH) => return named(None, kind, WireForm::ToolSearch),
            (_, kind @ LOCAL_SHELL) => return named(None, kind, WireForm::LocalShell),
            // The list of tools that it has binds nothing: the prompt shows them all.
            (_, "allowed_tools") => text(choice, "mode"),
            (Value::Object(_), _) => {
                let why = "a hosted tool cannot be asked for: none is run here";
                return Err(bad("tool_choice", why));
            }
            (choice, _) => choice.as_str().unwrap_or_default(),
        };
        match word {
            "auto" => Ok(ToolChoice::Auto),
            "none" => Ok(ToolChoice::None),
            "required" => Ok(ToolChoice::Required),
            _ => {
                Err(bad("tool_choice", "it is none of `auto`, `none`, `required` and a named tool"))
            }
        }
    }
}
