//! OpenClaw (proven with 2026.9.6), one isolated turn of work (`agent exec`).
//!
//! Its settings and its instruction go by file, its result comes as JSON on stdout. Side jobs
//! (titles, compaction, memories, heartbeats) have models of their own, at the entry URLs of their
//! scenes.
//!
//! Arguments of the task: first words `KEY=VALUE` for this harness, then options for
//! `openclaw agent`:
//!
//! - `api=openai-completions`, `api=openai-responses` or `api=anthropic-messages`: which API it
//!   speaks.
//! - `gateway=PORT`: with OpenClaw's own gateway on this port of loopback, without which it has no
//!   subagents.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::outcome::{by_exit_code, env, home_file, home_path, said};
use crate::{AgentOutcome, Ended, Harness, HarnessError, Job, Launch, Package, Source};

pub(crate) const NAME: &str = "openclaw";

const SETTINGS_FILE: &str = "openclaw.json";
const TASK_FILE: &str = "openclaw-task.md";
const SCRIPT_FILE: &str = "openclaw-gateway.sh";
const DEFAULT_API: &str = "openai-responses";
/// Its APIs; the last one has no `/v1` in its base URL.
const APIS: [&str; 3] = ["openai-completions", "openai-responses", MESSAGES];
const MESSAGES: &str = "anthropic-messages";
/// Models of side jobs, each under the scene that it serves.
const SCENES: [&str; 4] = ["compaction", "heartbeat", "memory", "title"];

/// Runs the gateway, waits for it, then the agent, and ends the gateway. What to run comes as
/// arguments: program, port, then the agent's own.
const SCRIPT: &str = r#"program=$1 port=$2
shift 2
"$program" gateway run --port "$port" --bind loopback >"$HOME/.rollgate/openclaw-gateway.log" 2>&1 </dev/null &
gateway=$!
trap 'kill "$gateway" 2>/dev/null; wait "$gateway" 2>/dev/null' EXIT
trap 'exit 143' TERM INT
tries=0
until "$program" gateway health --timeout 2000 >/dev/null 2>&1; do
  tries=$((tries + 1))
  if [ "$tries" -ge 120 ] || ! kill -0 "$gateway" 2>/dev/null; then
    tail -n 5 "$HOME/.rollgate/openclaw-gateway.log" >&2
    echo "OpenClaw's gateway did not start" >&2
    exit 3
  fi
  sleep 1
done
"$program" "$@"
"#;

/// Recipe for OpenClaw.
#[derive(Clone, Copy, Debug)]
pub struct OpenClaw;

impl Harness for OpenClaw {
    fn name(&self) -> &'static str {
        NAME
    }

    fn package(&self) -> Option<Package> {
        Some(Package {
            version: "2026.9.6",
            as_of: "2026-11-29",
            source: Source::Npm {
                package: "openclaw",
                entry: "openclaw/openclaw.mjs",
                node: Some("24.21.0"),
            },
        })
    }

    fn launch(&self, job: &Job) -> Result<Launch, HarnessError> {
        if job.instruction.trim().is_empty() {
            return Err(HarnessError::Wrong("openclaw needs an instruction".to_owned()));
        }
        let asked = Asked::read(job)?;
        let settings = format!("{:#}\n", settings(job, &asked));
        let settings_path = home_path(job, SETTINGS_FILE);
        let mut files = vec![
            home_file(job, SETTINGS_FILE, &settings),
            home_file(job, TASK_FILE, &job.instruction),
        ];
        let program = job.program_or(NAME);
        let task = home_path(job, TASK_FILE);
        let seconds = job.timeout.as_secs().max(1).to_string();
        let common = ["--json", "--message-file", &task, "--timeout", &seconds];
        let mut argv: Vec<String> = match &asked.gateway {
            None => vec![program, "agent".into(), "exec".into()],
            Some(port) => {
                files.push(home_file(job, SCRIPT_FILE, SCRIPT));
                let script = home_path(job, SCRIPT_FILE);
                let agent = ["agent", "--agent", "main"].map(str::to_owned);
                ["sh".to_owned(), script, program, port.to_string()]
                    .into_iter()
                    .chain(agent)
                    .collect()
            }
        };
        argv.extend(common.map(str::to_owned));
        if asked.gateway.is_none() {
            argv.extend(["--config", &settings_path, "--cwd", &job.workdir].map(str::to_owned));
        }
        argv.extend(asked.rest.iter().cloned());
        Ok(Launch {
            files,
            env: env(&[
                ("OPENCLAW_STATE_DIR", &format!("{}/.openclaw", job.home.trim_end_matches('/'))),
                ("OPENCLAW_CONFIG_PATH", &settings_path),
                ("OPENCLAW_GATEWAY_TOKEN", &job.key),
                ("OPENCLAW_DISABLE_BONJOUR", "1"),
                ("OPENCLAW_SKIP_CHANNELS", "1"),
            ]),
            argv,
            stdin: None,
            timeout: job.timeout,
            result_file: None,
        })
    }

    fn judge(&self, ended: &Ended) -> AgentOutcome {
        if ended.timed_out {
            return AgentOutcome::TimedOut;
        }
        let Ok(report) = serde_json::from_str::<Report>(ended.stdout.trim()) else {
            return match by_exit_code(ended) {
                AgentOutcome::Done => {
                    AgentOutcome::Failed(format!("it left no report{}", said(ended)))
                }
                other => other,
            };
        };
        let broken = report.ok == Some(false) || report.fault().is_some() || report.aborted();
        match report.status.as_deref() {
            Some("ok") if ended.exit_code == Some(0) && !broken => AgentOutcome::Done,
            None if ended.exit_code != Some(0) && !broken => by_exit_code(ended),
            // A turn through the gateway has no status of its own, but what it said.
            None if !broken && (report.payloads.is_some() || report.meta.is_some()) => {
                AgentOutcome::Done
            }
            None if !broken => AgentOutcome::Failed("its report has no status".to_owned()),
            status => {
                let how = if report.aborted() { "aborted" } else { status.unwrap_or("an error") };
                let why = report.fault();
                let why = why.map_or_else(|| said(ended), |message| format!(": {message}"));
                AgentOutcome::Failed(format!("it ended with {how}{why}"))
            }
        }
    }

    fn version_argv(&self, job: &Job) -> Option<Vec<String>> {
        Some(vec![job.program_or(NAME), "--version".to_owned()])
    }
}

