//! Files out of a sandbox, by path or pattern, within a number of bytes.
//!
//! Patterns are those of `sh` (`*`, `?`, `[…]`); a directory stands for all files in it. Links are
//! left out: what they lead to is not the agent's work. What does not fit is named, never cut.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::inside::{Inside, how, last_words};
use crate::limits;
use crate::outcome::{Outcome, Reason};
use crate::runtime::Halt;

/// Expands each argument and prints size and path of the plain files. Names are never evaluated:
/// with an empty IFS an unquoted variable is expanded as a pattern and nothing else.
const LIST: &str = r#"for tool in find stat; do
  command -v "$tool" >/dev/null || { echo "there is no $tool in the sandbox" >&2; exit 127; }
done
IFS=
for pattern in "$@"; do
  for found in $pattern; do
    if [ -L "$found" ]; then :
    elif [ -d "$found" ]; then find "$found" -type f -exec stat -c '%s %n' {} +
    elif [ -f "$found" ]; then stat -c '%s %n' "$found"
    fi
  done
done"#;

/// One file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Artifact {
    /// Absolute, inside.
    pub(crate) path: String,
    pub(crate) contents: Vec<u8>,
}

/// What was found, and what was left behind and why.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) files: Vec<Artifact>,
    pub(crate) left_out: Vec<String>,
}

/// Takes what `patterns` (relative ones start at the work directory) name, at most `most_bytes`.
pub(crate) async fn take(
    inside: &Inside<'_>,
    patterns: &[String],
    most_bytes: u64,
    timeout: Duration,
) -> Result<Found, Halt> {
    let mut found = Found::default();
    if patterns.is_empty() {
        return Ok(found);
    }
    let patterns: Vec<String> = patterns.iter().map(|pattern| inside.path(pattern)).collect();
    let arguments: Vec<&str> = patterns.iter().map(String::as_str).collect();
    let exit = inside.exec("artifacts", inside.script(LIST, &arguments, timeout)).await?;
    // `find` complains of what it may not read; what it did list counts.
    if exit.timed_out || exit.code.is_none() || exit.code == Some(127) {
        let what = format!("the list of files {}: {:?}", how(&exit), last_words(&exit));
        return Err(Halt::infra(Reason::new("artifacts", what)));
    }
    if exit.cut_bytes > 0 {
        let what = format!("the list of files is over {} bytes", limits::COMMAND_OUTPUT_BYTES);
        return Err(Halt::infra(Reason::new("artifacts", what)));
    }
    let mut left = most_bytes;
    let mut paths = std::collections::BTreeSet::new();
    for line in String::from_utf8_lossy(&exit.stdout).lines() {
        // A name with a line break in it shows as a line that is none of ours.
        let Some((size, path)) = line.split_once(' ').filter(|(_, path)| path.starts_with('/'))
        else {
            found.left_out.push(format!("{line:?}: not a path"));
            continue;
        };
        if !paths.insert(path.to_owned()) {
            continue;
        }
        let size: u64 = size.parse().unwrap_or(u64::MAX);
        if size > left || found.files.len() >= limits::COLLECT_FILES {
            found.left_out.push(format!("{path}: {size} bytes do not fit"));
            continue;
        }
        let cap = usize::try_from(left).unwrap_or(usize::MAX);
        match inside.get(path, cap).await {
            Ok(Some(contents)) => {
                left = left.saturating_sub(contents.len() as u64);
                found.files.push(Artifact { path: path.to_owned(), contents });
            }
            Ok(None) => found.left_out.push(format!("{path}: gone")),
            Err(halt) if halt.outcome == Outcome::Cancelled => return Err(halt),
            Err(halt) => found.left_out.push(format!("{path}: {}", halt.reason.message)),
        }
    }
    Ok(found)
}

