//! The page of `rollgate inspect`, opened from its file in a real browser.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;

use rollgate_tests::chat::Chat;
use rollgate_tests::gate::{Gate, Settings};
use rollgate_tests::scripted::Scripted;
use rollgate_tests::{program, real, samples};
use serde_json::json;

/// A session with two branches: after two turns the agent goes back and takes another way.
fn write_samples(directory: &Path) -> PathBuf {
    let engine = Scripted::start(
        directory,
        &json!({"replies": [
            {"reasoning": "Look first.", "tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}]},
            {"match": {"prompt_contains": "another way"}, "content": "Then I do it like that.",
             "non_canonical": true},
            {"reasoning": "That is all.", "content": "There are <b>three</b> files & a \"folder\". 😀"},
        ]}),
    );
    let gate = Gate::start(directory, &Settings::new(&engine.url));
    let session = gate.create(&json!({}));
    let mut chat = Chat::new(&session, &[("user", "What is here?")]);
    let answer = chat.turn();
    chat.results(&answer, "a.txt b.txt c.txt folder </script><script>alert(1)</script>");
    let mut other = chat.clone();
    chat.turn();
    other.user("No, another way.");
    other.turn();
    gate.close(&session);
    let file = directory.join("samples.jsonl");
    std::fs::write(&file, gate.samples(&session)).unwrap();
    file
}

#[test]
fn the_page_opens_from_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let Some(chromium) = real::chromium() else { return };
    let file = write_samples(directory.path());
    let model = program::demo_model();
    let arguments =
        ["inspect", "--json", file.to_str().unwrap(), "--model", model.to_str().unwrap()];
    let ended = program::run(directory.path(), &arguments);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let page = directory.path().join("samples.html");

    let dom = browse(&chromium, directory.path(), &page, "--dump-dom");
    assert!(dom.contains("data-ready=\"true\""), "the page's program ran to its end: {dom:.2000}");
    let made = samples::parse(&std::fs::read_to_string(&file).unwrap());
    assert_eq!(made.len(), 2);
    assert_eq!(dom.matches("class=\"branch\"").count(), 2, "a branch each");
    assert_eq!(dom.matches("data-at=").count(), made[0].tokens.len(), "every token is shown");
    assert_eq!(dom.matches("class=\"turn\"").count(), made[0].turns.len());
    assert!(!dom.contains("<script>alert"), "what a sample says is text");

    let picture = Path::new(env!("CARGO_TARGET_TMPDIR")).join("inspect.png");
    browse(&chromium, directory.path(), &page, &format!("--screenshot={}", picture.display()));
    looks_right(&picture);
    println!("the page looks like this: {}", picture.display());
}

fn browse(chromium: &Path, directory: &Path, page: &Path, what: &str) -> String {
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .args(["--window-size=1400,1000", "--virtual-time-budget=4000", what])
        .arg(format!("--user-data-dir={}", directory.join("browser").display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("Chromium starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Trained tokens are on a green ground, context on a grey one, and there is ink on both.
fn looks_right(picture: &Path) {
    let file = BufReader::new(File::open(picture).unwrap());
    let mut reader = png::Decoder::new(file).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    let size = info.color_type.samples();
    let all: Vec<_> = pixels[..info.buffer_size()].chunks(size).collect();
    let share = |is: fn(&[u8]) -> bool| {
        all.iter().filter(|pixel| is(pixel)).count() as f64 / all.len() as f64
    };
    let green =
        share(|p| p[1] > p[0].saturating_add(20) && p[1] > p[2].saturating_add(20) && p[1] > 180);
    let grey = share(|p| p[0] == 0xf1 && p[1] == 0xf3 && p[2] == 0xf5);
    let ink = share(|p| p[0] < 90 && p[1] < 90 && p[2] < 100);
    println!("green {green:.4}, grey {grey:.4}, ink {ink:.4} of the picture");
    assert!(green > 0.001 && grey > 0.005 && ink > 0.003 && ink < 0.5);
}
