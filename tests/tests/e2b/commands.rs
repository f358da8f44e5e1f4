//! Commands and files when nothing goes wrong on the way.

use std::time::{Duration, Instant};

use rollgate_backends::Exec;
use rollgate_backends::e2b::Program;
use rollgate_tests::e2b::{Does, On, Options};

use crate::bed::{Bed, command, fails, shell};

#[test]
fn a_command_gets_its_words_environment_directory_and_code() {
    let bed = Bed::new();
    let sandbox = bed.create();
    let words = ["printf", "<%s>", "a b", "", "$HOME", "'q'\"", "-n", "ü\n"];
    let exit = bed.exec(&*sandbox, command(&words)).unwrap();
    assert_eq!(String::from_utf8_lossy(&exit.stdout), "<a b><><$HOME><'q'\"><-n><ü\n>");
    assert_eq!((exit.code, exit.timed_out, exit.cut_bytes), (Some(0), false, 0));

    let exit = bed.sh(&*sandbox, "echo out; echo err >&2; pwd; exit 7");
    let want = format!("out\n{}\n", sandbox.workdir());
    assert_eq!(String::from_utf8_lossy(&exit.stdout), want);
    assert_eq!((exit.code, &*exit.stderr), (Some(7), &b"err\n"[..]));
    assert!(sandbox.workdir().starts_with(sandbox.home()));

    let env = vec![("GIVEN".to_owned(), "a  b".to_owned())];
    let cwd = Some(sandbox.home().to_owned());
    let exec = Exec { env, cwd, ..shell("printf '%s|%s|' \"$GIVEN\" \"$HOME\"; pwd") };
    let exit = bed.exec(&*sandbox, exec).unwrap();
    let home = sandbox.home();
    assert_eq!(String::from_utf8_lossy(&exit.stdout), format!("a  b|{home}|{home}\n"));

    let none = Exec { cwd: Some("/nowhere/at/all".to_owned()), ..command(&["true"]) };
    fails(bed.exec(&*sandbox, none), &[sandbox.id(), "start `true`", "/nowhere/at/all"]);
    let none = command(&["no-such-program"]);
    fails(bed.exec(&*sandbox, none), &[sandbox.id(), "start `no-such-program`", "installed"]);
}

/// Whether this process ignores interrupts, as background jobs of shells do. What it starts then
/// does, too, and no shell can change that.
fn ignores_interrupts() -> bool {
    const SIGINT: u64 = 1 << 1;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() & SIGINT != 0
}

/// Interrupts reach what runs, as they would without us.
#[test]
fn a_command_can_be_interrupted() {
    if ignores_interrupts() {
        println!("skipped: this test was started in the background of a shell and ignores SIGINT");
        return;
    }
    let bed = Bed::new();
    let sandbox = bed.create();
    let exit = bed.sh(&*sandbox, "trap 'echo caught; exit 5' INT; kill -INT $$; echo missed");
    assert_eq!((exit.code, &*exit.stdout), (Some(5), &b"caught\n"[..]));
}

#[test]
fn row43_output_is_bounded_on_both_sides_of_the_wire() {
    let bed = Bed::new();
    let sandbox = bed.create();
    let exec = Exec { output_cap_bytes: 100, ..shell("seq 1 400000; printf err >&2") };
    let exit = bed.exec(&*sandbox, exec).unwrap();
    let all: String = (1..=400_000).map(|number| format!("{number}\n")).collect();
    let (head, tail) = (&all.as_bytes()[..50], &all.as_bytes()[all.len() - 50..]);
    assert_eq!(exit.stdout, [head, tail].concat());
    assert_eq!(exit.cut_bytes, all.len() as u64 - 100);
    assert_eq!(exit.stderr, b"err");

    // More than a report brings along: it is fetched as files.
    let before = bed.server.seen(On::Read);
    let exec = Exec { output_cap_bytes: 3 << 20, ..shell("seq 1 400000; seq 1 20000 >&2") };
    let exit = bed.exec(&*sandbox, exec).unwrap();
    assert_eq!(exit.stdout, all.as_bytes());
    assert_eq!((exit.cut_bytes, exit.stderr.len()), (0, 108_894));
    assert!(bed.server.seen(On::Read) > before);
    // What earlier commands left is removed by later ones.
    bed.sh(&*sandbox, "true");
    let exit = bed.sh(&*sandbox, "ls ~/.rollgate | wc -l");
    assert_eq!(String::from_utf8_lossy(&exit.stdout).trim(), "1", "only its own");
}

#[test]
fn row44_long_input_goes_by_a_file() {
    let bed = Bed::new();
    let sandbox = bed.create();
    let input = vec![b'x'; 3 << 20];
    let exec = Exec { stdin: Some(input), ..command(&["wc", "-c"]) };
    let exit = bed.exec(&*sandbox, exec).unwrap();
    assert_eq!(String::from_utf8_lossy(&exit.stdout).trim(), (3 << 20).to_string());
}

#[test]
fn row45_stdin_is_closed_unless_given() {
    let bed = Bed::new();
    let sandbox = bed.create();
    let exit = bed.exec(&*sandbox, command(&["cat"])).unwrap();
    assert_eq!((exit.code, exit.stdout.len()), (Some(0), 0));
}

