//! Task folders made here, in the shapes that Harbor's documentation has.

use super::super::{Columns, Command, load};
use super::*;
use crate::hooks::Action;

/// A folder with one task: its name, `task.toml`, and further files.
fn folder(dir: &Path, name: &str, manifest: &str, more: &[(&str, &str)]) -> PathBuf {
    let path = dir.join(name);
    let files =
        [("task.toml", manifest), ("instruction.md", "Do it.\n"), ("tests/test.sh", "#!/bin/sh\n")];
    for (file, text) in files.iter().chain(more) {
        let file = path.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    path
}

fn read_all(path: &Path) -> Result<Loaded, TaskError> {
    load(path, &Columns::default())
}

fn one(manifest: &str, more: &[(&str, &str)]) -> Result<(Task, Vec<String>), String> {
    let dir = tempfile::tempdir().unwrap();
    let path = folder(dir.path(), "a-task", manifest, more);
    let loaded = read_all(&path).map_err(|e| e.to_string())?;
    let mut tasks = loaded.tasks;
    assert_eq!(tasks.len(), 1);
    let strip = |remark: &String| remark.rsplit("a-task/").next().unwrap().to_owned();
    Ok((tasks.remove(0), loaded.remarks.iter().map(strip).collect()))
}

const FULL: &str = r#"
version = "1.0"
artifacts = ["/app/out.txt", { source = "logs", destination = "x" }]
[task]
name = "org/a-task"
keywords = ["x"]
[metadata]
difficulty = "easy"
[agent]
timeout_sec = 120.5
[verifier]
timeout_sec = 60
env = { JUDGE_KEY = "${JUDGE_KEY}" }
[environment]
build_timeout_sec = 600.0
cpus = 2
memory_mb = 4096
storage_mb = 10240
workdir = "/app"
network_mode = "public"
gpus = 0
os = "linux"
env = { MODE = "test" }
[environment.healthcheck]
command = "test -e ready"
retries = 2
interval_sec = 0.1
"#;

#[test]
fn every_key_that_matters_is_honoured() {
    let (task, remarks) = one(FULL, &[("environment/Dockerfile", "FROM x\n")]).unwrap();
    assert_eq!(remarks, [""; 0]);
    assert_eq!((task.task_id.as_str(), task.instruction.as_str()), ("a-task", "Do it.\n"));
    assert_eq!((task.timeout_s, task.workdir.as_deref()), (Some(120.5), Some("/app")));
    assert_eq!(task.env, [("MODE".to_owned(), "test".to_owned())].into());
    let resources = task.resources;
    assert_eq!(
        (resources.cpus, resources.memory_mib, resources.disk_mib),
        (Some(2.0), Some(4096), Some(10240))
    );
    assert!(task.image.as_ref().unwrap().ends_with("a-task/environment"), "{:?}", task.image);
    let evaluate = task.evaluate.as_ref().unwrap();
    assert_eq!(
        (evaluate.timeout_s, evaluate.env["JUDGE_KEY"].as_str()),
        (Some(60.0), "${JUDGE_KEY}")
    );
    let Grader::Harbor { tests, sandbox } = &evaluate.grader else { panic!("{evaluate:?}") };
    assert!(tests.ends_with("a-task/tests") && *sandbox == Where::Same);
    let Action::Collect { paths, .. } = &task.hooks[0].action else { panic!("{:?}", task.hooks) };
    assert_eq!(paths, &["/app/out.txt", "logs"]);
    assert_eq!(task.metadata["difficulty"], "easy");
    assert_eq!(task.metadata["harbor_name"], "org/a-task");
    let Command::Argv(argv) = &task.setup[0] else { panic!("{:?}", task.setup) };
    assert_eq!(argv[4..], ["test -e ready", "2", "0.1", "0", "30"]);
    // What is kept of a run is the same task, and holds no value of the host.
    let again: Task = serde_json::from_value(serde_json::to_value(&task).unwrap()).unwrap();
    assert_eq!(again, task);
}

#[test]
fn a_ready_image_needs_no_build_and_a_separate_verifier_is_a_fresh_sandbox() {
    let manifest = r#"
        artifacts = ["out"]
        [environment]
        docker_image = "org/image:1"
        memory = "2G"
        storage = "512MB"
        [verifier]
        environment_mode = "separate"
        [verifier.environment]
        docker_image = "org/judge:1""#;
    let (task, _) = one(manifest, &[("environment/Dockerfile", "FROM x\n")]).unwrap();
    assert_eq!(task.image, Some("org/image:1".to_owned()));
    assert_eq!((task.resources.memory_mib, task.resources.disk_mib), (Some(2048), Some(512)));
    let evaluate = task.evaluate.unwrap();
    assert_eq!(evaluate.sandbox(), Some(&Where::Fresh { image: Some("org/judge:1".to_owned()) }));
    assert_eq!((evaluate.artifacts, task.hooks.len()), (vec!["out".to_owned()], 0));
}

#[test]
fn what_is_not_done_is_told_by_name() {
    let manifest = r#"
        new_key = 1
        [agent]
        user = "worker"
        [verifier]
        user = "root"
        [environment]
        allow_internet = false
        build_timeout_sec = 900
        network_mode = "allowlist"
        allowed_hosts = ["a.example"]
        [environment.novel]
        x = 1"#;
    let (_, remarks) = one(manifest, &[]).unwrap();
    let passed = "is not supported and passed over";
    let expected = [
        format!("task.toml: `agent.user` {passed}: \"worker\""),
        format!("task.toml: `verifier.user` {passed}: \"root\""),
        format!("task.toml: `environment.build_timeout_sec` {passed}: 900"),
        format!("task.toml: `environment.network_mode` {passed}: \"allowlist\""),
        format!("task.toml: `environment.allowed_hosts` {passed}: [\"a.example\"]"),
        format!("task.toml: `environment.allow_internet` {passed}: false"),
        "task.toml: `environment.novel.x` is not known and passed over".to_owned(),
        "task.toml: `new_key` is not known and passed over".to_owned(),
    ];
    assert_eq!(remarks, expected);
}

#[track_caller]
fn refuse(manifest: &str, more: &[(&str, &str)], expected: &str) {
    let error = one(manifest, more).unwrap_err();
    assert!(error.contains("a-task"), "{error}");
    assert!(error.contains(expected), "{error:?} does not say {expected:?}");
}

#[test]
fn a_task_that_would_be_another_one_is_refused_with_file_and_key() {
    refuse("a = \n", &[], "task.toml, line 1: ");
    refuse("[agent]\ntimeout_sec = -1", &[], "`agent.timeout_sec` must be over 0");
    refuse("[agent]\ntimeout_sec = \"x\"", &[], "`agent.timeout_sec`: invalid type");
    refuse("version = \"2.0\"", &[], "`version` is 2.0; versions 1 and 1.x are known");
    refuse("[environment]\ngpus = 1", &[], "`environment.gpus` is not supported: 1");
    refuse("[environment]\nos = \"windows\"", &[], "`environment.os` is not supported");
    refuse("[[environment.mcp_servers]]\nname = \"m\"", &[], "`environment.mcp_servers` is not");
    refuse("[[steps]]\nname = \"one\"", &[], "`steps` is not supported");
    refuse("[environment]\nmemory = \"lots\"", &[], "`environment.memory` is no size");
    refuse("[environment]\ncpus = 0", &[], "`resources.cpus` must be over 0");
    refuse("[environment]\nenv = { A = \"${B}\" }", &[], "`environment.env.A` asks for a variable");
    refuse("[verifier]\nenvironment_mode = \"odd\"", &[], "shared and separate are known");
    refuse("artifacts = [1]", &[], "`artifacts` holds what is neither");
    refuse("", &[("instruction.md", " \n")], "instruction.md: it is empty");
    let compose = [("environment/docker-compose.yaml", "")];
    refuse("", &compose, "docker-compose.yaml: several services are not supported");
}

#[test]
fn a_folder_of_folders_is_read_in_order_of_names() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["b", "a"] {
        folder(dir.path(), name, "", &[]);
    }
    std::fs::create_dir(dir.path().join("notes")).unwrap();
    folder(dir.path(), "old", "", &[("task.yaml", "")]);
    std::fs::remove_file(dir.path().join("old/task.toml")).unwrap();
    let loaded = read_all(dir.path()).unwrap();
    let ids: Vec<&str> = loaded.tasks.iter().map(|task| task.task_id.as_str()).collect();
    assert_eq!(ids, ["a", "b"]);
    assert_eq!(loaded.remarks.len(), 2);
    assert!(loaded.remarks[0].ends_with("notes is no task: it has no task.toml"));
    assert!(loaded.remarks[1].contains("a task of Terminal-Bench 1, not read"));

    std::fs::remove_file(dir.path().join("a/tests/test.sh")).unwrap();
    let error = read_all(dir.path()).unwrap_err().to_string();
    assert!(error.ends_with("a/tests: there is no test.sh in it"), "{error}");
    let empty = tempfile::tempdir().unwrap();
    let error = read_all(empty.path()).unwrap_err().to_string();
    assert!(error.ends_with("neither it nor a folder in it has a task.toml"), "{error}");
    let mapped = load(dir.path(), &"a=instruction".parse().unwrap()).unwrap_err().to_string();
    assert!(mapped.contains("has no columns"), "{mapped}");
}

