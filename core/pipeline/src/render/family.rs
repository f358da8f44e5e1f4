//! Model families: which grammar a model's output follows, and which tokens it is written with.
//!
//! A family is found by what the chat template writes and which tokens the tokenizer has. What fits
//! none is refused, and told what was looked for.

use super::vocabulary::AddedToken;
use crate::id::TokenId;

/// Which grammar the model's output follows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Family {
    /// Hermes JSON calls in `<tool_call>`, reasoning in `<think>` (Qwen3, Qwen2.5, Hermes).
    Qwen3,
    /// XML calls in `<tool_call>` (Qwen3-Coder, Qwen3.5 and later).
    Qwen3Coder,
    /// Calls as `function` + name + fenced JSON between DeepSeek's markers (V3, R1).
    DeepSeekV3,
    /// Calls as name + JSON between DeepSeek's markers (V3.1).
    DeepSeekV31,
    /// Bare JSON or `<|python_tag|>` (Llama 3.1 and later 3.x).
    Llama31,
    /// Channels of gpt-oss.
    Harmony,
    /// `<arg_key>`/`<arg_value>` pairs in `<tool_call>` (GLM 4.5 and later).
    Glm45,
    /// Kimi K2's sections.
    KimiK2,
    /// `<minimax:tool_call>` with `<invoke>`.
    MiniMaxM2,
    /// `[TOOL_CALLS]`, old and new form.
    Mistral,
}

impl Family {
    /// All of them.
    pub const ALL: [Family; 10] = [
        Family::Qwen3,
        Family::Qwen3Coder,
        Family::DeepSeekV3,
        Family::DeepSeekV31,
        Family::Llama31,
        Family::Harmony,
        Family::Glm45,
        Family::KimiK2,
        Family::MiniMaxM2,
        Family::Mistral,
    ];

    /// The name used in messages and reports.
    pub fn name(self) -> &'static str {
        match self {
            Family::Qwen3 => "qwen3",
            Family::Qwen3Coder => "qwen3_coder",
            Family::DeepSeekV3 => "deepseek_v3",
            Family::DeepSeekV31 => "deepseek_v3.1",
            Family::Llama31 => "llama3.1",
            Family::Harmony => "harmony",
            Family::Glm45 => "glm4.5",
            Family::KimiK2 => "kimi_k2",
            Family::MiniMaxM2 => "minimax_m2",
            Family::Mistral => "mistral",
        }
    }

    /// Tells a family by its template and added tokens. The error lists what was looked for.
    pub(super) fn detect(template: Option<&str>, added: &[AddedToken]) -> Result<Family, String> {
        let has = |text: &str| added.iter().any(|token| token.text == text);
        let writes = |text: &str| template.is_some_and(|template| template.contains(text));
        if HARMONY.iter().all(|token| has(token)) {
            return Ok(Family::Harmony);
        }
        if template.is_none() {
            return Err("it has no chat template: add a chat_template.jinja to the model \
                        directory (only gpt-oss needs none)"
                .to_owned());
        }
        let family = if writes("<｜tool▁sep｜>") || has("<｜tool▁calls▁begin｜>") {
            match writes("<｜tool▁sep｜>") && !writes("```json") {
                true => Family::DeepSeekV31,
                false => Family::DeepSeekV3,
            }
        } else if writes("<|tool_call_begin|>") {
            Family::KimiK2
        } else if writes("<minimax:tool_call>") {
            Family::MiniMaxM2
        } else if writes("<arg_key>") {
            Family::Glm45
        } else if writes("[TOOL_CALLS]") {
            Family::Mistral
        } else if writes("<tool_call>") {
            match writes("<function=") {
                true => Family::Qwen3Coder,
                false => Family::Qwen3,
            }
        } else if has("<|start_header_id|>") && has("<|eot_id|>") {
            Family::Llama31
        } else {
            return Err(format!(
                "its output has a form that is not known. Looked for, in the chat template: \
                 <tool_call> (Qwen3, Qwen2.5, Hermes), <function= (Qwen3-Coder), <｜tool▁sep｜> \
                 (DeepSeek V3 and V3.1), <arg_key> (GLM 4.5), <|tool_call_begin|> (Kimi K2), \
                 <minimax:tool_call> (MiniMax M2), [TOOL_CALLS] (Mistral); among the added \
                 tokens: <|start_header_id|> (Llama 3.1), {} (gpt-oss)",
                HARMONY.join(" ")
            ));
        };
        Ok(family)
    }

    /// Tokens behind which a turn of the model needs nothing more, besides the one that the
    /// template writes.
    pub(super) fn closers(self) -> &'static [&'static str] {
        match self {
            Family::Llama31 => &["<|eot_id|>", "<|eom_id|>"],
            Family::Harmony => &["<|end|>", "<|call|>", "<|return|>"],
            Family::Glm45 => &["<|user|>", "<|observation|>"],
            _ => &[],
        }
    }

    /// The tokens that begin a turn, for a family that ends its turns with them.
    pub(super) fn next_roles(self) -> &'static [&'static str] {
        match self {
            Family::Glm45 => &["<|user|>", "<|observation|>", "<|assistant|>", "<|system|>"],
            _ => &[],
        }
    }

    fn markers(self) -> [&'static [&'static str]; 4] {
        let calls: [&[&str]; 2] = match self {
            Family::Qwen3 | Family::Qwen3Coder | Family::Glm45 => {
                [&["<tool_call>"], &["</tool_call>"]]
            }
            Family::DeepSeekV3 | Family::DeepSeekV31 => {
                [&["<｜tool▁calls▁begin｜>"], &["<｜tool▁calls▁end｜>"]]
            }
            Family::KimiK2 => [
                &["<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"],
                &["<|tool_calls_section_end|>", "<|tool_call_section_end|>"],
            ],
            Family::MiniMaxM2 => [&["<minimax:tool_call>"], &["</minimax:tool_call>"]],
            Family::Mistral => [&["[TOOL_CALLS]"], &[]],
            Family::Llama31 => [&["<|python_tag|>"], &[]],
            Family::Harmony => [&[], &["<|call|>"]],
        };
        let thinking: [&[&str]; 2] = match self {
            Family::Mistral => [&["[THINK]"], &["[/THINK]"]],
            Family::KimiK2 => [&["<think>", "◁think▷"], &["</think>", "◁/think▷"]],
            _ => [&["<think>"], &["</think>"]],
        };
        [thinking[0], thinking[1], calls[0], calls[1]]
    }
}

