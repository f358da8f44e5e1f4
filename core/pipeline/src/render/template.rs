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
    source: String,
}

impl Template {
    /// Compiles. The error names the line.
    pub fn compile(source: &str) -> Result<Self, String> {
        Self::with_fuel(source, limits::TEMPLATE_FUEL)
    }

    fn with_fuel(source: &str, fuel: u64) -> Result<Self, String> {
        let mut env = Environment::new();
        env.set_trim_blocks(true);
        env.set_lstrip_blocks(true);
        env.set_auto_escape_callback(|_| AutoEscape::None);
        env.set_fuel(Some(fuel));
        python::install(&mut env);
        env.add_template_owned(NAME, without_generation_tags(source))
            .map_err(|error| describe(&error))?;
        Ok(Self { env, source: source.to_owned() })
    }

    /// The text that was compiled.
    pub fn source(&self) -> &str {
        &self.source
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

#[cfg(test)]
mod tests {
    use minijinja::context;

    use super::*;

    fn render(source: &str, variables: Value) -> Result<String, String> {
        let template = Template::compile(source)?;
        template.render(&variables).map_err(|fault| fault.message)
    }

    #[test]
    fn h03_h04_templates_render_as_in_transformers() {
        let stored = include_str!("../../tests/fixtures/python.json");
        let cases: Vec<(String, String)> = serde_json::from_str(stored).unwrap();
        let variables: serde_json::Value = serde_json::json!({
            "d": {"k": null, "z": 1.5, "t": true},
            "messages": [{"role": "user", "content": "hi"}],
        });
        let mut wrong = Vec::new();
        for (source, expected) in cases {
            let got = render(&source, Value::from_serialize(&variables));
            if got.as_deref() != Ok(&expected) {
                wrong.push(format!("{source}\n  python {expected:?}\n  here   {got:?}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn the_template_can_refuse() {
        let source = "{% if true %}\n{{ raise_exception('roles must alternate') }}\n{% endif %}";
        let reason = render(source, context!()).unwrap_err();
        assert!(reason.contains("roles must alternate (line 2 of the template)"), "{reason}");
    }

    #[test]
    fn h04_what_is_not_supported_is_named_with_its_line() {
        let reason = render("{{ 'a' }}\n{{ 'a'.frobnicate() }}", context!()).unwrap_err();
        assert!(reason.contains("frobnicate") && reason.contains("line 2"), "{reason}");
        let reason = render("a\n{% nonsense %}", context!()).unwrap_err();
        assert!(reason.contains("nonsense") && reason.contains("line 2"), "{reason}");
    }

    #[test]
    fn the_time_is_an_input() {
        let source = "{{ strftime_now('%d %b %Y') }}";
        assert_eq!(render(source, context!(now => 951_782_400)).as_deref(), Ok("29 Feb 2000"));
        let reason = render(source, context!()).unwrap_err();
        assert!(reason.contains("`now`"), "{reason}");
    }

    #[test]
    fn endless_templates_end() {
        let source = "{% for a in range(9999) %}{% for b in range(9999) %}\
                      {% set x = a %}{% endfor %}{% endfor %}";
        let reason = Template::with_fuel(source, 100_000).unwrap().render(&context!()).unwrap_err();
        assert!(reason.message.contains("TEMPLATE_FUEL"), "{reason}");
        let source = "{% for a in range(9999) %}{{ text }}{% endfor %}";
        let reason = render(source, context!(text => "x".repeat(1 << 20))).unwrap_err();
        assert!(reason.contains("RENDER_BYTES"), "{reason}");
    }
}
