//! The launchers of bundles: shell scripts that find their bundle from their own path.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::bundle::program;

/// The start of every launcher: `$bundle` is the bundle's directory, however the launcher was
/// reached.
const HEAD: &str = r#"#!/bin/sh
self=$0
while [ -h "$self" ]; do
  link=$(readlink "$self")
  case $link in
    /*) self=$link ;;
    *) self=$(dirname "$self")/$link ;;
  esac
done
bundle=$(CDPATH= cd -P -- "$(dirname "$self")/.." && pwd) || exit 127
"#;

/// Starts a native program. Paths are relative to the bundle.
pub(super) fn native(entry: &str) -> String {
    format!("{HEAD}exec \"$bundle/{entry}\" \"$@\"\n")
}

/// Starts a script with the bundle's Node.
pub(super) fn node(node: &str, entry: &str) -> String {
    format!("{HEAD}exec \"$bundle/{node}\" \"$bundle/{entry}\" \"$@\"\n")
}

/// Starts `start.py` with the bundle's Python, which leads to the one it was made with; where that is
/// not there, with one of the same version from PATH.
pub(super) fn python(version: &str, name: &str) -> String {
    format!(
        r#"{HEAD}for python in "$bundle/python/bin/python" python{version} python3; do
  "$python" -E -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "{version}")' 2>/dev/null &&
    exec "$python" -E -B "$bundle/python/start.py" "$@"
done
echo "{name}: this bundle needs Python {version}, and PATH has none" >&2
exit 127
"#
    )
}

/// Starts the entry point `module:attribute` with the bundle's packages. Nothing of it is handed on
/// to programs that the agent starts.
pub(super) fn start_py(version: &str, name: &str, entry: &str) -> String {
    let (module, attribute) = entry.split_once(':').unwrap_or((entry, "main"));
    format!(
        r#"import importlib, os, site, sys

here = os.path.dirname(os.path.abspath(__file__))
packages = os.path.join(here, "lib", "python{version}", "site-packages")
if packages not in sys.path:
    site.addsitedir(packages)
# The first entry is this file's own directory.
sys.path.pop(0)
sys.argv[0] = "{name}"
if __name__ == "__main__":
    start = importlib.import_module("{module}")
    for part in "{attribute}".split("."):
        start = getattr(start, part)
    sys.exit(start())
"#
    )
}

/// Writes a launcher as `bin/NAME`.
pub(super) fn write(bundle: &Path, name: &str, text: &str) -> std::io::Result<()> {
    let path = program(bundle, name);
    std::fs::create_dir_all(bundle.join("bin"))?;
    std::fs::write(&path, text)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn said(program: &Path) -> String {
        let output = Command::new(program).args(["a b", "$c"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn a_bundle_may_be_moved_and_reached_by_links() {
        let dir = tempfile::tempdir().unwrap();
        let bundle = dir.path().join("x@1");
        std::fs::create_dir_all(bundle.join("inner")).unwrap();
        let entry = bundle.join("inner/run it");
        std::fs::write(&entry, "#!/bin/sh\nprintf '%s,' \"$@\"\n").unwrap();
        std::fs::set_permissions(&entry, std::fs::Permissions::from_mode(0o755)).unwrap();
        write(&bundle, "x", &native("inner/run it")).unwrap();
        assert_eq!(said(&program(&bundle, "x")), "a b,$c,");

        let moved = dir.path().join("some where else");
        std::fs::rename(&bundle, &moved).unwrap();
        assert_eq!(said(&program(&moved, "x")), "a b,$c,");

        std::os::unix::fs::symlink("some where else/bin/x", dir.path().join("relative")).unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        let twice = dir.path().join("sub/twice");
        std::os::unix::fs::symlink("../relative", &twice).unwrap();
        assert_eq!(said(&twice), "a b,$c,");
    }
}
