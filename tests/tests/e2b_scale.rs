//! Many commands at once: the E2B backend beside E2B's own SDK, the same work on the same server.
//!
//! 2,000 commands with `ROLLGATE_E2B_COMMANDS=2000`; a tenth of that by default. Each client is a
//! process of its own, whose CPU time is that of its work, without its start. The server waits for
//! `sleep` itself (`--builtin-sleep`), for both alike; what ends is a real process.

use std::io::BufRead as _;
use std::process::{Child, Command, Stdio};

use rollgate_tests::{program, real};
use serde_json::Value;

/// Ours may use this part of the SDK's CPU time.
const MOST_OF_SDK: f64 = 1.0 / 3.0;

struct Size {
    commands: u64,
    shortest_s: u64,
    spread_s: u64,
    in_flight: u64,
}

impl Size {
    fn asked() -> Self {
        let commands = std::env::var("ROLLGATE_E2B_COMMANDS").ok();
        let commands = commands.map_or(200, |number| number.parse().expect("a number of commands"));
        // All run at once before the first ends, and ends are spread: it is not the server's
        // processes that are measured.
        let shortest_s = 5 + commands / 80;
        Self { commands, shortest_s, spread_s: 5 + commands / 25, in_flight: 32 }
    }

    fn arguments(&self) -> [String; 4] {
        [self.commands, self.shortest_s, self.spread_s, self.in_flight].map(|n| n.to_string())
    }
}

struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_e2b_server"));
        command.arg("--builtin-sleep").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        let stdout = process.stdout.take().unwrap();
        std::io::BufReader::new(stdout).read_line(&mut line).unwrap();
        Self { process, url: line.trim().to_owned() }
    }

    fn peak(&self) -> u64 {
        let stats: Value = ureq::get(format!("{}/_stats", self.url))
            .call()
            .unwrap()
            .body_mut()
            .read_json()
            .unwrap();
        stats["peak"].as_u64().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends with its standard input.
        drop(self.process.stdin.take());
        self.process.wait().unwrap();
    }
}

struct Took {
    cpu_s: f64,
    p50_ms: f64,
    p99_ms: f64,
}

/// Runs one client against a server of its own.
fn client(name: &str, size: &Size, command: impl FnOnce(&str) -> Command) -> Took {
    let server = Server::start();
    let mut command = command(&server.url);
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{name}: {}", output.status);
    let took: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(took["finished"], size.commands, "{name}: all finish");
    assert!(server.peak() >= size.commands, "{name}: {} ran at once", server.peak());
    let late = took["latencies_ms"].as_array().unwrap();
    let at = |part: f64| late[((late.len() - 1) as f64 * part) as usize].as_f64().unwrap();
    let number = |name: &str| took[name].as_f64().unwrap();
    let (cpu_s, p50_ms, p99_ms) = (number("cpu_s"), at(0.5), at(0.99));
    println!(
        "{name}: {} commands at once, client CPU {cpu_s:.2} s, beyond their sleep: p50 {p50_ms:.0} \
         ms, p99 {p99_ms:.0} ms; created in {:.1} s, ran {:.1} s, ended in {:.1} s",
        size.commands,
        number("create_s"),
        number("run_s"),
        number("kill_s")
    );
    Took { cpu_s, p50_ms, p99_ms }
}

#[test]
fn must_show_many_commands_take_a_third_of_the_sdks_cpu() {
    let Some(python) = real::e2b_python() else { return };
    let size = Size::asked();
    let ours = client("rollgate", &size, |url| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_e2b_load"));
        command.arg(url).args(size.arguments());
        if std::env::var_os("ROLLGATE_E2B_H2").is_some() {
            command.arg("h2");
        }
        command
    });
    let sdk = client("E2B's SDK 2.63.0", &size, |url| {
        let mut command = Command::new(&python);
        command.arg(program::workspace().join("tests/real/sdk_e2b_scale.py"));
        command.args(size.arguments());
        command.env("E2B_API_KEY", "e2b_0123456789abcdef0123456789abcdef01234567");
        command.env("E2B_API_URL", url).env("E2B_SANDBOX_URL", url);
        command.env("E2B_MAX_CONNECTIONS", "5000");
        command
    });
    let part = ours.cpu_s / sdk.cpu_s;
    println!(
        "rollgate/SDK: CPU {part:.2}, p50 {:.2}, p99 {:.2}",
        ours.p50_ms / sdk.p50_ms,
        ours.p99_ms / sdk.p99_ms
    );
    assert!(part <= MOST_OF_SDK, "{part:.2} of the SDK's CPU; at most {MOST_OF_SDK:.2}");
}
