//! Instructions and tool definitions of a coding agent, as large as asked for.

use serde_json::{Value, json};

use super::words::{Rng, Words};

/// One function.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) description: String,
    pub(crate) parameters: Value,
}

/// What every session of a cell has in common.
pub(crate) struct Tools {
    pub(crate) instructions: String,
    pub(crate) all: Vec<Tool>,
}

/// Below this there are instructions only.
const WITH_TOOLS_BYTES: usize = 4 * 1024;

/// Names, fields.
const TOOLS: [(&str, &[(&str, &str)]); 12] = [
    ("bash", &[("command", "string"), ("timeout_ms", "integer"), ("description", "string")]),
    ("read_file", &[("path", "string"), ("offset", "integer"), ("limit", "integer")]),
    ("edit_file", &[("path", "string"), ("old", "string"), ("new", "string")]),
    ("write_file", &[("path", "string"), ("content", "string")]),
    ("grep", &[("pattern", "string"), ("path", "string"), ("context", "integer")]),
    ("glob", &[("pattern", "string"), ("path", "string")]),
    ("list_dir", &[("path", "string")]),
    ("todo_write", &[("todos", "string")]),
    ("web_fetch", &[("url", "string"), ("prompt", "string")]),
    ("task", &[("description", "string"), ("prompt", "string"), ("kind", "string")]),
    ("notebook_edit", &[("path", "string"), ("cell", "integer"), ("source", "string")]),
    ("kill_shell", &[("shell_id", "string")]),
];

impl Tools {
    /// About so many bytes, the same for the same seed. A third of it are instructions.
    pub(crate) fn new(words: &Words, seed: u64, bytes: usize) -> Self {
        let mut rng = Rng::new(seed ^ 0x7001);
        let mut text = |bytes: usize| {
            let mut out = String::new();
            words.text(&mut rng, bytes, &mut out);
            out
        };
        let begin = "You are a coding agent. Work in the repository that is given to you.\n";
        if bytes < WITH_TOOLS_BYTES {
            let rest = text(bytes.saturating_sub(begin.len() + 80));
            return Self { instructions: format!("{begin}{rest}"), all: Vec::new() };
        }
        let instructions = format!("{begin}{}", text(bytes / 3));
        // Names and schemas take some 350 bytes a tool; escapes add a twentieth.
        let each = (bytes * 2 / 3 / TOOLS.len()).saturating_sub(350) * 19 / 20;
        let all = TOOLS.iter().map(|(name, fields)| {
            let fields = fields.iter().map(|(field, kind)| {
                let about = json!({"type": kind, "description": text(24).trim()});
                ((*field).to_owned(), about)
            });
            let properties = Value::Object(fields.collect());
            let required: Vec<&String> =
                properties.as_object().into_iter().flat_map(|all| all.keys().take(1)).collect();
            let parameters =
                json!({"type": "object", "properties": properties, "required": required});
            Tool { name, description: text(each), parameters }
        });
        Self { all: all.collect(), instructions }
    }
}
