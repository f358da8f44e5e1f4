//! Files of a container, in and out as archives; the engine resolves paths inside the container.

use std::io::Read;
use std::path::Path;

use bollard::query_parameters::{
    ContainerArchiveInfoOptionsBuilder, DownloadFromContainerOptionsBuilder,
    UploadToContainerOptionsBuilder,
};
use futures_util::TryStreamExt;

use super::engine::{Engine, Fault};
use super::limits;
use crate::BackendError;

/// Who owns what is put into a container.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Ids {
    pub uid: u64,
    pub gid: u64,
}

/// The numbers of a container's user, which may be named.
pub(super) async fn ids(engine: &Engine, container: &str, user: &str) -> Result<Ids, BackendError> {
    let (login, group) = user.split_once(':').unwrap_or((user, ""));
    if login.is_empty() || login == "root" && group.is_empty() {
        return Ok(Ids::default());
    }
    let list = |path: &'static str| async move {
        let contents = get(engine, container, path, limits::USERS_BYTES).await?;
        Ok::<_, BackendError>(String::from_utf8_lossy(&contents.unwrap_or_default()).into_owned())
    };
    let users = list("/etc/passwd").await?;
    let row = users
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|row| row.first() == Some(&login) || row.get(2) == Some(&login));
    let number = |text: Option<&&str>| text.and_then(|text| text.parse::<u64>().ok());
    let known = row.as_ref().and_then(|row| number(row.get(2)));
    let Some(uid) = login.parse().ok().or(known) else {
        return Err(BackendError::Unusable(format!(
            "the image has no user `{login}` in its /etc/passwd; choose another `user` of the \
             docker backend"
        )));
    };
    let gid = match group {
        "" => row.as_ref().and_then(|row| number(row.get(3))),
        group => match group.parse() {
            Ok(gid) => Some(gid),
            Err(_) => {
                let groups = list("/etc/group").await?;
                let rows = groups.lines().map(|line| line.split(':').collect::<Vec<_>>());
                let mut named = rows.filter(|row| row.first() == Some(&group));
                named.next().and_then(|row| number(row.get(2)))
            }
        },
    };
    Ok(Ids { uid, gid: gid.unwrap_or(0) })
}

/// Makes a folder that anyone may enter, and private ones in it.
pub(super) async fn put_folders(
    engine: &Engine,
    container: &str,
    parent: &str,
    folders: &[&str],
    ids: Ids,
) -> Result<(), BackendError> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut add = |path: &str, mode, ids| append(&mut archive, path, Entry::Folder, mode, ids);
    let added = add(parent, 0o755, Ids::default())
        .and_then(|()| folders.iter().try_for_each(|folder| add(folder, 0o700, ids)));
    let archive = added.and_then(|()| archive.into_inner());
    let what = format!("make {parent} in container {container}");
    let archive = archive.map_err(|source| BackendError::Io { what: what.clone(), source })?;
    upload(engine, container, "/", archive).await.map_err(|fault| engine.error(&what, fault))
}

/// Writes a file; a script (`#!`) becomes executable. Its missing parents belong to the user too.
pub(super) async fn put(
    engine: &Engine,
    container: &str,
    path: &str,
    contents: &[u8],
    ids: Ids,
) -> Result<(), BackendError> {
    plain(path)?;
    let what = format!("write {path} in container {container}");
    let fail = |fault| engine.error(&what, fault);
    let mut missing = Vec::new();
    let mut base = Path::new(path).parent();
    while let Some(dir) = base.and_then(Path::to_str).filter(|dir| *dir != "/") {
        if exists(engine, container, dir).await.map_err(fail)? {
            break;
        }
        missing.push(dir);
        base = Path::new(dir).parent();
    }
    let base = base.and_then(Path::to_str).unwrap_or("/");
    let inside = |path: &str| path.strip_prefix(base).unwrap_or(path).to_owned();
    let mut archive = tar::Builder::new(Vec::new());
    let mut archived = Ok(());
    for dir in missing.into_iter().rev() {
        archived =
            archived.and_then(|()| append(&mut archive, &inside(dir), Entry::Folder, 0o755, ids));
    }
    let mode = if contents.starts_with(b"#!") { 0o755 } else { 0o644 };
    let archived = archived
        .and_then(|()| append(&mut archive, &inside(path), Entry::File(contents), mode, ids))
        .and_then(|()| archive.into_inner());
    let archive =
        archived.map_err(|source| BackendError::Io { what: format!("cannot {what}"), source })?;
    upload(engine, container, base, archive).await.map_err(fail)
}

/// Reads a file whole; one over the cap is an error, since a part of it could mislead.
pub(super) async fn get(
    engine: &Engine,
    container: &str,
    path: &str,
    cap_bytes: usize,
) -> Result<Option<Vec<u8>>, BackendError> {
    plain(path)?;
    let what = format!("read {path} in container {container}");
    let mut path = path.to_owned();
    for _ in 0..limits::LINKS {
        let archive = match download(engine, container, &path, cap_bytes).await {
            Ok(archive) => archive,
            Err(fault) if absent(&fault) => return Ok(None),
            Err(fault) => return Err(engine.error(&what, fault)),
        };
        match first(&archive, cap_bytes)
            .map_err(|source| BackendError::Io { what: format!("cannot {what}"), source })?
        {
            First::File(contents) => return Ok(Some(contents)),
            First::Link(target) => path = join(&path, &target),
            First::Larger => {
                return Err(BackendError::Unusable(format!(
                    "{path} is larger than {cap_bytes} bytes"
                )));
            }
            First::Other => {
                return Err(BackendError::Unusable(format!("{path} is not a plain file")));
            }
        }
    }
    Err(BackendError::Unusable(format!("cannot {what}: too many links")))
}

