//! opencode (proven with 1.18.33).
//!
//! The instruction goes in by stdin. Titles are asked of a second provider, whose URL says what they
//! are. Its events tell how a run ended, not its exit code: that is 1 too where an overflow was got
//! over by compaction. A lock file says that the plug-in kit is there already: it would be fetched otherwise.
//!
//! Arguments of the task: options for `opencode run`, for example `--agent plan`.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::outcome::{answer_tokens, by_exit_code, env, said};
use crate::{
    AgentOutcome, Ended, FileToWrite, Harness, HarnessError, Job, Launch, Package, Source,
};

pub(crate) const NAME: &str = "opencode";

/// Variable with the key. The configuration file names it, so that the key stands in no file.
const KEY: &str = "ROLLGATE_KEY";

/// Recipe for opencode.
#[derive(Clone, Copy, Debug)]
pub struct OpenCode;

impl Harness for OpenCode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn launch(&self, job: &Job) -> Result<Launch, HarnessError> {
        if job.instruction.trim().is_empty() {
            let text = "opencode needs an instruction: without one it ends at once";
            return Err(HarnessError::Wrong(text.to_owned()));
        }
        let program = job.program_or(NAME);
        let model = format!("rollgate/{}", job.model);
        let fixed = ["run", "--format", "json", "--model", &model];
        let argv = [program.as_str()].into_iter().chain(fixed);
        let argv = argv.chain(job.args.iter().map(String::as_str));
        let file = |name: &str, contents: String| FileToWrite {
            path: format!("{}/.config/opencode/{name}", job.home.trim_end_matches('/')),
            contents: contents.into_bytes(),
        };
        Ok(Launch {
            files: vec![
                file("opencode.json", config(job).to_string()),
                file("package-lock.json", installed().to_string()),
                file("node_modules/.keep", String::new()),
            ],
            env: env(&[
                (KEY, &job.key),
                ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
                ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
                ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
                ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
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
        let events: Vec<Event> = ended.stdout.lines().filter_map(read).collect();
        let erred = events.iter().any(|event| matches!(event, Event::Error { .. }));
        let exited = match by_exit_code(ended) {
            // It exits with 1 even where it got over its error.
            AgentOutcome::Failed(_) if erred && ended.exit_code == Some(1) => AgentOutcome::Done,
            outcome => outcome,
        };
        match (events.last(), exited) {
            (Some(Event::Error { error }), _) => AgentOutcome::Failed(error.why()),
            (_, AgentOutcome::Failed(why)) => AgentOutcome::Failed(why),
            (Some(Event::StepFinish { part }), outcome) if part.reason == "stop" => outcome,
            (Some(Event::StepFinish { part }), _) => {
                AgentOutcome::Failed(format!("its last turn ended with {}", part.reason))
            }
            (_, _) => {
                AgentOutcome::Failed(format!("it ended before its first turn{}", said(ended)))
            }
        }
    }

    fn package(&self) -> Option<Package> {
        Some(Package {
            version: "1.18.33",
            as_of: "2026-11-29",
            source: Source::Npm {
                package: "opencode-ai",
                entry: "opencode-{platform}/bin/opencode",
                node: None,
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
    StepFinish {
        part: Step,
    },
    Error {
        error: Broken,
    },
    #[serde(other)]
    Other,
}

/// An event that matters.
fn read(line: &str) -> Option<Event> {
    let event = serde_json::from_str(line).ok()?;
    (!matches!(event, Event::Other)).then_some(event)
}

#[derive(Debug, Deserialize)]
struct Step {
    reason: String,
}

#[derive(Debug, Deserialize)]
struct Broken {
    name: String,
    #[serde(default)]
    data: Value,
}

impl Broken {
    fn why(&self) -> String {
        match self.data["message"].as_str() {
            Some(message) => format!("it ended with {}: {message}", self.name),
            None => format!("it ended with {}", self.name),
        }
    }
}

fn config(job: &Job) -> Value {
    let limit = json!({"context": job.max_context, "output": answer_tokens(job)});
    let provider = |url: &str, reasoning: bool| {
        let model =
            json!({"name": job.model, "reasoning": reasoning, "tool_call": true, "limit": limit});
        json!({
            "npm": "@ai-sdk/openai-compatible",
            "name": "rollgate",
            "options": {"baseURL": url, "apiKey": format!("{{env:{KEY}}}")},
            "models": {job.model.as_str(): model},
        })
    };
    json!({
        "autoupdate": false,
        "share": "disabled",
        "permission": "allow",
        "enabled_providers": ["rollgate", "rollgate-title"],
        "model": format!("rollgate/{}", job.model),
        "small_model": format!("rollgate-title/{}", job.model),
        "provider": {
            "rollgate": provider(&job.openai_base_url, true),
            "rollgate-title": provider(&job.openai_url_of("title"), false),
        },
    })
}

/// A lock file by which its plug-in kit is installed.
fn installed() -> Value {
    json!({"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{job, show};

    #[test]
    fn titles_have_a_provider_of_their_own() {
        let launch = OpenCode.launch(&job(&["--agent", "plan"])).unwrap();
        assert_eq!(
            show(&launch).replace("\\\"", "'"),
            "file /box/home/.config/opencode/opencode.json \"{'autoupdate':false,\
             'share':'disabled','permission':'allow',\
             'enabled_providers':['rollgate','rollgate-title'],'model':'rollgate/m',\
             'small_model':'rollgate-title/m','provider':{\
             'rollgate':{'npm':'@ai-sdk/openai-compatible','name':'rollgate',\
             'options':{'baseURL':'http://gate/v1','apiKey':'{env:ROLLGATE_KEY}'},'models':{'m':\
             {'name':'m','reasoning':true,'tool_call':true,\
             'limit':{'context':100000,'output':25000}}}},\
             'rollgate-title':{'npm':'@ai-sdk/openai-compatible','name':'rollgate',\
             'options':{'baseURL':'http://gate/scene/title/v1','apiKey':'{env:ROLLGATE_KEY}'},\
             'models':{'m':{'name':'m','reasoning':false,'tool_call':true,\
             'limit':{'context':100000,'output':25000}}}}}}\"\n\
             file /box/home/.config/opencode/package-lock.json \
             \"{'packages':{'':{'dependencies':{'@opencode-ai/plugin':'*'}}}}\"\n\
             file /box/home/.config/opencode/node_modules/.keep \"\"\n\
             env ROLLGATE_KEY=key\n\
             env OPENCODE_DISABLE_AUTOUPDATE=1\n\
             env OPENCODE_DISABLE_DEFAULT_PLUGINS=1\n\
             env OPENCODE_DISABLE_LSP_DOWNLOAD=1\n\
             env OPENCODE_DISABLE_MODELS_FETCH=1\n\
             argv opencode run --format json --model rollgate/m --agent plan\n"
        );
        assert_eq!(launch.stdin.as_deref(), Some(b"Fix \"it\"\n".as_slice()));
        assert!(OpenCode.launch(&Job { instruction: " \n".to_owned(), ..job(&[]) }).is_err());
    }

    fn check(events: &[&str], exit_code: i32, expected: &AgentOutcome) {
        let stdout = events.iter().map(|event| format!("{event}\n")).collect();
        let ended = Ended { exit_code: Some(exit_code), stdout, ..Ended::default() };
        assert_eq!(OpenCode.judge(&ended), *expected);
    }

    #[test]
    fn the_last_step_or_error_tells_how_it_ended() {
        let failed = |text: &str| AgentOutcome::Failed(text.to_owned());
        let step = |reason: &str| {
            format!("{{\"type\":\"step_finish\",\"part\":{{\"reason\":\"{reason}\"}}}}")
        };
        let (stop, tools) = (step("stop"), step("tool-calls"));
        let text = r#"{"type":"text","part":{"text":"fin"}}"#;
        let error = r#"{"type":"error","error":{"name":"APIError","data":{"message":"bad key"}}}"#;
        check(&[&tools, text, &stop], 0, &AgentOutcome::Done);
        check(&[&stop, error], 1, &failed("it ended with APIError: bad key"));
        check(&[error], 0, &failed("it ended with APIError: bad key"));
        check(&[&tools, error, &stop, &stop], 1, &AgentOutcome::Done);
        check(
            &[error, &stop],
            137,
            &failed(&format!("the agent exited with 137; its last words: {stop}")),
        );
        check(&[error, &tools], 1, &failed("its last turn ended with tool-calls"));
        check(&[&tools], 0, &failed("its last turn ended with tool-calls"));
        check(&[], 0, &failed("it ended before its first turn and said nothing"));
        check(&[&stop], 3, &failed(&format!("the agent exited with 3; its last words: {stop}")));
    }
}
