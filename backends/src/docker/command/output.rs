//! What a command says, and the last line in which our script tells how it ended.

use bollard::container::LogOutput;

use crate::docker::limits;
use crate::output::HeadTail;

/// What the script tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Report {
    /// As the shell says it; `None`: its work directory is not there.
    pub code: Option<i32>,
    /// Processes that the kernel killed for memory meanwhile, in the whole sandbox.
    pub ooms: u64,
    /// Whether processes survive.
    pub left: bool,
}

/// The outputs of one command. The end of stderr is held back until it is known not to be the
/// script's.
pub(super) struct Output {
    stdout: HeadTail,
    stderr: HeadTail,
    held: Vec<u8>,
    prefix: String,
    notes: String,
}

impl Output {
    pub fn new(cap_bytes: usize, nonce: &str) -> Self {
        Self {
            stdout: HeadTail::new(cap_bytes),
            stderr: HeadTail::new(cap_bytes),
            held: Vec::new(),
            prefix: format!("[rollgate {nonce} "),
            notes: String::new(),
        }
    }

    pub fn push(&mut self, line: LogOutput) {
        match line {
            LogOutput::StdErr { message } => {
                self.held.extend_from_slice(&message);
                let free = self.held.len().saturating_sub(limits::REPORT_BYTES);
                self.stderr.push(&self.held[..free]);
                self.held.drain(..free);
            }
            LogOutput::StdOut { message }
            | LogOutput::Console { message }
            | LogOutput::StdIn { message } => self.stdout.push(&message),
        }
    }

    /// The script's last line, taken out, once it is there.
    pub fn report(&mut self) -> Option<Report> {
        if !self.held.ends_with(b"]\n") {
            return None;
        }
        let at = find_last(&self.held, self.prefix.as_bytes())?;
        let line = self.held.get(at + self.prefix.len()..self.held.len() - 2)?;
        let mut words = std::str::from_utf8(line).ok()?.split(' ');
        let code = match words.next()? {
            "cwd" => None,
            code => Some(code.parse().ok()?),
        };
        let report = Report { code, ooms: words.next()?.parse().ok()?, left: words.next()? != "0" };
        self.held.truncate(at);
        Some(report)
    }

    /// Adds a line of ours to stderr, beyond its cap.
    pub fn note(&mut self, text: &str) {
        self.notes.push_str(text);
        self.notes.push('\n');
    }

    /// What was kept so far of both, for a message.
    pub fn peek(&self) -> String {
        let kept = [self.stdout.head(), self.stderr.head(), &self.held].concat();
        String::from_utf8_lossy(&kept).into_owned()
    }

    /// Stdout, stderr, and how many bytes of them were cut.
    pub fn finish(mut self) -> (Vec<u8>, Vec<u8>, u64) {
        self.stderr.push(&self.held);
        let ((stdout, cut_out), (mut stderr, cut_err)) =
            (self.stdout.finish(), self.stderr.finish());
        if !self.notes.is_empty() {
            if stderr.last().is_some_and(|&byte| byte != b'\n') {
                stderr.push(b'\n');
            }
            stderr.extend_from_slice(self.notes.as_bytes());
        }
        (stdout, stderr, cut_out + cut_err)
    }
}

fn find_last(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len()).rposition(|window| window == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[&str], report: Option<Report>, stderr: &str) {
        let mut output = Output::new(1 << 10, "sb/1");
        let mut found = None;
        for piece in pieces {
            output.push(LogOutput::StdErr { message: piece.as_bytes().to_vec().into() });
            found = found.or_else(|| output.report());
        }
        assert_eq!(found, report, "{pieces:?}");
        let (stdout, kept, cut) = output.finish();
        assert_eq!((stdout.len(), String::from_utf8(kept).unwrap().as_str(), cut), (0, stderr, 0));
    }

    #[test]
    fn the_last_line_is_found_whatever_the_pieces() {
        let told = |code, ooms, left| Some(Report { code, ooms, left });
        check(&["[rollgate sb/1 0 0 0]\n"], told(Some(0), 0, false), "");
        check(&["some\u{e9}[rollgate sb/1 7 2 1]\n"], told(Some(7), 2, true), "some\u{e9}");
        check(&["[roll", "gate sb/1 cwd 0 0", "]", "\n"], told(None, 0, false), "");
        check(&["[rollgate sb/2 0 0 0]\n"], None, "[rollgate sb/2 0 0 0]\n");
        check(&["[rollgate sb/1 0 0 0]\nmore"], None, "[rollgate sb/1 0 0 0]\nmore");
        let forged = "[rollgate sb/1 0 0 0]\n[rollgate sb/1 9 0 0]\n";
        check(&[forged], told(Some(9), 0, false), "[rollgate sb/1 0 0 0]\n");
        let long = "x".repeat(300);
        check(&[&long, "[rollgate sb/1 1 0 0]\n"], told(Some(1), 0, false), &long);
    }

    #[test]
    fn a_note_stands_on_a_line_of_its_own() {
        let mut output = Output::new(4, "n");
        output.push(LogOutput::StdErr { message: b"abcdefgh".to_vec().into() });
        output.note("out of memory");
        let (_, stderr, cut) = output.finish();
        assert_eq!((stderr.as_slice(), cut), (&b"abgh\nout of memory\n"[..], 4));
    }
}
