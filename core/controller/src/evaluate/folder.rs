//! A folder of the host, to be put into a sandbox.

use std::path::{Path, PathBuf};

use crate::limits;
use crate::outcome::Reason;

/// A file's path below the folder, with `/`, and its bytes.
pub(super) type Entry = (String, Vec<u8>);

/// All plain files of a folder, by name. Links to files are read; links to folders are refused,
/// since they may lead in circles.
pub(super) async fn read(folder: PathBuf) -> Result<Vec<Entry>, Reason> {
    let what = folder.display().to_string();
    let read = tokio::task::spawn_blocking(move || walk(&folder)).await;
    let read = read.unwrap_or_else(|e| Err(e.to_string()));
    read.map_err(|e| Reason::new("tests", format_args!("the tests in {what}: {e}")))
}

fn walk(folder: &Path) -> Result<Vec<Entry>, String> {
    let (mut entries, mut bytes) = (Vec::new(), 0);
    let mut open = vec![(folder.to_owned(), String::new())];
    while let Some((dir, below)) = open.pop() {
        let told = |e: std::io::Error| format!("{}: {e}", dir.display());
        for entry in std::fs::read_dir(&dir).map_err(told)? {
            let entry = entry.map_err(told)?;
            let name = entry.file_name();
            let name = name.to_str().ok_or_else(|| format!("{name:?} is not UTF-8"))?;
            let path = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
            let about = std::fs::metadata(entry.path()).map_err(|e| format!("{path}: {e}"))?;
            if about.is_dir() {
                if entry.file_type().map_err(told)?.is_symlink() {
                    return Err(format!("{path} is a link to a folder; put the folder there"));
                }
                open.push((entry.path(), path));
                continue;
            }
            if !about.is_file() {
                return Err(format!("{path} is neither a file nor a folder"));
            }
            bytes += about.len();
            if bytes > limits::TESTS_BYTES || entries.len() >= limits::TESTS_FILES {
                let (most, files) = (limits::TESTS_BYTES, limits::TESTS_FILES);
                return Err(format!("more than {most} bytes or {files} files"));
            }
            let contents = std::fs::read(entry.path()).map_err(|e| format!("{path}: {e}"))?;
            entries.push((path, contents));
        }
    }
    entries.sort();
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_come_with_their_paths_and_circles_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        for (path, text) in [("a/b/c", "1"), ("test.sh", "2")] {
            std::fs::write(dir.path().join(path), text).unwrap();
        }
        let read_all = || read(dir.path().to_owned());
        let expected = [("a/b/c", "1"), ("test.sh", "2")];
        let expected = expected.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
        assert_eq!(read_all().await.unwrap(), expected);
        std::os::unix::fs::symlink(dir.path(), dir.path().join("a/loop")).unwrap();
        let error = read_all().await.unwrap_err().to_string();
        assert!(error.contains("a/loop is a link to a folder"), "{error}");
        let none = read(dir.path().join("none")).await.unwrap_err();
        assert_eq!(none.code, "tests");
    }
}
