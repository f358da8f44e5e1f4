//! SIGTERM to the real program: what is under way is finished, and a second signal ends it at once.

use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rollgate_pipeline::record::{Frames, Record, Tail};
use rollgate_tests::gate::{Gate, Session, Settings, until};
use rollgate_tests::hasty::Hasty;
use rollgate_tests::scripted::Scripted;
use serde_json::json;

/// The records of the one session whose journal lies there.
fn journal(directory: &std::path::Path) -> Vec<Record> {
    let folders = std::fs::read_dir(directory.join("state/sessions")).unwrap();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
    let files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let bytes = std::fs::read(&files[0]).unwrap();
    let (records, tail) = Frames::new(&bytes).read_all().unwrap();
    assert_eq!(tail, Tail::Whole);
    records
}

fn ask() -> Vec<u8> {
    json!({"model": "m", "messages": [{"role": "user", "content": "q"}]}).to_string().into_bytes()
}

fn in_flight(gate: &Gate) -> bool {
    gate.metrics().contains("rollgate_in_flight{shard=\"0\"} 1")
}

fn closed(gate: &Gate) -> bool {
    TcpStream::connect(gate.agents.trim_start_matches("http://")).is_err()
}

#[test]
fn a_first_signal_finishes_what_is_under_way() {
    let directory = tempfile::tempdir().unwrap();
    let script = json!({"replies": [], "otherwise": {"content": "Done.", "delay_ms": 1500}});
    let engine = Scripted::start(directory.path(), &script);
    let mut gate = Gate::start(directory.path(), &Settings::new(&engine.url));
    let session: Session = gate.create(&json!({}));
    let mut agent = Hasty::connect(&gate, &session);
    agent.send(&ask());
    until("it is under way", || in_flight(&gate));
    gate.process.ask_to_end();
    until("nothing listens", || closed(&gate));
    let (status, body) = agent.reply();
    assert_eq!(status, 200, "{body}");
    assert_eq!(gate.process.wait(), Some(0));
    assert!(matches!(journal(directory.path())[..], [Record::Opened(_), Record::Turn(_)]));
}

#[test]
fn a_second_signal_ends_it_at_once_and_the_journal_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    // An engine that takes calls and never answers.
    let engine = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", engine.local_addr().unwrap());
    let mut gate = Gate::start(directory.path(), &Settings::new(&url));
    let session: Session = gate.create(&json!({}));
    let mut agent = Hasty::connect(&gate, &session);
    agent.send(&ask());
    until("it is under way", || in_flight(&gate));
    gate.process.ask_to_end();
    until("it drains", || closed(&gate));
    let begun = Instant::now();
    gate.process.ask_to_end();
    assert_eq!(gate.process.wait(), Some(130));
    assert!(begun.elapsed() < Duration::from_secs(5), "the drain's limit is 30 s");
    assert!(matches!(journal(directory.path())[..], [Record::Opened(_)]));
}
