//! Hermes (proven with 0.19.0), one prompt and out (`--oneshot`).
//!
//! Its settings are a file under `HERMES_HOME`; side jobs (titles, compaction, …) are sent to the
//! entry URLs of their scenes. Reviews of a run are off: in one-shot mode the program ends before
//! they do. It takes a prompt by argument only. It exits with 0 after most failures; the truth
//! stands in its usage report.
//!
//! Arguments of the task are options for `hermes`, for example `--toolsets terminal,file`.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::outcome::{by_exit_code, env, home_file, home_path, said};
use crate::{
    AgentOutcome, Ended, FileToWrite, Harness, HarnessError, Job, Launch, Package, Source,
};

pub(crate) const NAME: &str = "hermes";

const REPORT_FILE: &str = "hermes-usage.json";
/// Hermes refuses models with less.
const LEAST_CONTEXT: u32 = 64_000;
/// Linux takes no longer argument, its closing zero included.
const ARGUMENT_BYTES: usize = 128 << 10;
/// Its slots for side jobs, each with the scene that it serves.
const SLOTS: [(&str, &str); 7] = [
    ("compression", "compaction"),
    ("curator", "review"),
    ("goal_judge", "review"),
    ("memory_query_rewrite", "memory"),
    ("profile_describer", "summary"),
    ("title_generation", "title"),
    ("web_extract", "summary"),
];

/// Recipe for Hermes.
#[derive(Clone, Copy, Debug)]
pub struct Hermes;

impl Harness for Hermes {
    fn name(&self) -> &'static str {
        NAME
    }

    fn package(&self) -> Option<Package> {
        Some(Package {
            version: "0.19.0",
            as_of: "2026-11-29",
            source: Source::Pypi { package: "hermes-agent", script: "hermes", with: &[] },
        })
    }

    fn launch(&self, job: &Job) -> Result<Launch, HarnessError> {
        let wrong = |text: String| Err(HarnessError::Wrong(text));
        if job.instruction.trim().is_empty() {
            return wrong("hermes needs an instruction; an empty one starts a dialogue".to_owned());
        }
        if job.max_context < LEAST_CONTEXT {
            return wrong(format!(
                "hermes refuses a model with less than {LEAST_CONTEXT} tokens of context, and this \
                 one has {}: serve it with more",
                job.max_context
            ));
        }
        let prompt = format!("--oneshot={}", job.instruction);
        if prompt.len() >= ARGUMENT_BYTES || prompt.contains('\0') {
            return wrong(format!(
                "hermes takes its instruction as an argument, which holds at most {ARGUMENT_BYTES} \
                 bytes and no zero byte; this one has {}: put the bulk of it into a file of the task",
                job.instruction.len()
            ));
        }
        let report = home_path(job, REPORT_FILE);
        let home = hermes_home(job);
        let argv = [job.program_or(NAME), prompt, "--usage-file".to_owned(), report.clone()];
        Ok(Launch {
            files: vec![settings(job)],
            env: env(&[
                ("HERMES_HOME", &home),
                ("HERMES_YOLO_MODE", "1"),
                ("HERMES_ACCEPT_HOOKS", "1"),
                ("HERMES_DISABLE_LAZY_INSTALLS", "1"),
            ]),
            argv: argv.into_iter().chain(job.args.iter().cloned()).collect(),
            stdin: None,
            timeout: job.timeout,
            result_file: Some(report),
        })
    }

    fn judge(&self, ended: &Ended) -> AgentOutcome {
        if ended.timed_out || ended.exit_code != Some(0) {
            return by_exit_code(ended);
        }
        let Some(result) = &ended.result else {
            return AgentOutcome::Failed(format!("it left no report{}", said(ended)));
        };
        match serde_json::from_slice::<Report>(result) {
            Err(error) => AgentOutcome::Failed(format!("its report is unreadable: {error}")),
            Ok(Report { failure: Some(failure), .. }) => AgentOutcome::Failed(failure),
            Ok(Report { failed: true, .. }) => {
                AgentOutcome::Failed(format!("it says that it failed{}", said(ended)))
            }
            Ok(Report { completed: Some(true), .. }) => AgentOutcome::Done,
            Ok(_) => AgentOutcome::Failed(format!("it stopped before the end{}", said(ended))),
        }
    }

    fn version_argv(&self, job: &Job) -> Option<Vec<String>> {
        Some(vec![job.program_or(NAME), "--version".to_owned()])
    }
}

/// What matters of its usage report.
#[derive(Debug, Deserialize)]
struct Report {
    completed: Option<bool>,
    failed: bool,
    failure: Option<String>,
}

fn hermes_home(job: &Job) -> String {
    format!("{}/.hermes", job.home.trim_end_matches('/'))
}

