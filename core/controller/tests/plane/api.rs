//! The control port over a socket.

use std::net::SocketAddr;

use rollgate_controller::api::{Api, ApiConfig, ServeError};
use rollgate_controller::sink::{from_parquet, from_safetensors};
use serde_json::{Value, json};

use crate::node;
use crate::wire::{Answer, call};

const TOKEN: &str = "t0ken";

struct Port {
    addr: SocketAddr,
    agents: SocketAddr,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    served: tokio::task::JoinHandle<Result<(), ServeError>>,
    _state: tempfile::TempDir,
}

impl Port {
    async fn start() -> Self {
        let state = tempfile::tempdir().unwrap();
        let gate = node::gate(state.path()).await;
        let agents = gate.agents_addr();
        let api = Api::bind(config(TOKEN)).await.unwrap();
        let addr = api.addr();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let served = tokio::spawn(api.serve(gate, async { drop(stopped.await) }));
        Self { addr, agents, stop: Some(stop), served, _state: state }
    }

    /// Waits until the engine was seen to be well. Before that, `/readyz` says why it is not.
    async fn until_ready(&self) {
        for _ in 0..500 {
            let answer = call(self.addr, "GET /readyz", None, "").await;
            if answer.status == 200 {
                return;
            }
            assert_eq!((answer.status, answer.code().as_str()), (503, "not_ready"));
            assert!(answer.text().contains("no engine is up"), "{}", answer.text());
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("it was never ready");
    }

    async fn ask(&self, line: &str, body: &str) -> Answer {
        call(self.addr, line, Some(TOKEN), body).await
    }
}

fn config(token: &str) -> ApiConfig {
    ApiConfig {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        token: token.to_owned(),
        public_url: None,
        model: node::model_name(),
        node: "n1".to_owned(),
    }
}

#[tokio::test]
async fn only_probes_answer_without_the_token() {
    let port = Port::start().await;
    assert_eq!(call(port.addr, "GET /healthz", None, "").await.status, 200);
    port.until_ready().await;
    for token in [None, Some("wrong")] {
        for line in ["GET /v1/sessions", "POST /v1/sessions", "GET /metrics", "GET /nowhere"] {
            let answer = call(port.addr, line, token, "").await;
            assert_eq!((answer.status, answer.code().as_str()), (401, "wrong_token"), "{line}");
            assert!(answer.head.contains("www-authenticate: bearer"), "{}", answer.head);
        }
    }
    assert!(matches!(Api::bind(config("")).await, Err(ServeError::NoToken)));
}

#[tokio::test]
async fn every_refusal_is_json_with_a_code() {
    let port = Port::start().await;
    let large = "x".repeat(2 << 20);
    for (line, body, status, code) in [
        ("GET /nowhere", "", 404, "unknown_path"),
        ("PUT /v1/sessions", "", 405, "wrong_method"),
        ("POST /healthz", "", 405, "wrong_method"),
        ("GET /v1/sessions/nonsense", "", 404, "no_session"),
        ("GET /v1/sessions/n1-00000000000000000000000000000007", "", 404, "no_session"),
        ("GET /v1/sessions/n1-00000000000000000000000000000007/samples", "", 404, "no_session"),
        (
            "GET /v1/sessions/n1-00000000000000000000000000000007/samples?x=1",
            "",
            400,
            "bad_request",
        ),
        ("POST /v1/sessions", "{", 400, "bad_request"),
        ("POST /v1/sessions", "[]", 400, "bad_request"),
        ("POST /v1/sessions", r#"{"agnet": "x"}"#, 400, "bad_request"),
        ("POST /v1/sessions", &large, 413, "body_too_large"),
    ] {
        let answer = port.ask(line, body).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{line}");
    }
}

#[tokio::test]
async fn what_no_scene_rule_holds_for_is_counted() {
    let port = Port::start().await;
    let scenes = r#"{"scenes": [{"name": "loop", "scene": "main", "when": {"tool": ["sh"]}}]}"#;
    let opened = port.ask("POST /v1/sessions", scenes).await.json();
    let (id, key) = (opened["session_id"].as_str().unwrap(), opened["key"].as_str());
    let mut body = json!({"model": "any", "messages": [{"role": "user", "content": "a"}]});
    for tools in [json!(null), json!([{"type": "function", "function": {"name": "sh"}}])] {
        body["tools"] = tools;
        let line = "POST /v1/chat/completions";
        let answer = call(port.agents, line, key, &body.to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let shown = port.ask(&format!("GET /v1/sessions/{id}"), "").await.json();
    assert_eq!(shown["scenes"], json!({"main": 1, "unknown": 1}));
    let turns = port.ask(&format!("GET /v1/sessions/{id}/turns"), "").await.text();
    let turns: Vec<Value> = turns.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&turns[0]["scene"], &turns[0]["rule"]), (&json!("unknown"), &json!("none")));
    assert_eq!((&turns[1]["scene"], &turns[1]["rule"]), (&json!("main"), &json!("loop")));
    let metrics = port.ask("GET /metrics", "").await.text();
    let count = |scene: &str| {
        let ours = metrics.lines().filter(|line| line.starts_with("rollgate_turns_total{"));
        let ours = ours.filter(|line| line.contains(&format!("scene=\"{scene}\"")));
        ours.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum::<u64>()
    };
    assert_eq!((count("main"), count("unknown"), count("title")), (1, 1, 0), "{metrics}");
    port.ask(&format!("POST /v1/sessions/{id}/close"), "").await;
    let row = port.ask(&format!("GET /v1/sessions/{id}/samples"), "").await.text();
    assert_eq!(row.lines().count(), 1, "an unknown turn makes no sample: {row}");

    let bad = scenes.replace(r#""tool": ["sh"]"#, r#""last": "(""#);
    let refused = port.ask("POST /v1/sessions", &bad).await;
    let told = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert_eq!(refused.status, 400);
    assert!(["`scenes`", "\"loop\"", "`last`"].iter().all(|part| told.contains(part)), "{told}");
}

#[tokio::test]
async fn a_session_from_its_opening_to_its_end() {
    let port = Port::start().await;
    let opened = port.ask("POST /v1/sessions", "").await;
    assert_eq!(opened.status, 201, "{}", opened.text());
    let opened = opened.json();
    let id = opened["session_id"].as_str().unwrap();
    let root = format!("http://{}", port.agents);
    assert_eq!(opened["base_url"], json!({"openai": format!("{root}/v1"), "anthropic": root}));
    let of = |method: &str, rest: &str| format!("{method} /v1/sessions/{id}{rest}");

    let none = port.ask(&of("GET", "/samples?format=safetensors"), "").await;
    assert_eq!((none.status, none.code().as_str()), (404, "no_sample"));
    let body = json!({"model": "any", "messages": [{"role": "user", "content": "a"}]}).to_string();
    let key = opened["key"].as_str();
    let answer = call(port.agents, "POST /v1/chat/completions", key, &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());

    let shown = port.ask(&of("GET", ""), "").await.json();
    assert_eq!((&shown["turns"], &shown["state"]), (&json!(1), &json!("open")));
    assert_eq!(shown["health"], "clean");
    let list = port.ask("GET /v1/sessions", "").await.json();
    assert_eq!(list["sessions"][0]["session_id"], id);
    let turns = port.ask(&of("GET", "/turns"), "").await;
    assert!(turns.head.contains("application/x-ndjson"));
    let turn: Value = serde_json::from_str(turns.text().trim_end()).unwrap();
    assert_eq!((&turn["scene"], &turn["turn"]), (&json!("main"), &json!(0)));
    assert_eq!((&turn["dialect"], &turn["flags"]["delivered"]), (&json!("chat"), &json!(true)));
    assert_eq!(turn["usage"]["prompt_tokens"], turn["stretch_tokens"]);
    let digests = turn["digests"]["elements"].as_array().unwrap();
    assert_eq!((digests.len(), &turn["match_rules"]), (1, &json!([])));

    let reward = port.ask(&of("POST", "/reward"), r#"{"reward": 0.5, "parts": {"a": 1}}"#).await;
    assert_eq!((reward.status, &reward.json()["parts"]), (200, &json!({"a": 1.0})));
    assert_eq!(port.ask(&of("POST", "/reward"), r#"{"rewrad": 1}"#).await.status, 400);
    assert_eq!(port.ask(&of("POST", "/reward"), "").await.status, 400);
    for _ in 0..2 {
        let closed = port.ask(&of("POST", "/close"), "").await;
        assert_eq!((closed.status, &closed.json()["state"]), (200, &json!("closed")));
    }

    let rows = port.ask(&of("GET", "/samples"), "").await;
    let row: Value = serde_json::from_str(rows.text().trim_end()).unwrap();
    assert_eq!((&row["reward"], &row["outcome"]), (&json!(0.5), &json!("done")));
    assert_eq!((&row["group_id"], &row["siblings"]), (&json!(id), &json!(1)));
    let tensors = port.ask(&of("GET", "/samples?format=safetensors&segment=0"), "").await;
    let sample = from_safetensors(&tensors.body).unwrap();
    assert_eq!(serde_json::to_value(&sample).unwrap(), row);
    let wrong = port.ask(&of("GET", "/samples?segment=9"), "").await;
    assert_eq!((wrong.status, wrong.code().as_str()), (404, "no_segment"));
    let table = port.ask(&of("GET", "/samples?format=parquet"), "").await;
    assert!(table.head.contains("application/vnd.apache.parquet"), "{}", table.head);
    assert_eq!(from_parquet(table.body).unwrap(), [sample]);
    assert_eq!(port.ask(&of("GET", "/samples?format=csv"), "").await.status, 400);

    assert_eq!(port.ask(&of("DELETE", ""), "").await.status, 204);
    assert_eq!(port.ask(&of("GET", ""), "").await.status, 404);
}

#[tokio::test]
async fn all_that_is_described_is_there() {
    let port = Port::start().await;
    let described = port.ask("GET /openapi.json", "").await.json();
    let paths = described["paths"].as_object().unwrap();
    let mut calls = 0;
    for (path, methods) in paths {
        for method in methods.as_object().unwrap().keys() {
            let line = format!("{} {}", method.to_uppercase(), path.replace("{id}", "n1-7"));
            let answer = port.ask(&line, "").await;
            let there = answer.status < 300 || answer.code() == "no_session";
            assert!(there, "{line}: {}", answer.text());
            calls += 1;
        }
    }
    assert_eq!(calls, 12);
    let metrics = port.ask("GET /metrics", "").await.text();
    assert!(metrics.contains("rollgate_sessions{shard=\"0\"} 1"), "{metrics}");
}

#[tokio::test]
async fn it_stops_when_it_is_told() {
    let mut port = Port::start().await;
    drop(port.stop.take());
    port.served.await.unwrap().unwrap();
    assert!(tokio::net::TcpStream::connect(port.addr).await.is_err());
}
