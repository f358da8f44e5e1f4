//! What may enter a shard from outside: one closed list.

mod answer;

use futures_channel::oneshot;
use rollgate_pipeline::exchange::SessionState;
use rollgate_pipeline::id::{SessionHash, SessionId};
use rollgate_pipeline::record::{Reward, SessionOptions};

pub(crate) use answer::answer;

use crate::CommandError;
use crate::handover::Socket;

/// Where an answer goes. Dropped unanswered, it tells the asker that the data plane has stopped.
pub(crate) type Answer<T> = oneshot::Sender<Result<T, CommandError>>;

/// A wish of the control plane, or a socket from another shard.
pub(crate) enum Command {
    /// A new session. Lost before its answer, it is an empty journal that nobody has a key to.
    Create { id: SessionId, options: Box<SessionOptions>, answer: Answer<()> },
    /// Reads one session, from its journal if need be. Lost, it is asked again.
    Describe { hash: SessionHash, answer: Answer<SessionState> },
    /// Reads the sessions in memory. Lost, it is asked again.
    List { answer: Answer<Vec<SessionState>> },
    /// Appends a reward. Lost before its answer, it may be sent again: the last one counts.
    Reward { hash: SessionHash, reward: Reward, answer: Answer<()> },
    /// Seals. Lost before its answer, it may be sent again: sealing twice is sealing once.
    Close { hash: SessionHash, answer: Answer<SessionState> },
    /// Unlinks the journal. Lost before its answer, it may be sent again.
    Delete { hash: SessionHash, answer: Answer<()> },
    /// A connection whose next request belongs here. Lost, the agent sees a reset before any
    /// answer and sends its request again.
    Socket(Socket),
}
