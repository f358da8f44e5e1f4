//! `rollgate bench`: small runs of every dialect and form, its reports, and answers that are wrong.

use std::path::Path;

use rollgate_tests::browser::{Picture, browse};
use rollgate_tests::{program, real};
use serde_json::Value;

/// Of the browser, in pixels.
const WINDOW: (u32, u32) = (1_200, 1_500);

/// Runs a bench of a few sessions with the demo model.
fn bench(directory: &Path, more: &[&str]) -> (program::Ended, Value) {
    let model = program::demo_model();
    let json = directory.join("bench.json");
    let mut arguments = vec!["bench", "--model", model.to_str().unwrap()];
    arguments.extend(["--json", json.to_str().unwrap(), "--repeats", "1"]);
    if !more.contains(&"--seconds") {
        arguments.extend(["--seconds", "1"]);
    }
    arguments.extend(more);
    let ended = program::run(directory, &arguments);
    let report = std::fs::read_to_string(json).unwrap_or_else(|_| "null".to_owned());
    (ended, serde_json::from_str(&report).unwrap())
}

fn check_good(report: &Value, cells: usize) {
    let all = report["cells"].as_array().unwrap();
    assert_eq!(all.len(), cells);
    for cell in all {
        for run in cell["runs"].as_array().unwrap() {
            assert_eq!((&run["errors"], &run["wrong"]), (&0.into(), &0.into()), "{cell:#}");
            assert!(run["turns"].as_u64().unwrap() > 0, "{cell:#}");
            for number in ["cpu_us", "turns_per_s", "busy", "request_bytes", "new_bytes"] {
                assert!(run[number].as_f64().unwrap() > 0.0, "{number}: {cell:#}");
            }
            let latency = &run["latency"];
            assert!(latency["p50_us"].as_f64() <= latency["p99_us"].as_f64(), "{cell:#}");
        }
    }
}

#[test]
fn every_dialect_is_answered_rightly_as_json_and_as_events() {
    let directory = tempfile::tempdir().unwrap();
    for form in [&[][..], &["--stream"]] {
        let mut more = vec!["--dialect", "chat,responses,messages", "--shape", "small"];
        more.extend(["--sessions", "3", "--turns", "4", "--no-direct"]);
        more.extend(form);
        let (ended, report) = bench(directory.path(), &more);
        assert_eq!(ended.code, Some(0), "{}\n{}", ended.stdout, ended.stderr);
        check_good(&report, 3);
        for cell in report["cells"].as_array().unwrap() {
            assert!(cell["runs"][0]["checked_sessions"].as_u64().unwrap() >= 3, "{cell:#}");
        }
    }
}

#[test]
fn shapes_have_the_sizes_that_they_say() {
    let directory = tempfile::tempdir().unwrap();
    let more = ["--shape", "small,coding,first,moved", "--sessions", "2", "--turns", "12"];
    let (ended, report) = bench(directory.path(), &[&more[..], &["--seconds", "30"]].concat());
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stdout, ended.stderr);
    check_good(&report, 4);
    let wanted =
        [("small", 2.0, 2.0), ("coding", 50.0, 2.0), ("first", 50.0, 50.0), ("moved", 50.0, 2.0)];
    for (cell, (shape, all_kb, new_kb)) in report["cells"].as_array().unwrap().iter().zip(wanted) {
        assert_eq!(cell["shape"], shape);
        assert!(cell["direct"]["p50_us"].as_f64().unwrap() > 0.0, "the engine was asked directly");
        let kb = |number: &str| cell["runs"][0][number].as_f64().unwrap() / 1024.0;
        for (is, wanted) in [(kb("request_bytes"), all_kb), (kb("new_bytes"), new_kb)] {
            assert!((is / wanted - 1.0).abs() < 0.2, "{shape}: {is:.1} KB instead of {wanted}");
        }
    }
}

/// A gateway that answers everything, and never what the engine says.
const LIAR: &str = r#"
import http.server, json, sys
class Liar(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self, body):
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        self.answer(b"{}")
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        message = {"role": "assistant", "content": "All is well."}
        self.answer(json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode())
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Liar).serve_forever()
"#;

