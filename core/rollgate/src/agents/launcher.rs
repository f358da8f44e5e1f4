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
/// not there, with one of the same version from PATH. Packages of the user's are not seen.
pub(super) fn python(version: &str, name: &str) -> String {
    format!(
        r#"{HEAD}for python in "$bundle/python/bin/python" python{version} python3; do
  "$python" -E -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "{version}")' 2>/dev/null &&
    exec "$python" -E -s -B "$bundle/python/start.py" "$@"
done
echo "{name}: this bundle needs Python {version}, and PATH has none" >&2
exit 127
"#
    )
}

/// Starts the entry point `module:attribute` with the bundle's packages, which come before those of
/// the Python that runs it. Nothing of it is handed on
/// to programs that the agent starts.
pub(super) fn start_py(version: &str, name: &str, entry: &str) -> String {
    let (module, attribute) = entry.split_once(':').unwrap_or((entry, "main"));
    format!(
        r#"import importlib, os, site, sys

here = os.path.dirname(os.path.abspath(__file__))
packages = os.path.join(here, "lib", "python{version}", "site-packages")
# The first entry is this file's own directory.
sys.path.pop(0)
if packages not in sys.path:
    others = len(sys.path)
    site.addsitedir(packages)
    sys.path[:] = sys.path[others:] + sys.path[:others]
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

    #[test]
    fn another_python_sees_the_bundles_packages_before_its_own() {
        let tell = "import sys; print(sys.executable); print('%d.%d' % sys.version_info[:2])";
        let told = Command::new("python3").args(["-c", tell]).output().unwrap();
        let told = String::from_utf8(told.stdout).unwrap();
        let (executable, version) = told.trim().split_once('\n').unwrap();
        let site = format!("lib/python{version}/site-packages");
        let dir = tempfile::tempdir().unwrap();
        let packages = |root: &Path, whose: &str| {
            std::fs::create_dir_all(root.join(&site)).unwrap();
            let module = format!("def main():\n    print({whose:?})\n");
            std::fs::write(root.join(&site).join("tool.py"), module).unwrap();
        };
        // A virtual environment on PATH, and packages of the user's, with a module of that name.
        let other = dir.path().join("other");
        packages(&other, "other");
        packages(&dir.path().join(".local"), "user");
        let home = Path::new(executable).parent().unwrap().display();
        std::fs::write(other.join("pyvenv.cfg"), format!("home = {home}\n")).unwrap();
        std::fs::create_dir(other.join("bin")).unwrap();
        for name in ["python3".to_owned(), format!("python{version}")] {
            std::os::unix::fs::symlink(executable, other.join("bin").join(name)).unwrap();
        }
        let bundle = dir.path().join("tool@1");
        packages(&bundle.join("python"), "bundle");
        let start = start_py(version, "tool", "tool:main");
        std::fs::write(bundle.join("python/start.py"), start).unwrap();
        write(&bundle, "tool", &python(version, "tool")).unwrap();
        let run = |program: &Path, args: &[&str]| {
            let path = format!("{}:/usr/bin:/bin", other.join("bin").display());
            let mut command = Command::new(program);
            let output = command.args(args).env("PATH", path).env("HOME", dir.path()).output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        let plain = other.join("bin/python3");
        assert_eq!(run(&plain, &["-E", "-s", "-c", "import tool; tool.main()"]), "other\n");
        assert_eq!(run(&program(&bundle, "tool"), &[]), "bundle\n");
    }
}
