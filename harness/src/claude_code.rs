//! Claude Code (proven with 2.1.332).
//!
//! The instruction arrives on its standard input, which is closed behind it. It speaks the Messages
//! API. It exits with 0 only where its result says so too, but the reason stands in the result: one
//! JSON object at the end of its output.
//!
//! Arguments of the task are options for `claude`, for example `--append-system-prompt TEXT`.

use serde::Deserialize;

use crate::outcome::{env, said};
use crate::{AgentOutcome, Ended, FileToWrite, Harness, HarnessError, Job, Launch};
use crate::{Package, Source};

pub(crate) const NAME: &str = "claude-code";

/// The longest that its watchdogs of a silent model may be set to: half an hour.
const LONGEST_SILENCE_MS: &str = "1800000";
/// As long as a request may take: a day. The gateway says when one is lost.
const LONGEST_REQUEST_MS: &str = "86400000";
/// Most tokens it asks for where its window has room for them.
const MOST_OUTPUT_TOKENS: u32 = 32_000;

/// Switches that do not depend on the job: hints on what each call is for; a history that is sent
/// again as it was; nothing fetched or sent besides the model's calls; no waiting for people.
const SWITCHES: [(&str, &str); 18] = [
    ("CLAUDE_CODE_GATEWAY_HINT_HEADERS", "1"),
    ("CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS", "1"),
    ("CLAUDE_CODE_ATTRIBUTION_HEADER", "0"),
    ("CLAUDE_CODE_NORMALIZE_PREFIX_CACHE", "1"),
    ("DISABLE_PROMPT_CACHING", "1"),
    ("ENABLE_TOOL_SEARCH", "0"),
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("DISABLE_TELEMETRY", "1"),
    ("DISABLE_ERROR_REPORTING", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("DISABLE_UPDATES", "1"),
    // Without it, root may not skip its questions.
    ("IS_SANDBOX", "1"),
    ("API_TIMEOUT_MS", LONGEST_REQUEST_MS),
    ("API_FORCE_IDLE_TIMEOUT", "0"),
    ("CLAUDE_STREAM_IDLE_TIMEOUT_MS", LONGEST_SILENCE_MS),
    ("CLAUDE_STREAM_FIRST_BYTE_TIMEOUT_MS", LONGEST_SILENCE_MS),
    ("CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS", LONGEST_SILENCE_MS),
    ("CLAUDE_ASYNC_AGENT_STALL_TIMEOUT_MS", LONGEST_REQUEST_MS),
];

/// Names under which it knows models of several sizes: all are the job's, whose window is known.
const MODEL_NAMES: [&str; 6] = [
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "CLAUDE_CODE_SUBAGENT_MODEL",
];

/// Recipe for Claude Code.
#[derive(Clone, Copy, Debug)]
pub struct ClaudeCode;

impl Harness for ClaudeCode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn launch(&self, job: &Job) -> Result<Launch, HarnessError> {
        if job.instruction.trim().is_empty() {
            let text = "Claude Code needs an instruction; without one it ends at once";
            return Err(HarnessError::Wrong(text.to_owned()));
        }
        let config = config_dir(job);
        let window = job.max_context.to_string();
        let output = MOST_OUTPUT_TOKENS.min(job.max_context / 4).max(1).to_string();
        let mut variables = env(&[
            ("ANTHROPIC_BASE_URL", &job.anthropic_base_url),
            ("ANTHROPIC_AUTH_TOKEN", &job.key),
            ("CLAUDE_CONFIG_DIR", &config),
            ("CLAUDE_CODE_MAX_CONTEXT_TOKENS", &window),
            ("CLAUDE_CODE_AUTO_COMPACT_WINDOW", &window),
            ("CLAUDE_CODE_MAX_OUTPUT_TOKENS", &output),
        ]);
        variables.extend(MODEL_NAMES.map(|name| (name.to_owned(), job.model.clone())));
        variables.extend(env(&SWITCHES));
        let program = job.program_or("claude");
        let fixed = [
            program.as_str(),
            "-p",
            "--model",
            &job.model,
            "--dangerously-skip-permissions",
            "--output-format",
            "json",
        ];
        let argv = fixed.into_iter().chain(job.args.iter().map(String::as_str));
        Ok(Launch {
            files: vec![settings(&config)],
            env: variables,
            argv: argv.map(str::to_owned).collect(),
            stdin: Some(job.instruction.clone().into_bytes()),
            timeout: job.timeout,
            result_file: None,
        })
    }

    fn judge(&self, ended: &Ended) -> AgentOutcome {
        if ended.timed_out {
            return AgentOutcome::TimedOut;
        }
        let lines = ended.stdout.lines().rev().map(str::trim);
        let mut results = lines.filter_map(|line| serde_json::from_str::<Report>(line).ok());
        match results.find(|report| report.r#type == "result") {
            Some(report) => report.outcome(ended),
            None => AgentOutcome::Failed(format!("it ended without a result{}", said(ended))),
        }
    }

    fn package(&self) -> Option<Package> {
        Some(Package {
            version: "2.1.332",
            as_of: "2026-11-29",
            source: Source::Npm {
                package: "@anthropic-ai/claude-code",
                entry: "@anthropic-ai/claude-code-{platform}/claude",
                node: None,
            },
        })
    }

    fn version_argv(&self, job: &Job) -> Option<Vec<String>> {
        Some(vec![job.program_or("claude"), "--version".to_owned()])
    }
}

