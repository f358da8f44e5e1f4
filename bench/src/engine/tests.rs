//! The engine over TCP, asked as the gateway asks and read as the gateway reads.

mod faults;
mod giving_up;
mod refusals;
mod replies;
mod sampling;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rollgate_pipeline::engine::{EngineCall, EngineKind, EngineRequest};
use rollgate_pipeline::fault::Fault;
use rollgate_pipeline::id::TokenId;
use rollgate_pipeline::render::{ControlText, Model, ModelFiles};
use rollgate_pipeline::turn::{Generated, Message, Role, Sampling};
use serde_json::{Map, Value, json};

use super::ledger::Ledger;
use super::stage::Stage;
use super::{EngineConfig, EngineHandle, Shape, driver, listen, parse_script, serve, start};

const KINDS: [EngineKind; 3] = [EngineKind::Vllm, EngineKind::VllmCompletions, EngineKind::Sglang];

/// The demo model, loaded once.
pub(crate) fn model() -> Arc<Model> {
    static MODEL: OnceLock<Arc<Model>> = OnceLock::new();
    let load = || {
        let files = ModelFiles {
            name: "demo".to_owned(),
            tokenizer: include_bytes!("../../../core/rollgate/assets/demo/tokenizer.json").into(),
            tokenizer_config: include_bytes!(
                "../../../core/rollgate/assets/demo/tokenizer_config.json"
            )
            .into(),
            config: Some(include_bytes!("../../../core/rollgate/assets/demo/config.json").into()),
            ..ModelFiles::default()
        };
        Arc::new(Model::load(files).unwrap())
    };
    Arc::clone(MODEL.get_or_init(load))
}

fn shape(kind: EngineKind) -> Shape {
    if kind == EngineKind::Sglang { Shape::Sglang } else { Shape::Vllm }
}

/// Starts an engine that plays this script.
fn engine(kind: EngineKind, script: Value) -> EngineHandle {
    let script = parse_script(&script.to_string()).unwrap();
    start(EngineConfig { shape: shape(kind), script, seed: 7, ..EngineConfig::new(model()) })
        .unwrap()
}

/// The same at an address of its own, for tests that look whether it still listens: a free port of
/// the common address may be taken by the next test at once.
fn engine_at(host: u8, kind: EngineKind, script: Value) -> EngineHandle {
    let script = parse_script(&script.to_string()).unwrap();
    let listen = SocketAddr::from(([127, 0, 9, host], 0));
    let config = EngineConfig { listen, shape: shape(kind), script, ..EngineConfig::new(model()) };
    start(config).unwrap()
}

/// Ids of text in which markers are tokens.
fn ids(text: &str) -> Vec<TokenId> {
    let mut ids = Vec::new();
    model().tokenizer.encode(text, ControlText::Match, &mut ids).unwrap();
    ids
}

fn text(ids: &[TokenId]) -> String {
    let mut bytes = Vec::new();
    model().detokenize(ids, &mut bytes);
    String::from_utf8(bytes).unwrap()
}

/// The prompt of a conversation with so many assistant turns before the one that is asked for.
fn prompt(turns: usize) -> Vec<TokenId> {
    let mut messages = vec![Message::text(Role::User, "Write a script that prints squares.")];
    for turn in 0..turns {
        messages.push(Message::text(Role::Assistant, format!("Answer {turn}.")));
        messages.push(Message::text(Role::User, format!("Go on, {turn}.")));
    }
    model().first(&messages, &[], &Map::new()).unwrap()
}

/// Sends a request and reads all that comes until the connection closes.
fn exchange(addr: SocketAddr, method: &str, path: &str, body: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: e\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    let mut reply = Vec::new();
    // A reset after the last byte is as good as a close.
    let _ = stream.read_to_end(&mut reply);
    reply
}

/// Status and body of a whole reply.
fn status_and_body(reply: &[u8]) -> (u16, Vec<u8>) {
    let end = reply.windows(4).position(|w| w == b"\r\n\r\n").expect("a whole head") + 4;
    let status = std::str::from_utf8(&reply[9..12]).unwrap().parse().unwrap();
    (status, reply[end..].to_vec())
}

fn send(engine: &EngineHandle, request: EngineRequest) -> (u16, Vec<u8>) {
    status_and_body(&exchange(engine.addr(), "POST", request.path, &request.body.concat()))
}

fn request(kind: EngineKind, prompt: &[TokenId], sampling: &Sampling) -> EngineRequest {
    let max_tokens = sampling.max_tokens.unwrap_or(4096);
    let request_id = "0123456789abcdef";
    kind.request(&EngineCall {
        model: "demo",
        prompt: &[rollgate_pipeline::id_text::of(prompt)],
        sampling,
        max_tokens,
        request_id,
    })
}

/// One generation call, made and read as the gateway does.
fn generate(
    kind: EngineKind,
    engine: &EngineHandle,
    prompt: &[TokenId],
    sampling: &Sampling,
) -> Result<Generated, Fault> {
    let (status, body) = send(engine, request(kind, prompt, sampling));
    kind.read(status, &body, model().vocab_size)
}

fn plain(kind: EngineKind, engine: &EngineHandle, prompt: &[TokenId]) -> Generated {
    generate(kind, engine, prompt, &Sampling::default()).unwrap()
}

