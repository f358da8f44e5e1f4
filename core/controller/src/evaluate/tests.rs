//! Graders over real local sandboxes, real programs and a real socket.

use serde_json::json;

use crate::attempt::trial::{KEY, Trial};
use crate::post::tests::server;

async fn check(more: &str, agent: &str) -> String {
    let trial = Trial::new();
    let task = trial.task(more);
    trial.run(&task, agent).await.told()
}

#[track_caller]
fn refuse(evaluate: &str, expected: &str) {
    let line = format!(r#"{{"task_id":"t","instruction":"x","evaluate":{evaluate}}}"#);
    let error = crate::task::parse(std::path::Path::new("t"), &line).unwrap_err().to_string();
    assert!(error.starts_with("t, line 1: in `evaluate"), "{error}");
    assert!(error.contains(expected), "{error:?} does not say {expected:?}");
}

#[test]
fn what_makes_no_sense_is_refused_by_key() {
    refuse(r#"{"timeout_s":1}"#, "one of `command`, `harbor`, `program`, `url` is missing");
    refuse(r#"{"command":"x","url":"http://a"}"#, "only one of");
    refuse(r#"{"command":"x","timeout_s":0}"#, "`timeout_s` must be over 0");
    refuse(r#"{"program":[]}"#, "`program` is empty");
    refuse(r#"{"url":"ftp://a"}"#, "`url` must be a URL");
    refuse(r#"{"url":"http://a","headers":{"a b":"c"}}"#, "`headers` holds a name");
    refuse(r#"{"url":"http://a","sandbox":"fresh"}"#, "`sandbox` goes with");
    refuse(r#"{"program":"x","files":{"a":"b"}}"#, "`files` goes with `command`");
    refuse(r#"{"command":"x","headers":{"a":"b"}}"#, "`headers` goes with `url`");
    refuse(r#"{"command":"x","artifacts":["a"]}"#, "set `sandbox` to \"fresh\"");
    refuse(r#"{"command":"x","image":"a"}"#, "`image` goes with");
    refuse(r#"{"program":"x","artifacts":["../a"]}"#, "may not hold `..`");
    refuse(r#"{"command":"x","sandbox":"new"}"#, "in `evaluate.sandbox`: unknown variant `new`");
}

#[test]
fn what_was_written_is_what_is_written_again() {
    for text in [
        r#"{"command":"x"}"#,
        r#"{"command":["a","b"],"timeout_s":2.0,"sandbox":"fresh","image":"i","files":{"a":"b"},"artifacts":["*.txt"],"env":{"A":"${B}"}}"#,
        r#"{"harbor":"/a/tests"}"#,
        r#"{"program":"x","artifacts":["a"]}"#,
        r#"{"url":"http://a","headers":{"X":"y"}}"#,
    ] {
        let read: super::Evaluate = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
}

#[tokio::test]
async fn row_41_the_tests_come_after_the_agent() {
    let graded = r#","evaluate":{"command":"sh hidden/test.sh","files":{"hidden/test.sh":
        "test ! -e seen && test -e made"}}"#;
    let agent = "touch made; test ! -e hidden || touch seen";
    assert_eq!(check(graded, agent).await, "done 1");
    assert_eq!(check(graded, "touch made seen").await, "done 0");
}

#[tokio::test]
async fn row_42_what_the_agent_left_running_is_dead_before_the_tests_come() {
    let thief = "(setsid sh -c 'until test -e hidden; do sleep 0.01; done; cp hidden stolen' \
                 >/dev/null 2>&1 &)";
    let graded = |before: &str| {
        let command = format!("{before} sleep 0.5; test ! -e stolen");
        json!({"command": command, "files": {"hidden": "secret"}}).to_string()
    };
    let agent = format!("{thief}; sleep 0.1");
    assert_eq!(check(&format!(r#","evaluate":{}"#, graded("")), &agent).await, "done 1");
    // The thief steals where it lives.
    let alive = graded(&format!("{thief};"));
    assert_eq!(check(&format!(r#","evaluate":{alive}"#), "true").await, "done 0");
}

#[tokio::test]
async fn row_40_files_that_the_agent_left_are_no_reward() {
    let harbor = r#","evaluate":{"harbor":"tests"}"#;
    let trial = Trial::new();
    let tests = trial.dir.path().join("tests");
    std::fs::create_dir_all(tests.join("data")).unwrap();
    std::fs::write(tests.join("test.sh"), "#!/bin/sh\nexit 0\n").unwrap();
    let task = trial.task(harbor);
    let agent = "mkdir -p logs/verifier; echo 1 > logs/verifier/reward.txt; cp -r logs $HOME/; \
                 for d in $HOME/*; do echo 1 > $d/reward.txt; done; true";
    let went = trial.run(&task, agent).await;
    assert_eq!(went.told(), "verifier_failed none reward_missing");
    assert!(went.why().contains("has to use $ROLLGATE_LOGS_DIR"), "{}", went.why());

    // A reward file that a command's grader does not write is not there, whatever the agent left.
    let plain = r#","evaluate":{"command":"exit 7"}"#;
    let went = check(plain, "echo 1 > reward.json; echo 1 > $HOME/reward.json").await;
    assert_eq!(went, "verifier_failed none reward_missing");
}

#[tokio::test]
async fn a_harbor_script_finds_its_folders_and_its_reward() {
    let trial = Trial::new();
    let tests = trial.dir.path().join("tests");
    std::fs::create_dir_all(tests.join("data")).unwrap();
    std::fs::write(tests.join("data/expected.bin"), b"\xff\0\n").unwrap();
    // No `#!`, and not executable: it starts all the same.
    let script = "mkdir -p $ROLLGATE_LOGS_DIR/verifier
cmp $ROLLGATE_TESTS_DIR/data/expected.bin out.bin && speed=$SPEED || speed=0
echo \"{\\\"reward\\\": 0.5, \\\"speed\\\": $speed}\" > $ROLLGATE_LOGS_DIR/verifier/reward.json
echo 9 > $ROLLGATE_LOGS_DIR/verifier/reward.txt
exit 3";
    std::fs::write(tests.join("test.sh"), script).unwrap();
    let task = trial.task(r#","evaluate":{"harbor":"tests","env":{"SPEED":"${NO_SUCH:-3}"}}"#);
    let went = trial.run(&task, r"printf '\377\0\n' > out.bin").await;
    assert_eq!(went.told(), "done 0.5");
    assert_eq!(went.reward.unwrap().parts, [("speed".to_owned(), 3.0)].into());

    let none = trial.task(r#","evaluate":{"harbor":"nowhere"}"#);
    let went = trial.run(&none, "true").await;
    assert_eq!(went.outcome, crate::outcome::Outcome::VerifierFailed);
    assert!(went.why().contains("the tests in"), "{}", went.why());
}

#[tokio::test]
async fn row_39_a_variable_that_is_not_set_is_nobodys_reward() {
    let task = r#","evaluate":{"command":"true","env":{"A":"${ROLLGATE_NO_SUCH_VARIABLE}"}}"#;
    assert_eq!(check(task, "true").await, "verifier_failed none evaluate_env");
}

#[tokio::test]
async fn row_41_a_fresh_sandbox_has_the_artifacts_and_nothing_else_of_the_agent() {
    let graded = r#","files":{"given":"g"},"setup":["touch set-up"],"evaluate":{"sandbox":"fresh",
        "artifacts":["out","*.txt"],
        "command":"test -e given -a -e set-up -a -e out/deep/a -a -e b.txt -a ! -e tool -a ! -e $HOME/x"}"#;
    let agent =
        "mkdir -p out/deep; echo 1 > out/deep/a; touch b.txt tool $HOME/x; ln -s b.txt c.txt";
    assert_eq!(check(graded, agent).await, "done 1");
    assert_eq!(check(graded, "true").await, "done 0", "what is not there is not copied");
    // The agent's sandbox is spoilt for good; the verifier's is not.
    let spoil = "mkdir -p out/deep; touch out/deep/a b.txt; rm -rf set-up given";
    assert_eq!(check(graded, spoil).await, "done 1");
}

#[tokio::test]
async fn a_fresh_sandbox_runs_harbor_tests_too() {
    let trial = Trial::new();
    let tests = trial.dir.path().join("tests");
    std::fs::create_dir_all(&tests).unwrap();
    let script = "#!/bin/sh\ncat answer > $ROLLGATE_LOGS_DIR/verifier/reward.txt\n";
    std::fs::write(tests.join("test.sh"), script).unwrap();
    let task =
        trial.task(r#","evaluate":{"harbor":"tests","sandbox":"fresh","artifacts":["answer"]}"#);
    assert_eq!(trial.run(&task, "echo 0.25 > answer").await.told(), "done 0.25");
}

#[tokio::test]
async fn a_set_up_that_fails_in_the_fresh_sandbox_is_infrastructure() {
    let trial = Trial::new();
    let once = trial.dir.path().join("once");
    let task = format!(
        r#","setup":["mkdir {}"],"evaluate":{{"sandbox":"fresh","command":"true"}}"#,
        once.display()
    );
    let went = trial.run(&trial.task(&task), "true").await;
    assert_eq!(went.told(), "infra_failed none setup");
}

#[tokio::test]
async fn artifacts_that_do_not_fit_are_no_reward() {
    let url = r#","evaluate":{"url":"http://127.0.0.1:1/","artifacts":["big"]}"#;
    let trial = Trial::new();
    let went = trial.run(&trial.task(url), "head -c 9000000 /dev/zero > big").await;
    assert_eq!(went.told(), "verifier_failed none artifacts");
    assert!(went.why().contains("big: 9000000 bytes do not fit"), "{}", went.why());
}

#[tokio::test]
async fn a_program_on_the_host_grades() {
    let trial = Trial::new();
    let python = r#"import json, os, sys
told = json.load(sys.stdin)
text = open(os.path.join(told['artifacts'], 'out/a.txt')).read()
assert told['outcome'] == 'done' and told['task_id'] == 't', told
assert told['metadata'] == {'truth': '42'} and told['instruction'] == 'go', told
print(json.dumps({'reward': float(text.strip() == told['metadata']['truth']), 'parts': {'length': len(text)}}))
"#;
    std::fs::write(trial.dir.path().join("grade.py"), python).unwrap();
    let line = format!(
        r#","metadata":{{"truth":"42"}},"evaluate":{{"artifacts":["out"],"program":["python3","{}/grade.py"]}}"#,
        trial.dir.path().display()
    );
    let task = trial.task(&line);
    let went = trial.run(&task, "mkdir out; echo 42 > out/a.txt").await;
    assert_eq!(went.told(), "done 1", "{went:?}");
    assert_eq!(went.reward.unwrap().parts["length"], 3.0);
    let went = trial.run(&task, "mkdir -p out; echo 41 > out/a.txt").await;
    assert_eq!(went.told(), "done 0");
}

#[tokio::test]
async fn row_40_a_programs_broken_answer_is_never_zero() {
    let program = |script: &str| format!(r#","evaluate":{{"program":"{script}","timeout_s":1}}"#);
    for (script, expected) in [
        ("echo '{\\\"reward\\\": null}'", "done none"),
        ("true", "verifier_failed none reward_unusable"),
        ("echo 1", "verifier_failed none reward_unusable"),
        ("echo '{\\\"reward\\\": NaN}'", "verifier_failed none evaluate_program"),
        ("echo '{\\\"reward\\\": 1e999}'", "verifier_failed none evaluate_program"),
        ("echo '{\\\"parts\\\": {}}'", "verifier_failed none reward_unusable"),
        ("echo oh >&2; exit 1", "verifier_failed none evaluate_program"),
        ("sleep 1000", "verifier_failed none evaluate_timeout"),
    ] {
        assert_eq!(check(&program(script), "true").await, expected, "{script}");
    }
}

#[tokio::test]
async fn an_http_grader_is_sent_the_artifacts_and_asked_again() {
    let answer = r#"{"reward": 0.75, "parts": {"style": 1}}"#;
    let (url, seen) = server(vec![(502, "starting"), (200, answer)]).await;
    let line = format!(r#","evaluate":{{"url":"{url}","artifacts":["a.txt","b.bin"]}}"#);
    let trial = Trial::new();
    let agent = r"echo hi > a.txt; printf '\377' > b.bin";
    let went = trial.run(&trial.task(&line), agent).await;
    assert_eq!(went.told(), "done 0.75");
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    let body = &seen[1].1;
    let files = json!({"a.txt": {"text": "hi\n"}, "b.bin": {"base64": "/w=="}});
    assert_eq!(body["artifacts"], files);
    assert_eq!((&body["outcome"], &body["event"]), (&json!("done"), &json!("evaluate")));
    assert!(!body.to_string().contains(KEY));
}

#[tokio::test]
async fn row_39_an_http_grader_that_is_down_gives_no_reward() {
    for (answers, expected) in [
        (vec![(500, "down")], "verifier_failed none evaluate_url"),
        (vec![(404, "")], "verifier_failed none evaluate_url"),
        (vec![(200, "not json")], "verifier_failed none reward_unusable"),
        (vec![(200, r#"{"reward": "1"}"#)], "verifier_failed none reward_unusable"),
    ] {
        let (url, _) = server(answers).await;
        let line = format!(r#","evaluate":{{"url":"{url}","timeout_s":5}}"#);
        assert_eq!(check(&line, "true").await, expected);
    }
}

#[tokio::test]
async fn graders_never_get_the_key() {
    let told =
        r#","evaluate":{"command":"! env | grep -q rg-the && test -n \"$A\"","env":{"A":"b"}}"#;
    assert_eq!(check(told, "test \"$OPENAI_API_KEY\" = rg-the-agents-own-key").await, "done 1");
}
