use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, Instant};

use super::*;

struct Place {
    dir: tempfile::TempDir,
    local: Local,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let config = LocalConfig {
        root: dir.path().join("boxes"),
        rollgate: PathBuf::from("/bin/true"),
        keep: false,
        path_env: "/usr/local/bin:/usr/bin:/bin".to_owned(),
    };
    Place { local: Local::new(config), dir }
}

impl Place {
    async fn sandbox(&self) -> Box<dyn Sandbox> {
        let spec = Spec::new("a/1", "test");
        self.local.create(&spec).await.unwrap()
    }
}

fn sh(script: &str) -> Exec {
    Exec {
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        env: Vec::new(),
        cwd: None,
        stdin: None,
        timeout: Duration::from_secs(20),
        output_cap_bytes: 1 << 16,
    }
}

fn out(exit: &Exit) -> String {
    String::from_utf8(exit.stdout.clone()).unwrap().trim().to_owned()
}

/// Pids that a script wrote, one a line, must all be gone.
async fn all_dead(sandbox: &dyn Sandbox, file: &str, count: usize) {
    let path = format!("{}/{file}", sandbox.workdir());
    let pids = String::from_utf8(sandbox.get(&path, 1 << 10).await.unwrap().unwrap()).unwrap();
    assert_eq!(pids.lines().count(), count, "pids: {pids:?}");
    for pid in pids.lines() {
        assert_eq!(processes::start_ticks(pid.parse().unwrap()), None, "{pid} lives");
    }
}