/// What matters of its report: that of `agent exec`, or that of a turn through the gateway.
#[derive(Debug, Deserialize)]
struct Report {
    ok: Option<bool>,
    status: Option<String>,
    error: Option<Value>,
    /// What a turn through the gateway said.
    payloads: Option<Value>,
    meta: Option<Meta>,
}

#[derive(Debug, Deserialize)]
struct Meta {
    #[serde(default)]
    aborted: Option<bool>,
    #[serde(default)]
    error: Option<Value>,
}

impl Report {
    fn aborted(&self) -> bool {
        self.meta.as_ref().is_some_and(|meta| meta.aborted == Some(true))
    }

    /// What went wrong: an error is a text, or an object with a message.
    fn fault(&self) -> Option<String> {
        let error = self.error.as_ref().or_else(|| self.meta.as_ref()?.error.as_ref())?;
        let message = error.get("message").unwrap_or(error);
        Some(message.as_str().map_or_else(|| message.to_string(), str::to_owned))
    }
}

/// What the task's arguments ask for.
struct Asked<'a> {
    api: &'a str,
    gateway: Option<u16>,
    rest: &'a [String],
}

impl<'a> Asked<'a> {
    fn read(job: &'a Job) -> Result<Self, HarnessError> {
        let mut asked = Self { api: DEFAULT_API, gateway: None, rest: &job.args };
        while let [first, rest @ ..] = asked.rest {
            let Some((key, value)) = first.split_once('=').filter(|_| !first.starts_with('-'))
            else {
                break;
            };
            match (key, value.parse::<u16>()) {
                ("api", _) if APIS.contains(&value) => asked.api = value,
                ("gateway", Ok(port)) if port > 0 => asked.gateway = Some(port),
                _ => {
                    return Err(HarnessError::Wrong(format!(
                        "openclaw has no argument `{first}`; it takes gateway=PORT and api=, one \
                         of {}, before its own options",
                        APIS.join(", ")
                    )));
                }
            }
            asked.rest = rest;
        }
        Ok(asked)
    }
}

fn settings(job: &Job, asked: &Asked<'_>) -> Value {
    let provider = |scene: Option<&str>| {
        let url = match (scene, asked.api == MESSAGES) {
            (None, true) => job.anthropic_base_url.clone(),
            (None, false) => job.openai_base_url.clone(),
            (Some(scene), true) => job.anthropic_url_of(scene),
            (Some(scene), false) => job.openai_url_of(scene),
        };
        json!({
            "baseUrl": url,
            "apiKey": job.key,
            "api": asked.api,
            "models": [{
                "id": job.model,
                "name": job.model,
                "reasoning": true,
                "input": ["text"],
                "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
                "contextWindow": job.max_context,
                "maxTokens": (job.max_context / 4).clamp(1024, 32_000),
            }],
        })
    };
    let mut providers = serde_json::Map::new();
    providers.insert("rollgate".to_owned(), provider(None));
    for scene in SCENES {
        providers.insert(format!("rollgate-{scene}"), provider(Some(scene)));
    }
    let of = |scene: &str| format!("rollgate-{scene}/{}", job.model);
    let mut settings = json!({
        "models": {"mode": "replace", "providers": providers},
        "agents": {"defaults": {
            "model": {"primary": format!("rollgate/{}", job.model)},
            "utilityModel": of("title"),
            "compaction": {"model": of("compaction"), "memoryFlush": {"model": of("memory")}},
            "heartbeat": {"every": "0m", "model": of("heartbeat")},
            "workspace": job.workdir,
            "skipBootstrap": true,
        }},
        "tools": {"exec": {"security": "full", "ask": "off"}},
        "update": {"checkOnStart": false},
        "telemetry": {"enabled": false},
    });
    if let Some(port) = asked.gateway {
        settings["gateway"] = json!({
            "mode": "local",
            "port": port,
            "bind": "loopback",
            "auth": {"mode": "token", "token": job.key},
        });
    }
    settings
}

#[cfg(test)]
mod tests;
