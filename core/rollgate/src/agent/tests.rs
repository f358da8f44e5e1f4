use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use super::*;

/// A server that plays `answers` in order, one connection each, and hands back the bodies it got.
/// An empty answer closes the connection.
fn server(answers: Vec<String>) -> (Endpoint, JoinHandle<Vec<Value>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}/v1/", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        let serve = |answer: String| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert!(reader.read_line(&mut head).unwrap() > 0, "head: {head}");
            }
            assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{head}");
            assert!(head.to_lowercase().contains("authorization: bearer k\r\n"), "{head}");
            let length = head.to_lowercase();
            let length = length.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
            let mut body = vec![0; length.parse().unwrap()];
            reader.read_exact(&mut body).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            serde_json::from_slice(&body).unwrap()
        };
        answers.into_iter().map(serve).collect()
    });
    (Endpoint { base_url, key: "k".to_owned() }, serving)
}

fn http(status: &str, extra: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\n{extra}content-length: {length}\r\n\r\n{body}"
    )
}

fn ok(message: &Value) -> String {
    let body = json!({"choices": [{"message": message, "finish_reason": "stop"}]});
    http("200 OK", "content-type: application/json\r\n", &body.to_string())
}

fn sse(deltas: &[Value]) -> String {
    let chunk = |delta: &Value| format!("data: {}\n\n", json!({"choices": [{"delta": delta}]}));
    let body: String = deltas.iter().map(chunk).collect();
    http("200 OK", "content-type: text/event-stream\r\n", &(body + "data: [DONE]\n\n"))
}

fn bash(command: &str) -> Value {
    let arguments = json!({"command": command}).to_string();
    json!([{"index": 0, "id": "c1", "type": "function",
        "function": {"name": "bash", "arguments": arguments}}])
}

fn args() -> AgentArgs {
    AgentArgs {
        instruction_file: None,
        model: "m".to_owned(),
        stream: false,
        max_turns: 3,
        think_ms: 0,
        drop_reasoning: false,
    }
}

/// Runs the agent against the answers; its result and the requests it made.
fn play(args: &AgentArgs, answers: Vec<String>) -> (Result<String, String>, Vec<Value>) {
    let (endpoint, serving) = server(answers);
    let result = solve(args, endpoint, "task").map_err(|error| error.to_string());
    (result, serving.join().unwrap())
}

#[test]
fn a_call_is_run_and_its_result_sent_back() {
    let call = json!({"content": null, "reasoning_content": "hm", "tool_calls": bash("echo hi")});
    let answers = vec![ok(&call), ok(&json!({"content": "done"}))];
    let (result, requests) = play(&args(), answers);
    assert_eq!(result.unwrap(), "done");
    assert_eq!(requests[0]["messages"].as_array().unwrap().len(), 2);
    assert_eq!(requests[0]["tools"][0]["function"]["name"], "bash");
    let turn = &requests[1]["messages"][2];
    assert_eq!((&turn["reasoning_content"], &turn["content"]), (&json!("hm"), &Value::Null));
    assert_eq!(turn["tool_calls"][0]["function"]["arguments"], "{\"command\":\"echo hi\"}");
    let expected = json!({"role": "tool", "tool_call_id": "c1", "content": "exit code 0\nhi\n"});
    assert_eq!(requests[1]["messages"][3], expected);
}

#[test]
fn a_stream_says_the_same_and_reasoning_can_be_dropped() {
    let deltas = [json!({"reasoning_content": "hm"}), json!({"tool_calls": bash("exit 2")})];
    let answers = vec![sse(&deltas), sse(&[json!({"content": "do"}), json!({"content": "ne"})])];
    let args = AgentArgs { stream: true, drop_reasoning: true, ..args() };
    let (result, requests) = play(&args, answers);
    assert_eq!(result.unwrap(), "done");
    assert_eq!(requests[0]["stream"], true);
    assert!(requests[1]["messages"][2].get("reasoning_content").is_none());
    assert_eq!(requests[1]["messages"][3]["content"], "exit code 2\n");
}

#[test]
fn busy_servers_and_broken_connections_are_tried_again_with_the_same_body() {
    let cut = "data: {\"choices\":[{\"delta\":{\"content\":\"do\"}}]}\n\n";
    let answers = vec![
        http("429 Too Many", "retry-after: 0\r\n", "{}"),
        String::new(),
        http("503 Busy", "retry-after: 0\r\n", ""),
        http("200 OK", "content-type: text/event-stream\r\n", cut),
        ok(&json!({"content": "done"})),
    ];
    let (result, requests) = play(&args(), answers);
    assert_eq!(result.unwrap(), "done");
    assert!(requests.iter().all(|request| *request == requests[0]));
}

#[test]
fn an_endless_refusal_ends_after_five_retries() {
    let busy = http("503 Busy", "retry-after: 0\r\n", r#"{"error":{"message":"full"}}"#);
    let (result, _) = play(&args(), vec![busy; 6]);
    let error = result.unwrap_err();
    assert!(error.ends_with("status 503: full; gave up after 6 tries"), "{error}");
}

#[test]
fn a_refusal_is_final_and_quoted() {
    let body = r#"{"error":{"message":"too long","type":"invalid_request_error"}}"#;
    let (result, _) = play(&args(), vec![http("400 Bad Request", "", body)]);
    let error = result.unwrap_err();
    assert!(error.ends_with("/v1/chat/completions: status 400: too long"), "{error}");
}

#[test]
fn the_models_mistakes_are_told_to_it_and_turns_run_out() {
    let wrong = |name: &str, arguments: &str| {
        ok(&json!({"content": "", "tool_calls": [
            {"id": "c", "function": {"name": name, "arguments": arguments}}]}))
    };
    let answers = vec![wrong("rm", "{}"), wrong("bash", "{bad"), wrong("bash", r#"{"command":1}"#)];
    let (result, requests) = play(&args(), answers);
    assert_eq!(result.unwrap_err(), "no answer after 3 turns (--max-turns)");
    let told = |position: usize| requests[2]["messages"][position]["content"].as_str().unwrap();
    assert!(told(3).contains("no tool `rm`") && told(5).contains("must be a JSON object"));
}