#[tokio::test]
async fn the_environment_is_clean_and_private() {
    let place = place();
    let sandbox = place.sandbox().await;
    let mut exec = sh("env; pwd");
    exec.env = vec![("GIVEN".to_owned(), "1".to_owned()), ("HOME".to_owned(), "/x".to_owned())];
    let exit = sandbox.exec(exec).await.unwrap();
    let text = out(&exit);
    let mut names: Vec<&str> =
        text.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    names.sort_unstable();
    let expected = [
        "GIVEN",
        "HOME",
        "LANG",
        "LOGNAME",
        "PATH",
        "PWD",
        "ROLLGATE_COMMAND",
        "ROLLGATE_SANDBOX",
        "TMPDIR",
        "USER",
    ];
    assert_eq!(names, expected);
    assert!(text.contains("HOME=/x\n") && text.ends_with(sandbox.workdir()), "{text}");
    let mode = fs::metadata(sandbox.home()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn stdin_is_given_or_closed_and_codes_come_back() {
    let place = place();
    let sandbox = place.sandbox().await;
    let exit = sandbox.exec(sh("cat; exit 3")).await.unwrap();
    assert_eq!((exit.code, exit.stdout.len(), exit.timed_out), (Some(3), 0, false));
    let big = vec![b'x'; 300_000];
    let given = Exec { stdin: Some(big.clone()), ..sh("wc -c") };
    assert_eq!(out(&sandbox.exec(given).await.unwrap()), "300000");
    let unread = Exec { stdin: Some(big), ..sh("echo done") };
    assert_eq!(out(&sandbox.exec(unread).await.unwrap()), "done");
    let exit = sandbox.exec(sh("kill -9 $$")).await.unwrap();
    assert_eq!((exit.code, exit.timed_out), (None, false));
}

#[tokio::test]
async fn a_missing_program_names_itself() {
    let place = place();
    let sandbox = place.sandbox().await;
    let exec = Exec { argv: vec!["no-such-program".to_owned()], ..sh("") };
    let error = sandbox.exec(exec).await.unwrap_err().to_string();
    assert!(error.contains("no-such-program") && error.contains("PATH"), "{error}");
    assert!(sandbox.exec(Exec { argv: Vec::new(), ..sh("") }).await.is_err());
}

#[tokio::test]
async fn endless_output_is_drained_and_cut_in_the_middle() {
    let place = place();
    let sandbox = place.sandbox().await;
    let script = "printf '\\377start'; head -c 5000000 /dev/zero; printf 'end\\376'; echo e >&2";
    let exec = Exec { output_cap_bytes: 1_000, ..sh(script) };
    let exit = sandbox.exec(exec).await.unwrap();
    assert_eq!(exit.stdout.len(), 1_000);
    assert!(exit.stdout.starts_with(b"\xffstart\0") && exit.stdout.ends_with(b"\0end\xfe"));
    assert_eq!(exit.cut_bytes, 5_000_010 - 1_000);
    assert_eq!(exit.stderr, b"e\n");
}

#[tokio::test]
async fn a_deadline_kills_the_whole_tree_even_after_setsid_and_double_fork() {
    let place = place();
    let sandbox = place.sandbox().await;
    let script = "echo begun; echo $$ >> pids
        sleep 1000 & echo $! >> pids
        setsid sh -c 'echo $$ >> pids; sleep 1000 & echo $! >> pids; wait' &
        (setsid sh -c '(cd /; sleep 1000 & echo $! >> '$PWD'/pids) &') &
        (setsid env -i sh -c 'echo $$ >> pids; sleep 1000; true' &) &
        sleep 1000";
    let exec = Exec { timeout: Duration::from_millis(700), ..sh(script) };
    let started = Instant::now();
    let exit = sandbox.exec(exec).await.unwrap();
    assert!(exit.timed_out && exit.code.is_none(), "{exit:?}");
    assert_eq!(exit.stdout, b"begun\n");
    assert!(exit.took >= Duration::from_millis(700) && started.elapsed() < Duration::from_secs(8));
    all_dead(sandbox.as_ref(), "pids", 6).await;
}

#[tokio::test]
async fn a_daemon_that_holds_the_pipe_neither_hangs_the_command_nor_survives() {
    let place = place();
    let sandbox = place.sandbox().await;
    let script = "setsid sleep 1000 & echo $! > pids; echo finished";
    let exit = sandbox.exec(sh(script)).await.unwrap();
    assert_eq!((exit.code, exit.timed_out, out(&exit).as_str()), (Some(0), false, "finished"));
    all_dead(sandbox.as_ref(), "pids", 1).await;
    let quiet = "(setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo $! > pids2)";
    sandbox.exec(sh(quiet)).await.unwrap();
    all_dead(sandbox.as_ref(), "pids2", 1).await;
}

#[tokio::test]
async fn a_command_that_ends_leaves_its_neighbour_alone() {
    let place = place();
    let sandbox = place.sandbox().await;
    let long = sandbox.exec(sh("env -i sleep 0.6; echo kept"));
    let short = async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        sandbox.exec(sh("true")).await
    };
    let (long, short) = tokio::join!(long, short);
    assert_eq!(out(&long.unwrap()), "kept");
    assert_eq!(short.unwrap().code, Some(0));
}

#[tokio::test]
async fn a_cancelled_command_is_killed_too() {
    let place = place();
    let sandbox = place.sandbox().await;
    let script = "setsid sleep 1000 & echo $! > pids; sleep 1000";
    let cancelled = tokio::time::timeout(Duration::from_millis(400), sandbox.exec(sh(script)));
    assert!(cancelled.await.is_err());
    // The killing goes on by itself; on a busy machine that takes a while.
    let path = format!("{}/pids", sandbox.workdir());
    let pid = String::from_utf8(sandbox.get(&path, 99).await.unwrap().unwrap()).unwrap();
    let pid = pid.trim().parse().unwrap();
    let began = Instant::now();
    while processes::start_ticks(pid).is_some() && began.elapsed() < Duration::from_secs(20) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    all_dead(sandbox.as_ref(), "pids", 1).await;
}

#[tokio::test]
async fn destroy_kills_and_removes_everything_and_twice_is_fine() {
    let place = place();
    let sandbox = place.sandbox().await;
    let setup =
        "mkdir -p ro/deep && echo x > ro/deep/f && chmod 400 ro/deep/f && chmod 500 ro/deep ro";
    sandbox.exec(sh(setup)).await.unwrap();
    let running = sandbox.exec(sh("sleep 1000"));
    let destroying = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        sandbox.destroy().await.unwrap();
    };
    let (exit, ()) = tokio::join!(running, destroying);
    assert_eq!(exit.unwrap().code, None);
    assert_eq!(fs::read_dir(place.dir.path().join("boxes")).unwrap().count(), 0);
    sandbox.destroy().await.unwrap();
    let error = sandbox.exec(sh("true")).await.unwrap_err().to_string();
    assert!(error.contains("is destroyed"), "{error}");
}

