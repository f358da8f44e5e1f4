//! Qwen3: `<think>…</think>`, content, and Hermes calls `<tool_call>\n{json}\n</tool_call>`.
//!
//! A call counts whole or not at all, and only between both markers. In open reasoning a call opener
//! begins a call if `{` follows.

use super::call;
use super::grammar::{Called, Found, Grammar};

/// Qwen3, Qwen2.5 and Hermes.
pub(super) static GRAMMAR: Grammar = Grammar {
    think_open: &["<think>"],
    think_close: &["</think>"],
    turn_open: &["<|im_start|>"],
    ends: &["<|endoftext|>"],
    section_open: &[],
    section_close: &[],
    section_misspelt: None,
    call_open: &["<tool_call>"],
    call_close: &["</tool_call>"],
    inner: &[],
    interleaved: false,
    bare: None,
    attempted: |body, _| call::attempted(body.text),
    read: |body, _| Ok(Found::one(Called { written: call::read(body.text)?, id: None })),
};

#[cfg(test)]
mod tests;