#[tokio::test]
async fn a_health_check_waits_or_fails_the_set_up() {
    use crate::attempt::trial::Trial;
    let check = |command: &str| {
        format!(
            "[environment.healthcheck]\ncommand = {command:?}\nretries = 3\ninterval_sec = 0.05\n"
        )
    };
    let late = "test $(wc -l < tries) -ge 2 || { echo x >> tries; exit 1; }";
    for (command, expected) in [(late, "done none"), ("false", "infra_failed none setup")] {
        let (mut task, _) = one(&check(command), &[]).unwrap();
        task.evaluate = None;
        task.setup.insert(0, Command::Shell("touch tries".to_owned()));
        let went = Trial::new().run(&task, "true").await;
        assert_eq!(went.told(), expected, "{}", went.why());
    }
}

#[tokio::test]
async fn the_examples_reward_their_solutions_and_nothing_else() {
    use crate::attempt::trial::Trial;
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/harbor");
    let loaded = read_all(&examples).unwrap();
    assert_eq!(loaded.remarks, [""; 0]);
    let ids: Vec<&str> = loaded.tasks.iter().map(|task| task.task_id.as_str()).collect();
    assert_eq!(ids, ["index", "squares", "word-count"]);
    for task in &loaded.tasks {
        let solution =
            examples.canonicalize().unwrap().join(&task.task_id).join("solution/solve.sh");
        let trial = Trial::new();
        let went = trial.run(task, &format!("sh {}", solution.display())).await;
        assert_eq!(went.told(), "done 1", "{}: {}", task.task_id, went.why());
        let went = Trial::new().run(task, "true").await;
        assert_eq!(went.told(), "done 0", "{}: {}", task.task_id, went.why());
        if task.task_id == "word-count" {
            assert!(trial.log("artifacts/count.sh").contains("wc -w"));
        }
    }
}