#[test]
fn row21_a_late_command_dies_with_its_whole_tree() {
    let bed = Bed::new();
    let sandbox = bed.create();
    let tree = "echo begun; setsid sh -c 'trap \"\" TERM; sleep 311 & sleep 312' & sleep 313";
    let exec = Exec { timeout: Duration::from_secs(1), ..shell(tree) };
    let begun = Instant::now();
    let exit = bed.exec(&*sandbox, exec).unwrap();
    assert!(exit.timed_out && exit.code.is_none(), "{exit:?}");
    assert_eq!(exit.stdout, b"begun\n", "what it said is kept");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    bed.until("nothing runs on", || bed.server.processes().is_empty());
}

#[test]
fn what_a_command_leaves_behind_is_killed() {
    let bed = Bed::new();
    let sandbox = bed.create();
    let begun = Instant::now();
    let exit = bed.sh(&*sandbox, "setsid sleep 311 & (sleep 312 &) ; echo done");
    assert_eq!(exit.stdout, b"done\n");
    assert!(begun.elapsed() < Duration::from_secs(5), "a held pipe does not hold us");
    bed.until("nothing runs on", || bed.server.processes().is_empty());
}

#[test]
fn a_command_whose_waiter_goes_away_is_killed() {
    let bed = Bed::new();
    let sandbox = bed.create();
    let waited = bed.run(async {
        let exec = sandbox.exec(command(&["sleep", "311"]));
        tokio::time::timeout(Duration::from_millis(700), exec).await
    });
    assert!(waited.is_err());
    bed.until("nothing runs on", || bed.server.processes().is_empty());
    assert_eq!(bed.sh(&*sandbox, "echo usable").stdout, b"usable\n");
}

#[test]
fn files_are_written_and_read() {
    let bed = Bed::new();
    let sandbox = bed.create();
    let path = format!("{}/deep/er/é.bin", sandbox.workdir());
    let contents: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    bed.run(sandbox.put(&path, &contents)).unwrap();
    assert_eq!(bed.run(sandbox.get(&path, 300_000)).unwrap(), Some(contents));
    fails(bed.run(sandbox.get(&path, 299_999)), &[&path, "larger than 299999 bytes"]);
    let missing = format!("{}/missing", sandbox.home());
    assert_eq!(bed.run(sandbox.get(&missing, 10)).unwrap(), None);
    fails(bed.run(sandbox.get(sandbox.home(), 10)), &["directory"]);
    fails(bed.run(sandbox.put("relative", b"")), &["absolute"]);

    let script = format!("{}/script", sandbox.workdir());
    bed.run(sandbox.put(&script, b"#!/bin/sh\necho ran \"$1\"\n")).unwrap();
    let exit = bed.exec(&*sandbox, command(&[&script, "x"])).unwrap();
    assert_eq!(exit.stdout, b"ran x\n");
}

#[test]
fn older_daemons_take_uploads_as_forms() {
    let options = Options { envd_version: "0.5.6".to_owned(), ..Options::default() };
    let bed = Bed::with(options, |_| ());
    let sandbox = bed.create();
    let path = format!("{}/a", sandbox.home());
    bed.run(sandbox.put(&path, b"\r\n--x\0")).unwrap();
    assert_eq!(bed.run(sandbox.get(&path, 100)).unwrap().unwrap(), b"\r\n--x\0");
}

#[test]
fn row30_a_full_disk_is_said() {
    let bed = Bed::new();
    let sandbox = bed.create();
    let message = "not enough disk space".to_owned();
    bed.server.once(On::Write, Does::Answer { status: 507, message, headers: Vec::new() });
    let path = format!("{}/a", sandbox.home());
    fails(bed.run(sandbox.put(&path, b"x")), &[sandbox.id(), "disk_full", "not enough"]);
}

#[test]
fn the_rollgate_program_is_brought_along_when_it_is_run() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("rollgate");
    std::fs::write(&program, "#!/bin/sh\necho rollgate \"$@\"\n").unwrap();
    let bed = Bed::with(Options::default(), |config| config.rollgate = Program::Upload(program));
    let sandbox = bed.create();
    assert_eq!(bed.server.seen(On::Write), 0, "who does not run it does not pay for it");
    for _ in 0..2 {
        let exit = bed.exec(&*sandbox, command(&[sandbox.rollgate(), "--version"])).unwrap();
        assert_eq!(exit.stdout, b"rollgate --version\n");
    }
    assert_eq!(bed.server.seen(On::Write), 1, "once is enough");
}

#[test]
fn small_mounts_are_uploaded_and_large_ones_refused() {
    let (from, shared) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir(from.path().join("bin")).unwrap();
    std::fs::write(from.path().join("bin/tool"), "#!/bin/sh\necho tool\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(from.path().join("bin/tool"), mode).unwrap();
    let bed = Bed::new();
    let to = shared.path().join("tools").to_str().unwrap().to_owned();
    let mut spec = crate::bed::spec();
    spec.mounts = vec![rollgate_backends::Mount { from: from.path().into(), to: to.clone() }];
    let sandbox = bed.try_create(&spec).unwrap();
    let exit = bed.sh(&*sandbox, &format!("{to}/bin/tool; stat -c %A {to}/bin/tool"));
    assert_eq!(String::from_utf8_lossy(&exit.stdout), "tool\n-r-xr-xr-x\n");

    let large = std::fs::File::create(from.path().join("large")).unwrap();
    large.set_len(65 << 20).unwrap();
    let before = bed.server.seen(On::Create);
    fails(bed.try_create(&spec), &["64 MiB", "template"]);
    assert_eq!(bed.server.seen(On::Create), before, "nothing was made for it");
}