/// How it says that it ended.
#[derive(Debug, Deserialize)]
struct Report {
    r#type: String,
    #[serde(default)]
    subtype: String,
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    result: String,
}

impl Report {
    fn outcome(self, ended: &Ended) -> AgentOutcome {
        let clean = ended.exit_code == Some(0);
        if clean && !self.is_error && self.subtype == "success" {
            return AgentOutcome::Done;
        }
        // It calls an answer that is an error's text a success, too.
        let how = match (self.subtype.as_str(), ended.exit_code) {
            ("" | "success", Some(code)) => format!("it ended with an error (exit code {code})"),
            ("" | "success", None) => "it was killed by a signal".to_owned(),
            (subtype, _) => format!("it ended with {subtype}"),
        };
        match self.result.trim() {
            "" => AgentOutcome::Failed(format!("{how}{}", said(ended))),
            text => AgentOutcome::Failed(format!("{how}: {}", quoted(text))),
        }
    }
}

/// A text of its as part of a reason.
fn quoted(text: &str) -> String {
    const MOST: usize = 300;
    let mut line: String = text.lines().next().unwrap_or_default().chars().take(MOST).collect();
    if line.len() < text.len() {
        line.push('…');
    }
    line
}

fn config_dir(job: &Job) -> String {
    format!("{}/.claude", job.home.trim_end_matches('/'))
}

