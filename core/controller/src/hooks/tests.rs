//! Hooks around real runs in local sandboxes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;
use crate::attempt::trial::{KEY, Trial};
use crate::outcome::Outcome;
use crate::post::tests::server;

fn hooks(list: &str) -> String {
    format!(r#","hooks":[{list}]"#)
}

fn lines(trial: &Trial) -> Vec<Value> {
    trial.log("hooks.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[track_caller]
fn refuse(hook: &str, expected: &str) {
    let line = format!(r#"{{"task_id":"t","instruction":"x","hooks":[{hook}]}}"#);
    let error = crate::task::parse(std::path::Path::new("t"), &line).unwrap_err().to_string();
    assert!(error.contains(expected), "{error:?} does not say {expected:?}");
}

#[test]
fn what_makes_no_sense_is_refused_by_key() {
    refuse(r#"{"collect":["a"]}"#, "in `hooks[0]`: missing field `at`");
    refuse(r#"{"at":"later","exec":"a"}"#, "unknown variant `later`");
    refuse(r#"{"at":"after_run"}"#, "one of `collect`, `diff`, `exec`, `notify`, `program`");
    refuse(r#"{"at":"after_run","exec":"a","diff":"."}"#, "only one of");
    refuse(r#"{"at":"after_run","exec":" "}"#, "in `hooks[0]`: `exec` is empty");
    refuse(r#"{"at":"after_run","name":"a/b","exec":"x"}"#, "`name` is the name of its logs");
    refuse(r#"{"at":"on_error","policy":"required","exec":"x"}"#, "cannot be required");
    refuse(r#"{"at":"before_run","diff":"."}"#, "before it ran there is nothing");
    refuse(r#"{"at":"after_run","collect":[]}"#, "`collect` names nothing");
    refuse(r#"{"at":"after_run","collect":["a/../../b"]}"#, "may not hold `..`");
    refuse(r#"{"at":"after_run","notify":"x"}"#, "`notify` must be a URL");
    refuse(r#"{"at":"after_run","exec":"x","max_bytes":1}"#, "`max_bytes` goes with");
    refuse(r#"{"at":"after_run","diff":".","env":{"A":"b"}}"#, "`env` goes with");
    refuse(r#"{"at":"after_run","exec":"x","timeout_s":0}"#, "`timeout_s` must be over 0");
    refuse(
        r#"{"at":"after_run","exek":"x"}"#,
        "in `hooks[0]`: unknown key `exek`; did you mean `exec`?",
    );
    let twice = r#"{"at":"after_run","name":"a","exec":"x"}"#;
    refuse(&format!("{twice},{twice}"), "two hooks are named `a`");
}

#[test]
fn a_nodes_configuration_says_it_in_the_same_words() {
    #[derive(Deserialize)]
    struct Node {
        hooks: Vec<Hook>,
    }
    let text = r#"
        [[hooks]]
        at = "after_run"
        notify = "https://a.example/x"
        headers = { Authorization = "Bearer ${TOKEN}" }
        [[hooks]]
        at = "on_error"
        collect = ["*.log"]
        max_bytes = 1000
        [[hooks]]
        at = "before_run"
        policy = "required"
        program = ["/usr/local/bin/warm", "--fast"]
        timeout_s = 5"#;
    let node: Node = toml::from_str(text).unwrap();
    let names: Vec<&str> = node.hooks.iter().map(|hook| hook.action.name()).collect();
    assert_eq!(names, ["notify", "collect", "program"]);
    assert_eq!(node.hooks[2].policy, Policy::Required);
    assert_eq!(node.hooks[2].timeout(), Duration::from_secs(5));
    let again: Vec<Hook> =
        serde_json::from_value(serde_json::to_value(&node.hooks).unwrap()).unwrap();
    assert_eq!(again, node.hooks);
    let wrong = toml::from_str::<Node>("[[hooks]]\nat = \"after_run\"\n").map(|node| node.hooks);
    assert!(wrong.unwrap_err().to_string().contains("is missing"));
}

#[tokio::test]
async fn collect_takes_files_by_pattern_and_directory_but_no_links() {
    let trial = Trial::new();
    let outside = trial.dir.path().join("secret");
    std::fs::write(&outside, "s").unwrap();
    let agent = format!(
        "mkdir -p logs/deep empty; echo 1 > logs/deep/a; echo 2 > 'x y.txt'; echo 3 > z.txt; \
         echo h > $HOME/note; ln -s {0} l.txt; ln -s {0} logs/l; echo no > not.md",
        outside.display()
    );
    let list =
        r#"{"at":"after_run","policy":"required","collect":["logs","*.txt","none*","empty"]}"#;
    let went = trial.run(&trial.task(&hooks(list)), &agent).await;
    assert_eq!(went.told(), "done none", "{went:?}");
    assert_eq!(trial.log("collect/logs/deep/a"), "1\n");
    assert_eq!(
        (trial.log("collect/x y.txt"), trial.log("collect/z.txt")),
        ("2\n".into(), "3\n".into())
    );
    for absent in ["l.txt", "logs/l", "not.md"] {
        let path = trial.dir.path().join("logs/collect").join(absent);
        assert!(path.symlink_metadata().is_err(), "{absent}");
    }
}

#[tokio::test]
async fn row_43_what_does_not_fit_is_left_out_and_told() {
    let trial = Trial::new();
    let agent = "head -c 3000 /dev/zero > a; head -c 300 /dev/zero > b";
    let list = r#"{"at":"after_run","collect":["a","b"],"max_bytes":1000}"#;
    let went = trial.run(&trial.task(&hooks(list)), agent).await;
    assert_eq!(went.told(), "done none");
    assert_eq!(trial.log("collect/b").len(), 300);
    let line = &lines(&trial)[0];
    assert_eq!((&line["ok"], &line["hook"]), (&json!(false), &json!("collect")));
    let told = line["error"].as_str().unwrap();
    assert!(
        told.contains("1 files are kept, 1 are left out") && told.contains("/a: 3000 bytes"),
        "{told}"
    );
    let list = list.replace("\"collect\"", "\"policy\":\"required\",\"collect\"");
    let went = trial.run(&trial.task(&hooks(&list)), agent).await;
    assert_eq!(went.told(), "infra_failed none hook");
}

/// Runs a diff hook; the patch must turn a copy of the start into what the agent made of it.
async fn patch(setup: &str, agent: &str) -> (Trial, String) {
    let trial = Trial::new();
    let list = r#"{"at":"after_run","policy":"required","diff":"."}"#;
    let git = "git -c user.name=a -c user.email=b";
    let setup = json!([setup.replace("GIT", git)]);
    let task = trial.task(&format!(r#","setup":{setup}{}"#, hooks(list)));
    let went = trial.run(&task, &agent.replace("GIT", git)).await;
    assert_eq!(went.told(), "done none", "{went:?}");
    let patch = trial.log("diff.patch");
    (trial, patch)
}

#[tokio::test]
async fn diff_has_what_the_agent_changed_committed_or_not() {
    let setup = "git init -q && echo old > kept && echo gone > gone && echo '*.o' > .gitignore && \
                 GIT add . && GIT commit -qm x && echo mine > before-the-agent";
    let agent = "echo new > kept && GIT commit -qam y && rm gone && mkdir d && echo n > d/new && \
                 echo o > a.o && printf '\\377\\0' > bin && GIT add bin && git config diff.external /bin/false";
    let (trial, patch) = patch(setup, agent).await;
    for line in ["-old", "+new", "-gone", "+++ b/d/new", "+n", "GIT binary patch"] {
        assert!(patch.lines().any(|found| found == line), "{line} is not in\n{patch}");
    }
    assert!(!patch.contains("before-the-agent") && !patch.contains("a.o"), "{patch}");
    // It applies.
    let copy = trial.dir.path().join("copy");
    let script = "mkdir copy && cd copy && git init -q && echo old > kept && echo gone > gone && \
                  git apply ../logs/diff.patch && cat kept d/new && test ! -e gone && wc -c < bin";
    let mut sh = std::process::Command::new("sh");
    let ended = sh.args(["-c", script]).current_dir(trial.dir.path()).output().unwrap();
    assert!(ended.status.success(), "{ended:?} {}", copy.display());
    assert_eq!(String::from_utf8_lossy(&ended.stdout).replace(' ', ""), "new\nn\n2\n");
}

#[tokio::test]
async fn diff_of_a_repository_without_a_commit_or_made_by_the_agent() {
    let (_, first) = patch("git init -q && echo a > a", "echo b > b").await;
    assert!(first.contains("+++ b/b") && !first.contains("+++ b/a"), "{first}");
    let (_, second) = patch("true", "git init -q && echo c > c").await;
    assert!(second.contains("+++ b/c"), "{second}");
    let (_, third) = patch("git init -q", "true").await;
    assert_eq!(third, "");
}

#[tokio::test]
async fn diff_without_a_repository_is_told() {
    let trial = Trial::new();
    let list = r#"{"at":"after_run","diff":"."}"#;
    assert_eq!(trial.run(&trial.task(&hooks(list)), "true").await.told(), "done none");
    assert!(lines(&trial)[0]["error"].as_str().unwrap().contains("no git repository"));
}

#[tokio::test]
async fn row_41_a_hook_can_scrub_history_before_the_agent_sees_it() {
    let trial = Trial::new();
    let setup = r#","setup":["git init -q && echo s > fix && git add . && git -c user.name=a -c user.email=b commit -qm solution"]"#;
    let list = r#"{"at":"before_run","policy":"required","exec":"rm -rf .git && git init -q"}"#;
    let task = trial.task(&format!("{setup}{}", hooks(list)));
    assert_eq!(
        trial.run(&task, "! git log 2>/dev/null | grep -q solution").await.told(),
        "done none"
    );
}

#[tokio::test]
async fn row_45_exec_has_its_own_environment_no_key_and_no_open_stdin() {
    let trial = Trial::new();
    let list = r#"{"at":"before_run","name":"look","exec":"env; cat; pwd","env":{"B":"2"}},
        {"at":"after_run","name":"look-again","exec":["env"]}"#;
    let task = trial.task(&format!(r#","env":{{"A":"1"}}{}"#, hooks(list)));
    assert_eq!(trial.run(&task, "true").await.told(), "done none");
    let (before, after) = (trial.log("hook-look.stdout"), trial.log("hook-look-again.stdout"));
    assert!(before.contains("A=1\n") && before.contains("B=2\n") && before.ends_with("/work\n"));
    assert!(after.contains("A=1\n") && !after.contains("B=2"));
    assert!(!before.contains(KEY) && !after.contains(KEY));
}

#[tokio::test]
async fn a_required_hook_stops_the_attempt_and_a_best_effort_one_does_not() {
    for (at, policy, expected) in [
        ("before_run", "required", "infra_failed none hook"),
        ("before_run", "best_effort", "done 1"),
        ("after_run", "required", "infra_failed none hook"),
        ("after_run", "best_effort", "done 1"),
    ] {
        let trial = Trial::new();
        let list = format!(r#"{{"at":"{at}","policy":"{policy}","exec":"echo why >&2; exit 3"}}"#);
        let task = trial.task(&format!(r#"{},"evaluate":{{"command":"true"}}"#, hooks(&list)));
        let went = trial.run(&task, "touch ran").await;
        assert_eq!(went.told(), expected, "{at} {policy}");
        let told = "hook `exec`: it exited with 3; its last words: \"why\"";
        assert_eq!(lines(&trial)[0]["error"], told);
        assert!(policy == "best_effort" || went.why() == told, "{went:?}");
    }
}

#[tokio::test]
async fn row_18_a_hook_that_hangs_is_cut_at_its_deadline() {
    let trial = Trial::new();
    let list = r#"{"at":"on_error","exec":"sleep 1000","timeout_s":0.3},
        {"at":"on_error","program":"sleep 1000","timeout_s":0.3,"name":"p"},
        {"at":"on_error","exec":"touch reached","name":"last"}"#;
    let started = Instant::now();
    let went = trial.run(&trial.task(&hooks(list)), "exit 9").await;
    // The failure that was first is the one that is told.
    assert_eq!(went.told(), "agent_failed none agent_failed");
    assert!(started.elapsed() < Duration::from_secs(20));
    let told: Vec<_> = lines(&trial).iter().map(|line| line["ok"].clone()).collect();
    assert_eq!(told, [false, false, true]);
}

#[tokio::test]
async fn on_error_hooks_see_the_sandbox_of_a_failed_attempt_only() {
    let list = r#"{"at":"on_error","collect":["trace"]}"#;
    for (agent, more, kept) in [
        ("echo x > trace; exit 1", "", true),
        ("echo x > trace", r#","evaluate":{"command":"exit 7"}"#, true),
        ("echo x > trace", "", false),
    ] {
        let trial = Trial::new();
        trial.run(&trial.task(&format!("{}{more}", hooks(list))), agent).await;
        assert_eq!(trial.dir.path().join("logs/collect/trace").exists(), kept, "{agent}{more}");
    }
}

#[tokio::test]
async fn without_a_sandbox_only_what_needs_none_is_done() {
    let trial = Trial::new();
    let (url, seen) = server(vec![(200, "")]).await;
    let list = format!(r#"{{"at":"on_error","exec":"true"}},{{"at":"on_error","notify":"{url}"}}"#);
    let task = trial.task(&hooks(&list));
    let logs = trial.dir.path().join("logs");
    let about = crate::attempt::about::About {
        task_id: "t".into(),
        attempt_id: "t.3".into(),
        attempt: 3,
        retry: 1,
        agent: "a".into(),
        session_id: "n-1".into(),
    };
    let hooks = Hooks::new(&[], &task, about, (&logs, &trial.cancel));
    let reason = crate::outcome::Reason::new("sandbox", "no room");
    for outcome in [Outcome::InfraFailed, Outcome::Cancelled] {
        let ended = crate::attempt::about::Ended::new(outcome, Some(&reason), None);
        hooks.on_error(None, &ended).await;
    }
    assert_eq!(lines(&trial)[0]["error"], "hook `exec`: there is no sandbox");
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 1, "a cancellation is no error");
    let told = json!({
        "event": "on_error", "task_id": "t", "attempt_id": "t.3", "attempt": 3, "retry": 1,
        "agent": "a", "session_id": "n-1", "outcome": "infra_failed",
        "reason": {"code": "sandbox", "message": "no room"}, "reward": null, "reward_parts": {},
        "metadata": {},
    });
    assert_eq!(seen[0].1, told);
}

#[tokio::test]
async fn notify_tells_the_reward_and_never_the_key() {
    let trial = Trial::new();
    let (url, seen) = server(vec![(503, ""), (200, "")]).await;
    let list = format!(
        r#"{{"at":"after_run","policy":"required","notify":"{url}","headers":{{"X-A":"b"}}}}"#
    );
    let graded = r#","evaluate":{"command":"echo 0.5 > $ROLLGATE_REWARD_FILE"}"#;
    let went = trial.run(&trial.task(&format!("{}{graded}", hooks(&list))), "true").await;
    assert_eq!(went.told(), "done 0.5");
    let seen = seen.lock().unwrap();
    let (head, body) = &seen[1];
    assert!(head.contains("x-a: b"), "{head}");
    assert_eq!((&body["outcome"], &body["reward"]), (&json!("done"), &json!(0.5)));
    assert!(!body.to_string().contains(KEY) && !head.contains(KEY));
}

#[tokio::test]
async fn row_39_a_message_that_is_not_taken_costs_no_reward_but_is_no_secret() {
    let (url, _) = server(vec![(400, "no")]).await;
    let list = format!(r#"{{"at":"after_run","policy":"required","notify":"{url}"}}"#);
    let trial = Trial::new();
    let graded = r#","evaluate":{"command":"true"}"#;
    let went = trial.run(&trial.task(&format!("{}{graded}", hooks(&list))), "true").await;
    assert_eq!(went.told(), "done 1");
    assert_eq!(lines(&trial)[0]["ok"], false);
    let went = trial.run(&trial.task(&hooks(&list)), "true").await;
    assert_eq!(went.told(), "infra_failed none hook", "without a reward nothing is lost");
}

#[tokio::test]
async fn a_program_may_set_environment_and_files_before_and_parts_after() {
    let trial = Trial::new();
    let script = r#"import json, sys
told = json.load(sys.stdin)
if told['event'] == 'before_run':
    print(json.dumps({'env': {'HINT': told['task_id']}, 'files': {'in/a': 'text'}}))
else:
    print(json.dumps({'reward_parts': {'size': 7, 'style': 1}}))
"#;
    std::fs::write(trial.dir.path().join("hook.py"), script).unwrap();
    let program = format!(r#"["python3","{}/hook.py"]"#, trial.dir.path().display());
    let list = format!(
        r#"{{"at":"before_run","policy":"required","program":{program}}},
           {{"at":"after_run","policy":"required","program":{program}}}"#
    );
    let graded =
        r#","evaluate":{"command":"echo '{\"reward\":1,\"style\":2}' > $ROLLGATE_REWARD_FILE"}"#;
    let agent = "test \"$HINT\" = t && test \"$(cat in/a)\" = text";
    let went = trial.run(&trial.task(&format!("{}{graded}", hooks(&list))), agent).await;
    assert_eq!(went.told(), "done 1", "{went:?}");
    let parts = went.reward.unwrap().parts;
    assert_eq!(parts, [("size".to_owned(), 7.0), ("style".to_owned(), 2.0)].into());
    let names: Vec<_> = lines(&trial).iter().map(|line| line["hook"].clone()).collect();
    assert_eq!(names, ["program", "program-2"]);
    // Without an evaluation there are the parts, and no reward.
    let went = trial.run(&trial.task(&hooks(&list)), agent).await;
    assert_eq!(went.told(), "done none");
    assert_eq!(went.reward.unwrap().parts.len(), 2);
}

#[tokio::test]
async fn a_programs_answer_is_held_to_its_event() {
    for (at, answer, expected) in [
        ("before_run", r#"{"reward_parts":{"a":1}}"#, "only be added `after_run`"),
        ("after_run", r#"{"env":{"A":"b"}}"#, "come too late"),
        ("before_run", r#"{"reward":1}"#, "unknown field `reward`"),
        ("before_run", r#"{"files":{"../a":"b"}}"#, "may not hold `..`"),
        ("before_run", r#"{"files":{"/etc/rollgate-never":"b"}}"#, "is refused"),
        ("before_run", "[1]", "its answer"),
    ] {
        let trial = Trial::new();
        std::fs::write(trial.dir.path().join("answer"), answer).unwrap();
        let file = trial.dir.path().join("answer");
        let list = format!(
            r#"{{"at":"{at}","policy":"required","program":["cat","{}"]}}"#,
            file.display()
        );
        let went = trial.run(&trial.task(&hooks(&list)), "true").await;
        assert_eq!(went.outcome, Outcome::InfraFailed);
        assert!(went.why().contains(expected), "{}", went.why());
        // Nobody has to have it.
        let list = list.replace("required", "best_effort");
        assert_eq!(trial.run(&trial.task(&hooks(&list)), "true").await.told(), "done none");
    }
}

#[tokio::test]
async fn the_jobs_hooks_come_first() {
    let mut trial = Trial::new();
    let job = r#"[{"at":"before_run","exec":"echo job >> order"}]"#;
    trial.hooks = serde_json::from_str(job).unwrap();
    let list = r#"{"at":"before_run","exec":"echo task >> order"}"#;
    let task = trial.task(&hooks(list));
    let went = trial.run(&task, "test \"$(cat order)\" = \"$(printf 'job\\ntask')\"").await;
    assert_eq!(went.told(), "done none");
    assert_eq!(lines(&trial)[1]["hook"], "exec-2");
}

#[tokio::test]
async fn a_cancellation_cuts_a_hook_short() {
    let mut trial = Trial::new();
    let (sender, receiver) = tokio::sync::watch::channel(None);
    trial.cancel = crate::runtime::Cancel::when(receiver);
    let list = r#"{"at":"before_run","exec":"sleep 1000"}"#;
    let task = trial.task(&hooks(list));
    let stop = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        sender.send_replace(Some(crate::plan::Why::Asked));
    };
    let (went, ()) = tokio::join!(trial.run(&task, "true"), stop);
    assert_eq!(went.told(), "cancelled none cancelled");
}
