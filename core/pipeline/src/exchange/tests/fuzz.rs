//! Anything as a request's body in each dialect, and as an engine's reply.

use super::*;
use crate::fuzz;

const WORDS: [&str; 40] = [
    "\"messages\":",
    "\"input\":",
    "\"model\":",
    "\"role\":",
    "\"user\"",
    "\"assistant\"",
    "\"system\"",
    "\"tool\"",
    "\"content\":",
    "\"type\":",
    "\"text\"",
    "\"tools\":",
    "\"tool_calls\":",
    "\"tool_choice\":",
    "\"function\"",
    "\"name\":",
    "\"arguments\":",
    "\"parameters\":",
    "\"input_schema\":",
    "\"tool_use\"",
    "\"tool_result\"",
    "\"thinking\"",
    "\"image\"",
    "\"stream\":true",
    "\"max_tokens\":",
    "\"temperature\":",
    "null",
    "true",
    "-1",
    "1e999",
    "NaN",
    "\\ud83d",
    "\\u0000",
    "{}",
    "[]",
    "[[[[[[[[",
    "18446744073709551616",
    "{\"",
    "\"}",
    ",",
];

/// What came of a request: an engine's call, or a refusal.
fn begun(play: &mut Play, body: &[u8], cuts: &[usize]) -> (Exchange, Want, String) {
    let head =
        format!("POST {} HTTP/1.1\r\nhost: g\r\ncontent-length: {}\r\n\r\n", play.path, body.len());
    let head = http::read_head(&mut BytesMut::from(head.as_bytes())).unwrap().unwrap();
    let route = http::route(&head).unwrap();
    let (mut exchange, mut want) = play.step(|cx| Exchange::new(&head, &route, cx));
    let mut bytes = BytesMut::new();
    for pair in cuts.windows(2) {
        let Want::AgentBytes = want else { break };
        bytes.extend_from_slice(&body[pair[0]..pair[1]]);
        want = play.step(|cx| exchange.agent_bytes(cx, &mut bytes));
    }
    let told = match &want {
        Want::Engine(_) => format!("{:?}", call(&want).0),
        Want::Agent(bytes) => refusal(bytes),
        other => panic!("{other:?}"),
    };
    (exchange, want, told)
}

/// A refusal that an agent understands: its status and its message.
fn refusal(bytes: &[u8]) -> String {
    let text = std::str::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("no JSON: {text}"));
    let status = &head[9..12];
    assert!(status.starts_with('4'), "the agent is to blame: {text}");
    let message = body["error"]["message"].as_str().unwrap_or_else(|| panic!("{text}"));
    assert!(!message.is_empty());
    format!("{status} {message}")
}

fn check_bodies(name: &str, path: &str) {
    let path = path.to_owned();
    fuzz::run(name, &WORDS, |body| {
        let mut play = Play { path: path.clone(), ..Play::new(SessionOptions::default()) };
        let (_, _, whole) = begun(&mut play, body, &[0, body.len()]);
        let mut play = Play { path: path.clone(), ..Play::new(SessionOptions::default()) };
        let (_, _, pieces) = begun(&mut play, body, &fuzz::cuts(body, 5));
        assert_eq!(pieces, whole);
    });
}

#[test]
fn fuzz_chat_requests() {
    check_bodies("chat", "/v1/chat/completions");
}

#[test]
fn fuzz_responses_requests() {
    check_bodies("responses", "/v1/responses");
}

#[test]
fn fuzz_messages_requests() {
    check_bodies("messages", "/v1/messages");
}

#[test]
fn fuzz_engine_replies() {
    let words = [
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 503 Busy\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "content-length: 20\r\n",
        "transfer-encoding: chunked\r\n",
        "\r\n\r\n",
        "5\r\n",
        "0\r\n\r\n",
        "\"choices\":",
        "\"token_ids\":",
        "[1,2,3]",
        "\"logprobs\":",
        "\"content\":",
        "\"token_id\":",
        "\"logprob\":",
        "\"finish_reason\":",
        "\"stop\"",
        "\"abort\"",
        "\"weight_versions\":",
        "\"usage\":",
        "null",
        "-1",
        "4294967296",
        "1e999",
        "{}",
        "[]",
    ];
    let asked = br#"{"model":"m","messages":[{"role":"user","content":"q"}]}"#;
    let outcome = |reply: &[u8], cuts: &[usize]| {
        let mut play = Play::new(SessionOptions::default());
        let (mut exchange, mut want, _) = begun(&mut play, asked, &[0, asked.len()]);
        let mut bytes = BytesMut::new();
        for (at, pair) in cuts.windows(2).enumerate() {
            if at > 0 && !matches!(want, Want::EngineBytes) {
                break;
            }
            bytes.extend_from_slice(&reply[pair[0]..pair[1]]);
            let eof = pair[1] == reply.len();
            want = play.step(|cx| exchange.engine_bytes(cx, &mut bytes, eof));
        }
        let (told, want) = play.drive(&mut exchange, want);
        let kind = match want {
            Want::Done { .. } => "done",
            Want::EngineBytes => "more",
            Want::Wait { .. } => "wait",
            Want::Engine(_) => "again",
            other => panic!("{other:?}"),
        };
        for turn in play.turns() {
            assert!(!turn.ids.is_empty() || turn.finish != crate::turn::Finish::Stop);
        }
        let body = told.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        (kind, play.turns().len(), body.map(|body| body.len()))
    };
    fuzz::run("engine-replies", &words, |reply| {
        let mut once = fuzz::cuts(reply, 5);
        once.dedup();
        if once.len() < 2 {
            return;
        }
        assert_eq!(outcome(reply, &once), outcome(reply, &[0, reply.len()]));
    });
}
