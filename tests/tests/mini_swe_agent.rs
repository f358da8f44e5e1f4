//! The real mini-swe-agent 2.4.6 finishes a small task through `rollgate run`.

use rollgate_tests::scripted::Scripted;
use rollgate_tests::{program, real, samples};
use serde_json::{Value, json};

const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT";

fn call(command: &str) -> Value {
    json!({"tool_calls": [{"name": "bash", "arguments": {"command": command}}], "non_canonical": true})
}

#[test]
fn a_task_from_instruction_to_sample() {
    let Some(mini) = real::mini() else { return };
    let directory = tempfile::tempdir().unwrap();
    let script = json!({"replies": [
        call("printf '6 * 7' > question.txt && ls"),
        call("echo $((6 * 7)) > answer.txt && cat answer.txt"),
        call(SUBMIT),
    ]});
    let engine = Scripted::start(directory.path(), &script);
    let task = json!({
        "task_id": "answer",
        "instruction": "Write the answer to 6 * 7 into answer.txt.",
        "agent": {"name": "mini-swe-agent", "args": [mini], "timeout_s": 240},
        "evaluate": {"command": "test \"$(cat answer.txt)\" = 42", "timeout_s": 30},
    });
    std::fs::write(directory.path().join("tasks.jsonl"), format!("{task}\n")).unwrap();
    let model = program::demo_model();
    let ran = program::run(
        directory.path(),
        &[
            "run",
            "tasks.jsonl",
            "--agent",
            "mini-swe-agent",
            "--backend",
            "local",
            "--engine",
            &engine.url,
            "--model",
            model.to_str().unwrap(),
            "--n",
            "1",
            "-o",
            "out",
        ],
    );
    assert_eq!(ran.code, Some(0), "{ran:#?}\n{}", engine.process.logs());

    let samples = samples::read(&directory.path().join("out"));
    assert_eq!(samples.len(), 1);
    let sample = &samples[0];
    assert_eq!(sample.outcome, "done");
    assert_eq!(sample.reward, Some(1.0), "the file was there and right");
    assert!(sample.health.reasons().is_empty(), "{:?}", sample.health);
    assert_eq!(sample.turns.len(), 3, "one turn for each reply of the script");
    let text = serde_json::to_string(&sample.messages).unwrap();
    assert!(text.contains("42"), "the tool's output is in the sample: {text}");
    assert!(sample.provenance.agent.contains("2.4.6"), "{:?}", sample.provenance);

    let (code, report) = program::verify(directory.path(), &["out"]);
    assert_eq!(code, Some(0), "{report:#}");
    assert!(report["rows"][0]["non_canonical"].as_u64() >= Some(1), "{report}");
}
