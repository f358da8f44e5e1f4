//! What the bench's engine can say: pieces whose ids, log-probabilities and JSON are made once, so
//! that an answer is a few copies. Which pieces an answer has follows from seed, conversation and turn.

use std::fmt::Write as _;

use rollgate_pipeline::id::TokenId;
use rollgate_pipeline::render::{ControlText, Model};
use serde_json::{Value, json};

use super::words::{Rng, Words};
use crate::engine::compose::{Composer, Thinking};
use crate::engine::score::spread;
use crate::engine::{ScriptedCall, ScriptedReply};

/// Lines that answers are made of, each said with others around it every time.
const PIECES: usize = 4096;
/// Ways to end an answer: a sentence and a tool call.
const TAILS: usize = 1024;
/// Pieces that are too long for what is left of an answer, before it is left as it is.
const MISSES: u32 = 6;
/// Tokens of one event of a stream.
const EVENT_TOKENS: usize = 3;

/// Some text with everything that is ever written of it.
pub(crate) struct Piece {
    pub(crate) text: Box<str>,
    pub(crate) ids: Box<[TokenId]>,
    pub(crate) logprobs: Box<[f32]>,
    /// The text inside a JSON string.
    pub(crate) escaped: Box<str>,
    /// The ids as JSON numbers with commas between.
    pub(crate) ids_json: Box<str>,
    /// vLLM's log-probability objects with commas between.
    pub(crate) logprobs_json: Box<str>,
    /// Events of a Chat stream, each a chunk of HTTP.
    pub(crate) events: Box<str>,
}

/// A piece that ends in a tool call and the end of the turn. Its `text` is what stands before the call.
pub(crate) struct Tail {
    pub(crate) piece: Piece,
    pub(crate) name: &'static str,
    /// The call's arguments as JSON.
    pub(crate) arguments: Value,
    /// `tool_calls` of a Chat answer.
    pub(crate) call_json: Box<str>,
}

/// All pieces.
pub(crate) struct Stock {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) tails: Vec<Tail>,
}

/// An answer: which pieces, and which tail.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Picked {
    pub(crate) pieces: Vec<u16>,
    pub(crate) tail: u16,
    pub(crate) tokens: usize,
}

impl Stock {
    /// Makes the stock for a model; fails where the model's grammar is not known.
    pub(crate) fn new(model: &Model, words: &Words, seed: u64) -> Result<Self, String> {
        let composer = Composer::new(model);
        let mut rng = Rng::new(seed ^ 0x570c);
        let mut pieces = Vec::with_capacity(PIECES);
        for _ in 0..PIECES {
            let mut text = String::new();
            words.line(&mut rng, &mut text);
            // White space at the beginning is not an answer's own in every grammar.
            let text = format!("{}\n", text.trim_start());
            let mut ids = Vec::new();
            model.tokenizer.encode(&text, ControlText::Plain, &mut ids)?;
            pieces.push(Piece::new(model, &mut rng, text, ids, true)?);
        }
        let mut tails = Vec::with_capacity(TAILS);
        for _ in 0..TAILS {
            tails.push(Tail::new(model, &composer, words, &mut rng)?);
        }
        Ok(Self { pieces, tails })
    }

    /// What is said in this turn of this conversation, about so many tokens.
    pub(crate) fn pick(&self, seed: u64, conversation: u64, turn: u32, tokens: usize) -> Picked {
        let mut rng = Rng::new(spread(seed ^ spread(conversation)) ^ u64::from(turn));
        let tail = rng.below(self.tails.len());
        let mut picked = Picked { tail: tail as u16, ..Picked::default() };
        picked.tokens = self.tails[tail].piece.ids.len();
        let mut misses = 0;
        while misses < MISSES {
            let piece = rng.below(self.pieces.len());
            let more = self.pieces[piece].ids.len();
            if picked.tokens + more > tokens + 8 {
                misses += 1;
                continue;
            }
            picked.tokens += more;
            picked.pieces.push(piece as u16);
        }
        picked
    }

    /// The pieces of an answer in their order, the tail last.
    pub(crate) fn said<'a>(&'a self, picked: &'a Picked) -> impl Iterator<Item = &'a Piece> {
        let pieces = picked.pieces.iter().map(|piece| &self.pieces[usize::from(*piece)]);
        pieces.chain(std::iter::once(&self.tail(picked).piece))
    }

