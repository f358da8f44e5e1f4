//! The page of `rollgate inspect`, opened from its file in a real browser.

use std::path::{Path, PathBuf};

use rollgate_tests::browser::{Picture, browse};
use rollgate_tests::chat::Chat;
use rollgate_tests::gate::{Gate, Settings};
use rollgate_tests::scripted::Scripted;
use rollgate_tests::{program, real, samples};
use serde_json::json;

/// Of the browser, in pixels.
const WINDOW: (u32, u32) = (1_400, 1_000);

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

    let dom = browse((&chromium, directory.path()), &page, WINDOW, "--dump-dom");
    assert!(dom.contains("data-ready=\"true\""), "the page's program ran to its end: {dom:.2000}");
    let made = samples::parse(&std::fs::read_to_string(&file).unwrap());
    assert_eq!(made.len(), 2);
    assert_eq!(dom.matches("class=\"branch\"").count(), 2, "a branch each");
    assert_eq!(dom.matches("data-at=").count(), made[0].tokens.len(), "every token is shown");
    assert_eq!(dom.matches("class=\"turn\"").count(), made[0].turns.len());
    assert!(!dom.contains("<script>alert"), "what a sample says is text");

    let picture = Path::new(env!("CARGO_TARGET_TMPDIR")).join("inspect.png");
    let what = format!("--screenshot={}", picture.display());
    browse((&chromium, directory.path()), &page, WINDOW, &what);
    looks_right(&Picture::read(&picture));
    println!("the page looks like this: {}", picture.display());
}

/// Trained tokens are on a green ground, context on a grey one, and there is ink on both.
fn looks_right(picture: &Picture) {
    let share = |is| picture.share(is);
    let green =
        share(|p| p[1] > p[0].saturating_add(20) && p[1] > p[2].saturating_add(20) && p[1] > 180);
    let grey = share(|p| p[0] == 0xf1 && p[1] == 0xf3 && p[2] == 0xf5);
    let ink = share(|p| p[0] < 90 && p[1] < 90 && p[2] < 100);
    println!("green {green:.4}, grey {grey:.4}, ink {ink:.4} of the picture");
    assert!(green > 0.001 && grey > 0.005 && ink > 0.003 && ink < 0.5);
}
