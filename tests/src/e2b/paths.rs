//! Paths as the protocol has them, and where they are on this machine.

use std::path::{Component, Path, PathBuf};

use super::world::{Place, World};

/// Home of a sandbox as the protocol names it.
const HOME: &str = "/home/user";

/// The place of a path; `Err` has the message for the client.
pub(super) fn resolve(world: &World, place: &Place, path: &str) -> Result<PathBuf, String> {
    let home = place.home();
    let path = match path.strip_prefix(HOME) {
        Some("") => home,
        Some(rest) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        _ if path == "~" => home,
        _ => home.join(path.strip_prefix("~/").unwrap_or(path)),
    };
    let path = plain(&path);
    let shared = world.options.shared.as_deref();
    if path.starts_with(&place.dir) || shared.is_some_and(|shared| path.starts_with(shared)) {
        return Ok(path);
    }
    Err(format!("{} is outside of the test sandbox {}", path.display(), place.dir.display()))
}

/// Without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}
