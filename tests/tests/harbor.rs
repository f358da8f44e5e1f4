//! The Harbor examples through the program: folders in, rewards and samples out.

use rollgate_tests::scripted::Scripted;
use rollgate_tests::{program, samples};
use serde_json::{Value, json};

/// The first turn of a task that is known by a word of its instruction runs this command.
fn solve(word: &str, command: &str) -> Value {
    json!({
        "match": {"prompt_contains": word, "turn": 0},
        "tool_calls": [{"name": "bash", "arguments": {"command": command}}],
    })
}

#[test]
fn harbor_folders_become_rewarded_samples() {
    let directory = tempfile::tempdir().unwrap();
    let squares = "for n in 1 2 3 4 5 6 7 8 9 10; do echo $((n * n)); done > squares.txt";
    // Most of what is asked: an empty file is counted wrong.
    let most =
        "echo 'test -f $1 || exit 1; set -- $(wc -w < $1); test $1 -gt 0 && echo $1' > count.sh";
    let script = json!({
        "replies": [
            solve("squares.txt", squares),
            solve("count.sh", most),
            solve("index.sh", "echo echo wrong > index.sh"),
        ],
        "otherwise": {"content": "Done."},
    });
    let engine = Scripted::start(directory.path(), &script);
    let examples = program::workspace().join("examples/harbor");
    let (examples, model) = (examples.to_str().unwrap(), program::demo_model());
    let arguments = ["run", examples, "--engine", &engine.url, "--n", "2", "-o", "out", "--model"];
    let ran =
        program::run(directory.path(), &[&arguments[..], &[model.to_str().unwrap()]].concat());
    assert_eq!(ran.code, Some(0), "{ran:#?}\n{}", engine.process.logs());
    assert!(ran.stderr.contains("3 tasks name an image"), "{}", ran.stderr);

    let lines = std::fs::read_to_string(directory.path().join("out/attempts.jsonl")).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 6);
    for line in &lines {
        let expected = match line["task_id"].as_str().unwrap() {
            "squares" => 1.0,
            "word-count" => 0.75,
            _ => 0.0,
        };
        assert_eq!(
            (&line["outcome"], &line["reward"]),
            (&json!("done"), &json!(expected)),
            "{line}"
        );
        if line["task_id"] == "word-count" {
            assert_eq!(line["reward_parts"], json!({"counted": 2.0, "missing": 1.0}), "{line}");
        }
    }
    let (code, report) = program::verify(directory.path(), &["out"]);
    assert_eq!(code, Some(0), "{report:#}");
    let samples = samples::read(&directory.path().join("out"));
    assert_eq!(samples.len(), 6);
    assert!(samples.iter().all(|sample| sample.reward.is_some()));
    // What a task wants out of its sandbox is among its logs.
    let kept = directory.path().join("out/logs/word-count.0/artifacts/count.sh");
    assert!(kept.exists(), "{}", kept.display());
}

#[test]
fn a_wrong_task_folder_is_wrong_use_and_names_file_and_key() {
    let directory = tempfile::tempdir().unwrap();
    let task = directory.path().join("set/one");
    for (path, text) in [
        ("task.toml", "[environment]\ngpus = 2\n"),
        ("instruction.md", "x"),
        ("tests/test.sh", "#!/bin/sh\n"),
    ] {
        let path = task.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let model = program::demo_model();
    let arguments = ["run", "set", "--engine", "http://127.0.0.1:1", "--model"];
    let ran =
        program::run(directory.path(), &[&arguments[..], &[model.to_str().unwrap()]].concat());
    assert_eq!(ran.code, Some(2), "{ran:#?}");
    assert!(
        ran.stderr.contains("one/task.toml: `environment.gpus` is not supported: 2"),
        "{ran:#?}"
    );
    let columns = [&arguments[..], &[model.to_str().unwrap(), "--columns", "a=b"]].concat();
    let ran = program::run(directory.path(), &columns);
    assert!(ran.code == Some(2) && ran.stderr.contains("a task has no key `b`"), "{ran:#?}");
}
