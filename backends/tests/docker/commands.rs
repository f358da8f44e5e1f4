//! Commands in a container: what they get, what they say, and that nothing of them stays.

use std::time::Duration;

use rollgate_backends::{Backend, Docker, DockerConfig, Exec, Spec};

use super::engine::{config, engine, err, eventually, out, running, sandbox, sh};

#[tokio::test(flavor = "multi_thread")]
async fn a_command_has_its_code_outputs_variables_and_folder() {
    let Some(sandbox) = sandbox("commands").await else { return };
    let exec = Exec {
        env: vec![("GIVEN".into(), "a b".into()), ("ROLLGATE_COMMAND".into(), "<x>".into())],
        ..sh("echo $GIVEN; pwd; echo $HOME $TMPDIR $USER >&2; exit 7")
    };
    let exit = sandbox.exec(exec).await.unwrap();
    assert_eq!((exit.code, exit.timed_out, exit.cut_bytes), (Some(7), false, 0));
    assert_eq!(out(&exit), "a b\n/rollgate/work");
    assert_eq!(err(&exit), "/rollgate/home /rollgate/tmp root");
    assert_eq!((sandbox.workdir(), sandbox.home()), ("/rollgate/work", "/rollgate/home"));
    assert!(exit.took < Duration::from_secs(30));

    let folder = Exec { cwd: Some("/etc".into()), ..sh("pwd; echo $0 \"$@\"") };
    assert_eq!(out(&sandbox.exec(folder).await.unwrap()), "/etc\nsh");
    let words = ["echo", "a  b", "$HOME", "'", "", "*"].map(str::to_owned).to_vec();
    let exit = sandbox.exec(Exec { argv: words, ..sh("") }).await.unwrap();
    assert_eq!(exit.stdout, b"a  b $HOME '  *\n");

    let killed = sandbox.exec(sh("kill -9 $$")).await.unwrap();
    assert_eq!((killed.code, killed.timed_out), (Some(128 + 9), false));
    let group = sandbox.exec(sh("echo before; kill 0; sleep 9")).await.unwrap();
    assert_eq!((group.code, out(&group).as_str()), (Some(128 + 15), "before"));
    let script = sandbox.exec(sh("echo before; kill -9 0; sleep 9")).await.unwrap();
    assert_eq!((script.code, out(&script).as_str()), (Some(128 + 9), "before"));

    let none = Exec { argv: vec!["no-such-program".into()], ..sh("") };
    let exit = sandbox.exec(none).await.unwrap();
    assert_eq!(exit.code, Some(127));
    assert!(err(&exit).contains("not found"), "{exit:?}");
    let odd = Exec { env: vec![("a-b".into(), "1".into())], ..sh("true") };
    let error = sandbox.exec(odd).await.unwrap_err().to_string();
    assert!(error.contains("`a-b`"), "{error}");
    let nowhere = sandbox.exec(Exec { cwd: Some("/nowhere".into()), ..sh("true") }).await;
    let error = nowhere.unwrap_err().to_string();
    assert!(error.contains("no folder /nowhere"), "{error}");
    sandbox.destroy().await.unwrap();
}

/// Row 45: agents hang on a stdin that is open and idle.
#[tokio::test(flavor = "multi_thread")]
async fn row_45_stdin_is_what_was_given_and_then_ends() {
    let Some(sandbox) = sandbox("stdin").await else { return };
    let exit = sandbox.exec(sh("cat; echo end")).await.unwrap();
    assert_eq!(out(&exit), "end");
    let bytes: Vec<u8> = (0..3u32 << 20).map(|number| (number % 251) as u8).collect();
    let exec = Exec { stdin: Some(bytes.clone()), ..sh("md5sum; echo end") };
    let given = sandbox.exec(exec).await.unwrap();
    sandbox.put("/srv/same", &bytes).await.unwrap();
    let same = sandbox.exec(sh("md5sum < /srv/same; echo end")).await.unwrap();
    assert_eq!(out(&given), out(&same));
    assert!(out(&given).ends_with("end"));
    // One that reads nothing of it ends all the same.
    let exec = Exec { stdin: Some(bytes), ..sh("echo deaf") };
    assert_eq!(out(&sandbox.exec(exec).await.unwrap()), "deaf");
    sandbox.destroy().await.unwrap();
}

/// Row 43: an endless output costs its cap, not the memory of this process.
#[tokio::test(flavor = "multi_thread")]
async fn row_43_of_a_flood_head_and_tail_are_kept() {
    let Some(sandbox) = sandbox("flood").await else { return };
    let script = "echo first; yes | head -c 20000000; echo last; echo complaint >&2";
    let exec = Exec { output_cap_bytes: 1000, ..sh(script) };
    let exit = sandbox.exec(exec).await.unwrap();
    assert_eq!((exit.code, exit.stdout.len()), (Some(0), 1000));
    assert!(exit.stdout.starts_with(b"first\ny\n") && exit.stdout.ends_with(b"y\nlast\n"));
    assert_eq!(exit.cut_bytes, 20_000_000 + 6 + 5 - 1000);
    assert_eq!(err(&exit), "complaint");
    let exec = Exec { output_cap_bytes: 64, ..sh("yes >&2 & sleep 0.5") };
    let exit = sandbox.exec(exec).await.unwrap();
    assert_eq!((exit.code, exit.stderr.len()), (Some(0), 64));
    sandbox.destroy().await.unwrap();
}

