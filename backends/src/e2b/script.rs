//! What runs inside a sandbox on our behalf: POSIX shell, and the report that it makes.

use super::limits;

/// Looks whether a sandbox can run commands, and says where its HOME is.
pub(super) const SETUP: &str = include_str!("setup.sh");

const RUN: &str = include_str!("run.sh");
const KILL: &str = include_str!("kill.sh");

/// Exit code of a run that another start of the same run was faster than.
pub(super) const BEGUN: i32 = 121;

/// Runs a command, kills what it leaves behind, reports.
pub(super) fn run() -> String {
    format!("{RUN}\n{KILL}\nwait \"$out\" \"$err\"\nreport \"$code\"\n")
}

/// Kills the tree of a command, whose tag is the one argument.
pub(super) fn kill() -> String {
    format!("tag=$1\n{KILL}\n")
}

/// How a command ended, as its runner says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Report {
    pub end: End,
    /// Bytes of the parts: head and tail of stdout, head and tail of stderr.
    pub parts: [usize; 4],
    pub cut_bytes: u64,
    /// Whether output could not be kept, for lack of disk.
    pub spoiled: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Code(i32),
    NoDirectory,
    NoProgram,
}

/// Names of the parts' files.
pub(super) const PARTS: [&str; 4] = ["out.head", "out.tail", "err.head", "err.tail"];

impl Report {
    /// Reads a report; with it what it brought along, if it did. `None`: it is not one, or not
    /// whole.
    pub fn read(bytes: &[u8]) -> Option<(Self, Option<[Vec<u8>; 4]>)> {
        let line = bytes.iter().position(|byte| *byte == b'\n')?;
        let (line, rest) = bytes.split_at_checked(line + 1)?;
        let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
        if words.next() != Some("rollgate") {
            return None;
        }
        let end = match words.next()? {
            "nodir" => End::NoDirectory,
            "noprogram" => End::NoProgram,
            code => End::Code(code.parse().ok()?),
        };
        let mut parts = [0; 4];
        for part in &mut parts {
            *part = words.next()?.parse().ok()?;
        }
        let cut_bytes = words.next()?.parse().ok()?;
        let spoiled = words.next()? != "00";
        let report = Self { end, parts, cut_bytes, spoiled };
        let total: usize = parts.iter().sum();
        if total > limits::INLINE_BYTES {
            return Some((report, None));
        }
        let mut rest = rest;
        let mut taken = [(); 4].map(|()| Vec::new());
        for (part, size) in taken.iter_mut().zip(parts) {
            let (piece, after) = rest.split_at_checked(size)?;
            (*part, rest) = (piece.to_vec(), after);
        }
        Some((report, Some(taken)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read_whole_or_not_at_all() {
        let (report, parts) = Report::read(b"rollgate 3 2 1 0 1 70 00\nabcd").unwrap();
        let want = Report { end: End::Code(3), parts: [2, 1, 0, 1], cut_bytes: 70, spoiled: false };
        assert_eq!(report, want);
        assert_eq!(parts.unwrap(), [&b"ab"[..], b"c", b"", b"d"]);
        assert_eq!(Report::read(b"rollgate 3 2 1 0 1 70 00\nabc"), None, "a byte is missing");
        assert_eq!(Report::read(b"rollgate 3 2 1 0"), None);
        assert_eq!(Report::read(b"hello\n"), None);
        let (report, parts) = Report::read(b"rollgate 0 65536 1 0 0 0 10\n").unwrap();
        assert!(parts.is_none() && report.spoiled);
        let (report, _) = Report::read(b"rollgate nodir 0 0 0 0 0 00\n").unwrap();
        assert_eq!(report.end, End::NoDirectory);
    }
}
