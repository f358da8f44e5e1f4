//! Faults as agents of each dialect see them.

use super::*;

const DIALECTS: [(Dialect, &str); 3] = [
    (Dialect::Chat, "/v1/chat/completions"),
    (Dialect::Responses, "/v1/responses"),
    (Dialect::Messages, "/v1/messages?beta=true"),
];

/// A question in this dialect, with these keys besides.
pub(super) fn question(dialect: Dialect, text: &str, more: Value) -> String {
    let messages = json!([{"role": "user", "content": text}]);
    let mut body = match dialect {
        Dialect::Responses => json!({"model": "any", "input": messages}),
        Dialect::Chat => json!({"model": "any", "messages": messages}),
        Dialect::Messages => json!({"model": "any", "max_tokens": 64, "messages": messages}),
    };
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body.to_string()
}

/// An error answer, taken apart.
#[derive(Debug)]
struct Refused {
    status: u16,
    retry_after: Option<String>,
    /// Type, code where the dialect has one, message.
    error: (String, Option<String>, String),
}

fn refused(dialect: Dialect, answer: &str) -> Refused {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("content-type: application/json"), "{head}");
    let line = |name: &str| {
        head.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
    };
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body.get("type").is_some(), dialect == Dialect::Messages, "{body}");
    let text = |key: &str| body["error"][key].as_str().map(str::to_owned);
    let error = (text("type").unwrap(), text("code"), text("message").unwrap());
    Refused { status: head[9..12].parse().unwrap(), retry_after: line("retry-after:"), error }
}

