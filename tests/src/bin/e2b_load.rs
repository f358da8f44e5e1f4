//! Many commands at once through the E2B backend, as `sdk_e2b_scale.py` does it with E2B's SDK.
//!
//! `e2b_load URL COMMANDS SHORTEST_S SPREAD_S IN_FLIGHT [h2]`; prints what it took as JSON.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use rollgate_backends::e2b::HttpVersion;
use rollgate_backends::{Backend as _, E2b, E2bConfig, Exec, Sandbox, Spec};
use tokio::task::JoinSet;

fn cpu_s() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("a process may ask for its own usage");
    [usage.user_time(), usage.system_time()]
        .iter()
        .map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6)
        .sum()
}

async fn run(sandbox: Arc<dyn Sandbox>, sleep_s: f64) -> f64 {
    let exec = Exec {
        argv: vec!["sleep".to_owned(), format!("{sleep_s:.3}")],
        env: Vec::new(),
        cwd: None,
        stdin: None,
        timeout: Duration::from_secs(900),
        output_cap_bytes: 1 << 20,
    };
    let begun = Instant::now();
    let exit = sandbox.exec(exec).await.expect("the command runs");
    assert_eq!(exit.code, Some(0), "{exit:?}");
    (begun.elapsed().as_secs_f64() - sleep_s) * 1e3
}

async fn all<T: Send + 'static>(
    futures: impl Iterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    futures.collect::<JoinSet<T>>().join_all().await
}

async fn load(config: E2bConfig, [commands, shortest_s, spread_s]: [u64; 3]) -> serde_json::Value {
    let in_flight = Arc::new(tokio::sync::Semaphore::new(config.creates_in_flight));
    let backend = Arc::new(E2b::new(config).expect("the config is right"));
    let (begun, before) = (Instant::now(), cpu_s());
    let create = |number: u64| {
        let backend = backend.clone();
        async move { backend.create(&Spec::new(format!("attempt-{number}"), "load")).await }
    };
    let created = all((0..commands).map(create)).await;
    let sandboxes: Vec<Arc<dyn Sandbox>> =
        created.into_iter().map(|created| created.expect("a sandbox is made").into()).collect();
    let create_s = begun.elapsed().as_secs_f64();
    let sleeps = (0..commands).map(|number| {
        shortest_s as f64 + spread_s as f64 * (number * 7919 % commands) as f64 / commands as f64
    });
    let runs = sandboxes.iter().cloned().zip(sleeps);
    let mut late = all(runs.map(|(sandbox, sleep_s)| run(sandbox, sleep_s))).await;
    let run_s = begun.elapsed().as_secs_f64() - create_s;
    let kill = |sandbox: Arc<dyn Sandbox>| {
        let in_flight = in_flight.clone();
        async move {
            let _place = in_flight.acquire().await.expect("it is never closed");
            sandbox.destroy().await.expect("a sandbox is ended");
        }
    };
    all(sandboxes.into_iter().map(kill)).await;
    let used = cpu_s() - before;
    let kill_s = begun.elapsed().as_secs_f64() - create_s - run_s;
    late.sort_by(f64::total_cmp);
    serde_json::json!({"finished": late.len(), "cpu_s": used, "latencies_ms": late,
        "create_s": create_s, "run_s": run_s, "kill_s": kill_s})
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments[at].parse::<u64>().expect("a number");
    let mut config = E2bConfig::new("key");
    config.api_url = Some(arguments[0].clone());
    config.sandbox_url = Some(arguments[0].clone());
    config.ttl = Duration::from_secs(3600);
    config.creates_in_flight = usize::try_from(number(4)).expect("a small number");
    if arguments.get(5).is_some_and(|http| http == "h2") {
        config.http = HttpVersion::Http2;
    }
    // One thread, as the other client has.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime can be made");
    println!("{}", runtime.block_on(load(config, [number(1), number(2), number(3)])));
}
