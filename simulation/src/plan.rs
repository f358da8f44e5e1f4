//! What a seed is about: how large, how rough, how often the process ends.

use rollgate_pipeline::limits::Limits;
use rollgate_shards::Durability;
use rollgate_shards::sim::{End, Faults, chance, pick};

/// The setting of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Nothing fails but agents and engines: then it is known how often each request may be sampled.
    pub calm: bool,
    pub shards: u16,
    pub durability: Durability,
    pub idle_evict_ms: u64,
    pub grace_ms: u64,
    pub keepalive_first_ms: u64,
    pub limits: Limits,
    pub engines: u8,
    pub max_in_flight: u32,
    pub faults: Faults,
    pub engine: EngineFaults,
    pub sessions: u64,
    pub agents: u64,
    pub turns: u64,
    /// How often an agent leaves before it has its answer, in thousandths.
    pub leaves: u32,
    /// A session is closed with its agents at work, in thousandths.
    pub closes: u32,
    pub ends: Vec<(When, End)>,
}

/// When the process ends.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// So long after the start of the process.
    After(u64),
    /// Right after an engine has written so many more replies.
    Replies(u64),
    /// In the middle of what the process sends to agents, after so many more pieces.
    Answers(u64),
}

/// How often an engine does what, in thousandths of its calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineFaults {
    pub hang_up: u32,
    pub cut: u32,
    pub stall: u32,
    pub status: u32,
    pub bad_json: u32,
    pub bad_lengths: u32,
    pub truncated: u32,
    pub abort: u32,
    pub paused: u32,
    pub restart: u32,
    /// Its replies come in many pieces.
    pub slow: u32,
}

impl Plan {
    /// Drawn from the world's seed.
    pub fn draw() -> Self {
        let calm = chance(350);
        let shards = pick(1..3) as u16;
        let rare = |most: u64| if chance(400) { pick(0..most) as u32 } else { 0 };
        let ends = if calm || chance(400) { 0 } else { pick(1..4) };
        let rough = |most| if calm { 0 } else { rare(most) };
        Self {
            calm,
            shards,
            durability: if chance(300) { Durability::Fsync } else { Durability::Write },
            idle_evict_ms: if !calm && chance(400) { pick(200..4_000) } else { 600_000 },
            grace_ms: if chance(600) { pick(1_500..4_000) } else { pick(4_000..15_000) },
            keepalive_first_ms: [0, 300, 3_000][pick(0..3) as usize],
            limits: Limits {
                head_ms: 3_000,
                body_ms: 5_000,
                write_ms: 5_000,
                engine_ms: pick(4_000..20_000),
                engine_stall_ms: pick(1_000..20_000),
                engine_idle_ms: pick(500..5_000),
                engine_health_ms: [0, 1_500][pick(0..2) as usize],
                connect_ms: 1_000,
                engine_retries: pick(0..4) as u32,
                drain_ms: pick(500..4_000),
                park_ms: pick(2_000..15_000),
                ..Limits::default()
            },
            engines: pick(1..3) as u8,
            max_in_flight: u32::from(shards) + pick(0..8) as u32,
            faults: Faults {
                short: rare(500),
                slow_packet: rare(100),
                reset: rough(12),
                slow_disk: rare(200),
                full_disk: if chance(150) { rough(40) } else { 0 },
                lost_read: rare(1_000),
            },
            engine: EngineFaults {
                hang_up: rare(80),
                cut: rare(80),
                stall: rare(60),
                status: rare(80),
                bad_json: rare(50),
                bad_lengths: rare(50),
                truncated: rare(80),
                abort: rare(200),
                paused: rare(80),
                restart: rare(40),
                slow: rare(300),
            },
            sessions: pick(1..4),
            agents: pick(1..3),
            turns: pick(2..6),
            leaves: rare(400),
            closes: if chance(200) { 700 } else { 0 },
            ends: (0..ends).map(|_| (When::draw(), End::draw())).collect(),
        }
    }

    /// Whether the journal may lose what it was told is durable.
    pub fn may_lose(&self) -> bool {
        self.durability == Durability::Write
            && self.ends.iter().any(|(_, end)| *end == End::PowerLoss)
    }
}

impl When {
    fn draw() -> Self {
        match pick(0..3) {
            0 => Self::After(pick(20..4_000)),
            1 => Self::Replies(pick(1..6)),
            _ => Self::Answers(pick(1..8)),
        }
    }
}

trait Draw {
    fn draw() -> Self;
}

impl Draw for End {
    fn draw() -> Self {
        if chance(250) { End::PowerLoss } else { End::Kill }
    }
}
