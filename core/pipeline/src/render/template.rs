//! A chat template, compiled once, rendered as `transformers` does.

use std::io;

use minijinja::{AutoEscape, Environment, Value};

use super::python;
use crate::fault::{Fault, FaultKind};
use crate::limits;

const NAME: &str = "chat_template";

/// A compiled chat template.
pub(super) struct Template {
    env: Environment<'static>,
}

impl Template {
    /// Compiles. The error names the line.
    pub fn compile(source: &str) -> Result<Self, String> {
        let mut env = Environment::new();
        env.set_trim_blocks(true);
        env.set_lstrip_blocks(true);
        env.set_auto_escape_callback(|_| AutoEscape::None);
        env.set_fuel(Some(limits::TEMPLATE_FUEL));
        python::install(&mut env);
        env.add_template_owned(NAME, without_generation_tags(source))
            .map_err(|error| describe(&error))?;
        Ok(Self { env })
    }

    /// Renders with these variables.
    pub fn render(&self, variables: &Value) -> Result<String, Fault> {
        let refused = |error: minijinja::Error| {
            let kind = match error.kind() {
                minijinja::ErrorKind::OutOfFuel => "it ran for too long (limits::TEMPLATE_FUEL)",
                minijinja::ErrorKind::WriteFailure => {
                    "it wrote too much text (limits::RENDER_BYTES)"
                }
                _ => return Fault::new(FaultKind::TemplateRefused, refusal(&describe(&error))),
            };
            Fault::new(FaultKind::TemplateRefused, refusal(kind))
        };
        let template = self.env.get_template(NAME).map_err(refused)?;
        let mut out = Bounded { bytes: Vec::with_capacity(4 << 10), limit: limits::RENDER_BYTES };
        template.render_captured_to(variables, &mut out).map_err(refused)?;
        String::from_utf8(out.bytes).map_err(|_| {
            Fault::new(FaultKind::Internal, "the template wrote text that is not UTF-8")
        })
    }
}

fn refusal(reason: &str) -> String {
    format!("the chat template cannot render this conversation: {reason}")
}

/// What went wrong and where, without the values at hand: those are prompt text.
fn describe(error: &minijinja::Error) -> String {
    let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    match error.line() {
        Some(line) => format!("{what} (line {line} of the template)"),
        None => what,
    }
}

/// `{% generation %}` marks what is trained for `transformers` and prints nothing. A block that is
/// always true keeps its effect on white space.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at + 2);
        out.push_str(before);
        rest = tag;
        let Some(end) = tag.find("%}") else { break };
        let inner = &tag[..end];
        let name = inner.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        let replacement = match name {
            "generation" => "if true",
            "endgeneration" => "endif",
            _ => continue,
        };
        out.push_str(&inner.replacen(name, replacement, 1));
        rest = &tag[end..];
    }
    out.push_str(rest);
    out
}

struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.limit {
            return Err(io::Error::other("limits::RENDER_BYTES"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
