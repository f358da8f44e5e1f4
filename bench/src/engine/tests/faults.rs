//! Scripted faults, each as the gateway meets it.

use rollgate_pipeline::fault::FaultKind;

use super::*;

/// The fault the gateway reads from an answer with this scripted fault, and that the call after it
/// is answered well when the fault is for one call.
#[track_caller]
fn check(kind: EngineKind, fault: Value, expected: FaultKind) {
    let script = json!({"otherwise": {"content": "Hello there.", "fault": fault, "times": 1}});
    let engine = engine(kind, script);
    let read = generate(kind, &engine, &prompt(0), &Sampling::default()).unwrap_err();
    assert_eq!(read.kind, expected, "{kind:?} {fault}: {}", read.message);
    assert_eq!(engine.stats().forced_faults, 1);
    assert_eq!(text(&plain(kind, &engine, &prompt(0)).ids), "Hello there.<|im_end|>");
    assert_eq!((engine.stats().forced_faults, engine.requests()), (1, 2));
}

#[test]
fn faults_of_the_body_are_noticed() {
    for kind in KINDS {
        check(kind, json!({"status": 503}), FaultKind::EngineBusy);
        check(kind, json!({"bad_json": true}), FaultKind::EngineBadReply);
        check(kind, json!({"wrong_lengths": true}), FaultKind::EngineBadReply);
        check(kind, json!({"bad_id": true}), FaultKind::EngineBadReply);
        check(kind, json!({"missing_logprobs": true}), FaultKind::EngineBadReply);
    }
}

#[test]
fn a_status_can_have_its_own_body() {
    let fault = json!({"status": 418, "body": "short and stout"});
    let script = json!({"otherwise": {"fault": fault}});
    let engine = engine(EngineKind::Vllm, script);
    let call = request(EngineKind::Vllm, &prompt(0), &Sampling::default());
    assert_eq!(send(&engine, call.clone()), (418, b"short and stout".to_vec()));
    assert_eq!(send(&engine, call).0, 418, "without `times` it is for all calls");
}

#[test]
fn the_connection_closes_after_so_many_bytes() {
    let whole = {
        let engine = engine(EngineKind::Vllm, json!({"otherwise": {"content": "a"}}));
        let call = request(EngineKind::Vllm, &prompt(0), &Sampling::default());
        exchange(engine.addr(), "POST", call.path, &call.body.concat())
    };
    for bytes in [0, 1, 40, whole.len() - 1] {
        let fault = json!({"content": "a", "fault": {"close_after_bytes": bytes}});
        let engine = engine(EngineKind::Vllm, json!({"otherwise": fault}));
        let call = request(EngineKind::Vllm, &prompt(0), &Sampling::default());
        let reply = exchange(engine.addr(), "POST", call.path, &call.body.concat());
        assert_eq!(reply, whole[..bytes]);
    }
}

#[test]
fn a_stall_is_in_the_middle_of_the_answer() {
    let fault = json!({"content": "a", "fault": {"stall_ms": 200}});
    let engine = engine(EngineKind::Sglang, json!({"otherwise": fault}));
    let call = request(EngineKind::Sglang, &prompt(0), &Sampling::default());
    let body = call.body.concat();
    let mut stream = TcpStream::connect(engine.addr()).unwrap();
    let head = format!(
        "POST {} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        call.path,
        body.len()
    );
    stream.write_all(&[head.as_bytes(), &body].concat()).unwrap();
    let mut first = [0; 1];
    stream.read_exact(&mut first).unwrap();
    let started = std::time::Instant::now();
    let mut reply = first.to_vec();
    stream.read_to_end(&mut reply).unwrap();
    assert!(started.elapsed() >= Duration::from_millis(150));
    let (status, body) = status_and_body(&reply);
    assert!(EngineKind::Sglang.read(status, &body, model().vocab_size).is_ok());
}
