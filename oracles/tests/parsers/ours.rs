//! Our machines over a vocabulary of single bytes and the added tokens of a family.

use rollgate_pipeline::id::TokenId;
use rollgate_pipeline::parse::{End, Setting, machine};
use rollgate_pipeline::render::{ControlText, Family, Markers, Tokenizer};
use serde_json::Value;

use super::{Dialect, Reply, Row};

struct Bytes<'a> {
    bytes: Vec<u8>,
    added: &'a [String],
}

impl<'a> Bytes<'a> {
    fn new(added: &'a [String]) -> Self {
        Self { bytes: (0..=255).collect(), added }
    }

    fn ids(&self, text: &str) -> Vec<TokenId> {
        let (mut ids, mut rest) = (Vec::new(), text.as_bytes());
        while let Some(&byte) = rest.first() {
            let fits = |at: &usize| rest.starts_with(self.added[*at].as_bytes());
            let token = (0..self.added.len()).filter(fits).max_by_key(|&at| self.added[at].len());
            let length = token.map_or(1, |at| self.added[at].len());
            ids.push(token.map_or(TokenId::from(byte), |at| 256 + at as TokenId));
            rest = &rest[length..];
        }
        ids
    }
}

impl Tokenizer for Bytes<'_> {
    fn encode(&self, text: &str, _: ControlText, out: &mut Vec<TokenId>) -> Result<(), String> {
        out.extend(self.ids(text));
        Ok(())
    }

    fn bytes_of(&self, id: TokenId) -> Option<&[u8]> {
        let id = id as usize;
        match id.checked_sub(256) {
            None => Some(&self.bytes[id..=id]),
            Some(at) => self.added.get(at).map(|text| text.as_bytes()),
        }
    }

    fn added(&self, text: &str) -> Option<TokenId> {
        self.added.iter().position(|added| added == text).map(|at| 256 + at as TokenId)
    }

    fn size(&self) -> u32 {
        256 + self.added.len() as u32
    }
}

pub fn parse(family: Family, dialect: &Dialect, row: &Row, tools: &[Value]) -> Reply {
    let tokenizer = Bytes::new(&dialect.added);
    let markers = Markers {
        close: tokenizer.added(&dialect.close).expect("an added token"),
        think_open: tokenizer.added("<think>"),
        think_close: tokenizer.added("</think>"),
        call_open: tokenizer.added("<tool_call>"),
        call_close: tokenizer.added("</tool_call>"),
        ..Markers::default()
    };
    let prompt = tokenizer.ids(&row.prompt);
    let setting = Setting { markers: &markers, tokenizer: &tokenizer, prompt_tail: &prompt, tools };
    let mut machine = machine(family, setting);
    tokenizer.ids(&row.output).into_iter().for_each(|id| machine.push(id));
    let reply = machine.finish(&End { stop_text: None, call_seed: "seed" }).reply;
    assert!(!reply.ill_formed, "{}: {:?}", row.output, reply.remarks);
    let value = |json: &str| serde_json::from_str(json).expect("arguments are JSON");
    let calls = reply.tool_calls.iter().map(|c| (c.name.clone(), value(&c.arguments))).collect();
    Reply::new(reply.reasoning.as_deref().unwrap_or_default(), &reply.content, calls)
}