/// Where a file goes below a folder of the host: as it lies in the work directory, or below
/// `_root` where it lies elsewhere. `None`: its path leads out of the folder.
pub(crate) fn place(workdir: &str, path: &str) -> Option<PathBuf> {
    let inner = path.strip_prefix(workdir).and_then(|rest| rest.strip_prefix('/'));
    let relative = match inner {
        Some(inner) => PathBuf::from(inner),
        None => Path::new("_root").join(path.trim_start_matches('/')),
    };
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    (relative.components().all(plain) && relative.components().count() > 0).then_some(relative)
}

/// Writes the files below `dir`; how many.
pub(crate) async fn keep(dir: &Path, workdir: &str, found: &mut Found) -> Result<usize, Reason> {
    let fail = |e: std::io::Error| Reason::new("logs", format_args!("{}: {e}", dir.display()));
    tokio::fs::create_dir_all(dir).await.map_err(fail)?;
    let mut kept = 0;
    for file in &found.files {
        let Some(relative) = place(workdir, &file.path) else {
            found.left_out.push(format!("{}: leads elsewhere", file.path));
            continue;
        };
        let path = dir.join(relative);
        if let Some(parent) = path.parent() {
            tokio::fs::create_dir_all(parent).await.map_err(fail)?;
        }
        tokio::fs::write(path, &file.contents).await.map_err(fail)?;
        kept += 1;
    }
    Ok(kept)
}

/// Why a pattern is refused, if it is.
pub(crate) fn refused(pattern: &str) -> Option<&'static str> {
    if pattern.is_empty() {
        return Some("is empty");
    }
    if pattern.contains(['\0', '\n']) {
        return Some("holds NUL or a line break");
    }
    pattern.split('/').any(|part| part == "..").then_some("may not hold `..`")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_path_leads_out_of_the_folder(path in "/?([./]|\\.\\.|[a-z]|work){0,12}") {
            if let Some(relative) = place("/work", &path) {
                prop_assert!(relative.is_relative());
                let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
                prop_assert!(Path::new("/logs").join(&relative).starts_with("/logs"));
                prop_assert!(relative.components().all(plain), "{relative:?}");
            }
        }
    }

    #[tokio::test]
    async fn a_sandbox_without_the_tools_says_so() {
        let trial = crate::attempt::trial::Trial::new();
        let task = trial
            .task(r#","env":{"PATH":"/nowhere"},"hooks":[{"at":"after_run","collect":["a"]}]"#);
        let sandbox =
            trial.backend.create(&rollgate_backends::Spec::new("t.0", "t")).await.unwrap();
        let mut inside = Inside::new(sandbox.as_ref(), &task, &trial.cancel);
        inside.env.clear();
        inside.env.insert("PATH".to_owned(), "/nowhere".to_owned());
        let patterns = ["a".to_owned()];
        let taken = take(&inside, &patterns, 9, limits::FILE).await;
        let reason = taken.unwrap_err().reason.message;
        assert!(reason.contains("no find in the sandbox") || reason.contains("`sh`"), "{reason}");
        sandbox.destroy().await.unwrap();
    }

    #[track_caller]
    fn check(path: &str, expected: Option<&str>) {
        assert_eq!(place("/box/work", path), expected.map(PathBuf::from), "{path}");
    }

    #[test]
    fn files_lie_below_the_folder_wherever_they_come_from() {
        check("/box/work/a/b.txt", Some("a/b.txt"));
        check("/box/workshop/b", Some("_root/box/workshop/b"));
        check("/etc/passwd", Some("_root/etc/passwd"));
        check("/box/work/../../../etc/passwd", None);
        check("/box/work/", None);
        check("/../x", None);
    }

    #[test]
    fn patterns_that_lead_out_are_refused() {
        assert_eq!(refused("out/*.txt"), None);
        assert_eq!(refused("../x"), Some("may not hold `..`"));
        assert_eq!(refused(""), Some("is empty"));
        assert_eq!(refused("a\nb"), Some("holds NUL or a line break"));
    }
}
