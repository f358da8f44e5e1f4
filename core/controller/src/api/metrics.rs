//! `/metrics`: the data plane's counters as Prometheus text. The names are part of the contract.

use std::fmt::Write;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use rollgate_pipeline::scene::Scene;
use rollgate_shards::{
    BUCKETS_US, EngineFailure, EngineStats, ExchangeStage, LimitHit, ShardStats, Times,
};

use super::Shared;

struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    read: fn(&ShardStats) -> u64,
}

const fn counter(name: &'static str, help: &'static str, read: fn(&ShardStats) -> u64) -> Metric {
    Metric { name, kind: "counter", help, read }
}

const fn gauge(name: &'static str, help: &'static str, read: fn(&ShardStats) -> u64) -> Metric {
    Metric { name, kind: "gauge", help, read }
}

const METRICS: &[Metric] = &[
    counter("rollgate_exchanges_total", "Exchanges that ended.", |s| s.exchanges),
    counter("rollgate_faults_total", "Exchanges that ended in a fault.", |s| s.faults),
    counter("rollgate_handovers_out_total", "Connections handed to another shard.", |s| {
        s.handovers_out
    }),
    counter("rollgate_handovers_in_total", "Connections taken from another shard.", |s| {
        s.handovers_in
    }),
    gauge("rollgate_connections", "Open connections of agents.", |s| s.connections),
    gauge("rollgate_sessions", "Sessions in memory.", |s| s.sessions),
    gauge("rollgate_in_flight", "Exchanges in flight.", |s| s.in_flight),
    counter("rollgate_journal_bytes_total", "Bytes written to journals.", |s| s.journal_bytes),
    counter("rollgate_journal_failures_total", "Records that could not be written.", |s| {
        s.journal_failures
    }),
    counter("rollgate_keepalives_total", "Signs of life sent to waiting agents.", |s| s.keepalives),
    counter("rollgate_engine_calls_total", "Calls of engines.", |s| s.engine_calls),
    counter("rollgate_engine_retries_total", "Calls of engines made again.", |s| s.engine_retries),
    counter("rollgate_engine_resends_total", "Calls made again that may be sampled twice.", |s| {
        s.engine_resends
    }),
    gauge("rollgate_engine_queue_length", "Calls that wait for room at an engine.", |s| {
        s.engine_queue
    }),
    counter("rollgate_engine_queue_waits_total", "Calls that waited for room.", |s| s.engine_waits),
    counter("rollgate_engine_queue_wait_ms_total", "Milliseconds of these waits.", |s| {
        s.engine_wait_ms
    }),
    gauge("rollgate_engine_queue_wait_longest_ms", "The longest of these waits so far.", |s| {
        s.engine_wait_longest_ms
    }),
    counter("rollgate_engine_queue_full_total", "Calls refused by a full queue.", |s| {
        s.engine_queue_full
    }),
    counter("rollgate_reloads_total", "Sessions loaded from their journal.", |s| s.reloads),
    counter("rollgate_evictions_total", "Idle sessions dropped from memory.", |s| s.evictions),
    counter("rollgate_torn_tails_total", "Unfinished journal ends that were cut.", |s| {
        s.torn_tails
    }),
    counter("rollgate_orphans_total", "Exchanges whose agent left before its answer.", |s| {
        s.orphans
    }),
    counter("rollgate_orphans_given_up_total", "Orphans that nobody asked for again.", |s| {
        s.orphans_given_up
    }),
    counter("rollgate_retries_adopted_total", "Requests that took over what an orphan had.", |s| {
        s.retries_adopted
    }),
    counter(
        "rollgate_answers_replayed_total",
        "Of these, those for which the answer was there already.",
        |s| s.answers_replayed,
    ),
    counter("rollgate_turns_parked_total", "Waits of turns whose engine gave up on them.", |s| {
        s.turns_parked
    }),
    counter("rollgate_turns_resumed_total", "Calls of engines after such a wait.", |s| {
        s.turns_resumed
    }),
    counter("rollgate_counts_total", "Exchanges that only had their tokens counted.", |s| {
        s.counted
    }),
    counter("rollgate_cancelled_total", "Exchanges cancelled by the close of a session.", |s| {
        s.cancelled
    }),
    counter("rollgate_heads_known_total", "Whole prompts whose head was known.", |s| s.heads_known),
    counter("rollgate_heads_new_total", "Whole prompts whose head was not.", |s| s.heads_new),
    counter("rollgate_encodes_aside_total", "Long prompts encoded beside a shard.", |s| {
        s.encodes_aside
    }),
    counter("rollgate_encodes_held_up_total", "Of these, those that a shard did itself.", |s| {
        s.encodes_held_up
    }),
    counter("rollgate_stalls_total", "Times that something kept a shard from its loop.", |s| {
        s.stalls
    }),
    gauge("rollgate_longest_stall_ms", "The longest of them since the start.", |s| {
        s.longest_stall_ms
    }),
    gauge("rollgate_bodies_bytes", "Bytes of request bodies on their way in.", |s| s.bodies_bytes),
    gauge("rollgate_beat_age_ms", "Time since a shard was last in its loop.", |s| s.beat_age_ms),
];