/// A stream that waits, has shown a sign of life, and whose call then fails.
fn broken_stream(dialect: Dialect, path: &str, fault: &Fault) -> (String, Play) {
    let mut play = Play::new(SessionOptions::default());
    play.path = path.to_owned();
    let (mut exchange, want) = play.begin(&question(dialect, "q", json!({"stream": true})));
    assert!(matches!(want, Want::Engine(_)), "{want:?}");
    let now = Now { wall_ms: 0, mono_ms: 90_000 };
    let head = exchange.tick(&play.gatehouse, now).unwrap();
    assert!(head.starts_with(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream"));
    let want = play.step(|cx| exchange.engine_failed(cx, fault));
    let (given, want) = play.drive(&mut exchange, want);
    assert!(matches!(want, Want::Done { keep_alive: true }), "{want:?}");
    (given, play)
}

/// The events of a chunked stream: name, where there is one, and data.
pub(super) fn events(chunked: &str) -> Vec<(Option<String>, String)> {
    let mut rest = chunked;
    let mut text = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        text.push_str(&after[..size]);
        rest = &after[size + 2..];
        if size == 0 {
            assert_eq!(rest, "", "nothing follows the end");
            break;
        }
    }
    let blocks = text.split_terminator("\n\n").filter(|block| !block.starts_with(':'));
    let event = |block: &str| {
        let line = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
        (line("event: ").map(str::to_owned), line("data: ").unwrap().to_owned())
    };
    blocks.map(event).collect()
}

#[test]
fn k01_context_overflow_in_a_shape_agents_understand() {
    for (dialect, path) in DIALECTS {
        let mut play = Play::new(SessionOptions::default());
        play.path = path.to_owned();
        let long = question(dialect, &"x y z ".repeat(9_000), json!({}));
        let (mut exchange, want) = play.begin(&long);
        let (answer, _) = play.drive(&mut exchange, want);
        let Refused { status, error: (kind, code, message), .. } = refused(dialect, &answer);
        assert_eq!((status, kind.as_str()), (400, "invalid_request_error"), "{dialect:?}");
        let code_of = (dialect != Dialect::Messages).then_some("context_length_exceeded");
        assert_eq!(code.as_deref(), code_of, "{dialect:?}");
        let tokens: u32 = message.split(' ').nth(4).unwrap().parse().unwrap();
        assert!(tokens > 32_768, "{message}");
        let prompt = format!("prompt is too long: {tokens} tokens > 32768 maximum");
        assert!(message.starts_with(&prompt), "{message}");
        assert!(message.contains("maximum context length is 32768 tokens"), "{message}");
        assert!(!message.contains("x y z"), "no text of the prompt");
    }
    let full = Fault::overflow(crate::fault::Overflow { prompt_tokens: 100, max_context: 100 });
    assert!(full.message.starts_with("prompt is too long: 100 tokens > 99 maximum"), "{full}");
}

#[test]
fn k01_what_the_engine_says_of_its_context_is_said_in_the_same_words() {
    let cases = [
        ("This model's maximum context length is 5 tokens. However, your prompt is longer", 5),
        ("The input (9 tokens) is longer than the model's context length (4 tokens).", 4),
    ];
    for ((dialect, path), (told, most)) in DIALECTS.into_iter().zip(cases.into_iter().cycle()) {
        let mut play = Play::new(SessionOptions::default());
        play.path = path.to_owned();
        let (mut exchange, want) = play.begin(&question(dialect, "q", json!({})));
        let sent = call(&want).0.len();
        let reply = http_reply("400 Bad Request", &json!({"message": told}).to_string());
        let want = play.reply(&mut exchange, &reply);
        let (answer, want) = play.drive(&mut exchange, want);
        assert!(matches!(want, Want::Done { .. }), "it is not asked again: {want:?}");
        let Refused { status, error: (_, _, message), .. } = refused(dialect, &answer);
        let prompt = format!("prompt is too long: {sent} tokens > {most} maximum");
        assert!(status == 400 && message.starts_with(&prompt), "{status} {message}");
        assert!(message.contains("model.max_context"), "who can mend it is told: {message}");
    }
    let mut play = Play::new(SessionOptions::default());
    let (mut exchange, _) = play.begin(&question(Dialect::Chat, "q", json!({})));
    let told = "max_tokens=200 cannot be greater than max_model_len=100";
    let reply = http_reply("400 Bad Request", &json!({"message": told}).to_string());
    let want = play.reply(&mut exchange, &reply);
    let (answer, _) = play.drive(&mut exchange, want);
    let code = refused(Dialect::Chat, &answer).error.1;
    assert_eq!(code.as_deref(), Some("engine_refused"), "the prompt fits: nothing to compact");
}

#[test]
fn k01_an_overflow_inside_a_stream_has_its_code() {
    let fault = Fault::overflow(crate::fault::Overflow { prompt_tokens: 120, max_context: 100 });
    for (dialect, path) in DIALECTS {
        let (given, _) = broken_stream(dialect, path, &fault);
        let events = events(&given);
        let (name, data) = events.last().unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        let error = match dialect {
            Dialect::Responses => &data["response"]["error"],
            _ => &data["error"],
        };
        let named = name.as_deref();
        match dialect {
            Dialect::Chat => assert_eq!((events.len(), named), (1, None)),
            Dialect::Responses => assert_eq!(named, Some("response.failed")),
            Dialect::Messages => assert_eq!((events.len(), named), (1, Some("error"))),
        }
        if dialect != Dialect::Messages {
            assert_eq!(error["code"], "context_length_exceeded", "{data}");
        }
        let message = error["message"].as_str().unwrap();
        assert!(message.starts_with("prompt is too long: 120 tokens > 100 maximum"), "{message}");
    }
}

#[test]
fn k02_an_answer_is_given_the_room_that_there_is() {
    for (dialect, path) in DIALECTS {
        let key = match dialect {
            Dialect::Responses => "max_output_tokens",
            _ => "max_tokens",
        };
        let mut play = Play::new(SessionOptions::default());
        play.path = path.to_owned();
        let (_exchange, want) = play.begin(&question(dialect, "q", json!({key: 32_768})));
        let (prompt, body) = call(&want);
        let room = 32_768 - prompt.len() as u64;
        assert_eq!(body["sampling_params"]["max_tokens"], room, "{dialect:?}");
    }
}

#[test]
fn k03_a_refusal_of_the_engine_keeps_its_class_and_its_wait() {
    // The engine's status, the one that the agent sees, its wait, Anthropic's type, OpenAI's code.
    let cases = [
        ("503 Busy", 503, Some("7"), "overloaded_error", "engine_busy"),
        ("429 Slow down", 429, Some("7"), "rate_limit_error", "engine_limited"),
        ("401 Who?", 502, None, "api_error", "engine_denied"),
        ("500 Oops", 502, None, "api_error", "engine_bad_reply"),
        ("400 No", 400, None, "invalid_request_error", "engine_refused"),
    ];
    for (dialect, path) in DIALECTS {
        for stream in [false, true] {
            for (status, seen, wait, kind, code) in cases {
                let mut play = Play::new(SessionOptions::default());
                play.path = path.to_owned();
                let body = question(dialect, "q", json!({"stream": stream}));
                let (mut exchange, _) = play.begin(&body);
                let reply =
                    format!("HTTP/1.1 {status}\r\nretry-after: 7\r\ncontent-length: 2\r\n\r\n{{}}");
                let want = play.reply(&mut exchange, reply.as_bytes());
                let (answer, _) = play.drive(&mut exchange, want);
                let refused = refused(dialect, &answer);
                let told = (refused.status, refused.retry_after.as_deref());
                assert_eq!(told, (seen, wait), "{dialect:?} {status}");
                match dialect {
                    Dialect::Messages => assert_eq!(refused.error.0, kind, "{status}"),
                    _ => assert_eq!(refused.error.1.as_deref(), Some(code), "{status}"),
                }
                assert_eq!(play.turns().len(), 0);
            }
        }
    }
}

#[test]
fn k03_an_engine_that_cannot_be_reached_is_a_bad_gateway() {
    for (dialect, path) in DIALECTS {
        let mut play = Play::new(SessionOptions::default());
        play.path = path.to_owned();
        let (mut exchange, _) = play.begin(&question(dialect, "q", json!({"stream": true})));
        let fault = Fault::new(FaultKind::EngineDown, "nobody is there");
        let want = play.step(|cx| exchange.engine_failed(cx, &fault));
        let (answer, _) = play.drive(&mut exchange, want);
        let refused = refused(dialect, &answer);
        assert_eq!((refused.status, refused.retry_after), (502, None), "{dialect:?}");
        assert_eq!(refused.error.2, "nobody is there");
    }
}

#[test]
fn k04_signs_of_life_while_the_engine_is_silent() {
    for (dialect, path) in DIALECTS {
        let mut play = Play::new(SessionOptions::default());
        play.path = path.to_owned();
        let body = question(dialect, "q", json!({"stream": true}));
        let (mut exchange, _) = play.begin(&body);
        let at = |ms| Now { wall_ms: 0, mono_ms: 1_000 + ms };
        let mut shown = Vec::new();
        for second in 0..=90 {
            let bytes = exchange.tick(&play.gatehouse, at(second * 1_000));
            shown.extend(bytes.map(|bytes| (second, bytes)));
        }
        let seconds: Vec<u64> = shown.iter().map(|(second, _)| *second).collect();
        let want: Vec<u64> = (3..=90).step_by(5).collect();
        assert_eq!(seconds, want, "{dialect:?}: none of the idle limits in use is shorter");
        let sign: &[u8] = match dialect {
            Dialect::Messages => b"event: ping\ndata: {\"type\":\"ping\"}\n\n",
            _ => b": keepalive\n\n",
        };
        for (_, bytes) in &shown {
            assert!(bytes.ends_with(&[sign, b"\r\n"].concat()), "{bytes:?}");
        }
        let heads = shown.iter().filter(|(_, bytes)| bytes.starts_with(b"HTTP/1.1 200")).count();
        assert_eq!(heads, 1);
        let reply = play.engine_reply("hello<|im_end|>");
        let want = play.reply(&mut exchange, &reply);
        let (given, _) = play.drive(&mut exchange, want);
        assert!(given.contains("hello") && !given.contains("ping"), "{given}");
        let record = format!("{:?}", play.turns());
        assert!(!record.contains("keepalive") && !record.contains("ping"), "{record}");
        let whole = question(dialect, "r", json!({}));
        let (exchange, _) = (play.begin(&whole).0, ());
        let mut exchange = exchange;
        assert_eq!(exchange.tick(&play.gatehouse, at(1_000_000)), None, "JSON has no such thing");
    }
}

#[test]
fn c12_d07_a_stream_that_fails_ends_with_its_dialects_error() {
    let fault = Fault::new(FaultKind::EngineDown, "the engine is gone");
    for (dialect, path) in DIALECTS {
        let (given, play) = broken_stream(dialect, path, &fault);
        let events = events(&given);
        let named: Vec<_> = events.iter().map(|(name, _)| name.as_deref()).collect();
        let all = events.iter().map(|(_, data)| data.as_str()).collect::<String>();
        match dialect {
            Dialect::Chat => {
                assert_eq!(named, [None]);
                assert!(
                    all.starts_with(
                        "{\"error\":{\"message\":\"the engine is gone (HTTP 502, server_error)\""
                    ),
                    "{all}"
                );
            }
            Dialect::Responses => {
                let want = ["response.created", "response.in_progress", "response.failed"];
                assert_eq!(named, want.map(Some));
            }
            Dialect::Messages => assert_eq!(named, [Some("error")]),
        }
        for invented in ["[DONE]", "finish_reason", "message_stop", "end_turn", "completed\""] {
            assert!(!all.contains(invented), "{dialect:?}: {invented} in {all}");
        }
        assert_eq!(play.turns().len(), 0, "nothing was sampled");
        assert_eq!(play.session.state().last_fault, Some("engine_down"));
    }
}

#[test]
fn k05_a_call_of_a_session_that_is_closed_is_cancelled() {
    for (dialect, path) in DIALECTS {
        for stream in [false, true] {
            let mut play = Play::new(SessionOptions::default());
            play.path = path.to_owned();
            let body = question(dialect, "q", json!({"stream": stream}));
            let (mut exchange, want) = play.begin(&body);
            let id = call(&want).1["request_id"].as_str().unwrap().to_owned();
            let abort = play.step(|cx| exchange.cancel(cx)).unwrap();
            let told: Value = serde_json::from_slice(&abort.body.concat()).unwrap();
            assert_eq!(told, json!({"request_ids": [format!("generate-tokens-{id}")]}));
            let reply = play.engine_part("<tool_call>half", "abort", "w1");
            let want = play.reply(&mut exchange, &reply);
            let (answer, want) = play.drive(&mut exchange, want);
            assert!(matches!(want, Want::Done { .. }), "{want:?}");
            let refused = refused(dialect, &answer);
            assert_eq!(refused.status, 403, "{dialect:?}: nothing of it can be acted upon");
            assert!(refused.error.2.contains("being closed"), "{refused:?}");
            let turn = play.turns().remove(0);
            assert_eq!(turn.finish, crate::turn::Finish::Abort);
            assert_eq!(play.deliveries(), [(0, false)]);
            assert_eq!(play.session.state().last_fault, None, "nobody failed");
        }
    }
}

#[test]
fn k06_nothing_of_an_answer_leaves_before_its_engine_has_ended() {
    for (dialect, path) in DIALECTS {
        let mut play = Play::new(SessionOptions::default());
        play.path = path.to_owned();
        let body = question(dialect, "q", json!({"stream": true}));
        let reply = play.engine_reply("two chunks of text<|im_end|>");
        for cut in [0, 1, reply.len() / 2, reply.len() - 1] {
            let (mut exchange, _) = play.begin(&body);
            if cut > 0 {
                let want = play.reply(&mut exchange, &reply[..cut]);
                assert!(matches!(want, Want::EngineBytes), "{want:?}");
            }
            assert_eq!(exchange.engine_started(), cut > 0, "only then may it be sent again");
            let fault = Fault::new(FaultKind::EngineDown, "reset");
            let want = play.step(|cx| exchange.engine_failed(cx, &fault));
            let (answer, _) = play.drive(&mut exchange, want);
            assert_eq!(refused(dialect, &answer).status, 502, "{dialect:?} {cut}");
        }
        assert_eq!(play.turns().len(), 0, "no try that failed is a turn");
        let (mut exchange, _) = play.begin(&body);
        let want = play.reply(&mut exchange, &reply);
        play.drive(&mut exchange, want);
        assert_eq!(play.turns().len(), 1);
    }
}
