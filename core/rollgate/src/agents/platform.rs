//! The names that registries and toolchains have for this platform.

use std::env::consts::{ARCH, OS};

/// As npm's platform packages call it, such as `linux-x64`.
pub(super) fn npm() -> String {
    let os = if OS == "macos" { "darwin" } else { OS };
    let arch = match ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{os}-{arch}")
}

/// As toolchains call it; of Linux the form that needs no C library of the system.
fn target() -> String {
    match OS {
        "macos" => format!("{ARCH}-apple-darwin"),
        os => format!("{ARCH}-unknown-{os}-musl"),
    }
}

/// Puts this platform's names into a path: `{platform}` and `{target}`.
pub(super) fn fill(path: &str) -> String {
    path.replace("{platform}", &npm()).replace("{target}", &target())
}