/// Posts JSON; status and JSON body (null when it is none).
fn post(engine: &EngineHandle, path: &str, body: Value) -> (u16, Value) {
    let body = body.to_string();
    let reply = exchange(engine.addr(), "POST", path, body.as_bytes());
    let (status, body) = status_and_body(&reply);
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

fn get(engine: &EngineHandle, path: &str) -> (u16, Vec<u8>) {
    status_and_body(&exchange(engine.addr(), "GET", path, b""))
}

#[test]
fn side_routes_answer() {
    let engine = engine(EngineKind::Vllm, json!({"otherwise": {"content": "a"}}));
    for path in ["/health", "/v1/models", "/version", "/metrics"] {
        assert_eq!(get(&engine, path).0, 200, "{path}");
    }
    let models: Value = serde_json::from_slice(&get(&engine, "/v1/models").1).unwrap();
    assert_eq!(models["data"][0]["id"], "demo");
    assert_eq!(models["data"][0]["max_model_len"], 32768);
    assert_eq!(get(&engine, "/generate").0, 404);
    assert_eq!(get(&engine, "/inference/v1/generate").0, 405);
    let sglang = self::engine(EngineKind::Sglang, json!({"otherwise": {"content": "a"}}));
    for path in ["/health", "/ready", "/model_info", "/v1/models"] {
        assert_eq!(get(&sglang, path).0, 200, "{path}");
    }
    assert_eq!(post(&sglang, "/inference/v1/generate", json!({})).0, 404);
    let info: Value = serde_json::from_slice(&get(&sglang, "/model_info").1).unwrap();
    assert_eq!(info["weight_version"], "v1");
}

#[test]
fn tokenize_is_the_model_itself() {
    let engine = engine(EngineKind::Vllm, json!({"otherwise": {"content": "a"}}));
    let body = json!({"prompt": "<|im_start|>user\nHi", "add_special_tokens": false});
    assert_eq!(post(&engine, "/tokenize", body).1["tokens"], json!(ids("<|im_start|>user\nHi")));
    let called = json!({"id": "c", "type": "function",
        "function": {"name": "bash", "arguments": "{\"command\": \"ls\"}"}});
    let body = json!({"messages": [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": null, "reasoning": "r", "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "c", "content": "x"}]});
    let answer = post(&engine, "/tokenize", body).1;
    let tokens: Vec<TokenId> = serde_json::from_value(answer["tokens"].clone()).unwrap();
    assert_eq!(
        text(&tokens),
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\nr\n</think>\n\n\
         <tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}\n</tool_call>\
         <|im_end|>\n<|im_start|>user\n<tool_response>\nx\n</tool_response><|im_end|>\n\
         <|im_start|>assistant\n"
    );
    assert_eq!(post(&engine, "/tokenize", json!({})).0, 400);
}

#[test]
fn stopping_closes_every_connection() {
    let script = json!({"otherwise": {"content": "a", "delay_ms": 60_000}});
    let mut engine = engine_at(1, EngineKind::Vllm, script);
    let mut idle = TcpStream::connect(engine.addr()).unwrap();
    let mut waiting = TcpStream::connect(engine.addr()).unwrap();
    for stream in [&idle, &waiting] {
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    }
    idle.write_all(b"POST /inf").unwrap();
    let call = request(EngineKind::Vllm, &prompt(0), &Sampling::default());
    let body = call.body.concat();
    let head = format!("POST {} HTTP/1.1\r\ncontent-length: {}\r\n\r\n", call.path, body.len());
    waiting.write_all(&[head.as_bytes(), &body].concat()).unwrap();
    while engine.stats().running == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    engine.stop();
    assert!(!engine.is_running());
    for stream in [&mut idle, &mut waiting] {
        let mut rest = Vec::new();
        match stream.read_to_end(&mut rest) {
            Ok(_) => assert!(rest.is_empty()),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
    assert!(TcpStream::connect(engine.addr()).is_err());
}

#[test]
fn an_address_in_use_is_said() {
    let first = engine(EngineKind::Vllm, json!({"otherwise": {"content": "a"}}));
    let config = EngineConfig { listen: first.addr(), ..EngineConfig::new(model()) };
    let message = start(config).err().unwrap().to_string();
    assert!(message.contains(&first.addr().to_string()), "{message}");
}

#[test]
fn it_works_without_io_uring() {
    let (listener, addr) = listen(SocketAddr::from(([127, 0, 9, 2], 0))).unwrap();
    let ledger = Arc::new(Ledger::default());
    let of_thread = Arc::clone(&ledger);
    let thread = std::thread::spawn(move || {
        let stage = Rc::new(Stage::new(EngineConfig::new(model()), of_thread).unwrap());
        driver::epoll(serve::serve(listener, stage, Shape::Vllm, || {}))
    });
    let _idle = TcpStream::connect(addr).unwrap();
    assert_eq!(status_and_body(&exchange(addr, "GET", "/health", b"")).0, 200);
    ledger.stop.raise();
    assert!(thread.join().unwrap().unwrap().is_ok());
    assert!(TcpStream::connect(addr).is_err());
}