#[test]
fn a_wrong_answer_fails_the_run_and_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("liar.py");
    std::fs::write(&script, LIAR).unwrap();
    let peer = format!("liar=python3 {} {{port}} {{engine}}", script.display());
    let more = ["--shape", "small", "--sessions", "2", "--peer", &peer, "--only-peers"];
    let (ended, report) = bench(directory.path(), &more);
    assert_eq!(ended.code, Some(1), "{}\n{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("WRONG: [run "), "{}", ended.stdout);
    assert!(ended.stdout.contains("the text is not what the engine said"), "{}", ended.stdout);
    assert!(report["cells"][0]["runs"][0]["errors"].as_u64().unwrap() > 0);
}

#[test]
fn limits_and_wrong_use_have_their_codes() {
    let directory = tempfile::tempdir().unwrap();
    let (ended, _) = bench(directory.path(), &["--shape", "square"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("small, coding, long, first, moved"), "{}", ended.stderr);
    let (ended, _) = bench(directory.path(), &["--peer", "squid"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    let nothing = "gone=no-such-program-here {port} {engine}";
    let (ended, _) = bench(directory.path(), &["--peer", nothing, "--only-peers"]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("gone did not start"), "{}", ended.stderr);
    if cfg!(debug_assertions) {
        let more = ["--shape", "small", "--sessions", "2", "--no-direct", "--limits"];
        let (ended, _) = bench(directory.path(), &more);
        assert_eq!(ended.code, Some(1), "a debug build is over every limit: {}", ended.stdout);
        assert!(ended.stdout.contains("OVER THE LIMIT"), "{}", ended.stdout);
    }
}

/// A gateway that passes bytes on.
const RELAY: &str = r#"
import asyncio, sys
async def copy(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
async def relay(reader, writer):
    host, port = sys.argv[2].split(":")
    to_reader, to_writer = await asyncio.open_connection(host, int(port))
    await asyncio.gather(copy(reader, to_writer), copy(to_reader, writer), return_exceptions=True)
async def main():
    server = await asyncio.start_server(relay, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()
asyncio.run(main())
"#;

#[test]
fn the_page_has_its_plots() {
    let directory = tempfile::tempdir().unwrap();
    let Some(chromium) = real::chromium() else { return };
    let page = directory.path().join("bench.html");
    let script = directory.path().join("relay.py");
    std::fs::write(&script, RELAY).unwrap();
    let relay = format!("relay=python3 {} {{port}} {{engine}}", script.display());
    let more = ["--shape", "small,coding", "--sessions", "3", "--peer", &relay];
    let more = [&more[..], &["--html", page.to_str().unwrap()]].concat();
    let (ended, report) = bench(directory.path(), &more);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stdout, ended.stderr);
    let cells = report["cells"].as_array().unwrap().len();
    let dom = browse((&chromium, directory.path()), &page, WINDOW, "--dump-dom");
    check_good(&report, 4);
    assert!(ended.stdout.contains("relay"), "{}", ended.stdout);
    assert_eq!(dom.matches("class=\"bar\"").count(), cells, "a bar each");
    assert!(dom.contains("x ours"), "the peer is compared");
    assert_eq!(dom.matches("class=\"plot\"").count(), 4, "latency and memory for two loads");
    assert!(!dom.contains("NaN") && !dom.contains("inf,"), "every point has a place");
    let picture = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench.png");
    let what = format!("--screenshot={}", picture.display());
    browse((&chromium, directory.path()), &page, WINDOW, &what);
    looks_right(&Picture::read(&picture));
    println!("the page looks like this: {}", picture.display());
}

/// There are blue bars, a red limit, and ink.
fn looks_right(picture: &Picture) {
    let share = |is| picture.share(is);
    let blue = share(|p| p[2] > 150 && p[0] < 160 && p[2] > p[0].saturating_add(40));
    let red = share(|p| p[0] > 150 && p[1] < 60 && p[2] < 60);
    let ink = share(|p| p[0] < 90 && p[1] < 90 && p[2] < 100);
    println!("blue {blue:.4}, red {red:.5}, ink {ink:.4} of the picture");
    assert!(blue > 0.002 && red > 0.00001 && ink > 0.003 && ink < 0.4);
}