/// A histogram with a label for the stage.
const STAGES: &str = "rollgate_exchange_stage_seconds";

/// Has a second label: the bound.
const HITS: &str = "rollgate_limits_hit_total";

/// Has a second label: the scene. What no rule holds for is there as `unknown`.
const TURNS: &str = "rollgate_turns_total";

/// A metric of engines: its name, its kind, its help, and its lines of one engine.
type EngineMetric = (&'static str, &'static str, &'static str, fn(&EngineStats, &mut Lines<'_>));

const ENGINE_METRICS: [EngineMetric; 6] = [
    ("rollgate_engine_up", "gauge", "Whether the engine is healthy or degraded.", |e, lines| {
        lines.put("", u64::from(e.up));
    }),
    ("rollgate_engine_state", "gauge", "1 for the state that the engine is in.", |e, lines| {
        for state in EngineStats::STATES {
            lines.put(&format!(",state=\"{state}\""), u64::from(e.state == state));
        }
    }),
    ("rollgate_engine_state_changes_total", "counter", "Changes of the state.", |e, lines| {
        lines.put("", e.changes);
    }),
    ("rollgate_engine_in_flight", "gauge", "Calls in flight at the engine.", |e, lines| {
        for (shard, stats) in e.shards.iter().enumerate() {
            lines.put(&format!(",shard=\"{shard}\""), stats.in_flight);
        }
    }),
    ("rollgate_engine_tries_total", "counter", "Calls of the engine.", |e, lines| {
        for (shard, stats) in e.shards.iter().enumerate() {
            lines.put(&format!(",shard=\"{shard}\""), stats.calls);
        }
    }),
    ("rollgate_engine_failures_total", "counter", "Calls that failed, by reason.", |e, lines| {
        for (shard, stats) in e.shards.iter().enumerate() {
            for (failure, count) in EngineFailure::ALL.iter().zip(stats.failures) {
                let reason = failure.label();
                lines.put(&format!(",shard=\"{shard}\",reason=\"{reason}\""), count);
            }
        }
    }),
];

/// Lines of one metric and one engine.
struct Lines<'a> {
    text: &'a mut String,
    name: &'static str,
    /// The engine's name, escaped.
    engine: String,
}

impl Lines<'_> {
    fn put(&mut self, labels: &str, value: u64) {
        let _ = writeln!(self.text, "{}{{engine=\"{}\"{labels}}} {value}", self.name, self.engine);
    }
}

/// Counters of every shard and engine.
#[utoipa::path(
    get, path = "/metrics", tag = "node", security(("token" = [])),
    responses((status = 200, content_type = "text/plain", body = String))
)]
pub(super) async fn metrics(State(shared): State<Shared>) -> impl IntoResponse {
    let mut text = text(&shared.gate.stats());
    tell_engines(&shared.gate.engines(), &mut text);
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}

fn text(shards: &[ShardStats]) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "# HELP {TURNS} Turns recorded, by scene.\n# TYPE {TURNS} counter");
    for (shard, stats) in shards.iter().enumerate() {
        for (scene, count) in Scene::ALL.iter().zip(stats.turns) {
            let scene = scene.name();
            let _ = writeln!(text, "{TURNS}{{shard=\"{shard}\",scene=\"{scene}\"}} {count}");
        }
    }
    let _ = writeln!(text, "# HELP {HITS} Bounds that were hit.\n# TYPE {HITS} counter");
    for (shard, stats) in shards.iter().enumerate() {
        for bound in LimitHit::ALL {
            let (name, count) = (bound.name(), stats.hits(bound));
            let _ = writeln!(text, "{HITS}{{shard=\"{shard}\",limit=\"{name}\"}} {count}");
        }
    }
    for Metric { name, kind, help, read } in METRICS {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (shard, stats) in shards.iter().enumerate() {
            let _ = writeln!(text, "{name}{{shard=\"{shard}\"}} {}", read(stats));
        }
    }
    stages(&mut text, shards);
    text
}

fn tell_engines(engines: &[EngineStats], text: &mut String) {
    for (name, kind, help, put) in ENGINE_METRICS {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for stats in engines {
            let engine = stats.name.replace('\\', r"\\").replace('"', "\\\"");
            put(stats, &mut Lines { text, name, engine });
        }
    }
}

