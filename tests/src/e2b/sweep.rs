//! Processes by the marker in their environment.

use nix::sys::signal::{Signal, kill as signal};
use nix::unistd::Pid;

/// Rounds of looking and killing.
const ROUNDS: usize = 5;

fn holding(markers: &[String]) -> Vec<i32> {
    let own = std::process::id().to_string();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let pids = pids.filter(|name| *name != own && name.bytes().all(|byte| byte.is_ascii_digit()));
    let held = pids.filter(|pid| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ
            .split(|byte| *byte == 0)
            .any(|variable| markers.iter().any(|marker| variable.starts_with(marker.as_bytes())))
    });
    held.filter_map(|pid| pid.parse().ok()).collect()
}

/// Processes with a variable that begins so.
pub(super) fn marked(marker: &str) -> Vec<i32> {
    holding(&[marker.to_owned()])
}

/// Kills all that have one of these.
pub(super) fn kill_any(markers: &[String]) {
    for _ in 0..ROUNDS {
        let found = holding(markers);
        if found.is_empty() {
            return;
        }
        for pid in found {
            // It may have ended by itself.
            let _ = signal(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

/// Kills all that have this one.
pub(super) fn kill(marker: &str) {
    kill_any(&[marker.to_owned()]);
}
