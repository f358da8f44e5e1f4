//! MiniMax M2:
//! `<minimax:tool_call>\n<invoke name="N">\n<parameter name="K">V</parameter>\n</invoke>\n</minimax:tool_call>`.
//!
//! One pair of markers holds all calls of an answer, which count together or not at all. Names stand
//! in double quotes, single quotes or none. Values stand on the line of their tag, so every newline
//! in them is theirs; types come from the tool's schema. The model may think more than once
//! in an answer (remark `think_again`).

use super::elements::Form;
use super::grammar::Grammar;

const FORM: Form = Form {
    call_open: "<invoke name=",
    call_close: "</invoke>",
    parameter_open: "<parameter name=",
    parameter_close: "</parameter>",
    on_lines: false,
    quotes: true,
};

/// MiniMax M2's.
pub(super) static GRAMMAR: Grammar = Grammar {
    think_open: &["<think>"],
    think_close: &["</think>"],
    turn_open: &["]~b]"],
    ends: &["[e~["],
    section_open: &[],
    section_close: &[],
    section_misspelt: None,
    call_open: &["<minimax:tool_call>"],
    call_close: &["</minimax:tool_call>"],
    inner: &[],
    interleaved: true,
    bare: None,
    attempted: |body, _| FORM.attempted(body.text),
    read: |body, tools| FORM.read(body.text, tools),
};

#[cfg(test)]
mod tests;