const HARMONY: [&str; 4] = ["<|start|>", "<|channel|>", "<|message|>", "<|call|>"];

/// Ids of the marker tokens, where the vocabulary has them as added tokens.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Markers {
    /// Ends a turn (`<|im_end|>`); of several such tokens the one that the template writes. For a
    /// family that ends turns with the next role's marker: that of the user.
    pub close: TokenId,
    /// All ids that end a generation, `close` among them.
    pub ends: Vec<TokenId>,
    /// Opens reasoning (`<think>`).
    pub think_open: Option<TokenId>,
    /// Ends reasoning (`</think>`).
    pub think_close: Option<TokenId>,
    /// Opens a tool call (`<tool_call>`), or a section of them.
    pub call_open: Option<TokenId>,
    /// Ends a tool call (`</tool_call>`), or a section of them.
    pub call_close: Option<TokenId>,
}

impl Markers {
    /// The family's markers in this vocabulary. What ends a turn is found by the probe.
    pub(super) fn find(family: Family, added: &[AddedToken]) -> Self {
        let [think_open, think_close, call_open, call_close] = family.markers().map(|spellings| {
            spellings.iter().find_map(|text| {
                added.iter().find(|token| token.text == *text).map(|token| token.id)
            })
        });
        Self { close: 0, ends: Vec::new(), think_open, think_close, call_open, call_close }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(texts: &[&str]) -> Vec<AddedToken> {
        let token = |(at, text): (usize, &&str)| AddedToken {
            text: (*text).to_owned(),
            id: at as TokenId,
            contextual: false,
        };
        texts.iter().enumerate().map(token).collect()
    }

    #[test]
    fn what_fits_no_family_is_told_what_was_looked_for() {
        let reason = Family::detect(Some("{{ messages }}"), &[]).unwrap_err();
        for family in ["<tool_call>", "<arg_key>", "[TOOL_CALLS]", "<|channel|>", "DeepSeek"] {
            assert!(reason.contains(family), "{reason}");
        }
        let reason = Family::detect(None, &[]).unwrap_err();
        assert!(reason.contains("chat_template.jinja"), "{reason}");
    }

    #[test]
    fn families_are_told_by_template_and_tokens() {
        let check = |template: &str, tokens: &[&str], family| {
            assert_eq!(Family::detect(Some(template), &added(tokens)), Ok(family), "{template}");
        };
        check("<tool_call>", &["<|im_end|>"], Family::Qwen3);
        check("<tool_call><function=f>", &[], Family::Qwen3Coder);
        check("<tool_call><arg_key>", &[], Family::Glm45);
        check("x", &["<|start_header_id|>", "<|eot_id|>"], Family::Llama31);
        check("<tool_call>", &["<|start_header_id|>", "<|eot_id|>"], Family::Qwen3);
        check("x", &["<｜tool▁calls▁begin｜>"], Family::DeepSeekV3);
        check("<｜tool▁sep｜>", &["<｜tool▁calls▁begin｜>"], Family::DeepSeekV31);
        assert_eq!(Family::detect(None, &added(&HARMONY)), Ok(Family::Harmony));
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<&str> =
            Family::ALL.iter().map(|family| family.name()).collect();
        assert_eq!(names.len(), Family::ALL.len());
    }
}
