//! Any program that takes its base URL and key from the environment.
//!
//! The task's arguments are the command line; no shell reads it. Exit code 0 means done.

use crate::outcome::{by_exit_code, env, home_file, home_path};
use crate::{AgentOutcome, Ended, Harness, HarnessError, Job, Launch};

pub(crate) const NAME: &str = "command";

/// Recipe for a program of the user's.
#[derive(Clone, Copy, Debug)]
pub struct CommandLine;

impl Harness for CommandLine {
    fn name(&self) -> &'static str {
        NAME
    }

    fn launch(&self, job: &Job) -> Result<Launch, HarnessError> {
        if job.args.first().is_none_or(String::is_empty) {
            let text = "the agent `command` needs a command line: give the program and its \
                        arguments as the agent's arguments";
            return Err(HarnessError::Wrong(text.to_owned()));
        }
        Ok(Launch {
            files: vec![home_file(job, "instruction.md", &job.instruction)],
            env: env(&[
                ("OPENAI_BASE_URL", &job.openai_base_url),
                ("OPENAI_API_BASE", &job.openai_base_url),
                ("OPENAI_API_KEY", &job.key),
                ("ANTHROPIC_BASE_URL", &job.anthropic_base_url),
                ("ANTHROPIC_API_KEY", &job.key),
                ("ANTHROPIC_AUTH_TOKEN", &job.key),
                ("ROLLGATE_MODEL", &job.model),
                ("ROLLGATE_INSTRUCTION_FILE", &home_path(job, "instruction.md")),
            ]),
            argv: job.args.clone(),
            stdin: None,
            timeout: job.timeout,
            result_file: None,
        })
    }

    fn judge(&self, ended: &Ended) -> AgentOutcome {
        by_exit_code(ended)
    }

    fn version_argv(&self, _job: &Job) -> Option<Vec<String>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{job, show};

    #[test]
    fn arguments_stay_apart_and_the_environment_names_everything() {
        let launch = CommandLine.launch(&job(&["prog", "a b", "$HOME"])).unwrap();
        assert_eq!(launch.argv, ["prog", "a b", "$HOME"]);
        assert_eq!(
            show(&launch),
            "file /box/home/.rollgate/instruction.md \"Fix \\\"it\\\"\\n\"\n\
             env OPENAI_BASE_URL=http://gate/v1\n\
             env OPENAI_API_BASE=http://gate/v1\n\
             env OPENAI_API_KEY=key\n\
             env ANTHROPIC_BASE_URL=http://gate\n\
             env ANTHROPIC_API_KEY=key\n\
             env ANTHROPIC_AUTH_TOKEN=key\n\
             env ROLLGATE_MODEL=m\n\
             env ROLLGATE_INSTRUCTION_FILE=/box/home/.rollgate/instruction.md\n\
             argv prog a b $HOME\n"
        );
    }

    #[test]
    fn no_command_line_is_an_error() {
        assert!(CommandLine.launch(&job(&[])).is_err());
        assert!(CommandLine.launch(&job(&[""])).is_err());
    }
}