/// A tree that no process group, session or environment holds together.
const TREE: &str = "
    sleep 4241 &
    setsid sleep 4242 >/dev/null 2>&1 </dev/null &
    (setsid sh -c '(sleep 4243 &)' >/dev/null 2>&1 </dev/null &)
    (env -i setsid sleep 4244 >/dev/null 2>&1 </dev/null &)
    (env -i setsid sh -c '(sleep 4245 & ) ; (sleep 4246 &)' </dev/null >/dev/null 2>&1 &)
    while [ $(ps -o args | grep -cx 'sleep 424.') -lt 6 ]; do sleep 0.05; done
    echo ready";

/// Row 21: a deadline ends the processes, not only the waiting for them. Row 22: nor zombies stay.
#[tokio::test(flavor = "multi_thread")]
async fn row_21_a_late_command_is_killed_with_its_whole_tree() {
    let Some(engine) = engine() else { return };
    for user in [None, Some("agent".to_owned())] {
        let docker = Docker::new(DockerConfig { user, ..config(&engine.socket()) });
        let sandbox = docker.create(&Spec::new("a", "late")).await.unwrap();
        let script = format!("{TREE}; trap '' TERM INT HUP; sleep 4247; sleep 4248");
        let exec = Exec { timeout: Duration::from_secs(3), ..sh(&script) };
        let exit = sandbox.exec(exec).await.unwrap();
        assert_eq!((exit.code, exit.timed_out, out(&exit).as_str()), (None, true, "ready"));
        assert!(exit.took >= Duration::from_secs(3) && exit.took < Duration::from_secs(20));
        assert_eq!(running(sandbox.as_ref(), "sleep 424.").await, 0);
        let zombies = sandbox.exec(sh("cat /proc/[0-9]*/status | grep -c 'State:.*Z'")).await;
        assert_eq!(out(&zombies.unwrap()), "0", "row 22");
        assert_eq!(out(&sandbox.exec(sh("echo usable")).await.unwrap()), "usable");
        sandbox.destroy().await.unwrap();
    }
}

/// Row 42: nor does what an agent left running change files while they are judged.
#[tokio::test(flavor = "multi_thread")]
async fn row_42_what_a_command_leaves_behind_ends_with_it() {
    let Some(sandbox) = sandbox("leaves").await else { return };
    let exit = sandbox.exec(sh(TREE)).await.unwrap();
    assert_eq!((exit.code, out(&exit).as_str()), (Some(0), "ready"));
    assert!(exit.took < Duration::from_secs(30), "waited for the pipe's holders");
    assert_eq!(running(sandbox.as_ref(), "sleep 424.").await, 0);
    sandbox.destroy().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_ends_leaves_its_neighbour_alone() {
    let Some(sandbox) = sandbox("neighbours").await else { return };
    let script = "(env -i setsid sleep 4251 </dev/null >/dev/null 2>&1 &); sleep 0.5;
        i=0; while [ $i -lt 300 ] && [ ! -e /srv/go ]; do i=$((i+1)); sleep 0.1; done; echo kept";
    let long = sandbox.exec(sh(script));
    let short = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        for _ in 0..3 {
            assert_eq!(sandbox.exec(sh("sleep 0.1")).await.unwrap().code, Some(0));
        }
        assert_eq!(running(sandbox.as_ref(), "sleep 4251").await, 1);
        sandbox.put("/srv/go", b"").await.unwrap();
    };
    let (long, ()) = tokio::join!(long, short);
    assert_eq!(out(&long.unwrap()), "kept");
    assert_eq!(running(sandbox.as_ref(), "sleep 4251").await, 0);
    sandbox.destroy().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_command_is_killed_too() {
    let Some(sandbox) = sandbox("cancelled").await else { return };
    let script = format!("{TREE}; sleep 4249");
    let cancelled = tokio::time::timeout(Duration::from_secs(3), sandbox.exec(sh(&script)));
    assert!(cancelled.await.is_err());
    eventually("the tree is dead", || async { running(sandbox.as_ref(), "sleep 424.").await == 0 })
        .await;
    sandbox.destroy().await.unwrap();
}

/// Row 44: a long argument is the caller's fault, and says so; long texts go by stdin.
#[tokio::test(flavor = "multi_thread")]
async fn row_44_an_argument_that_is_too_long_is_told() {
    let Some(sandbox) = sandbox("long").await else { return };
    let argv = vec!["echo".to_owned(), "x".repeat(200 << 10)];
    let error = sandbox.exec(Exec { argv, ..sh("") }).await.unwrap_err().to_string();
    assert!(error.to_lowercase().contains("argument list too long"), "{error}");
    assert!(error.contains("stdin"), "{error}");
    assert_eq!(out(&sandbox.exec(sh("echo usable")).await.unwrap()), "usable");
    sandbox.destroy().await.unwrap();
}