/// Its settings: commits carry no advertisement, and nothing is remembered from task to task.
fn settings(config: &str) -> FileToWrite {
    let contents = serde_json::json!({
        "autoMemoryEnabled": false,
        "includeCoAuthoredBy": false,
    });
    FileToWrite {
        path: format!("{config}/settings.json"),
        contents: format!("{contents:#}\n").into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{job, show};

    #[test]
    fn the_instruction_goes_by_standard_input() {
        let launch = ClaudeCode.launch(&job(&["--max-turns", "9"])).unwrap();
        assert_eq!(
            show(&launch),
            "file /box/home/.claude/settings.json \
             \"{\\n  \\\"autoMemoryEnabled\\\": false,\\n  \\\"includeCoAuthoredBy\\\": false\\n}\\n\"\n\
             env ANTHROPIC_BASE_URL=http://gate\n\
             env ANTHROPIC_AUTH_TOKEN=key\n\
             env CLAUDE_CONFIG_DIR=/box/home/.claude\n\
             env CLAUDE_CODE_MAX_CONTEXT_TOKENS=100000\n\
             env CLAUDE_CODE_AUTO_COMPACT_WINDOW=100000\n\
             env CLAUDE_CODE_MAX_OUTPUT_TOKENS=25000\n\
             env ANTHROPIC_MODEL=m\n\
             env ANTHROPIC_SMALL_FAST_MODEL=m\n\
             env ANTHROPIC_DEFAULT_HAIKU_MODEL=m\n\
             env ANTHROPIC_DEFAULT_SONNET_MODEL=m\n\
             env ANTHROPIC_DEFAULT_OPUS_MODEL=m\n\
             env CLAUDE_CODE_SUBAGENT_MODEL=m\n\
             env CLAUDE_CODE_GATEWAY_HINT_HEADERS=1\n\
             env CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS=1\n\
             env CLAUDE_CODE_ATTRIBUTION_HEADER=0\n\
             env CLAUDE_CODE_NORMALIZE_PREFIX_CACHE=1\n\
             env DISABLE_PROMPT_CACHING=1\n\
             env ENABLE_TOOL_SEARCH=0\n\
             env CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1\n\
             env DISABLE_TELEMETRY=1\n\
             env DISABLE_ERROR_REPORTING=1\n\
             env DISABLE_AUTOUPDATER=1\n\
             env DISABLE_UPDATES=1\n\
             env IS_SANDBOX=1\n\
             env API_TIMEOUT_MS=86400000\n\
             env API_FORCE_IDLE_TIMEOUT=0\n\
             env CLAUDE_STREAM_IDLE_TIMEOUT_MS=1800000\n\
             env CLAUDE_STREAM_FIRST_BYTE_TIMEOUT_MS=1800000\n\
             env CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS=1800000\n\
             env CLAUDE_ASYNC_AGENT_STALL_TIMEOUT_MS=86400000\n\
             argv claude -p --model m --dangerously-skip-permissions --output-format json \
             --max-turns 9\n"
        );
        assert_eq!(launch.stdin.as_deref(), Some(b"Fix \"it\"\n".as_slice()));
    }

    #[test]
    fn the_bundle_s_program_is_started_and_an_empty_instruction_refused() {
        let mut bundled = job(&[]);
        bundled.program = Some("/agents/bin/claude-code".to_owned());
        assert_eq!(ClaudeCode.launch(&bundled).unwrap().argv[0], "/agents/bin/claude-code");
        bundled.instruction = " \n".to_owned();
        assert!(ClaudeCode.launch(&bundled).is_err());
    }

    #[track_caller]
    fn check(stdout: &str, exit_code: Option<i32>, expected: &AgentOutcome) {
        let (stdout, stderr) = (stdout.to_owned(), "boom".to_owned());
        let ended = Ended { exit_code, stdout, stderr, ..Ended::default() };
        assert_eq!(ClaudeCode.judge(&ended), *expected);
    }

    #[test]
    fn the_result_and_the_exit_code_must_agree() {
        let failed = |text: &str| AgentOutcome::Failed(text.to_owned());
        let success = r#"{"type":"result","subtype":"success","is_error":false,"result":"ok"}"#;
        check(&format!("noise\n{success}\n"), Some(0), &AgentOutcome::Done);
        check(success, Some(1), &failed("it ended with an error (exit code 1): ok"));
        check(success, None, &failed("it was killed by a signal: ok"));
        check(
            r#"{"type":"result","subtype":"success","is_error":true,"result":"API Error: 400\nx"}"#,
            Some(1),
            &failed("it ended with an error (exit code 1): API Error: 400…"),
        );
        check(
            r#"{"type":"result","subtype":"error_max_turns","is_error":true}"#,
            Some(1),
            &failed("it ended with error_max_turns; its last words: boom"),
        );
        check("", Some(0), &failed("it ended without a result; its last words: boom"));
        check(
            r#"{"type":"system"}"#,
            Some(0),
            &failed("it ended without a result; its last words: boom"),
        );
        let ended = Ended { timed_out: true, stdout: success.to_owned(), ..Ended::default() };
        assert_eq!(ClaudeCode.judge(&ended), AgentOutcome::TimedOut);
    }
}
