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
}

impl Bug {
    /// All of them.
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
}

/// Whether this bug is switched on.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn on(_bug: Bug) -> bool {
    false
}

/// Whether this bug is switched on.
#[cfg(feature = "planted")]
pub fn on(bug: Bug) -> bool {
    use std::sync::LazyLock;
    static NAME: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("ROLLGATE_PLANTED").ok());
    NAME.as_deref() == Some(format!("{bug:?}").as_str())
}
