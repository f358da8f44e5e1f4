//! Bounds that were hit, by name.

/// A bound that a peer ran into. Its configuration key, where it has one, is `limits.` and its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitHit {
    /// A request body, or what it expands to, was too large.
    BodyBytes,
    /// The rest of a head did not come in time.
    HeadMs,
    /// The rest of a body did not come in time, or too slowly.
    BodyMs,
    /// An agent did not take its answer in time.
    WriteMs,
    /// A connection was quiet for too long.
    IdleMs,
    /// Too many exchanges at once.
    ExchangesPerShard,
    /// Too many connections.
    ConnectionsPerShard,
    /// Too many sessions in memory, none of them idle.
    SessionsPerShard,
    /// Too many bytes of bodies on their way in.
    BodiesBytesPerShard,
    /// Too many bytes of bodies announced that no earlier request of their session had.
    UnseenBytes,
    /// Memory is short.
    MemoryBytes,
    /// Records wait faster than they are written.
    JournalBytes,
    /// Too many connections wait for their shard.
    Handovers,
}

impl LimitHit {
    /// All of them, in the order of [`crate::ShardStats::limits_hit`].
    pub const ALL: [LimitHit; 13] = [
        LimitHit::BodyBytes,
        LimitHit::HeadMs,
        LimitHit::BodyMs,
        LimitHit::WriteMs,
        LimitHit::IdleMs,
        LimitHit::ExchangesPerShard,
        LimitHit::ConnectionsPerShard,
        LimitHit::SessionsPerShard,
        LimitHit::BodiesBytesPerShard,
        LimitHit::UnseenBytes,
        LimitHit::MemoryBytes,
        LimitHit::JournalBytes,
        LimitHit::Handovers,
    ];

    /// The label of the metric.
    pub fn name(self) -> &'static str {
        match self {
            LimitHit::BodyBytes => "body_bytes",
            LimitHit::HeadMs => "head_ms",
            LimitHit::BodyMs => "body_ms",
            LimitHit::WriteMs => "write_ms",
            LimitHit::IdleMs => "idle_ms",
            LimitHit::ExchangesPerShard => "exchanges_per_shard",
            LimitHit::ConnectionsPerShard => "connections_per_shard",
            LimitHit::SessionsPerShard => "sessions_per_shard",
            LimitHit::BodiesBytesPerShard => "bodies_bytes_per_shard",
            LimitHit::UnseenBytes => "unseen_bytes",
            LimitHit::MemoryBytes => "memory_bytes",
            LimitHit::JournalBytes => "journal_bytes",
            LimitHit::Handovers => "handovers",
        }
    }
}
