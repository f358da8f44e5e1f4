//! Logs of an attempt: what its commands printed.

use std::path::Path;

use rollgate_backends::Exit;

/// Keeps the outputs as `NAME.stdout` and `NAME.stderr`. A log that cannot be written costs no
/// attempt: it is told and left out.
pub(super) async fn keep(dir: &Path, name: &str, exit: &Exit) {
    if let Err(error) = write(dir, name, exit).await {
        tracing::warn!(dir = %dir.display(), name, "a log cannot be written: {error}");
    }
}

async fn write(dir: &Path, name: &str, exit: &Exit) -> std::io::Result<()> {
    tokio::fs::create_dir_all(dir).await?;
    tokio::fs::write(dir.join(format!("{name}.stdout")), &exit.stdout).await?;
    tokio::fs::write(dir.join(format!("{name}.stderr")), &exit.stderr).await
}
