//! The official E2B SDKs against the test server: what they see is what they would see of E2B.

use std::path::Path;
use std::process::Command;

use rollgate_tests::e2b::{E2bServer, On, Options, Versions};
use rollgate_tests::{program, real};
use serde_json::{Value, json};

/// Older SDKs want a key of this form.
const KEY: &str = "e2b_0123456789abcdef0123456789abcdef01234567";

fn run(mut command: Command, server: &E2bServer) -> Value {
    command.env("E2B_API_KEY", KEY).env("E2B_API_URL", &server.url);
    command.env("E2B_SANDBOX_URL", &server.url);
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the SDK's program failed: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn python(python: &Path, version: &str, server: &E2bServer) -> Value {
    let mut command = Command::new(python);
    command.arg(program::workspace().join("tests/real/sdk_e2b.py")).arg(version);
    run(command, server)
}

/// What every version of the Python SDK has to see.
fn as_expected(seen: &Value, reader: &str) {
    let read = format!("{reader}; echo closed");
    let want = json!({
        "run": ["out\n", "err\n", 0],
        "listed": [["/bin/bash", ["-l", "-c", read]]],
        "env": ["a b m\n", "", 0],
        "exit 3": ["half\n", "", 3],
        "late": "TimeoutException",
        "large": 300_000,
        "pieces": "a\nb\n",
        "stdin": ["typed\nclosed\n", "", 0],
        "killed": [true, false],
        "wait for the killed": "CommandExitException",
        "write": true,
        "read": "ünï\n",
        "bytes": "ünï\n".as_bytes(),
        "in a command": "ünï\n",
        "many": ["a", "b"],
        "list": [["a", "file"], ["b", "file"]],
        "exists": [true, false],
        "make_dir": [true, false],
        "rename": "z",
        "size": 1,
        "info": [true, "base", {"task": "7"}],
        "left": [["z"], 500.0],
        "pages": [2, 1],
        "connected": ["here\n", "", 0],
        "running": [true, false],
        "kill": [true, false],
        "async": true,
        "async read": "b",
        "async kill": true,
    });
    for (name, value) in want.as_object().unwrap() {
        assert_eq!(&seen[name], value, "{name}: {seen}");
    }
    let no_file = seen["no file"].as_str().unwrap();
    assert!(no_file.ends_with("NotFoundException"), "{no_file}");
    assert!(seen["after"].is_string(), "a dead sandbox runs nothing: {seen}");
}

#[test]
fn python_sdk_2_21_1_on_the_old_paths() {
    let Some(sdk) = real::e2b_old_python() else { return };
    // It lists by the new path already.
    let versions = Versions::OldNotAllowed;
    let server = E2bServer::start(Options { versions, ..Options::default() });
    let seen = python(&sdk, "2.21.1", &server);
    as_expected(&seen, "head -n 1");
    assert!(server.sandboxes().is_empty(), "{:?}", server.sandboxes());
    assert!(server.seen(On::Create) >= 5);
}

#[test]
fn python_sdk_2_63_0_on_the_new_paths() {
    let Some(sdk) = real::e2b_python() else { return };
    let server = E2bServer::start(Options { versions: Versions::New, ..Options::default() });
    let seen = python(&sdk, "2.63.0", &server);
    as_expected(&seen, "cat");
    assert!(server.sandboxes().is_empty(), "{:?}", server.sandboxes());
}

#[test]
fn javascript_sdk_2_51_0() {
    let Some(modules) = real::e2b_javascript() else { return };
    let server = E2bServer::start(Options::default());
    let mut node = Command::new("node");
    node.arg(program::workspace().join("tests/real/sdk_e2b.mjs")).arg(modules);
    let seen = run(node, &server);
    let want = json!({
        "run": ["out\n", "err\n", 0],
        "exit": [true, 3],
        "late": "TimeoutError",
        "read": "text",
        "list": [["a.txt", "file"]],
        "exists": [true, false],
        "listed": 1,
        "stdin": ["typed\n", "", 0],
        "info": {"task": "8"},
        "running": [true, false],
        "kill": [true, false],
    });
    assert_eq!(seen, want);
}

#[test]
fn nothing_of_a_dead_sandbox_runs_on() {
    let Some(sdk) = real::e2b_python() else { return };
    let server = E2bServer::start(Options::default());
    let mut command = Command::new(sdk);
    command.args(["-c", LEAVES]);
    let id = run(command, &server);
    assert_eq!(server.sandboxes(), [id.as_str().unwrap()]);
    assert_eq!(server.processes().len(), 1, "what left its session runs on in the sandbox");
    server.kill(id.as_str().unwrap());
    let begun = std::time::Instant::now();
    while !server.processes().is_empty() {
        assert!(begun.elapsed().as_secs() < 5, "{:?}", server.processes());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Leaves a process in a session of its own.
const LEAVES: &str = "
import json
from e2b import Sandbox
sandbox = Sandbox.create()
sandbox.commands.run('setsid sleep 300 >/dev/null 2>&1 </dev/null &')
print(json.dumps(sandbox.sandbox_id))
";