/// JSON is YAML.
fn settings(job: &Job) -> FileToWrite {
    let slot = |(slot, scene): &(&str, &str)| {
        let at = json!({
            "provider": "custom",
            "model": job.model,
            "base_url": job.openai_url_of(scene),
            "api_key": job.key,
        });
        ((*slot).to_owned(), at)
    };
    let settings = json!({
        "model": {
            "default": job.model,
            "provider": "custom",
            "base_url": job.openai_base_url,
            "api_key": job.key,
            "context_length": job.max_context,
        },
        "auxiliary": SLOTS.iter().map(slot).collect::<serde_json::Map<String, Value>>(),
        // What a tool prints reaches the model as it is.
        "security": {"redact_secrets": false, "tirith_enabled": false, "allow_lazy_installs": false},
        "memory": {"nudge_interval": 0},
        "skills": {"creation_nudge_interval": 0},
        "curator": {"enabled": false},
    });
    let mut file = home_file(job, "", &format!("{settings:#}\n"));
    file.path = format!("{}/config.yaml", hermes_home(job));
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{job, show};

    #[test]
    fn settings_go_by_file_and_the_instruction_by_one_argument() {
        let launch = Hermes.launch(&job(&["--toolsets", "terminal"])).unwrap();
        let settings = &launch.files[0];
        assert_eq!(settings.path, "/box/home/.hermes/config.yaml");
        let settings: Value = serde_json::from_slice(&settings.contents).unwrap();
        assert_eq!(
            settings["model"],
            json!({"default": "m", "provider": "custom", "base_url": "http://gate/v1",
                "api_key": "key", "context_length": 100_000})
        );
        assert_eq!(
            settings["auxiliary"]["title_generation"],
            json!({"provider": "custom", "model": "m", "api_key": "key",
                "base_url": "http://gate/scene/title/v1"})
        );
        assert_eq!(
            settings["auxiliary"]["compression"]["base_url"],
            "http://gate/scene/compaction/v1"
        );
        assert_eq!(settings["security"]["redact_secrets"], false);
        assert_eq!(settings["skills"]["creation_nudge_interval"], 0);
        assert_eq!(
            show(&Launch { files: Vec::new(), ..launch.clone() }),
            "env HERMES_HOME=/box/home/.hermes\n\
             env HERMES_YOLO_MODE=1\n\
             env HERMES_ACCEPT_HOOKS=1\n\
             env HERMES_DISABLE_LAZY_INSTALLS=1\n\
             argv hermes --oneshot=Fix \"it\"\n \
             --usage-file /box/home/.rollgate/hermes-usage.json --toolsets terminal\n"
        );
        assert_eq!(launch.argv.len(), 6);
        assert_eq!(launch.result_file.as_deref(), Some("/box/home/.rollgate/hermes-usage.json"));
    }

    #[test]
    fn every_slot_names_a_scene() {
        for (slot, scene) in SLOTS {
            assert!(rollgate_pipeline::scene::Scene::parse(scene).is_some(), "{slot}: {scene}");
        }
    }

    fn refused(change: impl FnOnce(&mut Job)) -> String {
        let mut job = job(&[]);
        change(&mut job);
        Hermes.launch(&job).unwrap_err().to_string()
    }

    #[test]
    fn what_hermes_cannot_do_is_told_before_the_start() {
        let text = refused(|job| job.instruction = "x".repeat(131_062));
        assert!(text.contains("131072 bytes") && text.contains("131062"), "{text}");
        let mut longest = job(&[]);
        longest.instruction = "x".repeat(131_061);
        assert!(Hermes.launch(&longest).is_ok());
        assert!(refused(|job| job.instruction = "a\0b".into()).contains("zero byte"));
        assert!(refused(|job| job.instruction = " \n".into()).contains("needs an instruction"));
        let text = refused(|job| job.max_context = 63_999);
        assert!(text.contains("64000") && text.contains("63999"), "{text}");
    }

    fn check(exit_code: i32, result: Option<&str>, stdout: &str, expected: &AgentOutcome) {
        let ended = Ended {
            exit_code: Some(exit_code),
            stdout: stdout.to_owned(),
            result: result.map(|text| text.as_bytes().to_vec()),
            ..Ended::default()
        };
        assert_eq!(Hermes.judge(&ended), *expected);
    }

    #[test]
    fn the_report_tells_the_truth_not_the_exit_code() {
        let failed = |text: &str| AgentOutcome::Failed(text.to_owned());
        check(0, Some(r#"{"completed": true, "failed": false}"#), "Done.", &AgentOutcome::Done);
        check(
            0,
            Some(r#"{"completed": false, "failed": true, "api_calls": 3}"#),
            "Context length exceeded (14,330 tokens). Cannot compress further.\n",
            &failed(
                "it says that it failed; its last words: Context length exceeded (14,330 tokens). \
                 Cannot compress further.",
            ),
        );
        check(
            0,
            Some(r#"{"completed": null, "failed": true, "failure": "no such model"}"#),
            "",
            &failed("no such model"),
        );
        check(
            0,
            Some(r#"{"completed": false, "failed": false}"#),
            "So far.",
            &failed("it stopped before the end; its last words: So far."),
        );
        check(0, None, "", &failed("it left no report and said nothing"));
        check(2, None, "", &failed("the agent exited with 2 and said nothing"));
    }
}
