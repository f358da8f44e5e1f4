//! mini-swe-agent (proven with 2.4.6).
//!
//! Its task goes in as a second configuration file, since `-t` would be a long argument. It exits
//! with 0 even when it hit a limit; the truth stands in its trajectory, as `info.exit_status`.
//!
//! Arguments of the task: the path of the `mini` program first, if it is to be neither the bundle's nor
//! the one on PATH, then options for it, for example `-c environment.timeout=120`.

use serde::Deserialize;

use crate::outcome::{env, home_file, home_path, said};
use crate::{AgentOutcome, Ended, Harness, HarnessError, Job, Launch, Package, Source};

pub(crate) const NAME: &str = "mini-swe-agent";

const TASK_FILE: &str = "mini-task.yaml";
const TRAJECTORY_FILE: &str = "mini.traj.json";

/// Recipe for mini-swe-agent.
#[derive(Clone, Copy, Debug)]
pub struct MiniSweAgent;

impl Harness for MiniSweAgent {
    fn name(&self) -> &'static str {
        NAME
    }

    fn launch(&self, job: &Job) -> Result<Launch, HarnessError> {
        if job.instruction.is_empty() {
            let text = "mini-swe-agent needs an instruction; an empty one makes it ask a person";
            return Err(HarnessError::Wrong(text.to_owned()));
        }
        let (program, options) = program(job);
        let (task, trajectory) = (home_path(job, TASK_FILE), home_path(job, TRAJECTORY_FILE));
        let model = format!("openai/{}", job.model);
        let fixed = ["-c", "mini.yaml", "-c", &task, "-m", &model, "-y", "--exit-immediately"];
        let argv = [program.as_str()].into_iter().chain(fixed).chain(["-o", &trajectory]);
        let argv = argv.chain(options.iter().map(String::as_str));
        let yaml = format!("run:\n  task: {}\n", yaml_text(&job.instruction));
        let settings = format!("{}/.config/mini-swe-agent", job.home.trim_end_matches('/'));
        Ok(Launch {
            files: vec![home_file(job, TASK_FILE, &yaml)],
            env: env(&[
                ("OPENAI_API_BASE", &job.openai_base_url),
                ("OPENAI_BASE_URL", &job.openai_base_url),
                ("OPENAI_API_KEY", &job.key),
                ("MSWEA_CONFIGURED", "1"),
                ("MSWEA_COST_TRACKING", "ignore_errors"),
                ("MSWEA_SILENT_STARTUP", "1"),
                ("MSWEA_GLOBAL_CONFIG_DIR", &settings),
                // The price list would be fetched over the network otherwise.
                ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
            ]),
            argv: argv.map(str::to_owned).collect(),
            stdin: None,
            timeout: job.timeout,
            result_file: Some(trajectory),
        })
    }

    fn judge(&self, ended: &Ended) -> AgentOutcome {
        if ended.timed_out {
            return AgentOutcome::TimedOut;
        }
        let Some(result) = &ended.result else {
            return AgentOutcome::Failed(format!("it left no trajectory{}", said(ended)));
        };
        match serde_json::from_slice::<Trajectory>(result) {
            Err(error) => AgentOutcome::Failed(format!("its trajectory is unreadable: {error}")),
            Ok(trajectory) => trajectory.outcome(ended),
        }
    }

    fn package(&self) -> Option<Package> {
        Some(Package {
            version: "2.4.6",
            as_of: "2026-11-24",
            source: Source::Pypi { package: "mini-swe-agent", script: "mini", with: &[] },
        })
    }

    fn version_argv(&self, job: &Job) -> Option<Vec<String>> {
        // The banner of any call is all it has.
        Some(vec![program(job).0, "--help".to_owned()])
    }
}

/// What matters of a trajectory.
#[derive(Debug, Deserialize)]
struct Trajectory {
    info: Info,
    #[serde(default)]
    messages: Vec<Message>,
}

#[derive(Debug, Deserialize)]
struct Info {
    exit_status: String,
}

#[derive(Debug, Deserialize)]
struct Message {
    #[serde(default)]
    extra: Extra,
}

#[derive(Debug, Default, Deserialize)]
struct Extra {
    exception_str: Option<String>,
}

