//! The bench's engine: vLLM's token route, and plain Chat Completions for other gateways. It copies
//! prepared pieces and hashes prompts, so that load and engine together cost less than a gateway.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use monoio::io::AsyncWriteRentExt as _;
use monoio::net::{TcpListener, TcpStream};
use rollgate_pipeline::render::Model;
use serde_json::json;

use super::book::{Book, Place};
use super::intake::{Head, Intake};
use super::stock::{chunk, event};

/// How far back the last text of a request is looked for, in ids: its mark and the template's end.
const TAIL_IDS: usize = 64;
/// The same in bytes of a Chat request.
const TAIL_BYTES: usize = 16 * 1024;

/// What the engine needs to answer.
pub(crate) struct Engine {
    pub(crate) book: Rc<Book>,
    pub(crate) model: std::sync::Arc<Model>,
    /// Longest prompt plus answer that it claims to take.
    pub(crate) max_context: u32,
    /// Buffers for large requests, since most connections wait most of the time.
    pub(crate) large: RefCell<Vec<Vec<u8>>>,
}

/// Accepts connections until it is dropped.
pub(crate) async fn serve(listener: TcpListener, engine: Rc<Engine>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let engine = Rc::clone(&engine);
                monoio::spawn(async move {
                    // A connection that breaks is seen by its caller.
                    let _ = converse(stream, &engine).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the bench's engine cannot accept a connection");
                monoio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
}

async fn converse(mut stream: TcpStream, engine: &Engine) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut intake = Intake::default();
    let mut out = Vec::with_capacity(64 * 1024);
    loop {
        let Some(head) = intake.request(&mut stream, &engine.large).await? else {
            return Ok(());
        };
        out.clear();
        engine.answer(&head, intake.body(&head), &mut out);
        intake.done(&head, &engine.large);
        let (result, written) = stream.write_all(out).await;
        result?;
        out = written;
    }
}

impl Engine {
    fn answer(&self, head: &Head, body: &[u8], out: &mut Vec<u8>) {
        let path = head.path.split('?').next().unwrap_or_default();
        match (head.post, path) {
            (true, "/inference/v1/generate") => self.generate(body, out),
            (true, path) if path.ends_with("/chat/completions") => self.chat(body, out),
            (false, "/v1/models") => {
                let name = &self.model.name;
                let model = json!({"id": name, "object": "model", "created": 0, "owned_by": "bench",
                    "root": name, "parent": null, "max_model_len": self.max_context});
                say(out, "200 OK", &json!({"object": "list", "data": [model]}).to_string());
            }
            (false, "/health" | "/health_generate" | "/ping") => say(out, "200 OK", ""),
            (false, "/version") => say(out, "200 OK", r#"{"version":"0"}"#),
            (true, "/inference/v1/abort_requests") => say(out, "200 OK", ""),
            _ => say(out, "404 Not Found", r#"{"detail":"Not Found"}"#),
        }
    }

    fn generate(&self, body: &[u8], out: &mut Vec<u8>) {
        let Some(ids) = ids(body) else {
            return refuse(out, "token_ids is missing");
        };
        let Some(place) = self.place(ids) else {
            self.book.fault(|| "a prompt does not end in a text of the bench".to_owned());
            return refuse(out, "the prompt does not end in a text of the bench");
        };
        let picked = self.book.reply(place);
        let prompt = self.book.take_prompt(place, ids, &picked);
        let stock = &self.book.stock;
        let mut said = Vec::with_capacity(picked.tokens * 128);
        let mut put = |text: &str| said.extend_from_slice(text.as_bytes());
        put(r#"{"request_id":"generate-tokens-bench","model":""#);
        put(&self.model.name);
        put(
            r#"","created":0,"output_mode":"tokens","choices":[{"index":0,"finish_reason":"stop","stop_reason":null,"token_ids":["#,
        );
        for (n, piece) in stock.said(&picked).enumerate() {
            put(if n > 0 { "," } else { "" });
            put(&piece.ids_json);
        }
        put(r#"],"logprobs":{"content":["#);
        for (n, piece) in stock.said(&picked).enumerate() {
            put(if n > 0 { "," } else { "" });
            put(&piece.logprobs_json);
        }
        let (completion, total) = (picked.tokens, picked.tokens + prompt);
        put(&format!(
            r#"]}},"routed_experts":null,"sampling_mask":null,"weight_versions":[{{"version":"v1","start":0,"end":{completion}}}]}}],"usage":{{"prompt_tokens":{prompt},"completion_tokens":{completion},"total_tokens":{total},"prompt_tokens_details":{{"cached_tokens":0}}}},"prompt_token_ids":null,"prompt_logprobs":null,"prompt_token_id_logprobs":null,"mm_placeholders":null,"metrics":null,"kv_transfer_params":null,"ec_transfer_params":null}}"#
        ));
        head(out, "200 OK", "application/json", said.len());
        out.extend_from_slice(&said);
    }

    /// The place that the last ids name.
    fn place(&self, ids: &[u8]) -> Option<Place> {
        let start = memchr::memrchr_iter(b',', ids).nth(TAIL_IDS).map_or(0, |at| at + 1);
        let mut text = Vec::with_capacity(TAIL_IDS * 8);
        for number in ids[start..].split(|byte| *byte == b',') {
            let id = std::str::from_utf8(number).ok()?.trim().parse().ok()?;
            text.extend_from_slice(self.model.tokenizer.bytes_of(id).unwrap_or_default());
        }
        Place::find(&text)
    }

    /// A Chat answer. Nothing is checked of the prompt here: there is nothing but text in it.
    fn chat(&self, body: &[u8], out: &mut Vec<u8>) {
        let tail = &body[body.len().saturating_sub(TAIL_BYTES)..];
        // A peer that writes requests anew may put more behind the messages than fits the tail.
        let Some(place) = Place::find(tail).or_else(|| Place::find(body)) else {
            return refuse(out, "the request does not end in a text of the bench");
        };
        let picked = self.book.reply(place);
        let streams = memchr::memmem::find(&body[..body.len().min(256)], br#""stream":true"#);
        match streams {
            Some(_) => self.chat_events(&picked, out),
            None => self.chat_json(&picked, out),
        }
    }

    fn chat_json(&self, picked: &super::stock::Picked, out: &mut Vec<u8>) {
        let stock = &self.book.stock;
        let mut said = Vec::with_capacity(picked.tokens * 8);
        let mut put = |text: &str| said.extend_from_slice(text.as_bytes());
        put(r#"{"id":"chatcmpl-bench","object":"chat.completion","created":0,"model":""#);
        put(&self.model.name);
        put(r#"","choices":[{"index":0,"message":{"role":"assistant","content":""#);
        stock.said(picked).for_each(|piece| put(&piece.escaped));
        put(r#"","tool_calls":"#);
        put(&stock.tail(picked).call_json);
        let tokens = picked.tokens;
        put(&format!(
            r#"}},"logprobs":null,"finish_reason":"tool_calls"}}],"usage":{{"prompt_tokens":1,"completion_tokens":{tokens},"total_tokens":{}}}}}"#,
            tokens + 1
        ));
        head(out, "200 OK", "application/json", said.len());
        out.extend_from_slice(&said);
    }

    fn chat_events(&self, picked: &super::stock::Picked, out: &mut Vec<u8>) {
        out.extend_from_slice(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n",
        );
        out.extend_from_slice(event(&json!({"role": "assistant", "content": ""}), None).as_bytes());
        self.book
            .stock
            .said(picked)
            .for_each(|piece| out.extend_from_slice(piece.events.as_bytes()));
        out.extend_from_slice(chunk("data: [DONE]\n\n").as_bytes());
        out.extend_from_slice(b"0\r\n\r\n");
    }
}

/// The list of ids of a token request.
fn ids(body: &[u8]) -> Option<&[u8]> {
    const KEY: &[u8] = br#""token_ids":["#;
    let start = memchr::memmem::find(&body[..body.len().min(4096)], KEY)? + KEY.len();
    let end = memchr::memchr(b']', &body[start..])?;
    (end > 0).then(|| &body[start..start + end])
}

fn refuse(out: &mut Vec<u8>, message: &str) {
    let error = json!({"error": {"message": message, "type": "BadRequestError", "param": null, "code": 400}});
    say(out, "400 Bad Request", &error.to_string());
}

fn say(out: &mut Vec<u8>, status: &str, body: &str) {
    head(out, status, "application/json", body.len());
    out.extend_from_slice(body.as_bytes());
}

fn head(out: &mut Vec<u8>, status: &str, kind: &str, length: usize) {
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
    out.extend_from_slice(head.as_bytes());
}
