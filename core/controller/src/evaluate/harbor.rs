//! Grading by a Harbor test folder: its `test.sh` writes `/logs/verifier/reward.json` (numbers by
//! name, `reward` among them) or `/logs/verifier/reward.txt` (one number).
//!
//! `/tests` and `/logs` are the real ones where the sandbox has a root of its own. Where it has
//! not (local sandboxes), they lie in a directory with a new name, and the script finds them by
//! [`TESTS_DIR_ENV`] and [`LOGS_DIR_ENV`], which are set everywhere. Both are emptied before the
//! tests come, so nothing that the agent left there counts.

use std::path::Path;

use rollgate_pipeline::record::Reward;

use super::folder;
use super::grade::Asked;
use crate::attempt::inside::{Inside, how, last_words};
use crate::limits;
use crate::outcome::Reason;
use crate::reward::{self, REWARD_FILE_ENV};
use crate::runtime::{Halt, guard};

/// Environment variable with the folder of tests: `/tests`, or what stands for it.
pub const TESTS_DIR_ENV: &str = "ROLLGATE_TESTS_DIR";
/// Environment variable with the folder of logs: `/logs`, or what stands for it.
pub const LOGS_DIR_ENV: &str = "ROLLGATE_LOGS_DIR";

/// Starts a script that need not be executable as it came.
const START: &str = r#"chmod +x "$1" && exec "$1""#;

pub(super) async fn graded(
    asked: &Asked<'_>,
    tests: &Path,
) -> Result<Result<Reward, Reason>, Halt> {
    let inside = asked.inside;
    let files = folder::read(tests.to_owned());
    let files = guard("tests", limits::COLLECT, inside.cancel, files).await?;
    let root = Root::of(inside).await?;
    let (tests, logs) = (root.path("/tests"), root.path("/logs"));
    let verifier = format!("{logs}/verifier");
    if let Err(why) = root.empty(inside, &[&tests, &verifier]).await? {
        return Ok(Err(why));
    }
    for (path, contents) in &files {
        inside.put(&format!("{tests}/{path}"), contents).await?;
    }
    inside.put(&format!("{verifier}/.keep"), b"").await?;
    let (json, plain) = (format!("{verifier}/reward.json"), format!("{verifier}/reward.txt"));
    for path in [&json, &plain] {
        if inside.get(path, limits::REWARD_BYTES).await?.is_some() {
            let what = format!("{path} is there before the tests ran");
            return Ok(Err(Reason::new("reward_stale", what)));
        }
    }
    let script = format!("{tests}/test.sh");
    let argv = ["sh", "-c", START, "sh", &script].map(str::to_owned).to_vec();
    let named = [(TESTS_DIR_ENV, tests.as_str()), (LOGS_DIR_ENV, &logs), (REWARD_FILE_ENV, &json)];
    let exit = asked.run(argv, &named).await?;
    let (json, plain) = (
        inside.get(&json, limits::REWARD_BYTES).await?,
        inside.get(&plain, limits::REWARD_BYTES).await?,
    );
    let graded = reward::of_harbor(&exit, json.as_deref(), plain.as_deref());
    Ok(graded.map_err(|mut reason| {
        if reason.code == "reward_missing" && root.0.is_some() {
            reason.message += &format!(
                "; sandboxes of this backend have no /logs and /tests of their own: the script \
                 has to use ${LOGS_DIR_ENV} and ${TESTS_DIR_ENV}"
            );
        }
        reason
    }))
}

/// What stands before `/tests` and `/logs`; `None`: nothing, they are the sandbox's own.
struct Root(Option<String>);

impl Root {
    /// A backend refuses to write where the sandbox has no files of its own. That it writes
    /// elsewhere tells a refusal from a sandbox that is gone.
    async fn of(inside: &Inside<'_>) -> Result<Self, Halt> {
        let tried = inside.put("/logs/.rollgate", b"").await;
        let Err(refused) = tried else { return Ok(Self(None)) };
        if refused.outcome == crate::outcome::Outcome::Cancelled {
            return Err(refused);
        }
        let own = inside.scratch("harbor")?;
        inside.put(&format!("{own}/.keep"), b"").await?;
        Ok(Self(Some(own)))
    }

    fn path(&self, path: &str) -> String {
        format!("{}{path}", self.0.as_deref().unwrap_or_default())
    }

    /// Removes directories of a sandbox with its own root; a private one is new.
    async fn empty(
        &self,
        inside: &Inside<'_>,
        directories: &[&str],
    ) -> Result<Result<(), Reason>, Halt> {
        if self.0.is_some() {
            return Ok(Ok(()));
        }
        let fixed = ["rm", "-rf", "--"].into_iter().chain(directories.iter().copied());
        let mut exec = inside.command(fixed.map(str::to_owned).collect(), limits::FILE);
        exec.cwd = Some("/".to_owned());
        let exit = inside.exec("evaluate", exec).await?;
        if exit.code == Some(0) {
            return Ok(Ok(()));
        }
        let what = format!("old files {}: {:?}", how(&exit), last_words(&exit));
        Ok(Err(Reason::new("reward_stale", what)))
    }
}
