//! Codex CLI (proven with 0.171.0).
//!
//! The instruction arrives on its standard input, which is closed behind it. It speaks the Responses
//! API, configured as a provider of its own: under another provider's name it would ask for opaque
//! compaction items. It prints events, one JSON object a line; the last one of a turn says how it
//! ended.
//!
//! Model names that it knows change its tools and its protocol; give the model a name that it does
//! not know. Arguments of the task are options for `codex exec`, for example
//! `-c model_reasoning_effort=high`.

use serde::Deserialize;

use crate::outcome::{env, said};
use crate::{AgentOutcome, Ended, FileToWrite, Harness, HarnessError, Job, Launch};
use crate::{Package, Source};

pub(crate) const NAME: &str = "codex";

/// Where the agent finds its key.
const KEY: &str = "ROLLGATE_KEY";
/// Most tokens of one command's output that the model is shown, where the window has room.
const MOST_OUTPUT_TOKENS: u32 = 10_000;
/// As long as a stream may be silent: a day. The gateway says when one is lost.
const LONGEST_SILENCE_MS: u32 = 86_400_000;

/// Recipe for Codex.
#[derive(Clone, Copy, Debug)]
pub struct Codex;

impl Harness for Codex {
    fn name(&self) -> &'static str {
        NAME
    }

    fn launch(&self, job: &Job) -> Result<Launch, HarnessError> {
        if job.instruction.trim().is_empty() {
            let text = "Codex needs an instruction; without one it ends at once";
            return Err(HarnessError::Wrong(text.to_owned()));
        }
        let config = format!("{}/.codex", job.home.trim_end_matches('/'));
        let program = job.program_or("codex");
        let fixed = [
            program.as_str(),
            "exec",
            "--json",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
        ];
        let options = job.args.iter().map(String::as_str);
        let argv = fixed.into_iter().chain(options).chain(["-"]);
        Ok(Launch {
            files: vec![FileToWrite {
                path: format!("{config}/config.toml"),
                contents: settings(job).into_bytes(),
            }],
            env: env(&[("CODEX_HOME", &config), (KEY, &job.key)]),
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
        let lines = ended.stdout.lines().rev();
        let mut events = lines.filter_map(|line| serde_json::from_str::<Event>(line).ok());
        let last = events.find(|event| event.ends_a_turn());
        match (last, ended.exit_code) {
            (Some(Event::Completed), Some(0)) => AgentOutcome::Done,
            (Some(Event::Failed { error }), _) => {
                AgentOutcome::Failed(format!("its turn failed: {}", error.message))
            }
            (Some(Event::Error { message }), _) => {
                AgentOutcome::Failed(format!("it broke off: {message}"))
            }
            (_, Some(0)) => {
                AgentOutcome::Failed(format!("it ended in the middle of a turn{}", said(ended)))
            }
            (_, Some(code)) => {
                AgentOutcome::Failed(format!("it exited with {code}{}", said(ended)))
            }
            (_, None) => AgentOutcome::Failed(format!("it was killed by a signal{}", said(ended))),
        }
    }

    fn package(&self) -> Option<Package> {
        Some(Package {
            version: "0.171.0",
            as_of: "2026-11-29",
            source: Source::Npm {
                package: "@openai/codex",
                entry: "@openai/codex-{platform}/vendor/{target}/bin/codex",
                node: None,
            },
        })
    }

    fn version_argv(&self, job: &Job) -> Option<Vec<String>> {
        Some(vec![job.program_or("codex"), "--version".to_owned()])
    }
}

/// What matters of its events.
#[derive(Debug, Deserialize)]
#[serde(tag = "type")]
enum Event {
    #[serde(rename = "turn.started")]
    Started,
    #[serde(rename = "turn.completed")]
    Completed,
    #[serde(rename = "turn.failed")]
    Failed { error: Said },
    #[serde(rename = "error")]
    Error { message: String },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct Said {
    #[serde(default)]
    message: String,
}

impl Event {
    fn ends_a_turn(&self) -> bool {
        match self {
            Event::Started | Event::Completed | Event::Failed { .. } => true,
            // It says of each try anew that it connects again.
            Event::Error { message } => !message.starts_with("Reconnecting"),
            Event::Other => false,
        }
    }
}

/// Its configuration file.
fn settings(job: &Job) -> String {
    let quoted = |text: &str| toml_text(text);
    let window = job.max_context;
    // One command's output and one answer must fit in behind the mark.
    let compact = window / 5 * 4;
    let output = MOST_OUTPUT_TOKENS.min(window / 10).max(1);
    format!(
        "model = {model}\n\
         model_provider = \"rollgate\"\n\
         model_context_window = {window}\n\
         model_auto_compact_token_limit = {compact}\n\
         tool_output_token_limit = {output}\n\
         web_search = \"disabled\"\n\
         check_for_update_on_startup = false\n\
         \n[analytics]\nenabled = false\n\
         \n[feedback]\nenabled = false\n\
         \n[otel]\nexporter = \"none\"\ntrace_exporter = \"none\"\nmetrics_exporter = \"none\"\n\
         \n[features]\nmemories = false\nenable_request_compression = false\n\
         \n[model_providers.rollgate]\n\
         name = \"rollgate\"\n\
         base_url = {url}\n\
         wire_api = \"responses\"\n\
         env_key = \"{KEY}\"\n\
         request_max_retries = 10\n\
         stream_max_retries = 10\n\
         stream_idle_timeout_ms = {LONGEST_SILENCE_MS}\n\
         supports_websockets = false\n",
        model = quoted(&job.model),
        url = quoted(&job.openai_base_url),
    )
}

/// Any text as a basic string of TOML.
fn toml_text(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            character if character.is_control() => {
                quoted.push_str(&format!("\\u{:04X}", u32::from(character)));
            }
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{job, show};

    #[test]
    fn the_instruction_goes_by_standard_input() {
        let launch = Codex.launch(&job(&["-c", "x=1"])).unwrap();
        let settings = "model = \"m\"\n\
             model_provider = \"rollgate\"\n\
             model_context_window = 100000\n\
             model_auto_compact_token_limit = 80000\n\
             tool_output_token_limit = 10000\n\
             web_search = \"disabled\"\n\
             check_for_update_on_startup = false\n\
             \n[analytics]\nenabled = false\n\
             \n[feedback]\nenabled = false\n\
             \n[otel]\nexporter = \"none\"\ntrace_exporter = \"none\"\nmetrics_exporter = \"none\"\n\
             \n[features]\nmemories = false\nenable_request_compression = false\n\
             \n[model_providers.rollgate]\n\
             name = \"rollgate\"\n\
             base_url = \"http://gate/v1\"\n\
             wire_api = \"responses\"\n\
             env_key = \"ROLLGATE_KEY\"\n\
             request_max_retries = 10\n\
             stream_max_retries = 10\n\
             stream_idle_timeout_ms = 86400000\n\
             supports_websockets = false\n";
        assert_eq!(
            show(&launch),
            format!(
                "file /box/home/.codex/config.toml {settings:?}\n\
                 env CODEX_HOME=/box/home/.codex\n\
                 env ROLLGATE_KEY=key\n\
                 argv codex exec --json --skip-git-repo-check \
                 --dangerously-bypass-approvals-and-sandbox -c x=1 -\n"
            )
        );
        assert_eq!(launch.stdin.as_deref(), Some(b"Fix \"it\"\n".as_slice()));
        let mut small = job(&[]);
        small.max_context = 20_000;
        let text = super::settings(&small);
        assert!(text.contains("tool_output_token_limit = 2000\n"), "{text}");
        small.instruction.clear();
        assert!(Codex.launch(&small).is_err());
    }

    #[test]
    fn odd_characters_survive_toml() {
        assert_eq!(toml_text("a\\\"\n\u{7f}é"), r#""a\\\"\u000A\u007Fé""#);
    }

    #[track_caller]
    fn check(stdout: &[&str], exit_code: Option<i32>, expected: &AgentOutcome) {
        let (stdout, stderr) = (stdout.join("\n"), "boom".to_owned());
        let ended = Ended { exit_code, stdout, stderr, ..Ended::default() };
        assert_eq!(Codex.judge(&ended), *expected);
    }

    #[test]
    fn the_last_event_of_a_turn_and_the_exit_code_must_agree() {
        let failed = |text: &str| AgentOutcome::Failed(text.to_owned());
        let (started, completed) =
            (r#"{"type":"turn.started"}"#, r#"{"type":"turn.completed","usage":{}}"#);
        let again = r#"{"type":"error","message":"Reconnecting... 1/2 (stream closed)"}"#;
        let item = r#"{"type":"item.completed","item":{"type":"error","message":"a warning"}}"#;
        check(&[started, item, again, completed, "noise"], Some(0), &AgentOutcome::Done);
        check(&[started, completed], Some(1), &failed("it exited with 1; its last words: boom"));
        check(
            &[started, r#"{"type":"turn.failed","error":{"message":"no room"}}"#],
            Some(1),
            &failed("its turn failed: no room"),
        );
        check(
            &[started, r#"{"type":"error","message":"no key"}"#],
            Some(0),
            &failed("it broke off: no key"),
        );
        check(
            &[completed, started, again],
            Some(0),
            &failed("it ended in the middle of a turn; its last words: boom"),
        );
        check(&[], None, &failed("it was killed by a signal; its last words: boom"));
        let ended = Ended { timed_out: true, stdout: completed.to_owned(), ..Ended::default() };
        assert_eq!(Codex.judge(&ended), AgentOutcome::TimedOut);
    }
}