#[tokio::test]
async fn files_go_in_and_out_and_never_outside() {
    let place = place();
    let sandbox = place.sandbox().await;
    let inside = format!("{}/a/b/run.sh", sandbox.workdir());
    sandbox.put(&inside, b"#!/bin/sh\necho \xff").await.unwrap();
    let exec = Exec { argv: vec![inside.clone()], ..sh("") };
    assert_eq!(sandbox.exec(exec).await.unwrap().stdout, b"\xff\n");
    assert_eq!(sandbox.get(&inside, 16).await.unwrap().unwrap(), b"#!/bin/sh\necho \xff");
    assert!(sandbox.get(&inside, 15).await.unwrap_err().to_string().contains("larger than 15"));
    assert_eq!(sandbox.get(&format!("{inside}/x"), 9).await.unwrap(), None);
    assert_eq!(sandbox.get(&format!("{}/none", sandbox.home()), 9).await.unwrap(), None);

    let secret = place.dir.path().join("secret");
    fs::write(&secret, "s").unwrap();
    symlink(&secret, format!("{}/link", sandbox.workdir())).unwrap();
    symlink(place.dir.path(), format!("{}/linkdir", sandbox.workdir())).unwrap();
    let work = sandbox.workdir();
    let lease = work.replace("/work", "/lease.json");
    for path in [
        "relative".to_owned(),
        secret.to_str().unwrap().to_owned(),
        format!("{work}/../lease.json"),
        lease,
        format!("{work}/link"),
        format!("{work}/linkdir/secret"),
        format!("{work}/linkdir/new/deep"),
    ] {
        assert!(sandbox.put(&path, b"evil").await.is_err(), "put {path}");
        let got = sandbox.get(&path, 99).await;
        assert!(matches!(got, Err(_) | Ok(None)), "get {path}: {got:?}");
    }
    assert_eq!(fs::read(&secret).unwrap(), b"s");
    assert!(!place.dir.path().join("new").exists());
}

#[tokio::test]
async fn a_pipe_in_place_of_a_file_is_refused_not_waited_for() {
    let place = place();
    let sandbox = place.sandbox().await;
    sandbox.exec(sh("mkfifo pipe; mkdir dir")).await.unwrap();
    for name in ["pipe", "dir"] {
        let path = format!("{}/{name}", sandbox.workdir());
        assert!(sandbox.get(&path, 9).await.is_err());
        assert!(sandbox.put(&path, b"x").await.is_err());
    }
}

#[tokio::test]
async fn a_sweep_takes_what_a_dead_owner_left_and_nothing_else() {
    let place = place();
    let (ours, dead) = (place.sandbox().await, place.sandbox().await);
    // A stranger's process, marked as one of the dead owner's sandbox.
    let mut orphan = std::process::Command::new("sleep")
        .arg("1000")
        .env(SANDBOX_MARKER, dead.id())
        .spawn()
        .unwrap();
    let dir = Path::new(dead.workdir()).parent().unwrap().to_owned();
    let lease = lease::read(&dir).unwrap();
    assert_eq!(place.local.sweep().await.unwrap(), 0, "the owner lives");
    // The pid lives, but it is not the same process any more.
    let reused = Lease { start_ticks: lease.start_ticks + 1, ..lease };
    lease::write(&dir, &reused).unwrap();
    fs::create_dir(place.dir.path().join("boxes/strange")).unwrap();
    assert_eq!(place.local.sweep().await.unwrap(), 1);
    assert_eq!(orphan.wait().unwrap().code(), None, "killed by a signal");
    assert!(!dir.exists() && Path::new(ours.workdir()).exists());
    assert!(place.dir.path().join("boxes/strange").exists());
    assert_eq!(place.local.sweep().await.unwrap(), 0);
}

