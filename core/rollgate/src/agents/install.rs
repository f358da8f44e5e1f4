//! Making one bundle, from the registry to its place.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use rollgate_harness::{Job, Source};

use super::bundle::{Bundle, Runtime, program};
use super::place::Place;
use super::wanted::Wanted;
use super::{npm, platform, pypi};
use crate::exit::Stop;

/// For a new bundle's agent to print its version.
const VERSION_TIME: Duration = Duration::from_secs(60);
/// Between two looks at whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What a registry's part of an install came to.
pub(super) struct Made {
    /// What was asked of the registry.
    pub(super) packages: Vec<String>,
    /// What runs the agent.
    pub(super) runtime: Runtime,
    /// The list of everything that was installed.
    pub(super) lock: Vec<u8>,
}

/// Makes the bundle unless it is there, and prints it.
pub(super) fn run(wanted: &Wanted, dir: &Path, json: bool) -> anyhow::Result<()> {
    let label = wanted.label();
    let bar = bar(json);
    let place = Place::lock(dir, &label, || {
        bar.set_message(format!("{label}: waits for another install of it"));
    })?;
    let (bundle, made) = match Bundle::read(&place.target) {
        Some(bundle) => (bundle, false),
        None => {
            if !json && bar.is_hidden() {
                eprintln!("{label}: installing; this takes a minute or two");
            }
            (make(wanted, &place, &bar)?, true)
        }
    };
    bar.finish_and_clear();
    if json {
        let mut value = serde_json::to_value(&bundle)?;
        value["path"] = place.target.to_string_lossy().into();
        value["installed_now"] = made.into();
        println!("{value}");
    } else {
        let what = if made { "installed" } else { "is there already" };
        let megabytes = bundle.bytes >> 20;
        println!("{label} {what}: {} ({megabytes} MB)", place.target.display());
    }
    Ok(())
}

fn bar(json: bool) -> ProgressBar {
    let bar = if json { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

fn make(wanted: &Wanted, place: &Place, bar: &ProgressBar) -> anyhow::Result<Bundle> {
    let label = wanted.label();
    place.begin()?;
    let dir = &place.making;
    let made = match &wanted.package.source {
        Source::Npm { package, entry, node } => {
            bar.set_message(format!("{label}: installing {package} from npm"));
            npm::make(wanted, package, entry, *node, dir)?
        }
        Source::Pypi { package, script, with } => {
            bar.set_message(format!("{label}: installing {package} from PyPI"));
            pypi::make(wanted, package, script, with, dir)?
        }
    };
    bar.set_message(format!("{label}: starting it once"));
    let says = says(wanted, dir)?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let bundle = Bundle {
        name: wanted.harness.name().to_owned(),
        version: wanted.version.clone(),
        as_of: wanted.as_of(),
        packages: made.packages,
        runtime: made.runtime,
        platform: platform::npm(),
        bytes: bytes_of(dir).with_context(|| format!("{} cannot be read", dir.display()))?,
        lock_digest: blake3::hash(&made.lock).to_hex().to_string(),
        says,
        created_at_ms: since.as_millis() as u64,
        rollgate: env!("CARGO_PKG_VERSION").to_owned(),
    };
    bundle.write(dir)?;
    place.keep()?;
    Ok(bundle)
}

/// The first line the agent prints when asked for its version, which must have the version in it.
fn says(wanted: &Wanted, dir: &Path) -> Result<String, Stop> {
    let home = dir.join(".home");
    let job = job(wanted, dir, &home);
    let Some(argv) = wanted.harness.version_argv(&job) else { return Ok(String::new()) };
    let label = wanted.label();
    let broken = |what: String| {
        Stop::environment(format!("{label} was installed but does not start here: {what}"))
    };
    std::fs::create_dir_all(&home).map_err(Stop::environment)?;
    let (code, out, err) = printed(&argv, &home, &home.join("out")).map_err(broken)?;
    super::place::remove(&home)?;
    let first = out.lines().find(|line| line.contains(&wanted.version)).map(str::trim);
    match first {
        Some(line) if code == Some(0) => Ok(line.chars().take(200).collect()),
        _ => {
            let words = [err, out].into_iter().find(|text| !text.trim().is_empty());
            let words: String = words.unwrap_or_default().trim().chars().take(400).collect();
            Err(broken(format!("it exited with {code:?} and said {words:?}")))
        }
    }
}

/// A job that only serves to ask for the version.
fn job(wanted: &Wanted, dir: &Path, home: &Path) -> Job {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    Job {
        instruction: String::new(),
        openai_base_url: String::new(),
        anthropic_base_url: String::new(),
        key: String::new(),
        model: String::new(),
        program: Some(path(&program(dir, wanted.harness.name()))),
        max_context: u32::MAX,
        workdir: path(home),
        home: path(home),
        rollgate: String::new(),
        args: Vec::new(),
        timeout: VERSION_TIME,
    }
}

/// Exit code, output and complaints of a command in an empty HOME.
fn printed(
    argv: &[String],
    home: &Path,
    base: &Path,
) -> Result<(Option<i32>, String, String), String> {
    let Some((name, arguments)) = argv.split_first() else { return Err("no command".to_owned()) };
    let file = |ending: &str| base.with_extension(ending);
    let open = |ending: &str| std::fs::File::create(file(ending)).map_err(|e| e.to_string());
    let mut command = Command::new(name);
    command.args(arguments).current_dir(home).env("HOME", home).stdin(Stdio::null());
    // The same tidy environment that sandboxes give.
    for (variable, _) in std::env::vars_os() {
        if variable != "PATH" && variable != "HOME" {
            command.env_remove(variable);
        }
    }
    let mut child = command
        .stdout(open("out")?)
        .stderr(open("err")?)
        .spawn()
        .map_err(|error| error.to_string())?;
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if begun.elapsed() > VERSION_TIME => {
                // It may have ended by itself meanwhile.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it did not print its version within {VERSION_TIME:?}"));
            }
            None => std::thread::sleep(LOOK_EVERY),
        }
    };
    let read = |ending: &str| {
        let bytes = std::fs::read(file(ending)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Ok((status.code(), read("out"), read("err")))
}

/// Bytes of all files below a directory.
fn bytes_of(dir: &Path) -> std::io::Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            sum += bytes_of(&entry.path())?;
        } else if kind.is_file() {
            sum += entry.metadata()?.len();
        }
    }
    Ok(sum)
}
