//! `task.toml`: each key is taken out as it is used, so that what is left was not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rollgate_backends::Resources;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::hooks::{Action, Event, Hook, Policy};
use crate::limits;
use crate::task::{Command, TaskError, check};

/// Keys that change nothing here, and why.
const NOTHING: [&str; 12] = [
    "schema_version",
    "version",
    "source",
    "multi_step_reward_strategy",
    "task.name",
    "task.version",
    "task.description",
    "task.authors",
    "task.keywords",
    "solution",
    "environment.gpu_types",
    "environment.skills_dir",
];
/// Keys without which the task is another one, and the values that ask for nothing.
const REFUSED: [(&str, &[&str]); 5] = [
    ("steps", &["[]"]),
    ("environment.gpus", &["0"]),
    ("environment.tpu", &["{}", "\"\"", "0"]),
    ("environment.os", &["\"linux\""]),
    ("environment.mcp_servers", &["[]"]),
];
/// Keys that are told where they ask for something, and the values that do not.
const TOLD: [(&str, &[&str]); 11] = [
    ("agent.user", &[]),
    ("agent.network_mode", &["\"public\""]),
    ("agent.allowed_hosts", &["[]"]),
    ("verifier.user", &[]),
    ("verifier.collect", &["[]"]),
    ("environment.build_timeout_sec", &["600", "600.0"]),
    ("environment.network_mode", &["\"public\""]),
    ("environment.allowed_hosts", &["[]"]),
    ("environment.allow_internet", &["true"]),
    ("environment.gpu_types", &["[]"]),
    ("environment.skills_dir", &["\"\""]),
];

/// Waits until the task's services are up.
const HEALTHY: &str = r#"sleep "$4"; tries=0
until timeout "$5" sh -c "$1"; do
  tries=$((tries + 1))
  if [ "$tries" -ge "$2" ]; then echo "not healthy after $tries checks" >&2; exit 1; fi
  sleep "$3"
done"#;

/// The file's keys that were not used yet.
pub(super) struct Manifest {
    path: PathBuf,
    table: Map<String, Value>,
}

/// What the file says of the verifier.
pub(super) struct Verifier {
    pub(super) timeout_s: Option<f64>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) separate: bool,
    pub(super) image: Option<String>,
}