enum Entry<'a> {
    Folder,
    File(&'a [u8]),
}

fn append(
    archive: &mut tar::Builder<Vec<u8>>,
    path: &str,
    entry: Entry<'_>,
    mode: u32,
    ids: Ids,
) -> std::io::Result<()> {
    let (kind, contents) = match entry {
        Entry::Folder => (tar::EntryType::Directory, &b""[..]),
        Entry::File(contents) => (tar::EntryType::Regular, contents),
    };
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(contents.len() as u64);
    header.set_mode(mode);
    header.set_uid(ids.uid);
    header.set_gid(ids.gid);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    header.set_mtime(now.map_or(0, |since| since.as_secs()));
    archive.append_data(&mut header, path.trim_start_matches('/'), contents)
}

async fn upload(
    engine: &Engine,
    container: &str,
    folder: &str,
    archive: Vec<u8>,
) -> Result<(), Fault> {
    let options = UploadToContainerOptionsBuilder::default()
        .path(folder)
        .no_overwrite_dir_non_dir("true")
        .build();
    let body = bollard::body_full(archive.into());
    let upload = engine
        .call(limits::COPY, |docker| docker.upload_to_container(container, Some(options), body));
    upload.await
}

async fn exists(engine: &Engine, container: &str, path: &str) -> Result<bool, Fault> {
    let options = ContainerArchiveInfoOptionsBuilder::default().path(path).build();
    let asked = engine
        .call(limits::ASK, |docker| docker.get_container_archive_info(container, Some(options)));
    match asked.await {
        Ok(_) => Ok(true),
        Err(fault) if fault.status() == Some(404) => Ok(false),
        Err(fault) => Err(fault),
    }
}

/// The archive of a path, cut where no file under the cap can reach.
async fn download(
    engine: &Engine,
    container: &str,
    path: &str,
    cap_bytes: usize,
) -> Result<Vec<u8>, Fault> {
    let options = DownloadFromContainerOptionsBuilder::default().path(path).build();
    let most = cap_bytes.saturating_add(limits::ARCHIVE_BYTES);
    engine
        .call(limits::COPY, |docker| async move {
            let mut archive = Vec::new();
            let mut chunks =
                std::pin::pin!(docker.download_from_container(container, Some(options)));
            while let Some(chunk) = chunks.try_next().await? {
                archive.extend_from_slice(&chunk);
                if archive.len() > most {
                    archive.truncate(most);
                    break;
                }
            }
            Ok(archive)
        })
        .await
}

enum First {
    File(Vec<u8>),
    Link(String),
    Larger,
    Other,
}

fn first(archive: &[u8], cap_bytes: usize) -> std::io::Result<First> {
    let mut archive = tar::Archive::new(archive);
    let Some(entry) = archive.entries()?.next() else { return Ok(First::Other) };
    let mut entry = entry?;
    let kind = entry.header().entry_type();
    if kind.is_symlink() {
        let target = entry.link_name()?.unwrap_or_default();
        return Ok(First::Link(target.to_string_lossy().into_owned()));
    }
    if !kind.is_file() {
        return Ok(First::Other);
    }
    let size = entry.size();
    if size > cap_bytes as u64 {
        return Ok(First::Larger);
    }
    let mut contents = Vec::new();
    entry.read_to_end(&mut contents)?;
    if (contents.len() as u64) < size {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(First::File(contents))
}

/// What a link at `path` leads to.
fn join(path: &str, target: &str) -> String {
    let parent = Path::new(path).parent().unwrap_or(Path::new("/"));
    parent.join(target).to_string_lossy().into_owned()
}

/// Whether there is no such file, in a container that is there.
fn absent(fault: &Fault) -> bool {
    match fault {
        Fault::Refused { status: 404, message } => !message.contains("No such container:"),
        Fault::Refused { message, .. } => message.contains("not a directory"),
        Fault::Unreachable(_) | Fault::Lost(_) => false,
    }
}

/// Refuses relative paths and `..`, whose meaning depends on links.
fn plain(path: &str) -> Result<(), BackendError> {
    use std::path::Component::{Normal, RootDir};
    let parts = Path::new(path).components();
    let odd = parts.into_iter().any(|part| !matches!(part, RootDir | Normal(_)));
    if odd || !path.starts_with('/') || path.ends_with('/') {
        return Err(BackendError::Unusable(format!(
            "{path} is refused: the path of a file must be absolute and without `..`"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_absolute_and_do_not_climb() {
        for good in ["/a", "/a/b.c", "/a/./b"] {
            assert!(plain(good).is_ok(), "{good}");
        }
        for bad in ["", "a", "./a", "/a/../b", "/", "/a/"] {
            assert!(plain(bad).is_err(), "{bad}");
        }
        assert_eq!(join("/a/b", "c"), "/a/c");
        assert_eq!(join("/a/b", "/c"), "/c");
    }

    #[test]
    fn an_archive_that_was_cut_is_no_file() {
        let mut archive = tar::Builder::new(Vec::new());
        append(&mut archive, "/f", Entry::File(b"123456"), 0o644, Ids::default()).unwrap();
        let whole = archive.into_inner().unwrap();
        assert!(matches!(first(&whole, 6), Ok(First::File(file)) if file == b"123456"));
        assert!(matches!(first(&whole, 5), Ok(First::Larger)));
        assert!(first(&whole[..514], 6).is_err());
    }
}