    pub(crate) fn tail(&self, picked: &Picked) -> &Tail {
        &self.tails[usize::from(picked.tail)]
    }
}

impl Piece {
    fn new(
        model: &Model,
        rng: &mut Rng,
        text: String,
        ids: Vec<TokenId>,
        streams: bool,
    ) -> Result<Self, String> {
        let logprobs: Vec<f32> = ids
            .iter()
            .map(|_| -((rng.share() * rng.share() * 6.0) as f32) - f32::EPSILON)
            .collect();
        let (mut ids_json, mut logprobs_json) = (String::new(), String::new());
        for (n, (id, logprob)) in ids.iter().zip(&logprobs).enumerate() {
            let comma = if n > 0 { "," } else { "" };
            let value = Value::from(f64::from(*logprob));
            let wrote = write!(ids_json, "{comma}{id}").and_then(|()| {
                write!(
                    logprobs_json,
                    r#"{comma}{{"token_id":{id},"logprob":{value},"rank":1,"top_logprobs":[{{"token_id":{id},"logprob":{value},"rank":1}}]}}"#
                )
            });
            wrote.map_err(|error| error.to_string())?;
        }
        let events = if streams { events(model, &ids) } else { String::new() };
        Ok(Self {
            escaped: escaped(&text).into(),
            text: text.into(),
            ids: ids.into(),
            logprobs: logprobs.into(),
            ids_json: ids_json.into(),
            logprobs_json: logprobs_json.into(),
            events: events.into(),
        })
    }
}

impl Tail {
    fn new(
        model: &Model,
        composer: &Composer,
        words: &Words,
        rng: &mut Rng,
    ) -> Result<Self, String> {
        let mut line = || {
            let mut text = String::new();
            words.line(rng, &mut text);
            text.trim().to_owned()
        };
        let (said, one, two) = (line(), line(), line());
        let (name, arguments) = match rng.below(3) {
            0 => ("bash", json!({"command": format!("cd /repo && grep -rn {one:?} . | head -40")})),
            1 => {
                ("read_file", json!({"path": "src/".to_owned() + &one, "offset": 40, "limit": 200}))
            }
            _ => ("edit_file", json!({"path": "src/lib.rs", "old": one, "new": two})),
        };
        let reply = ScriptedReply {
            content: Some(said.clone()),
            tool_calls: vec![ScriptedCall {
                name: name.to_owned(),
                arguments: arguments.as_object().cloned().unwrap_or_default(),
            }],
            ..ScriptedReply::default()
        };
        let composed = composer.composed(model, &reply, Thinking::Unsaid)?;
        let mut piece = Piece::new(model, rng, said, composed.ids, false)?;
        let call = json!([{"index": 0, "id": "call_bench", "type": "function",
            "function": {"name": name, "arguments": arguments.to_string()}}]);
        piece.events = format!(
            "{}{}",
            event(&json!({ "content": &*piece.text }), None),
            event(&json!({ "tool_calls": call }), Some("tool_calls"))
        )
        .into();
        Ok(Self { piece, name, arguments, call_json: call.to_string().into() })
    }
}

/// A text inside a JSON string, without the quotes.
pub(crate) fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Events of a Chat stream for these ids.
fn events(model: &Model, ids: &[TokenId]) -> String {
    let mut all = String::new();
    let mut held = Vec::new();
    for some in ids.chunks(EVENT_TOKENS) {
        model.detokenize(some, &mut held);
        // Text of the bench is ASCII; a token never cuts a character.
        let text = String::from_utf8_lossy(&held).into_owned();
        all += &event(&json!({ "content": text }), None);
        held.clear();
    }
    all
}

/// One event as one chunk of HTTP.
pub(crate) fn event(delta: &Value, finish: Option<&str>) -> String {
    let body = json!({
        "id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 0, "model": "bench",
        "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}],
    });
    chunk(&format!("data: {body}\n\n"))
}

/// Data as a chunk of HTTP.
pub(crate) fn chunk(data: &str) -> String {
    format!("{:x}\r\n{data}\r\n", data.len())
}
