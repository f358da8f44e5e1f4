//! Whether a node should be given work.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;

use crate::NotReady;
use crate::plane::Plane;

/// Written anew at each look, next to the journals.
const PROBE_FILE: &str = "ready";

pub(crate) fn look(plane: &Plane) -> Vec<NotReady> {
    let mut reasons = Vec::new();
    if plane.draining() {
        reasons.push(NotReady::Draining);
    }
    let (running, of) = (plane.running.load(Ordering::Acquire), plane.doors.len());
    if running < of {
        reasons.push(NotReady::Shards { running, of });
    }
    if !plane.healths.iter().any(|health| health.state().up()) {
        let engines = plane.engines.iter().zip(&plane.healths);
        let states = engines.map(|(engine, health)| (engine.name.clone(), health.state().name()));
        reasons.push(NotReady::Engines(states.collect()));
    }
    let directory = plane.journals.parent().unwrap_or(&plane.journals);
    if let Err(error) = write(directory) {
        reasons.push(NotReady::Disk(format!("{}: {error}", directory.display())));
    }
    reasons
}

/// A full or read-only disk shows here before an exchange runs into it.
fn write(directory: &Path) -> std::io::Result<()> {
    let mut file = std::fs::File::create(directory.join(PROBE_FILE))?;
    file.write_all(b"ready\n")
}