#[tokio::test]
async fn a_kept_sandbox_stays_through_destroy_and_sweep() {
    let mut place = place();
    place.local.config.keep = true;
    let sandbox = place.sandbox().await;
    sandbox.destroy().await.unwrap();
    sandbox.destroy().await.unwrap();
    assert_eq!(place.local.sweep().await.unwrap(), 0);
    assert!(Path::new(sandbox.workdir()).exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_sandboxes_at_once_stay_apart() {
    let place = std::sync::Arc::new(place());
    let tasks = (0..50).map(|number| {
        let place = place.clone();
        tokio::spawn(async move {
            let sandbox = place.sandbox().await;
            let script =
                format!("setsid sleep 1000 >/dev/null 2>&1 & echo {number} > f; sleep 0.2; cat f");
            let exit = sandbox.exec(sh(&script)).await.unwrap();
            assert_eq!(out(&exit), number.to_string());
            sandbox.destroy().await.unwrap();
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_eq!(fs::read_dir(place.dir.path().join("boxes")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_storm_of_double_forks_leaves_nobody() {
    let place = place();
    let sandbox = place.sandbox().await;
    let script = "i=0; while [ $i -lt 60 ]; do i=$((i+1));
        (setsid sh -c 'echo $$ >> pids; exec sleep 1000' >/dev/null 2>&1 &)
        done; while [ $(wc -l < pids) -lt 60 ]; do sleep 0.02; done";
    assert_eq!(sandbox.exec(sh(script)).await.unwrap().code, Some(0));
    all_dead(sandbox.as_ref(), "pids", 60).await;
}

#[tokio::test]
async fn programs_are_found_by_the_path_of_the_command() {
    let place = place();
    let sandbox = place.sandbox().await;
    let bin = format!("{}/bin", sandbox.home());
    // `put` makes scripts that say what reads them executable; the other one is made so by hand.
    sandbox.put(&format!("{bin}/says"), b"#!/bin/sh\necho says $0 $1\n").await.unwrap();
    sandbox.put(&format!("{bin}/plain"), b"echo plain $1\n").await.unwrap();
    fs::set_permissions(format!("{bin}/plain"), fs::Permissions::from_mode(0o700)).unwrap();
    let run = async |argv: [&str; 2], path: String| {
        let mut exec = sh("");
        exec.argv = argv.map(str::to_owned).to_vec();
        exec.env = vec![("PATH".to_owned(), path)];
        sandbox.exec(exec).await.map(|exit| out(&exit))
    };
    let all = format!("/nowhere:{bin}:/usr/bin:/bin");
    assert_eq!(run(["says", "a"], all.clone()).await.unwrap(), format!("says {bin}/says a"));
    assert_eq!(run(["plain", "b"], all.clone()).await.unwrap(), "plain b");
    assert_eq!(run(["echo", "c"], all.clone()).await.unwrap(), "c");
    let relative = format!("../home/bin:{all}");
    assert!(run(["says", "d"], relative).await.unwrap().ends_with("says d"));
    assert!(run(["says", "e"], "/usr/bin:/bin".to_owned()).await.is_err());
}

#[tokio::test]
async fn commands_yield_the_processor_to_us() {
    let place = place();
    let sandbox = place.sandbox().await;
    // The nineteenth field; the name before it has no spaces. It may be read before it is set.
    let script = "for _ in 1 2 3 4 5 6 7 8 9; do sleep 0.1; cut -d' ' -f19 /proc/self/stat; done";
    let nice = |text: &str| text.trim().lines().last().unwrap().parse::<i32>().unwrap();
    let theirs = nice(&out(&sandbox.exec(sh(script)).await.unwrap()));
    let own = fs::read_to_string("/proc/self/stat").unwrap();
    let own = own.rsplit_once(')').unwrap().1.split_whitespace().nth(16).unwrap().parse::<i32>();
    assert_eq!(theirs, (own.unwrap() + 10).min(19));
}
