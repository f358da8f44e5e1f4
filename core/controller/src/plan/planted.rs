//! Bugs that tests switch on, to see that they are found. Without tests none of this is compiled in:
//! [`Planted::on`] is a constant `false`.

/// A bug of the planner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bug {
    /// What an earlier run settled is made again.
    SettledMadeAgain,
    /// An end that is told twice counts twice.
    EndCountsTwice,
    /// A try that fails before its sandbox is there keeps its place among the starting ones.
    StartingLeaks,
    /// What an ended try used is not given back.
    RoomLeaks,
    /// What the node offers is not looked at.
    RoomIgnored,
    /// A try that is made again is accepted too.
    RetryIsAccepted,
    /// A cancelled try that failed is made again.
    CancelledIsRetried,
    /// Retries have no bound.
    RetriesUnbounded,
    /// A try that gave a result is made again.
    ResultIsRetried,
    /// A group is told complete with one attempt to come.
    GroupToldEarly,
    /// A slot between two tries when the job stops has no result.
    DroppedRetryIsLost,
    /// One more than allowed runs.
    OneTooMany,
    /// Creations do not wait for the bucket.
    RateIgnored,
    /// A try has no deadline.
    DeadlineForgotten,
    /// Nobody is asked to come back.
    WakeForgotten,
}

#[cfg(test)]
impl Bug {
    /// Every bug.
    pub(super) const ALL: [Bug; 15] = [
        Bug::SettledMadeAgain,
        Bug::EndCountsTwice,
        Bug::StartingLeaks,
        Bug::RoomLeaks,
        Bug::RoomIgnored,
        Bug::RetryIsAccepted,
        Bug::CancelledIsRetried,
        Bug::RetriesUnbounded,
        Bug::ResultIsRetried,
        Bug::GroupToldEarly,
        Bug::DroppedRetryIsLost,
        Bug::OneTooMany,
        Bug::RateIgnored,
        Bug::DeadlineForgotten,
        Bug::WakeForgotten,
    ];
}

#[cfg(test)]
thread_local! {
    static SWITCHED_ON: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Does something with a bug in every plan that this thread makes meanwhile.
#[cfg(test)]
pub(super) fn with<T>(bug: Bug, work: impl FnOnce() -> T) -> T {
    SWITCHED_ON.set(Some(bug));
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    SWITCHED_ON.set(None);
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Which bug a plan has.
#[cfg(test)]
#[derive(Debug)]
pub(super) struct Planted(Option<Bug>);

/// Which bug a plan has: none.
#[cfg(not(test))]
#[derive(Debug)]
pub(super) struct Planted;

impl Planted {
    /// The bug that is switched on.
    #[cfg(test)]
    pub(super) fn new() -> Self {
        Self(SWITCHED_ON.get())
    }

    #[cfg(not(test))]
    pub(super) const fn new() -> Self {
        Self
    }

    #[cfg(test)]
    pub(super) fn on(&self, bug: Bug) -> bool {
        self.0 == Some(bug)
    }

    #[cfg(not(test))]
    pub(super) const fn on(&self, _bug: Bug) -> bool {
        false
    }
}
