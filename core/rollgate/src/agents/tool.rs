//! Running the programs that install packages, and what their complaints mean.

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::exit::Stop;

/// Longest quotation of a program's complaints, in characters.
const QUOTE_CHARS: usize = 600;

/// What a complaint of an installing program means; the first whose mark is in it.
const MEANINGS: [(&[&str], &str); 5] = [
    (&["ENOSPC", "No space left", "Disk quota"], "the disk is full; make room and try again"),
    (
        &["ETARGET", "E404", "No matching version", "no version of", "there are no versions of"],
        "the registry has no such version; check the version, and whether your registry mirror has \
         all packages and their publishing dates",
    ),
    (
        &["EBADPLATFORM", "no compatible wheels", "no wheels with a matching"],
        "the package does not exist for this platform",
    ),
    (
        &[
            "ENOTFOUND",
            "EAI_AGAIN",
            "ECONNREFUSED",
            "ECONNRESET",
            "ETIMEDOUT",
            "ENETUNREACH",
            "network",
            "dns error",
            "error sending request",
            "NewConnectionError",
            "Connection",
        ],
        "the registry cannot be reached; check the network and the proxy settings",
    ),
    (&["EACCES", "Permission denied"], "a file may not be written; check the directory's owner"),
];

/// Runs a program to its end; its standard output. `need` says how to get the program.
pub(super) fn run(command: &mut Command, need: &str) -> Result<String, Stop> {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let program = program.to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| {
        Stop::environment(match error.kind() {
            ErrorKind::NotFound => format!("{program} is not there: {need}"),
            _ => format!("{program} cannot be run: {error}"),
        })
    })?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let complaint = format!("{}\n{stdout}", String::from_utf8_lossy(&output.stderr));
    Err(Stop::environment(explain(&program, &complaint)))
}

/// The complaint with its meaning, where it has a known one.
fn explain(program: &str, complaint: &str) -> String {
    let known =
        MEANINGS.iter().find(|(marks, _)| marks.iter().any(|mark| complaint.contains(mark)));
    let meaning = known.map_or("it failed", |(_, meaning)| meaning);
    let lines = complaint.lines().map(str::trim).filter(|line| !line.is_empty());
    let text = lines.collect::<Vec<_>>().join(" | ");
    let quoted: String = text.chars().take(QUOTE_CHARS).collect();
    format!("{program}: {meaning}. It said: {quoted}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(complaint: &str, expected: &str) {
        let message = explain("npm", complaint);
        assert!(message.starts_with(&format!("npm: {expected}")), "{message}");
    }

    #[test]
    fn complaints_get_their_meaning() {
        check("npm error code ENOSPC", "the disk is full");
        check("npm error code ETARGET\nnpm error notarget", "the registry has no such version");
        check("because there is no version of x==9.9", "the registry has no such version");
        check("npm error code EBADPLATFORM", "the package does not exist for this platform");
        check("getaddrinfo EAI_AGAIN host", "the registry cannot be reached");
        check("error: error sending request for url", "the registry cannot be reached");
        check("something else", "it failed. It said: something else");
    }

    #[test]
    fn a_missing_program_is_told_with_what_to_do() {
        let stop = run(&mut Command::new("no-such-program-at-all"), "install it").unwrap_err();
        assert_eq!(stop.message, "no-such-program-at-all is not there: install it");
    }
}