fn stages(text: &mut String, shards: &[ShardStats]) {
    let help = "Time of exchanges, by what it went to.";
    let _ = writeln!(text, "# HELP {STAGES} {help}\n# TYPE {STAGES} histogram");
    for (shard, stats) in shards.iter().enumerate() {
        for (stage, times) in ExchangeStage::ALL.iter().zip(&stats.stages) {
            let labels = format!("shard=\"{shard}\",stage=\"{}\"", stage.name());
            histogram(text, &labels, times);
        }
    }
}

fn histogram(text: &mut String, labels: &str, times: &Times) {
    let mut below = 0;
    for (end_us, count) in BUCKETS_US.iter().zip(times.buckets) {
        below += count;
        let end = *end_us as f64 / 1e6;
        let _ = writeln!(text, "{STAGES}_bucket{{{labels},le=\"{end}\"}} {below}");
    }
    let (count, sum) = (times.count, times.sum_us as f64 / 1e6);
    let _ = writeln!(text, "{STAGES}_bucket{{{labels},le=\"+Inf\"}} {count}");
    let _ = writeln!(text, "{STAGES}_sum{{{labels}}} {sum}\n{STAGES}_count{{{labels}}} {count}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_is_told_once_per_shard() {
        let mut busy = ShardStats { exchanges: 7, torn_tails: 2, ..ShardStats::default() };
        busy.turns[Scene::ALL.len() - 1] = 3;
        busy.limits_hit[LimitHit::BodyMs as usize] = 4;
        busy.stages[1] = Times { count: 3, sum_us: 300, ..Times::default() };
        (busy.stages[1].buckets[0], busy.stages[1].buckets[1]) = (2, 1);
        let text = text(&[ShardStats::default(), busy]);
        for line in [
            "# TYPE rollgate_exchanges_total counter",
            "rollgate_exchanges_total{shard=\"0\"} 0",
            "rollgate_exchanges_total{shard=\"1\"} 7",
            "# TYPE rollgate_sessions gauge",
            "rollgate_torn_tails_total{shard=\"1\"} 2",
            "rollgate_limits_hit_total{shard=\"1\",limit=\"body_ms\"} 4",
            "rollgate_limits_hit_total{shard=\"0\",limit=\"body_ms\"} 0",
            "# TYPE rollgate_turns_total counter",
            "rollgate_turns_total{shard=\"1\",scene=\"unknown\"} 3",
            "rollgate_turns_total{shard=\"1\",scene=\"main\"} 0",
            "# TYPE rollgate_exchange_stage_seconds histogram",
            "rollgate_exchange_stage_seconds_bucket{shard=\"1\",stage=\"own\",le=\"0.000064\"} 2",
            "rollgate_exchange_stage_seconds_bucket{shard=\"1\",stage=\"own\",le=\"0.000128\"} 3",
            "rollgate_exchange_stage_seconds_bucket{shard=\"1\",stage=\"own\",le=\"+Inf\"} 3",
            "rollgate_exchange_stage_seconds_sum{shard=\"1\",stage=\"own\"} 0.0003",
            "rollgate_exchange_stage_seconds_count{shard=\"0\",stage=\"own\"} 0",
        ] {
            assert_eq!(text.lines().filter(|found| *found == line).count(), 1, "{line}");
        }
        let hits = 2 + 2 * LimitHit::ALL.len();
        let stages = hits + 2 + 2 * ExchangeStage::ALL.len() * (BUCKETS_US.len() + 3);
        assert_eq!(text.lines().count(), METRICS.len() * 4 + 2 + 2 * Scene::ALL.len() + stages);
    }

    #[test]
    fn each_engine_is_told_by_its_name() {
        let mut busy = rollgate_shards::EngineShardStats { in_flight: 3, ..Default::default() };
        busy.failures[EngineFailure::Cut as usize] = 2;
        let engine = EngineStats {
            name: "h:1/\"x".to_owned(),
            state: "degraded",
            up: true,
            changes: 4,
            shards: vec![Default::default(), busy],
        };
        let mut text = String::new();
        tell_engines(&[engine], &mut text);
        for line in [
            "# TYPE rollgate_engine_up gauge",
            r#"rollgate_engine_up{engine="h:1/\"x"} 1"#,
            r#"rollgate_engine_state{engine="h:1/\"x",state="degraded"} 1"#,
            r#"rollgate_engine_state{engine="h:1/\"x",state="healthy"} 0"#,
            r#"rollgate_engine_state_changes_total{engine="h:1/\"x"} 4"#,
            r#"rollgate_engine_in_flight{engine="h:1/\"x",shard="1"} 3"#,
            r#"rollgate_engine_failures_total{engine="h:1/\"x",shard="1",reason="cut"} 2"#,
        ] {
            assert_eq!(text.lines().filter(|found| *found == line).count(), 1, "{line}: {text}");
        }
    }
}