impl Trajectory {
    fn outcome(self, ended: &Ended) -> AgentOutcome {
        let exception = self.messages.into_iter().next_back();
        let exception = exception.and_then(|message| message.extra.exception_str);
        match (self.info.exit_status.as_str(), exception) {
            ("Submitted", _) => AgentOutcome::Done,
            ("", _) => AgentOutcome::Failed(format!("it broke off in the middle{}", said(ended))),
            (status, None) => AgentOutcome::Failed(format!("it ended with {status}")),
            (status, Some(text)) => AgentOutcome::Failed(format!("it ended with {status}: {text}")),
        }
    }
}

/// The program to run and the options of the task.
fn program(job: &Job) -> (String, &[String]) {
    match job.args.split_first() {
        Some((first, rest)) if !first.starts_with('-') => (first.clone(), rest),
        _ => (job.program_or("mini"), &job.args),
    }
}

/// Any text as a YAML scalar in double quotes. Only printable ASCII stands for itself: YAML readers
/// refuse raw control characters, and JSON's surrogate pairs mean something else to them.
fn yaml_text(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            ' '..='~' => quoted.push(character),
            _ => quoted.push_str(&format!("\\U{:08X}", u32::from(character))),
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
    fn the_task_goes_by_a_second_configuration_file() {
        let launch = MiniSweAgent.launch(&job(&["/venv/bin/mini", "-c", "x=1"])).unwrap();
        assert_eq!(
            show(&launch),
            "file /box/home/.rollgate/mini-task.yaml \
             \"run:\\n  task: \\\"Fix \\\\\\\"it\\\\\\\"\\\\n\\\"\\n\"\n\
             env OPENAI_API_BASE=http://gate/v1\n\
             env OPENAI_BASE_URL=http://gate/v1\n\
             env OPENAI_API_KEY=key\n\
             env MSWEA_CONFIGURED=1\n\
             env MSWEA_COST_TRACKING=ignore_errors\n\
             env MSWEA_SILENT_STARTUP=1\n\
             env MSWEA_GLOBAL_CONFIG_DIR=/box/home/.config/mini-swe-agent\n\
             env LITELLM_LOCAL_MODEL_COST_MAP=True\n\
             argv /venv/bin/mini -c mini.yaml -c /box/home/.rollgate/mini-task.yaml -m openai/m \
             -y --exit-immediately -o /box/home/.rollgate/mini.traj.json -c x=1\n"
        );
        assert_eq!(launch.result_file.as_deref(), Some("/box/home/.rollgate/mini.traj.json"));
        assert_eq!(MiniSweAgent.launch(&job(&["-l", "0"])).unwrap().argv[0], "mini");
    }

    #[test]
    fn odd_characters_survive_yaml() {
        assert_eq!(yaml_text("a\\\"\n\té😀"), r#""a\\\"\n\U00000009\U000000E9\U0001F600""#);
    }

    fn check(result: Option<&str>, exit_code: i32, expected: &AgentOutcome) {
        let result = result.map(|text| text.as_bytes().to_vec());
        let stderr = "boom".to_owned();
        let ended = Ended { exit_code: Some(exit_code), result, stderr, ..Ended::default() };
        assert_eq!(MiniSweAgent.judge(&ended), *expected);
    }

    #[test]
    fn the_trajectory_tells_the_truth_not_the_exit_code() {
        let failed = |text: &str| AgentOutcome::Failed(text.to_owned());
        check(Some(r#"{"info":{"exit_status":"Submitted"}}"#), 0, &AgentOutcome::Done);
        check(
            Some(r#"{"info":{"exit_status":"LimitsExceeded"}}"#),
            0,
            &failed("it ended with LimitsExceeded"),
        );
        check(
            Some(
                r#"{"info":{"exit_status":"APIError"},
                "messages":[{"role":"user"},{"extra":{"exception_str":"no route"}}]}"#,
            ),
            1,
            &failed("it ended with APIError: no route"),
        );
        check(
            Some(r#"{"info":{"exit_status":""}}"#),
            0,
            &failed("it broke off in the middle; its last words: boom"),
        );
        check(None, 0, &failed("it left no trajectory; its last words: boom"));
    }
}
