//! Logs of an attempt: what its commands printed, and files that are kept of it.

use std::path::Path;

use rollgate_backends::Exit;

/// Keeps the outputs as `NAME.stdout` and `NAME.stderr`. A log that cannot be written costs no
/// attempt: it is told and left out.
pub(crate) async fn keep(dir: &Path, name: &str, exit: &Exit) {
    let write = async {
        file(dir, &format!("{name}.stdout"), &exit.stdout).await?;
        file(dir, &format!("{name}.stderr"), &exit.stderr).await
    };
    if let Err(error) = write.await {
        tracing::warn!(dir = %dir.display(), name, "a log cannot be written: {error}");
    }
}

/// Keeps a file.
pub(crate) async fn file(dir: &Path, name: &str, contents: &[u8]) -> std::io::Result<()> {
    tokio::fs::create_dir_all(dir).await?;
    tokio::fs::write(dir.join(name), contents).await
}
