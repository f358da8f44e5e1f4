//! The agent built into `rollgate`: a small tool loop, for tests and the demonstration.
//!
//! The task's arguments are handed to it as they are.

use crate::outcome::{by_exit_code, env, home_file, home_path};
use crate::{AgentOutcome, Ended, Harness, HarnessError, Job, Launch};

pub(crate) const NAME: &str = "scripted";

/// Recipe for `rollgate agent`.
#[derive(Clone, Copy, Debug)]
pub struct Scripted;

impl Harness for Scripted {
    fn name(&self) -> &'static str {
        NAME
    }

    fn launch(&self, job: &Job) -> Result<Launch, HarnessError> {
        let instruction = home_file(job, "instruction.md", &job.instruction);
        let path = home_path(job, "instruction.md");
        let fixed =
            [job.rollgate.as_str(), "agent", "--instruction-file", &path, "--model", &job.model];
        let argv = fixed.into_iter().chain(job.args.iter().map(String::as_str));
        Ok(Launch {
            files: vec![instruction],
            env: env(&[("OPENAI_BASE_URL", &job.openai_base_url), ("OPENAI_API_KEY", &job.key)]),
            argv: argv.map(str::to_owned).collect(),
            stdin: None,
            timeout: job.timeout,
            result_file: None,
        })
    }

    fn judge(&self, ended: &Ended) -> AgentOutcome {
        by_exit_code(ended)
    }

    fn version_argv(&self, job: &Job) -> Option<Vec<String>> {
        Some(vec![job.rollgate.clone(), "--version".to_owned()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{job, show};

    #[test]
    fn the_instruction_goes_by_file() {
        assert_eq!(
            show(&Scripted.launch(&job(&["--stream"])).unwrap()),
            "file /box/home/.rollgate/instruction.md \"Fix \\\"it\\\"\\n\"\n\
             env OPENAI_BASE_URL=http://gate/v1\n\
             env OPENAI_API_KEY=key\n\
             argv /bin/rollgate agent --instruction-file /box/home/.rollgate/instruction.md \
             --model m --stream\n"
        );
    }
}
