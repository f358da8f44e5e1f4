//! The engines' own errors.

use super::*;

fn engine_of(kind: EngineKind) -> EngineHandle {
    engine(kind, json!({"otherwise": {"content": "a"}}))
}

#[track_caller]
fn check(kind: EngineKind, path: &str, body: Value, status: u16, pointer: &str, expected: &str) {
    let engine = engine_of(kind);
    let (got, answer) = post(&engine, path, body);
    let message = answer.pointer(pointer).map(|v| v.as_str().map_or(v.to_string(), str::to_owned));
    assert_eq!((got, message.is_some()), (status, true), "{answer}");
    assert!(message.as_deref().unwrap().contains(expected), "{answer}");
    assert_eq!((engine.stats().refused, engine.requests()), (1, 0));
}

#[test]
fn vllm_refuses_in_its_own_shape() {
    let route = "/inference/v1/generate";
    let call = |ids: Value, params: Value| json!({"token_ids": ids, "sampling_params": params});
    let check = |body: Value, status: u16, pointer: &str, expected: &str| {
        check(EngineKind::Vllm, route, body, status, pointer, expected);
    };
    let long = |length: usize| json!(vec![5; length]);
    check(call(long(32769), json!({})), 400, "/error/message", "Input length (32769) exceeds");
    check(
        call(long(32769), json!({"max_tokens": 1})),
        400,
        "/error/message",
        "is longer than the maximum model length of 32768",
    );
    check(
        call(long(32768), json!({"max_tokens": 1})),
        400,
        "/error/message",
        "plus the number of requested output tokens",
    );
    check(call(json!([5, 3072]), json!({})), 400, "/error/message", "out of vocabulary");
    check(call(json!([5, -1]), json!({})), 400, "/error/param", "body.token_ids[1]");
    check(call(json!([]), json!({})), 400, "/error/type", "Bad Request");
    check(call(json!([5]), json!({"max_tokens": 0})), 400, "/error/message", "at least 1");
    check(json!({"token_ids": [5]}), 400, "/error/message", "sampling_params");
    check(
        json!({"token_ids": [5], "sampling_params": {}, "stream": true}),
        400,
        "/error/message",
        "no `stream`",
    );
    let unknown = json!({"token_ids": [5], "sampling_params": {}, "model": "other"});
    check(unknown, 404, "/error/type", "NotFoundError");
    self::check(
        EngineKind::Vllm,
        "/v1/completions",
        json!({"prompt": vec![5; 32768]}),
        400,
        "/error/param",
        "input_tokens",
    );
    self::check(EngineKind::Vllm, "/nowhere", json!({}), 404, "/detail", "Not Found");
    self::check(
        EngineKind::Vllm,
        "/inference/v1/abort_requests",
        json!({}),
        400,
        "/error/code",
        "400",
    );
}

#[test]
fn sglang_refuses_in_its_own_shape() {
    let call = |length: usize, params: Value| {
        let ids = vec![5; length];
        json!({"input_ids": ids, "sampling_params": params})
    };
    let check = |body: Value, pointer: &str, expected: &str| {
        check(EngineKind::Sglang, "/generate", body, 400, pointer, expected);
    };
    check(call(32768, json!({})), "/error/message", "The input (32768 tokens) is longer than");
    check(
        call(32700, json!({"max_new_tokens": 69})),
        "/error/message",
        "Requested token count exceeds",
    );
    check(call(1, json!({"max_tokens": 69})), "/error", "unknown field");
    check(json!({"input_ids": "x"}), "/object", "error");
    check(json!({}), "/error/message", "should be provided");
}

#[test]
fn unknown_parameters_are_ignored_where_the_engine_ignores_them() {
    let vllm = engine_of(EngineKind::Vllm);
    let body = json!({"token_ids": [5], "sampling_params": {"x": 1}, "y": 2});
    assert_eq!(post(&vllm, "/inference/v1/generate", body).0, 200);
    let sglang = engine_of(EngineKind::Sglang);
    assert_eq!(post(&sglang, "/generate", json!({"input_ids": [5], "y": 2})).0, 200);
    let (status, answer) = post(
        &sglang,
        "/generate",
        json!({"input_ids": [5], "sampling_params": {"max_new_tokens": 0}}),
    );
    assert_eq!((status, &answer["output_ids"]), (200, &json!([])));
}

#[test]
fn an_id_outside_the_vocabulary_kills_sglang() {
    let script = json!({"otherwise": {"content": "a"}});
    let mut engine = engine_at(3, EngineKind::Sglang, script);
    let body = json!({"input_ids": [5, 3072]}).to_string();
    assert_eq!(exchange(engine.addr(), "POST", "/generate", body.as_bytes()), b"");
    let soon = |is: &dyn Fn() -> bool| {
        (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            is()
        })
    };
    assert!(soon(&|| !engine.is_running()), "it still runs");
    // The kernel closes what an accept of a ring still held after the thread that had the ring.
    assert!(soon(&|| TcpStream::connect(engine.addr()).is_err()), "it still listens");
    engine.stop();
    let forgiving = json!({"otherwise": {"content": "a"}, "forgiving": true});
    let engine = self::engine(EngineKind::Sglang, forgiving);
    assert_eq!(post(&engine, "/generate", json!({"input_ids": [5, -1]})).0, 400);
    assert!(engine.is_running());
}

#[test]
fn what_is_not_http_is_refused_and_the_connection_closed() {
    let engine = engine_of(EngineKind::Vllm);
    let mut stream = TcpStream::connect(engine.addr()).unwrap();
    stream.write_all(b"nonsense\r\n\r\n").unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    assert_eq!(status_and_body(&reply).0, 400);
}

#[test]
fn a_connection_is_kept_for_further_calls() {
    let engine = engine_of(EngineKind::Vllm);
    let mut stream = TcpStream::connect(engine.addr()).unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\n\r\nGET /ver").unwrap();
    stream.write_all(b"sion HTTP/1.1\r\nconnection: close\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert_eq!(reply.matches("HTTP/1.1 200").count(), 2, "{reply}");
}
