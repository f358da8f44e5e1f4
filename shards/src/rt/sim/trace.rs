//! What happened, for people who look at a seed that failed, and as a hash that tells runs apart.

use std::collections::VecDeque;

use super::world::{Process, with};

/// Lines that are kept; older ones are only in the hash.
const LINES: usize = 6_000;

/// The trace of a run.
#[derive(Default)]
pub(super) struct Trace {
    hash: u64,
    lines: VecDeque<Line>,
}

struct Line {
    at_ns: u64,
    process: Process,
    what: &'static str,
    numbers: [u64; 2],
}

impl Trace {
    pub(super) fn note(
        &mut self,
        (at_ns, process): (u64, Process),
        what: &'static str,
        numbers: [u64; 2],
    ) {
        let words = [at_ns, u64::from(process.0), numbers[0], numbers[1]];
        let bytes = what.bytes().map(u64::from);
        for word in words.into_iter().chain(bytes) {
            self.hash = (self.hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
        if self.lines.len() == LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(Line { at_ns, process, what, numbers });
    }
}

/// Notes an event.
pub fn note(what: &'static str, numbers: [u64; 2]) {
    with(|world| world.note(what, numbers));
}

/// A hash of everything that was noted so far.
pub fn note_hash() -> u64 {
    with(|world| world.trace.hash)
}

/// The last events, one a line.
pub fn note_lines() -> Vec<String> {
    with(|world| {
        let line = |line: &Line| {
            let ms = line.at_ns as f64 / 1e6;
            let [a, b] = line.numbers;
            format!("{ms:12.3} ms  process {:3}  {} {a} {b}", line.process.0, line.what)
        };
        world.trace.lines.iter().map(line).collect()
    })
}