impl Manifest {
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, TaskError> {
        let table: toml::Table = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
            let what = error.message().to_owned();
            TaskError::Line { path: path.to_owned(), line, what }
        })?;
        let table = serde_json::to_value(table);
        let mut manifest = Self { path: path.to_owned(), table: Map::new() };
        match table {
            Ok(Value::Object(table)) => manifest.table = table,
            _ => return Err(manifest.wrong("it is not a table")),
        }
        for key in ["schema_version", "version"] {
            let version: Option<Value> = manifest.look(key).cloned();
            let version = version.map(|version| version.to_string().replace('"', ""));
            if let Some(version) = version.filter(|version| version.split('.').next() != Some("1"))
            {
                let what = format!("`{key}` is {version}; versions 1 and 1.x are known");
                return Err(manifest.wrong(what));
            }
        }
        Ok(manifest)
    }

    pub(super) fn agent_timeout(&mut self) -> Result<Option<f64>, TaskError> {
        self.seconds("agent.timeout_sec")
    }

    pub(super) fn verifier(&mut self) -> Result<Verifier, TaskError> {
        let mode: Option<String> = self.take("verifier.environment_mode")?;
        let separate = match mode.as_deref() {
            None | Some("shared") => false,
            Some("separate") => true,
            Some(other) => {
                let what = format!(
                    "`verifier.environment_mode` is {other:?}: shared and separate are known"
                );
                return Err(self.wrong(what));
            }
        };
        Ok(Verifier {
            timeout_s: self.seconds("verifier.timeout_sec")?,
            env: self.take("verifier.env")?.unwrap_or_default(),
            separate,
            image: self.take("verifier.environment.docker_image")?,
        })
    }

    /// A ready image.
    pub(super) fn image(&mut self) -> Result<Option<String>, TaskError> {
        let name: Option<String> = self.take("environment.docker_image")?;
        Ok(name.filter(|name| !name.is_empty()))
    }

    pub(super) fn workdir(&mut self) -> Result<Option<String>, TaskError> {
        self.take("environment.workdir")
    }

    pub(super) fn env(&mut self) -> Result<BTreeMap<String, String>, TaskError> {
        let env: BTreeMap<String, String> = self.take("environment.env")?.unwrap_or_default();
        match env.iter().find(|(_, value)| value.contains("${")) {
            None => Ok(env),
            Some((name, _)) => Err(self.wrong(format!(
                "`environment.env.{name}` asks for a variable of the host, which agents do not get; \
                 give the value, or leave it to `verifier.env`"
            ))),
        }
    }

    pub(super) fn resources(&mut self) -> Result<Resources, TaskError> {
        let old_memory = self.size("environment.memory")?;
        let old_storage = self.size("environment.storage")?;
        Ok(Resources {
            cpus: self.take("environment.cpus")?,
            memory_mib: self.take("environment.memory_mb")?.or(old_memory),
            disk_mib: self.take("environment.storage_mb")?.or(old_storage),
            pids: None,
        })
    }

    /// A step of the set-up that ends once the task's services are up.
    pub(super) fn healthcheck(&mut self) -> Result<Option<Command>, TaskError> {
        let command: Option<String> = self.take("environment.healthcheck.command")?;
        let retries: u32 = self.take("environment.healthcheck.retries")?.unwrap_or(3);
        let mut seconds = |key: &str, default: f64| -> Result<String, TaskError> {
            let found: Option<f64> = self.take(&format!("environment.healthcheck.{key}"))?;
            Ok(found.unwrap_or(default).to_string())
        };
        let interval = seconds("interval_sec", 5.0)?;
        let start = seconds("start_period_sec", 0.0)?;
        let timeout = seconds("timeout_sec", 30.0)?;
        Ok(command.map(|command| {
            let fixed = ["sh", "-c", HEALTHY, "sh"].map(str::to_owned);
            let rest = [command, retries.to_string(), interval, start, timeout];
            Command::Argv(fixed.into_iter().chain(rest).collect())
        }))
    }

    /// Paths that are wanted out of the sandbox.
    pub(super) fn artifacts(&mut self) -> Result<Vec<String>, TaskError> {
        let listed: Vec<Value> = self.take("artifacts")?.unwrap_or_default();
        let one = |entry: &Value| {
            let path = entry.as_str().or_else(|| entry.get("source")?.as_str());
            path.map(str::to_owned)
        };
        let paths: Option<Vec<String>> = listed.iter().map(one).collect();
        paths.ok_or_else(|| {
            self.wrong("`artifacts` holds what is neither a path nor has a `source`")
        })
    }

    /// Free data, and the task's own name.
    pub(super) fn metadata(&mut self) -> Result<Map<String, Value>, TaskError> {
        let mut metadata: Map<String, Value> = self.take("metadata")?.unwrap_or_default();
        if let Some(name) = self.look("task.name").cloned() {
            metadata.insert("harbor_name".to_owned(), name);
        }
        Ok(metadata)
    }

    /// What is left was not honoured: told, or refused.
    pub(super) fn left(mut self) -> Result<Vec<String>, TaskError> {
        for (key, nothing) in REFUSED {
            if let Some(value) = self.pull(key)
                && !nothing.contains(&value.to_string().as_str())
            {
                return Err(self.wrong(format!("`{key}` is not supported: {value}")));
            }
        }
        let mut remarks = Vec::new();
        let at = self.path.display().to_string();
        for (key, nothing) in TOLD {
            if let Some(value) = self.pull(key)
                && !nothing.contains(&value.to_string().as_str())
            {
                remarks.push(format!("{at}: `{key}` is not supported and passed over: {value}"));
            }
        }
        for key in NOTHING {
            self.pull(key);
        }
        let mut rest = Vec::new();
        names("", &self.table, &mut rest);
        remarks
            .extend(rest.iter().map(|key| format!("{at}: `{key}` is not known and passed over")));
        Ok(remarks)
    }

    fn wrong(&self, what: impl Into<String>) -> TaskError {
        TaskError::File { path: self.path.clone(), what: what.into() }
    }

    fn seconds(&mut self, key: &str) -> Result<Option<f64>, TaskError> {
        let seconds = self.take(key)?;
        check::positive(seconds, key).map_err(|what| self.wrong(what))?;
        Ok(seconds)
    }

    /// A size as early files have it: `2G`, `512M`.
    fn size(&mut self, key: &str) -> Result<Option<u64>, TaskError> {
        let Some(text) = self.take::<String>(key)? else { return Ok(None) };
        let (number, unit) = text.split_at(text.find(char::is_alphabetic).unwrap_or(text.len()));
        let factor = match unit.to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
            "m" | "" => 1,
            "g" => 1 << 10,
            "t" => 1 << 20,
            _ => 0,
        };
        match number.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(factor)) {
            Some(mib) if mib > 0 => Ok(Some(mib)),
            _ => Err(self.wrong(format!("`{key}` is no size such as \"2G\": {text:?}"))),
        }
    }

    fn take<T: DeserializeOwned>(&mut self, key: &str) -> Result<Option<T>, TaskError> {
        let Some(value) = self.pull(key) else { return Ok(None) };
        serde_json::from_value(value).map(Some).map_err(|e| self.wrong(format!("`{key}`: {e}")))
    }

    fn look(&self, key: &str) -> Option<&Value> {
        let mut parts = key.split('.');
        let first = self.table.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.get(part))
    }

    fn pull(&mut self, key: &str) -> Option<Value> {
        let (tables, last) = match key.rsplit_once('.') {
            Some((tables, last)) => (tables.split('.').collect(), last),
            None => (Vec::new(), key),
        };
        let inner = tables
            .into_iter()
            .try_fold(&mut self.table, |table, part| table.get_mut(part)?.as_object_mut());
        inner?.shift_remove(last)
    }
}

/// The hook that keeps what a task wants out of its sandbox.
pub(super) fn collecting(artifacts: &[String]) -> Hook {
    Hook {
        name: Some("artifacts".to_owned()),
        at: Event::AfterRun,
        policy: Policy::BestEffort,
        timeout_s: None,
        action: Action::Collect { paths: artifacts.to_vec(), max_bytes: limits::COLLECT_BYTES },
    }
}

/// Dotted names of all values.
fn names(before: &str, table: &Map<String, Value>, found: &mut Vec<String>) {
    for (name, value) in table {
        let name = if before.is_empty() { name.clone() } else { format!("{before}.{name}") };
        match value {
            Value::Object(inner) => names(&name, inner, found),
            _ => found.push(name),
        }
    }
}
