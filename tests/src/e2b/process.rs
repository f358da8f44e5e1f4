//! `process.Process`: the calls with one answer.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::connect::Refusal;
use super::program::Program;
use super::world::{Place, lock};

pub(super) fn call(place: &Place, method: &str, body: &[u8]) -> Result<Value, Refusal> {
    let body: Value = serde_json::from_slice(body)
        .map_err(|error| Refusal::new("invalid_argument", error.to_string()))?;
    match method {
        "List" => Ok(json!({"processes": list(place)})),
        "SendInput" => {
            let encoded = body["input"]["stdin"].as_str().unwrap_or_default();
            let bytes = STANDARD.decode(encoded);
            let bytes = bytes.map_err(|e| Refusal::new("invalid_argument", e.to_string()))?;
            input(&*find(place, &body["process"])?, Some(bytes))
        }
        "CloseStdin" => input(&*find(place, &body["process"])?, None),
        "SendSignal" => {
            let signal = match body["signal"].as_str() {
                Some("SIGNAL_SIGTERM") => Signal::SIGTERM,
                Some("SIGNAL_SIGKILL") => Signal::SIGKILL,
                _ => return Err(Refusal::new("unimplemented", "no such signal")),
            };
            find(place, &body["process"])?.signal(signal);
            Ok(json!({}))
        }
        other => Err(Refusal::new("unimplemented", format!("{other} is not in this test server"))),
    }
}

fn list(place: &Place) -> Vec<Value> {
    let programs = lock(&place.programs);
    let running = programs.iter().filter(|program| program.running());
    let shown = running.map(|program| {
        let mut shown = json!({"config": program.config, "pid": program.pid});
        if let Some(tag) = &program.tag {
            shown["tag"] = tag.clone().into();
        }
        shown
    });
    shown.collect()
}

fn input(program: &Program, bytes: Option<Vec<u8>>) -> Result<Value, Refusal> {
    if program.input(bytes) {
        return Ok(json!({}));
    }
    Err(Refusal::new("failed_precondition", "the process takes no input"))
}

/// A running process by its number or tag.
pub(super) fn find(place: &Place, selector: &Value) -> Result<Arc<Program>, Refusal> {
    chosen(place, selector).filter(|program| program.running()).ok_or_else(|| absent(selector))
}

/// A process by its number or tag, ended or not.
pub(super) fn chosen(place: &Place, selector: &Value) -> Option<Arc<Program>> {
    let (pid, tag) = (selector["pid"].as_u64(), selector["tag"].as_str());
    let programs = lock(&place.programs);
    let fits = |program: &&Arc<Program>| {
        pid.is_some_and(|pid| pid == program.pid)
            || tag.is_some_and(|tag| Some(tag) == program.tag.as_deref())
    };
    programs.iter().rev().find(fits).cloned()
}

pub(super) fn absent(selector: &Value) -> Refusal {
    Refusal::not_found(format!("process with {selector} not found"))
}
