//! What turns look like, and what they may cost.

use std::fmt;

/// A kind of traffic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Shape {
    /// 2 KB that nobody has seen.
    Small,
    /// 50 KB, of which 2 KB are new.
    Coding,
    /// 500 KB, of which 4 KB are new.
    Long,
    /// The first request of a session: 50 KB, of which 4 KB were never sent by any other.
    First,
    /// `coding` with `cache_control` moved to the last message every turn.
    Moved,
}

/// Sizes of a shape, in bytes of a request's JSON unless named otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Instructions and tools, equal over all sessions.
    pub shared: usize,
    /// The first message.
    pub opening: usize,
    /// Turns before the count, behind the first request.
    pub warm_turns: u32,
    /// What each of them adds.
    pub warm_bytes: usize,
    /// What a counted turn adds: the echo of the last answer and the result of its call.
    pub new_bytes: usize,
    /// Tokens of an answer.
    pub reply_tokens: usize,
    /// Counted turns of a conversation.
    pub turns: u32,
    /// Conversations of a session.
    pub conversations: u32,
    /// Sessions that a connection goes through between two looks at the clock.
    pub sessions: u32,
}

/// Upper bounds of CPU time a turn in microseconds, at 64 and at 1,024 sessions.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// At up to 64 sessions.
    pub few_us: f64,
    /// At more.
    pub many_us: Option<f64>,
}

/// Sessions up to which the first bound counts.
const FEW: usize = 64;
/// Most sessions of a phase, but for one a connection.
const SESSIONS_AT_ONCE: u32 = 2_048;

impl Shape {
    /// Every shape, in the order of reports.
    pub const ALL: [Shape; 5] =
        [Shape::Small, Shape::Coding, Shape::Long, Shape::First, Shape::Moved];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Small => "small",
            Shape::Coding => "coding",
            Shape::Long => "long",
            Shape::First => "first",
            Shape::Moved => "moved",
        }
    }

    /// The shape of this name.
    pub fn named(name: &str) -> Option<Shape> {
        Shape::ALL.into_iter().find(|shape| shape.name() == name)
    }

    /// How large everything is. Conversations grow through the shape's size: the mean counts.
    pub fn sizes(self) -> Sizes {
        const KB: usize = 1024;
        let coding = Sizes {
            shared: 19 * KB,
            opening: 2 * KB,
            warm_turns: 8,
            warm_bytes: 2 * KB,
            new_bytes: 2 * KB,
            reply_tokens: 300,
            turns: 12,
            conversations: 1,
            sessions: 1,
        };
        match self {
            Shape::Coding | Shape::Moved => coding,
            Shape::Small => Sizes {
                shared: KB / 2,
                opening: 3 * KB / 2,
                warm_turns: 0,
                turns: 1,
                conversations: 16,
                ..coding
            },
            Shape::First => Sizes {
                shared: 46 * KB,
                opening: 4 * KB,
                warm_turns: 0,
                turns: 1,
                sessions: 16,
                ..coding
            },
            Shape::Long => Sizes {
                shared: 24 * KB,
                opening: 8 * KB,
                warm_turns: 16,
                warm_bytes: 408 * KB / 16,
                new_bytes: 4 * KB,
                reply_tokens: 800,
                turns: 30,
                ..coding
            },
        }
    }

    /// Sessions that each of so many connections goes through in one go: no more than are well kept
    /// in memory and on disk at once.
    pub fn sessions_each(self, connections: usize) -> u32 {
        let most = SESSIONS_AT_ONCE / connections.max(1) as u32;
        self.sizes().sessions.min(most.max(1))
    }

    /// Whether a conversation's first request counts: there is nothing to warm up.
    pub fn counts_first(self) -> bool {
        self.sizes().warm_turns == 0
    }

    /// What a turn may cost.
    pub fn limit_us(self, sessions: usize) -> Option<f64> {
        let limit = |few_us, many_us| Limit { few_us, many_us };
        let limit = match self {
            Shape::Small => limit(80.0, Some(100.0)),
            Shape::Coding => limit(100.0, Some(140.0)),
            Shape::Long => limit(450.0, Some(650.0)),
            Shape::First => limit(250.0, None),
            Shape::Moved => limit(130.0, None),
        };
        if sessions <= FEW { Some(limit.few_us) } else { limit.many_us }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}
