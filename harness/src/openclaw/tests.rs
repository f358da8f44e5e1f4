//! Launches and ends of OpenClaw.

use super::*;
use crate::tests::{job, show};

fn settings_of(launch: &Launch) -> Value {
    serde_json::from_slice(&launch.files[0].contents).unwrap()
}

#[test]
fn settings_and_instruction_go_by_file() {
    let launch = OpenClaw.launch(&job(&["--thinking", "high"])).unwrap();
    let settings = settings_of(&launch);
    let provider = &settings["models"]["providers"]["rollgate"];
    assert_eq!(provider["baseUrl"], "http://gate/v1");
    assert_eq!(provider["api"], DEFAULT_API);
    assert_eq!(provider["models"][0]["contextWindow"], 100_000);
    assert_eq!(provider["models"][0]["maxTokens"], 25_000);
    let title = &settings["models"]["providers"]["rollgate-title"];
    assert_eq!(title["baseUrl"], "http://gate/scene/title/v1");
    let defaults = &settings["agents"]["defaults"];
    assert_eq!(defaults["model"]["primary"], "rollgate/m");
    assert_eq!(defaults["utilityModel"], "rollgate-title/m");
    assert_eq!(defaults["compaction"]["model"], "rollgate-compaction/m");
    assert_eq!(settings.get("gateway"), None);
    assert_eq!(
        show(&Launch { files: launch.files[1..].to_vec(), ..launch }),
        "file /box/home/.rollgate/openclaw-task.md \"Fix \\\"it\\\"\\n\"\n\
         env OPENCLAW_STATE_DIR=/box/home/.openclaw\n\
         env OPENCLAW_CONFIG_PATH=/box/home/.rollgate/openclaw.json\n\
         env OPENCLAW_GATEWAY_TOKEN=key\n\
         env OPENCLAW_DISABLE_BONJOUR=1\n\
         env OPENCLAW_SKIP_CHANNELS=1\n\
         argv openclaw agent exec --json --message-file /box/home/.rollgate/openclaw-task.md \
         --timeout 9 --config /box/home/.rollgate/openclaw.json --cwd /box/work --thinking high\n"
    );
}

#[test]
fn an_argument_chooses_the_api() {
    let provider = |api: &str| {
        let settings = settings_of(&OpenClaw.launch(&job(&[api])).unwrap());
        settings["models"]["providers"]["rollgate-compaction"].clone()
    };
    let chat = provider("api=openai-completions");
    assert_eq!(chat["api"], "openai-completions");
    assert_eq!(chat["baseUrl"], "http://gate/scene/compaction/v1");
    let messages = provider("api=anthropic-messages");
    assert_eq!(messages["baseUrl"], "http://gate/scene/compaction");
}

#[test]
fn with_its_gateway_a_script_starts_and_stops_both() {
    let job = job(&["gateway=18789", "api=openai-responses", "--verbose", "on"]);
    let launch = OpenClaw.launch(&job).unwrap();
    assert_eq!(settings_of(&launch)["gateway"]["port"], 18789);
    assert_eq!(settings_of(&launch)["gateway"]["auth"]["token"], "key");
    assert_eq!(launch.files[2].path, "/box/home/.rollgate/openclaw-gateway.sh");
    assert_eq!(
        launch.argv.join(" "),
        "sh /box/home/.rollgate/openclaw-gateway.sh openclaw 18789 agent --agent main --json \
         --message-file /box/home/.rollgate/openclaw-task.md --timeout 9 --verbose on"
    );
}

#[test]
fn what_cannot_be_is_told_before_the_start() {
    let refused = |args: &[&str]| OpenClaw.launch(&job(args)).unwrap_err().to_string();
    for wrong in ["api=grpc", "gateway=0", "gateway=x", "color=red"] {
        let text = refused(&[wrong]);
        assert!(text.contains(wrong) && text.contains("anthropic-messages"), "{text}");
    }
    let mut empty = job(&[]);
    empty.instruction.clear();
    assert!(OpenClaw.launch(&empty).is_err());
}

fn check(exit_code: i32, stdout: &str, expected: &AgentOutcome) {
    let ended = Ended {
        exit_code: Some(exit_code),
        stdout: stdout.to_owned(),
        stderr: "boom".to_owned(),
        ..Ended::default()
    };
    assert_eq!(OpenClaw.judge(&ended), *expected);
}

#[test]
fn the_report_tells_how_it_ended() {
    let failed = |text: &str| AgentOutcome::Failed(text.to_owned());
    check(0, r#"{"ok": true, "status": "ok", "final": "Done."}"#, &AgentOutcome::Done);
    check(
        2,
        r#"{"ok": false, "status": "timeout",
            "error": {"message": "LLM request failed: network connection error.", "kind": "timeout"}}"#,
        &failed("it ended with timeout: LLM request failed: network connection error."),
    );
    check(1, r#"{"status": "error"}"#, &failed("it ended with error; its last words: boom"));
    check(1, r#"{"status": "ok"}"#, &failed("it ended with ok; its last words: boom"));
    let turn = r#"{"payloads": [{"text": "Done."}], "meta": {"aborted": false}}"#;
    check(0, turn, &AgentOutcome::Done);
    check(1, turn, &failed("the agent exited with 1; its last words: boom"));
    for (report, why) in [
        (r#"{"final": "Done."}"#, "its report has no status"),
        (r#"{"status": "ok", "error": "no model"}"#, "it ended with ok: no model"),
        (r#"{"ok": false, "error": {"message": "no model"}}"#, "it ended with an error: no model"),
        (
            r#"{"payloads": [], "meta": {"aborted": true}}"#,
            "it ended with aborted; its last words: boom",
        ),
        (
            r#"{"payloads": [], "meta": {"error": {"kind": "x", "message": "no model"}}}"#,
            "it ended with an error: no model",
        ),
    ] {
        check(0, report, &failed(why));
    }
    check(0, "", &failed("it left no report; its last words: boom"));
    check(1, "no JSON", &failed("the agent exited with 1; its last words: boom"));
}
