//! Bugs planted on purpose, so that the tests can be tested.
//!
//! Without the feature `planted` none of this is compiled in: [`on`] is a constant `false`. With it,
//! the environment variable `ROLLGATE_PLANTED` names the one bug that is switched on.

/// A bug that the tests must find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// The separator behind a turn's close token is left out.
    DroppedSeparator,
    /// An edge of the token tree is cut one id too late.
    SplitOffByOne,
    /// Digests hash texts without their lengths.
    DigestWithoutLength,
    /// The role is no part of an element's digest.
    DigestWithoutRole,
    /// Equal sampled ids are merged with context.
    SampledMerged,
    /// The mask of a sample is one token late.
    MaskShifted,
    /// A span that several branches share is trained in each.
    TrainedTwice,
    /// A cut answer's missing close token is not added.
    CloseForgotten,
    /// A rule joins an answer that never reached the agent whole.
    PartialJoinsUndelivered,
    /// Version spans of a resumed generation are not moved behind its first part.
    SpansNotMoved,
    /// What an overlay rule finds stays part of matching.
    OverlayInChain,
    /// Two open requests that are equal count as one.
    SiblingIsRetry,
    /// An answer does not wait for its record.
    AnswerBeforeRecord,
    /// A frame that waits is overtaken by the next one.
    FramesOutOfOrder,
    /// That an answer was missed is not recorded.
    DeliveryLost,
    /// An engine's connection is kept with an unfinished reply on it.
    UnfinishedKept,
    /// The permit of one who stopped waiting is lost.
    PermitLost,
    /// A retry is sampled for itself although there is an answer.
    RetrySamplesAnew,
    /// A session is dropped from memory with an exchange under way.
    EvictedInFlight,
    /// What was read behind a head is left behind when its connection moves.
    MovedWithoutBody,
    /// What was read ahead while an exchange waits is thrown away.
    ReadAheadDropped,
    /// The torn end of a journal is left there.
    TornEndKept,
    /// The grace period of an orphan runs on when somebody waits for it.
    GraceRunsOn,
    /// A sealed session takes turns.
    SealedTakesTurns,
}

impl Bug {
    /// Bugs of the pipeline, which its own tests find.
    pub const ALL: [Bug; 12] = [
        Bug::DroppedSeparator,
        Bug::SplitOffByOne,
        Bug::DigestWithoutLength,
        Bug::DigestWithoutRole,
        Bug::SampledMerged,
        Bug::MaskShifted,
        Bug::TrainedTwice,
        Bug::CloseForgotten,
        Bug::PartialJoinsUndelivered,
        Bug::SpansNotMoved,
        Bug::OverlayInChain,
        Bug::SiblingIsRetry,
    ];

    /// Bugs of shards and pipeline at work together, which the simulation finds.
    pub const AT_WORK: [Bug; 12] = [
        Bug::AnswerBeforeRecord,
        Bug::FramesOutOfOrder,
        Bug::DeliveryLost,
        Bug::UnfinishedKept,
        Bug::PermitLost,
        Bug::RetrySamplesAnew,
        Bug::EvictedInFlight,
        Bug::MovedWithoutBody,
        Bug::ReadAheadDropped,
        Bug::TornEndKept,
        Bug::GraceRunsOn,
        Bug::SealedTakesTurns,
    ];
}

/// Whether this bug is switched on.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn on(_bug: Bug) -> bool {
    false
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Switches a bug on for this thread, beside the environment's one, or off.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Whether this bug is switched on.
#[cfg(feature = "planted")]
#[expect(clippy::disallowed_methods, reason = "bugs are switched on from outside")]
pub fn on(bug: Bug) -> bool {
    use std::sync::LazyLock;
    static NAME: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("ROLLGATE_PLANTED").ok());
    PLANTED.get() == Some(bug)
        || NAME.as_deref().is_some_and(|name| name == format!("{bug:?}").as_str())
}
