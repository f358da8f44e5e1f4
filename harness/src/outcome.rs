//! What all harnesses have in common in starting and judging.

use crate::{AgentOutcome, Ended, FileToWrite, Job};

/// Longest quotation of an agent's output in a reason, in characters.
const QUOTE_CHARS: usize = 300;

/// Most tokens of an answer, however large the context.
const ANSWER_TOKENS: u32 = 32_000;

/// Judges by time and exit code alone: 0 is done.
pub(crate) fn by_exit_code(ended: &Ended) -> AgentOutcome {
    match ended.exit_code {
        _ if ended.timed_out => AgentOutcome::TimedOut,
        Some(0) => AgentOutcome::Done,
        Some(code) => AgentOutcome::Failed(format!("the agent exited with {code}{}", said(ended))),
        None => AgentOutcome::Failed(format!("the agent was killed by a signal{}", said(ended))),
    }
}

/// The last words of the agent, to go after a reason.
pub(crate) fn said(ended: &Ended) -> String {
    let last = |text: &str| {
        let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
        Some(line.chars().take(QUOTE_CHARS).collect::<String>())
    };
    match last(&ended.stderr).or_else(|| last(&ended.stdout)) {
        Some(line) => format!("; its last words: {line}"),
        None => " and said nothing".to_owned(),
    }
}

/// A file of ours in the agent's HOME, out of the way of its work.
pub(crate) fn home_file(job: &Job, name: &str, contents: &str) -> FileToWrite {
    FileToWrite { path: home_path(job, name), contents: contents.as_bytes().to_vec() }
}

/// Path of a file of ours in the agent's HOME.
pub(crate) fn home_path(job: &Job, name: &str) -> String {
    format!("{}/.rollgate/{name}", job.home.trim_end_matches('/'))
}

/// Most tokens of one answer that an agent should ask for: a quarter of the context, so that the
/// rest holds the conversation.
pub(crate) fn answer_tokens(job: &Job) -> u32 {
    (job.max_context / 4).clamp(1, ANSWER_TOKENS)
}

/// Environment from literal names.
pub(crate) fn env(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(exit_code: Option<i32>, timed_out: bool, stderr: &str, expected: &AgentOutcome) {
        let ended = Ended { exit_code, timed_out, stderr: stderr.to_owned(), ..Ended::default() };
        assert_eq!(by_exit_code(&ended), *expected);
    }

    #[test]
    fn exit_codes_and_last_words() {
        let failed = |text: &str| AgentOutcome::Failed(text.to_owned());
        check(Some(0), false, "noise", &AgentOutcome::Done);
        check(
            Some(2),
            false,
            "a\nbad key\n\n",
            &failed("the agent exited with 2; its last words: bad key"),
        );
        check(None, false, "", &failed("the agent was killed by a signal and said nothing"));
        check(None, true, "", &AgentOutcome::TimedOut);
        check(Some(0), true, "", &AgentOutcome::TimedOut);
    }
}
