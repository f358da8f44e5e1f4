//! One shell command with a deadline, its output bounded.

use std::io::{PipeReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// How long output may go on after the shell itself ended.
const OUTPUT_GRACE: Duration = Duration::from_millis(100);
const READ_BYTES: usize = 8 << 10;

enum Event {
    Output(Vec<u8>),
    OutputEnded,
    Ended(std::io::Result<ExitStatus>),
}

/// Runs the command in the current directory; a report of exit code and output for the model.
pub(super) fn run(command: &str, timeout: Duration, cap_bytes: usize) -> std::io::Result<String> {
    let (reader, writer) = std::io::pipe()?;
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).process_group(0).stdin(Stdio::null());
    shell.stdout(writer.try_clone()?).stderr(writer);
    let mut child = match shell.spawn() {
        Ok(child) => child,
        // Too long for the system: the model's to shorten.
        Err(error) if error.kind() == std::io::ErrorKind::ArgumentListTooLong => {
            return Ok("error: the command is too long; write a file in parts".to_owned());
        }
        Err(error) => return Err(error),
    };
    // Our ends of the pipe must close, else the output never ends.
    drop(shell);
    let group = i32::try_from(child.id()).map(Pid::from_raw).map_err(std::io::Error::other)?;
    let (sender, events) = mpsc::channel();
    let output = sender.clone();
    std::thread::spawn(move || read(reader, &output));
    std::thread::spawn(move || sender.send(Event::Ended(child.wait())));

    let mut kept = Kept::new(cap_bytes);
    let mut deadline = Instant::now() + timeout;
    let (mut status, mut output_ended, mut late) = (None, false, false);
    while status.is_none() || !output_ended {
        match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Event::Output(bytes)) => kept.push(&bytes),
            Ok(Event::OutputEnded) => output_ended = true,
            Ok(Event::Ended(ended)) => {
                status = Some(ended?);
                deadline = Instant::now() + OUTPUT_GRACE;
            }
            Err(RecvTimeoutError::Timeout) if status.is_none() && !late => {
                late = true;
                // An error means that it ended this very moment.
                let _ = killpg(group, Signal::SIGKILL);
                deadline = Instant::now() + timeout;
            }
            // A background process holds the output open; it may go on.
            Err(_) => break,
        }
    }
    Ok(report(status, late.then_some(timeout), kept))
}

fn report(status: Option<ExitStatus>, late: Option<Duration>, kept: Kept) -> String {
    let output = kept.text();
    match (late, status.and_then(|status| status.code())) {
        (Some(timeout), _) => format!("killed after {} s\n{output}", timeout.as_secs_f64()),
        (None, Some(code)) => format!("exit code {code}\n{output}"),
        (None, None) => format!("killed by a signal\n{output}"),
    }
}

fn read(mut pipe: PipeReader, events: &Sender<Event>) {
    let mut buffer = [0; READ_BYTES];
    while let Ok(count @ 1..) = pipe.read(&mut buffer) {
        let bytes = buffer.get(..count).unwrap_or_default().to_vec();
        if events.send(Event::Output(bytes)).is_err() {
            return;
        }
    }
    // Nobody listens any more when this fails.
    let _ = events.send(Event::OutputEnded);
}

/// Head and tail of an output.
struct Kept {
    head: Vec<u8>,
    tail: Vec<u8>,
    half: usize,
    cut_bytes: usize,
}

impl Kept {
    fn new(cap_bytes: usize) -> Self {
        Self { head: Vec::new(), tail: Vec::new(), half: cap_bytes / 2, cut_bytes: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        let (first, rest) = bytes.split_at(bytes.len().min(self.half - self.head.len()));
        self.head.extend_from_slice(first);
        self.tail.extend_from_slice(rest);
        let over = self.tail.len().saturating_sub(self.half);
        self.tail.drain(..over);
        self.cut_bytes += over;
    }

    fn text(self) -> String {
        if self.cut_bytes == 0 {
            let whole = [self.head, self.tail].concat();
            return String::from_utf8_lossy(&whole).into_owned();
        }
        let (head, tail) =
            (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&self.tail));
        format!("{head}\n[{} bytes cut]\n{tail}", self.cut_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &str, expected: &str) {
        assert_eq!(run(command, Duration::from_secs(10), 20).unwrap(), expected, "{command}");
    }

    #[test]
    fn code_and_both_outputs_are_reported() {
        check("echo a; echo b >&2; exit 3", "exit code 3\na\nb\n");
        check("kill -9 $$", "killed by a signal\n");
        check("cat", "exit code 0\n");
        check(
            "printf 0123456789abcdefghijklmnop",
            "exit code 0\n0123456789\n[6 bytes cut]\nghijklmnop",
        );
    }

    #[test]
    fn a_late_command_is_killed_with_its_children() {
        let started = Instant::now();
        let text = run("echo a; sleep 100 & sleep 100", Duration::from_millis(300), 20).unwrap();
        assert_eq!(text, "killed after 0.3 s\na\n");
        assert!(started.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_background_process_does_not_hold_up_the_turn() {
        let started = Instant::now();
        check("sleep 4 & echo a", "exit code 0\na\n");
        assert!(started.elapsed() < Duration::from_secs(3));
    }
}
