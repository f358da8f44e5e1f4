//! Qwen3-Coder, Qwen3.5 and later:
//! `<tool_call>\n<function=NAME>\n<parameter=K>\nV\n</parameter>\n</function>\n</tool_call>`.
//!
//! Only the outer tags are tokens; those inside are letters. `<function=…>…</function>` is a call on
//! its own, with either outer tag missing (remarks `call_opener_missing`, `call_close_missing`).
//! Without opener it must name a tool on offer and be followed by nothing but the closing tag, and if
//! that is missing too, begin a line.
//!
//! Values are typed by the tool's schema (`schema.rs`); where they end says `elements.rs`.

use super::elements::Form;
use super::grammar::Grammar;
use super::qwen3;

const FORM: Form = Form {
    call_open: "<function=",
    call_close: "</function>",
    parameter_open: "<parameter=",
    parameter_close: "</parameter>",
    on_lines: true,
    quotes: false,
};

/// Qwen3-Coder's.
pub(super) static GRAMMAR: Grammar = Grammar {
    bare: Some((FORM.call_open, FORM.call_close)),
    attempted: |body, _| FORM.attempted(body.text),
    read: |body, tools| FORM.read(body.text, tools),
    ..qwen3::GRAMMAR
};

#[cfg(test)]
mod tests;
