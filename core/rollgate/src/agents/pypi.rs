//! Bundles of packages from PyPI: a virtual environment whose scripts are not used, since they hold
//! the path at which they were made.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::bundle::Runtime;
use super::install::Made;
use super::wanted::{Wanted, end_of};
use super::{launcher, tool};
use crate::exit::Stop;

const NEED: &str = "install Python 3 with its venv module";

/// Installs into `dir`, which is empty.
pub(super) fn make(
    wanted: &Wanted,
    package: &str,
    script: &str,
    with: &[&str],
    dir: &Path,
) -> anyhow::Result<Made> {
    let (env, tools) = (dir.join("python"), dir.join(".tools"));
    venv(&env, &["--without-pip"])?;
    let python = env.join("bin/python");
    let version = "import sys; print('%d.%d' % sys.version_info[:2])";
    let version = tool::run(Command::new(&python).args(["-c", version]), NEED)?.trim().to_owned();
    let uv = uv(&tools)?;
    let mut specs = vec![format!("{package}=={}", wanted.version)];
    specs.extend(with.iter().map(|&spec| spec.to_owned()));
    let mut install = Command::new(&uv);
    install.args(["pip", "install", "--quiet", "--no-cache", "--link-mode=copy"]);
    install.arg("--compile-bytecode").arg("--python").arg(&python);
    if let Some(day) = wanted.as_of() {
        install.args(["--exclude-newer", &end_of(&day)]);
    }
    tool::run(install.args(&specs), "it was just installed")?;
    let mut freeze = Command::new(&uv);
    freeze.args(["pip", "freeze", "--quiet", "--python"]).arg(&python);
    let lock = tool::run(&mut freeze, "it was just installed")?.into_bytes();
    super::place::remove(&tools)?;
    let entry = entry_point(&python, package, script)?;
    keep_only_python(&env.join("bin"))?;
    let name = wanted.harness.name();
    std::fs::write(env.join("start.py"), launcher::start_py(&version, script, &entry))?;
    launcher::write(dir, name, &launcher::python(&version, name))?;
    std::fs::write(dir.join("packages.txt"), &lock)?;
    let packages = specs.into_iter().map(|spec| format!("pypi:{spec}")).collect();
    Ok(Made { packages, runtime: Runtime::Python(version), lock })
}

fn venv(dir: &Path, options: &[&str]) -> Result<(), Stop> {
    let mut python = Command::new("python3");
    tool::run(python.args(["-m", "venv"]).args(options).arg(dir), NEED).map(|_| ())
}

/// The installer that can leave out what was published later: from PATH, else made in `tools`.
fn uv(tools: &Path) -> Result<PathBuf, Stop> {
    let on_path = Command::new("uv").arg("--version").output();
    if on_path.is_ok_and(|output| output.status.success()) {
        return Ok("uv".into());
    }
    venv(tools, &[])?;
    let mut pip = Command::new(tools.join("bin/python"));
    let options = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    tool::run(pip.args(options).args(["--no-cache-dir", "uv"]), NEED)?;
    Ok(tools.join("bin/uv"))
}

/// What the console script calls, as `module:attribute`.
fn entry_point(python: &Path, package: &str, script: &str) -> Result<String, Stop> {
    const FIND: &str = "import sys, importlib.metadata as m\n\
        found = [e.value for e in m.distribution(sys.argv[1]).entry_points\n\
        \x20        if e.group == 'console_scripts' and e.name == sys.argv[2]]\n\
        print(found[0] if found else '')";
    let found = tool::run(Command::new(python).args(["-c", FIND, package, script]), NEED)?;
    match found.split_whitespace().next() {
        Some(entry) => Ok(entry.to_owned()),
        None => Err(Stop::environment(format!(
            "{package} has no program `{script}`: this version is laid out in another way than this \
             Rollgate knows"
        ))),
    }
}

/// Removes the scripts: they start the Python at the path where they were made.
fn keep_only_python(bin: &Path) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(bin)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_python = entry.file_type()?.is_symlink() && is_python(&name);
        if !is_python {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn is_python(name: &OsStr) -> bool {
    name.to_string_lossy().starts_with("python")
}
