//! qwen-code (proven with 0.24.4).
//!
//! The instruction goes in by stdin. Its output is a stream of JSON lines, the last of which says how
//! the run ended. Its settings are those of the system, which win over those of a project.
//!
//! Arguments of the task: options for `qwen`, for example `--exclude-tools agent`.

use serde::Deserialize;
use serde_json::json;

use crate::outcome::{by_exit_code, env, home_file, home_path, said};
use crate::{AgentOutcome, Ended, Harness, HarnessError, Job, Launch, Package, Source};

pub(crate) const NAME: &str = "qwen-code";

const SETTINGS: &str = "qwen-code.json";

/// Recipe for qwen-code.
#[derive(Clone, Copy, Debug)]
pub struct QwenCode;

impl Harness for QwenCode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn launch(&self, job: &Job) -> Result<Launch, HarnessError> {
        if job.instruction.trim().is_empty() {
            let text = "qwen-code needs an instruction: without one it ends at once";
            return Err(HarnessError::Wrong(text.to_owned()));
        }
        let program = job.program_or("qwen");
        let fixed = [
            "--auth-type",
            "openai",
            "--model",
            &job.model,
            "--yolo",
            "--output-format",
            "stream-json",
        ];
        let argv = [program.as_str()].into_iter().chain(fixed);
        let argv = argv.chain(job.args.iter().map(String::as_str));
        Ok(Launch {
            files: vec![home_file(job, SETTINGS, &settings(job))],
            env: env(&[
                ("OPENAI_BASE_URL", &job.openai_base_url),
                ("OPENAI_API_KEY", &job.key),
                ("OPENAI_MODEL", &job.model),
                ("QWEN_CODE_SYSTEM_SETTINGS_PATH", &home_path(job, SETTINGS)),
                ("QWEN_CODE_SUPPRESS_YOLO_WARNING", "1"),
            ]),
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
        let mut lines = ended.stdout.lines().rev();
        let last = lines.find_map(|line| match serde_json::from_str::<Event>(line) {
            Ok(Event::Result { subtype, is_error, error }) => Some((subtype, is_error, error)),
            _ => None,
        });
        match (last, by_exit_code(ended)) {
            (Some((_, false, _)), outcome) => outcome,
            (Some((subtype, true, None)), _) => {
                AgentOutcome::Failed(format!("it ended with {subtype}"))
            }
            (Some((subtype, true, Some(error))), _) => {
                AgentOutcome::Failed(format!("it ended with {subtype}: {}", error.message))
            }
            (None, AgentOutcome::Done) => {
                AgentOutcome::Failed(format!("it did not say how it ended{}", said(ended)))
            }
            (None, other) => other,
        }
    }

    fn package(&self) -> Option<Package> {
        Some(Package {
            version: "0.24.4",
            as_of: "2026-11-29",
            source: Source::Npm {
                package: "@qwen-code/qwen-code",
                entry: "@qwen-code/qwen-code/cli-entry.js",
                node: Some("24.21.0"),
            },
        })
    }

    fn version_argv(&self, job: &Job) -> Option<Vec<String>> {
        Some(vec![job.program_or("qwen"), "--version".to_owned()])
    }
}

/// What matters of its events.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    Result {
        subtype: String,
        is_error: bool,
        error: Option<Broken>,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct Broken {
    #[serde(default)]
    message: String,
}

fn settings(job: &Job) -> String {
    json!({
        "general": {"enableAutoUpdate": false},
        "privacy": {"usageStatisticsEnabled": false},
        "telemetry": {"enabled": false},
        "model": {"generationConfig": {"contextWindowSize": job.max_context}},
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{job, show};

    #[test]
    fn the_instruction_goes_by_stdin_and_the_window_into_the_settings() {
        let launch = QwenCode.launch(&job(&["--exclude-tools", "agent"])).unwrap();
        assert_eq!(
            show(&launch).replace("\\\"", "'"),
            "file /box/home/.rollgate/qwen-code.json \"{'general':{'enableAutoUpdate':false},\
             'privacy':{'usageStatisticsEnabled':false},'telemetry':{'enabled':false},\
             'model':{'generationConfig':{'contextWindowSize':100000}}}\"\n\
             env OPENAI_BASE_URL=http://gate/v1\n\
             env OPENAI_API_KEY=key\n\
             env OPENAI_MODEL=m\n\
             env QWEN_CODE_SYSTEM_SETTINGS_PATH=/box/home/.rollgate/qwen-code.json\n\
             env QWEN_CODE_SUPPRESS_YOLO_WARNING=1\n\
             argv qwen --auth-type openai --model m --yolo --output-format stream-json \
             --exclude-tools agent\n"
        );
        assert_eq!(launch.stdin.as_deref(), Some(b"Fix \"it\"\n".as_slice()));
        assert!(QwenCode.launch(&Job { instruction: " \n".to_owned(), ..job(&[]) }).is_err());
    }

    fn check(stdout: &str, exit_code: i32, expected: &AgentOutcome) {
        let stdout = format!("{{\"type\":\"system\"}}\n{stdout}\n");
        let ended = Ended { exit_code: Some(exit_code), stdout, ..Ended::default() };
        assert_eq!(QwenCode.judge(&ended), *expected);
    }

    #[test]
    fn the_result_line_tells_how_it_ended() {
        let failed = |text: &str| AgentOutcome::Failed(text.to_owned());
        let done = r#"{"type":"result","subtype":"success","is_error":false,"result":"fin"}"#;
        check(done, 0, &AgentOutcome::Done);
        check(
            r#"{"type":"result","subtype":"error_during_execution","is_error":true,
               "error":{"message":"400 too long"}}"#
                .replace('\n', "")
                .as_str(),
            1,
            &failed("it ended with error_during_execution: 400 too long"),
        );
        check(
            r#"{"type":"result","subtype":"error_max_turns","is_error":true}"#,
            0,
            &failed("it ended with error_max_turns"),
        );
        let said = "; its last words: {\"type\":\"system\"}";
        check("", 0, &failed(&format!("it did not say how it ended{said}")));
        check("", 7, &failed(&format!("the agent exited with 7{said}")));
    }
}
