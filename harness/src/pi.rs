//! pi (proven with 1.6.0).
//!
//! The instruction goes in by stdin. pi exits with 0 however its run ended, so it is run in its JSON
//! mode: the last `turn_end` says why its last turn stopped.
//!
//! Arguments of the task: options for pi, for example `--exclude-tools write`.

use serde::Deserialize;
use serde_json::json;

use crate::outcome::{answer_tokens, by_exit_code, env, home_file, home_path, said};
use crate::{AgentOutcome, Ended, Harness, HarnessError, Job, Launch, Package, Source};

pub(crate) const NAME: &str = "pi";

/// Variable with the key. Its configuration file names it, so that the key stands in no file.
const KEY: &str = "ROLLGATE_KEY";

/// Recipe for pi.
#[derive(Clone, Copy, Debug)]
pub struct Pi;

impl Harness for Pi {
    fn name(&self) -> &'static str {
        NAME
    }

    fn launch(&self, job: &Job) -> Result<Launch, HarnessError> {
        if job.instruction.trim().is_empty() {
            let text = "pi needs an instruction: without one it ends at once";
            return Err(HarnessError::Wrong(text.to_owned()));
        }
        let program = job.program_or(NAME);
        let fixed = ["--mode", "json", "--provider", "rollgate", "--model", &job.model];
        let argv = [program.as_str()].into_iter().chain(fixed);
        let argv = argv.chain(job.args.iter().map(String::as_str));
        Ok(Launch {
            files: vec![
                home_file(job, "pi/models.json", &models(job)),
                home_file(job, "pi/settings.json", &settings(job)),
            ],
            env: env(&[
                (KEY, &job.key),
                ("PI_CODING_AGENT_DIR", &home_path(job, "pi")),
                ("PI_OFFLINE", "1"),
                ("PI_TELEMETRY", "0"),
            ]),
            argv: argv.map(str::to_owned).collect(),
            stdin: Some(job.instruction.clone().into_bytes()),
            timeout: job.timeout,
            result_file: None,
        })
    }

    fn judge(&self, ended: &Ended) -> AgentOutcome {
        match by_exit_code(ended) {
            AgentOutcome::Done => {}
            other => return other,
        }
        let mut lines = ended.stdout.lines().rev();
        let last = lines.find_map(|line| match serde_json::from_str::<Event>(line) {
            Ok(Event::TurnEnd { message }) => Some(message),
            _ => None,
        });
        let Some(last) = last else {
            return AgentOutcome::Failed(format!("it ended before its first turn{}", said(ended)));
        };
        match (last.stop_reason.as_str(), last.error) {
            ("stop", _) => AgentOutcome::Done,
            (reason, None) => AgentOutcome::Failed(format!("its last turn ended with {reason}")),
            (reason, Some(error)) => {
                AgentOutcome::Failed(format!("its last turn ended with {reason}: {error}"))
            }
        }
    }

    fn package(&self) -> Option<Package> {
        Some(Package {
            version: "1.6.0",
            as_of: "2026-11-29",
            source: Source::Npm {
                package: "@earendil-works/pi-coding-agent",
                entry: "@earendil-works/pi-coding-agent/dist/bundle/cli.js",
                node: Some("24.21.0"),
            },
        })
    }

    fn version_argv(&self, job: &Job) -> Option<Vec<String>> {
        Some(vec![job.program_or(NAME), "--version".to_owned()])
    }
}

/// What matters of its events.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    TurnEnd {
        message: Answer,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct Answer {
    #[serde(rename = "stopReason")]
    stop_reason: String,
    #[serde(rename = "errorMessage")]
    error: Option<String>,
}

