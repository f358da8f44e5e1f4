//! Folders of this machine for a sandbox elsewhere: small ones are uploaded, large ones refused.

use std::path::Path;
use std::time::Duration;

use super::daemon::{Trouble, transfer};
use super::limits::MOUNT_BYTES;
use super::run::Ground;
use crate::{BackendError, Mount};

/// Longest unpacking, beside the transfer.
const UNPACK: Duration = Duration::from_secs(120);

/// Unpacks an archive to / and takes the right to write away. Arguments: the archive, its targets.
const SCRIPT: &str = "archive=$1; shift
command -v tar >/dev/null 2>&1 || { echo 'the template has no tar'; exit 3; }
tar -xf \"$archive\" -C / || exit 4
chmod -R a-w \"$@\" && rm -f \"$archive\"";

/// Mounts as one archive.
#[derive(Debug)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    targets: Vec<String>,
}

/// Packs mounts; `None` when there are none.
pub(super) async fn pack(mounts: &[Mount]) -> Result<Option<Archive>, BackendError> {
    if mounts.is_empty() {
        return Ok(None);
    }
    let mounts = mounts.to_vec();
    let packed = tokio::task::spawn_blocking(move || packed(&mounts)).await;
    let failed = |why: &dyn std::fmt::Display| {
        BackendError::Unusable(format!("e2b: mounts cannot be packed: {why}"))
    };
    packed.map_err(|error| failed(&error))?.map(Some)
}

fn packed(mounts: &[Mount]) -> Result<Archive, BackendError> {
    for Mount { from, to } in mounts {
        let dots = Path::new(to).components().any(|part| part.as_os_str() == "..");
        if !to.starts_with('/') || to.len() < 2 || dots {
            let what = format!("e2b: mount target `{to}` is not an absolute path");
            return Err(BackendError::Unusable(what));
        }
        let size = size(from)?;
        if size > MOUNT_BYTES {
            let (from, most) = (from.display(), MOUNT_BYTES >> 20);
            return Err(BackendError::Unusable(format!(
                "e2b has no mounts, and {from} ({} MiB) is over the {most} MiB that are uploaded \
                 instead: put it into the template at {to} and leave the mount out",
                size >> 20
            )));
        }
    }
    let mut builder = tar::Builder::new(Vec::new());
    builder.follow_symlinks(false);
    for Mount { from, to } in mounts {
        let inside = to.trim_matches('/');
        let added = match from.is_dir() {
            true => builder.append_dir_all(inside, from),
            false => builder.append_path_with_name(from, inside),
        };
        added.map_err(super::io(format!("pack {}", from.display())))?;
    }
    let bytes = builder.into_inner().map_err(super::io("pack mounts".to_owned()))?;
    if bytes.len() as u64 > MOUNT_BYTES {
        let most = MOUNT_BYTES >> 20;
        let what = format!(
            "e2b has no mounts, and all of them together are over the {most} MiB \
                            that are uploaded instead: put them into the template"
        );
        return Err(BackendError::Unusable(what));
    }
    Ok(Archive { bytes, targets: mounts.iter().map(|mount| mount.to.clone()).collect() })
}

/// Bytes of the files below; counting ends once it is too much.
fn size(path: &Path) -> Result<u64, BackendError> {
    let (mut total, mut open) = (0, vec![path.to_owned()]);
    while let Some(path) = open.pop() {
        let what = || format!("look at the mount {}", path.display());
        let metadata = path.symlink_metadata().map_err(super::io(what()))?;
        if metadata.is_dir() {
            for entry in path.read_dir().map_err(super::io(what()))? {
                open.push(entry.map_err(super::io(what()))?.path());
            }
        }
        total += metadata.len();
        if total > MOUNT_BYTES {
            break;
        }
    }
    Ok(total)
}

impl Archive {
    /// Brings the folders into a sandbox.
    pub async fn unpack(
        &self,
        ground: &Ground,
        home: &str,
        user: Option<&str>,
    ) -> Result<(), BackendError> {
        let path = format!("{home}/.rollgate/mounts.tar");
        let within = ground.reattach + transfer(self.bytes.len());
        let written =
            ground.persist("upload mounts", within, || ground.daemon.write(&path, &self.bytes));
        written.await?;
        let mut args = vec![path.as_str()];
        args.extend(self.targets.iter().map(String::as_str));
        let args = args.as_slice();
        let unpacked = ground.persist("unpack mounts", within + UNPACK, || async move {
            let (code, said) = ground.script(SCRIPT, args, user, UNPACK).await?;
            let said = String::from_utf8_lossy(&said).trim().to_owned();
            if code == 0 { Ok(()) } else { Err(Trouble::refused("tar", said)) }
        });
        unpacked.await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_mounts_are_refused_with_the_bound() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("small"), "x").unwrap();
        let mount = Mount { from: dir.path().to_owned(), to: "/opt/tools".to_owned() };
        assert!(packed(std::slice::from_ref(&mount)).unwrap().bytes.len() > 1024);
        let large = std::fs::File::create(dir.path().join("large")).unwrap();
        large.set_len(MOUNT_BYTES + 1).unwrap();
        let error = packed(std::slice::from_ref(&mount)).unwrap_err().to_string();
        assert!(error.contains("64 MiB") && error.contains("template"), "{error}");
        let relative = Mount { to: "opt".to_owned(), ..mount };
        assert!(packed(&[relative]).unwrap_err().to_string().contains("`opt`"));
    }
}
