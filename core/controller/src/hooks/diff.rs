//! What an agent changed in a git repository, as a patch.
//!
//! Both states, before and after, are written as trees by an index of our own: commits, the agent's
//! index and its configuration make no difference, and untracked files that are not ignored count.

use rollgate_backends::Exit;

use crate::attempt::inside::{Inside, how, last_words};
use crate::limits;
use crate::outcome::Reason;
use crate::runtime::Halt;
use std::time::Duration;

/// Prints the tree of the work tree as it is, or of nothing where there is no repository. `$1` is
/// an index of our own.
const TREE: &str = r#"cd "$2" || exit 3
git="git -c safe.directory=* -c core.fsmonitor=false -c core.hooksPath=/dev/null"
top=$($git rev-parse --show-toplevel 2>/dev/null) || { echo none; exit 0; }
cd "$top" || exit 3
GIT_INDEX_FILE=$1; export GIT_INDEX_FILE
$git add -A . && $git write-tree; code=$?
rm -f "$1"; exit $code"#;

/// Writes the patch from tree `$1` to tree `$2` to the file `$4`.
const PATCH: &str = r#"cd "$3" || exit 3
git="git -c safe.directory=* -c core.fsmonitor=false"
from=$1; [ "$from" != none ] || from=$($git hash-object -w -t tree /dev/null) || exit 4
$git diff --binary --no-color --no-ext-diff --no-textconv --full-index "$from" "$2" > "$4""#;

/// A state of a repository.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Tree(String);

/// The state that a repository is in.
pub(super) async fn tree(
    inside: &Inside<'_>,
    repository: &str,
    timeout: Duration,
) -> Result<Tree, Halt> {
    let index = inside.scratch("index")?;
    let exec = inside.script(TREE, &[&index, &inside.path(repository)], timeout);
    let exit = well(inside.exec("diff", exec).await?, "git write-tree")?;
    Ok(Tree(String::from_utf8_lossy(&exit.stdout).trim().to_owned()))
}

/// What changed since `before`.
pub(super) async fn patch(
    inside: &Inside<'_>,
    repository: &str,
    before: &Tree,
    (max_bytes, timeout): (u64, Duration),
) -> Result<Vec<u8>, Halt> {
    let after = tree(inside, repository, timeout).await?;
    if after.0 == "none" {
        return Err(fault("there is no git repository, or no git".to_owned()));
    }
    let file = inside.scratch("diff")?;
    let arguments = [before.0.as_str(), &after.0, &inside.path(repository), &file];
    well(inside.exec("diff", inside.script(PATCH, &arguments, timeout)).await?, "git diff")?;
    let cap = usize::try_from(max_bytes).unwrap_or(usize::MAX);
    let patch = inside.get(&file, cap).await;
    let remove = inside.command(vec!["rm".to_owned(), "-f".to_owned(), file], limits::FILE);
    inside.exec("diff", remove).await?;
    patch?.ok_or_else(|| fault("git diff wrote nothing".to_owned()))
}

fn well(exit: Exit, what: &str) -> Result<Exit, Halt> {
    if exit.code == Some(0) && !exit.timed_out {
        return Ok(exit);
    }
    Err(fault(format!("{what} {}; its last words: {:?}", how(&exit), last_words(&exit))))
}

fn fault(what: String) -> Halt {
    Halt::infra(Reason::new("diff", what))
}
