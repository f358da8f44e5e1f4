//! How an attempt ended, and why.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The closed list of outcomes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The agent ended by itself and says that all is well.
    Done,
    /// The agent ended with an error.
    AgentFailed,
    /// The agent did not end in time.
    AgentTimeout,
    /// The session's turns or tokens were used up before the agent was done.
    Budget,
    /// The evaluation gave no usable reward.
    VerifierFailed,
    /// Sandbox, engine, gateway or set-up failed: says nothing about the agent.
    InfraFailed,
    /// Cancelled from outside.
    Cancelled,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Outcome; 7] = [
        Outcome::Done,
        Outcome::AgentFailed,
        Outcome::AgentTimeout,
        Outcome::Budget,
        Outcome::VerifierFailed,
        Outcome::InfraFailed,
        Outcome::Cancelled,
    ];

    /// The name used in files and on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::AgentFailed => "agent_failed",
            Outcome::AgentTimeout => "agent_timeout",
            Outcome::Budget => "budget",
            Outcome::VerifierFailed => "verifier_failed",
            Outcome::InfraFailed => "infra_failed",
            Outcome::Cancelled => "cancelled",
        }
    }

    /// Whether such an attempt may be rewarded.
    pub fn rewardable(self) -> bool {
        matches!(
            self,
            Outcome::Done | Outcome::AgentFailed | Outcome::AgentTimeout | Outcome::Budget
        )
    }

    /// Whether the attempt is over for good: a later run with the same out directory skips it.
    /// What failed for reasons outside the attempt, or was cancelled, is made again.
    pub fn settles(self) -> bool {
        !matches!(self, Outcome::InfraFailed | Outcome::Cancelled)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why an attempt did not go well: a stable code, and what a person needs to mend it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reason {
    /// Stable code (`sandbox_create`, `no_model_call`, `reward_missing`, …).
    pub code: String,
    /// One or two sentences. Holds no key.
    pub message: String,
}

impl Reason {
    /// A reason.
    pub fn new(code: &str, message: impl fmt::Display) -> Self {
        Self { code: code.to_owned(), message: message.to_string() }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_json() {
        for outcome in Outcome::ALL {
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.name());
        }
    }
}
