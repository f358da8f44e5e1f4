//! `filesystem.Filesystem`: what is there, and moving, making and removing it.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::connect::Refusal;
use super::control::stamp;
use super::paths;
use super::world::{Place, World};

pub(super) fn call(
    world: &World,
    place: &Place,
    method: &str,
    body: &[u8],
) -> Result<Value, Refusal> {
    let body: Value = serde_json::from_slice(body)
        .map_err(|error| Refusal::new("invalid_argument", error.to_string()))?;
    let path = |name: &str| {
        let text = body[name].as_str().unwrap_or_default();
        paths::resolve(world, place, text)
            .map_err(|message| Refusal::new("permission_denied", message))
    };
    match method {
        "Stat" => Ok(json!({"entry": entry(&path("path")?)?})),
        "MakeDir" => make(&path("path")?),
        "Move" => {
            let (from, to) = (path("source")?, path("destination")?);
            std::fs::create_dir_all(to.parent().unwrap_or(&to)).map_err(|e| refused(&to, &e))?;
            std::fs::rename(&from, &to).map_err(|error| refused(&from, &error))?;
            Ok(json!({"entry": entry(&to)?}))
        }
        "ListDir" => {
            let (path, depth) = (path("path")?, body["depth"].as_u64().unwrap_or(1).max(1));
            let mut entries = Vec::new();
            list(&path, depth, &mut entries)?;
            Ok(json!({"entries": entries}))
        }
        "Remove" => remove(&path("path")?),
        other => Err(Refusal::new("unimplemented", format!("{other} is not in this test server"))),
    }
}

fn refused(path: &Path, error: &std::io::Error) -> Refusal {
    let code = match error.kind() {
        ErrorKind::NotFound => "not_found",
        ErrorKind::AlreadyExists => "already_exists",
        ErrorKind::NotADirectory => "invalid_argument",
        _ => "internal",
    };
    Refusal::new(code, format!("{}: {error}", path.display()))
}

fn make(path: &Path) -> Result<Value, Refusal> {
    if path.exists() {
        return Err(Refusal::new("already_exists", format!("{} is there", path.display())));
    }
    std::fs::create_dir_all(path).map_err(|error| refused(path, &error))?;
    Ok(json!({"entry": entry(path)?}))
}

fn remove(path: &Path) -> Result<Value, Refusal> {
    let removed = match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        // What is not there needs no removing.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    removed.map_err(|error| refused(path, &error))?;
    Ok(json!({}))
}

fn list(path: &Path, depth: u64, entries: &mut Vec<Value>) -> Result<(), Refusal> {
    let found = std::fs::read_dir(path).map_err(|error| refused(path, &error))?;
    let mut found: Vec<PathBuf> = found.flatten().map(|found| found.path()).collect();
    found.sort();
    for path in found {
        entries.push(entry(&path)?);
        if depth > 1 && path.is_dir() && !path.is_symlink() {
            list(&path, depth - 1, entries)?;
        }
    }
    Ok(())
}

fn entry(path: &Path) -> Result<Value, Refusal> {
    let metadata = std::fs::symlink_metadata(path).map_err(|error| refused(path, &error))?;
    let kind = match metadata.file_type() {
        kind if kind.is_dir() => "FILE_TYPE_DIRECTORY",
        kind if kind.is_symlink() => "FILE_TYPE_SYMLINK",
        _ => "FILE_TYPE_FILE",
    };
    let mode = metadata.permissions().mode() & 0o7777;
    let mut entry = json!({
        "name": path.file_name().map(|name| name.to_string_lossy().into_owned()),
        "type": kind,
        "path": path,
        "mode": mode,
        "permissions": letters(&metadata),
        "owner": owner(metadata.uid()),
        "group": metadata.gid().to_string(),
    });
    // Zero is left out, 64-bit numbers are strings.
    if metadata.len() > 0 {
        entry["size"] = metadata.len().to_string().into();
    }
    if let Ok(modified) = metadata.modified() {
        entry["modifiedTime"] = stamp(modified).into();
    }
    if let (true, Ok(target)) = (metadata.is_symlink(), std::fs::read_link(path)) {
        entry["symlinkTarget"] = target.to_string_lossy().into_owned().into();
    }
    Ok(entry)
}

fn owner(uid: u32) -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid));
    user.ok().flatten().map_or_else(|| uid.to_string(), |user| user.name)
}

/// Permissions as `ls -l` writes them.
fn letters(metadata: &Metadata) -> String {
    let kind = if metadata.is_dir() { 'd' } else { '-' };
    let mode = metadata.permissions().mode();
    let bits = (0..9).map(|bit| {
        let set = mode & (0o400 >> bit) != 0;
        if set { ['r', 'w', 'x'][bit % 3] } else { '-' }
    });
    std::iter::once(kind).chain(bits).collect()
}
