//! Aborts and pauses, and what a call meets that goes on.

use rollgate_pipeline::fault::FaultKind;
use rollgate_pipeline::turn::Finish;

use super::*;

fn twice(kind: EngineKind) -> EngineHandle {
    let reply = json!({
        "content": "One two three four five six seven.", "non_canonical": 2,
        "fault": {"abort_after_tokens": 3}, "times": 2, "versions": ["a", "b", "c"],
    });
    engine(kind, json!({"otherwise": reply}))
}

#[test]
fn a_call_goes_on_where_the_aborted_one_stopped() {
    for kind in KINDS {
        let engine = twice(kind);
        let mut prompt = prompt(0);
        let mut said = Vec::new();
        for (finish, version) in [(Finish::Abort, "a"), (Finish::Abort, "b"), (Finish::Stop, "c")] {
            let part = plain(kind, &engine, &prompt);
            assert_eq!(part.finish, finish, "{kind:?}");
            assert_eq!(part.versions[0].version, version);
            assert!(finish == Finish::Stop || part.ids.len() == 3);
            prompt.extend(&part.ids);
            said.extend(part.ids);
        }
        assert_eq!(text(&said), "One two three four five six seven.<|im_end|>");
        let recorded: Vec<_> = engine.recorded().iter().map(|c| (c.finish, c.answered)).collect();
        assert_eq!(recorded, [Finish::Abort, Finish::Abort, Finish::Stop].map(|f| (f, true)));
    }
}

#[test]
fn another_prompt_begins_anew() {
    let engine = twice(EngineKind::Vllm);
    plain(EngineKind::Vllm, &engine, &prompt(0));
    plain(EngineKind::Vllm, &engine, &prompt(1));
    let whole = plain(EngineKind::Vllm, &engine, &prompt(2));
    assert_eq!(text(&whole.ids), "One two three four five six seven.<|im_end|>");
}

#[test]
fn a_paused_vllm_refuses_and_a_paused_sglang_waits() {
    let script = || json!({"otherwise": {"content": "a", "fault": {"paused_ms": 300}}});
    let vllm = engine(EngineKind::Vllm, script());
    let started = std::time::Instant::now();
    loop {
        match generate(EngineKind::Vllm, &vllm, &prompt(0), &Sampling::default()) {
            Ok(_) => break,
            Err(fault) => {
                assert_eq!(fault.kind, FaultKind::EngineBusy);
                assert!(fault.message.contains("Generation is paused"), "{}", fault.message);
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(started.elapsed() >= Duration::from_millis(250));
    assert!(vllm.requests() > 1);
    let sglang = engine(EngineKind::Sglang, script());
    let started = std::time::Instant::now();
    plain(EngineKind::Sglang, &sglang, &prompt(0));
    assert!(started.elapsed() >= Duration::from_millis(250));
    assert_eq!(sglang.requests(), 1);
}

#[test]
fn calls_are_recorded_in_a_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let fault = json!({"status": 503});
    let script = json!({"otherwise": {"content": "Hello.", "fault": fault, "times": 1}});
    let engine = start(EngineConfig {
        script: parse_script(&script.to_string()).unwrap(),
        record: Some(file.path().to_owned()),
        ..EngineConfig::new(model())
    })
    .unwrap();
    assert!(generate(EngineKind::Vllm, &engine, &prompt(0), &Sampling::default()).is_err());
    let answer = plain(EngineKind::Vllm, &engine, &prompt(0));
    let written = std::fs::read_to_string(file.path()).unwrap();
    let lines: Vec<Value> = written.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[0]["fault"], &lines[0]["answered"]), (&json!("status"), &json!(false)));
    assert_eq!((&lines[1]["fault"], &lines[1]["answered"]), (&Value::Null, &json!(true)));
    assert_eq!(lines[1]["prompt"], json!(prompt(0)));
    assert_eq!(lines[1]["ids"], json!(answer.ids));
    let logprobs: Vec<f32> = serde_json::from_value(lines[1]["logprobs"].clone()).unwrap();
    assert_eq!(logprobs, answer.logprobs);
    assert_eq!((&lines[1]["finish"], &lines[1]["version"]), (&json!("stop"), &json!("v1")));
    assert!(engine.is_running());
}