/// The one provider there is, and its model.
fn models(job: &Job) -> String {
    let model = json!({
        "id": job.model,
        "reasoning": true,
        "input": ["text"],
        "contextWindow": job.max_context,
        "maxTokens": answer_tokens(job),
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        // Effort is the session's to say, not the agent's.
        "compat": {"supportsReasoningEffort": false},
    });
    let provider = json!({
        "baseUrl": job.openai_base_url,
        "api": "openai-completions",
        "apiKey": format!("${KEY}"),
        "models": [model],
    });
    json!({"providers": {"rollgate": provider}}).to_string()
}

/// When to compact: its defaults are made for large windows, and would leave nothing of a small one.
/// What it keeps it counts as four characters a token, which digits and code have not.
fn settings(job: &Job) -> String {
    let compaction = json!({
        "reserveTokens": (job.max_context / 4).min(16_384),
        "keepRecentTokens": (job.max_context / 8).min(20_000),
    });
    json!({"compaction": compaction}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{job, show};

    #[test]
    fn the_instruction_goes_by_stdin_and_the_window_into_its_files() {
        let launch = Pi.launch(&job(&["--exclude-tools", "write"])).unwrap();
        assert_eq!(
            show(&launch).replace("\\\"", "'"),
            "file /box/home/.rollgate/pi/models.json \"{'providers':{'rollgate':{\
             'baseUrl':'http://gate/v1','api':'openai-completions','apiKey':'$ROLLGATE_KEY',\
             'models':[{'id':'m','reasoning':true,'input':['text'],'contextWindow':100000,\
             'maxTokens':25000,'cost':{'input':0,'output':0,'cacheRead':0,'cacheWrite':0},\
             'compat':{'supportsReasoningEffort':false}}]}}}\"\n\
             file /box/home/.rollgate/pi/settings.json \
             \"{'compaction':{'reserveTokens':16384,'keepRecentTokens':12500}}\"\n\
             env ROLLGATE_KEY=key\n\
             env PI_CODING_AGENT_DIR=/box/home/.rollgate/pi\n\
             env PI_OFFLINE=1\n\
             env PI_TELEMETRY=0\n\
             argv pi --mode json --provider rollgate --model m --exclude-tools write\n"
        );
        assert_eq!(launch.stdin.as_deref(), Some(b"Fix \"it\"\n".as_slice()));
        let small = settings(&Job { max_context: 4_000, ..job(&[]) });
        assert_eq!(small, r#"{"compaction":{"reserveTokens":1000,"keepRecentTokens":500}}"#);
        assert!(Pi.launch(&Job { instruction: " \n".to_owned(), ..job(&[]) }).is_err());
    }

    fn check(stdout: &str, exit_code: i32, expected: &AgentOutcome) {
        let stdout = stdout.to_owned();
        let ended = Ended { exit_code: Some(exit_code), stdout, ..Ended::default() };
        assert_eq!(Pi.judge(&ended), *expected);
    }

    #[test]
    fn the_last_turn_tells_the_truth_not_the_exit_code() {
        let failed = |text: &str| AgentOutcome::Failed(text.to_owned());
        let end = |message: &str| {
            format!(
                "{{\"type\":\"turn_end\",\"message\":{message},\"toolResults\":[]}}\n\
                 {{\"type\":\"agent_end\",\"messages\":[],\"willRetry\":false}}\n\
                 {{\"type\":\"agent_settled\",\"aborted\":false}}\n"
            )
        };
        let error = end(r#"{"role":"assistant","stopReason":"error","errorMessage":"400: long"}"#);
        let stop = end(r#"{"role":"assistant","stopReason":"stop"}"#);
        check(&stop, 0, &AgentOutcome::Done);
        check(&format!("{error}{stop}"), 0, &AgentOutcome::Done);
        check(&format!("{stop}{error}"), 0, &failed("its last turn ended with error: 400: long"));
        check(
            &end(r#"{"role":"assistant","stopReason":"length"}"#),
            0,
            &failed("its last turn ended with length"),
        );
        check("no model\n", 0, &failed("it ended before its first turn; its last words: no model"));
        check("bad\n", 1, &failed("the agent exited with 1; its last words: bad"));
    }
}
