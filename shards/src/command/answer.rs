//! Carrying out the control plane's commands on the shard that owns the session.

use std::rc::Rc;
use std::time::Duration;

use rollgate_pipeline::exchange::SessionState;
use rollgate_pipeline::fault::{Fault, FaultKind};
use rollgate_pipeline::id::SessionHash;
use rollgate_pipeline::record::{Record, Reward, Sealed};

use super::Command;
use crate::CommandError;
use crate::sessions::Stay;
use crate::shard::Shard;
use crate::stream::within;

/// Carries out one command. An asker who left does not need the answer.
pub(crate) async fn answer(shard: Rc<Shard>, command: Command) {
    match command {
        Command::Create { id, options, answer } => {
            let created = shard.sessions.create(id, *options).await;
            let _ = answer.send(created.map_err(CommandError::Fault));
        }
        Command::Describe { hash, answer } => {
            let _ = answer.send(describe(&shard, hash).await);
        }
        Command::List { answer } => {
            let _ = answer.send(Ok(shard.sessions.list()));
        }
        Command::Reward { hash, reward, answer } => {
            let _ = answer.send(set_reward(&shard, hash, reward).await);
        }
        Command::Close { hash, answer } => {
            let _ = answer.send(close(&shard, hash).await);
        }
        Command::Delete { hash, answer } => {
            let deleted = match shard.sessions.delete(hash).await {
                Ok(true) => Ok(()),
                Ok(false) => Err(CommandError::NoSession),
                Err(fault) => Err(CommandError::Fault(fault)),
            };
            let _ = answer.send(deleted);
        }
        Command::Socket(socket) => shard.take_over(socket),
    }
}

async fn find(shard: &Rc<Shard>, hash: SessionHash) -> Result<Stay, CommandError> {
    shard.sessions.find(hash).await?.ok_or(CommandError::NoSession)
}

async fn describe(shard: &Rc<Shard>, hash: SessionHash) -> Result<SessionState, CommandError> {
    Ok(find(shard, hash).await?.session.borrow().state())
}

async fn set_reward(
    shard: &Rc<Shard>,
    hash: SessionHash,
    reward: Reward,
) -> Result<(), CommandError> {
    let stay = find(shard, hash).await?;
    append(shard, &stay, Record::Reward(reward)).await
}

async fn close(shard: &Rc<Shard>, hash: SessionHash) -> Result<SessionState, CommandError> {
    let stay = find(shard, hash).await?;
    stay.closing.set(true);
    let limit = Duration::from_millis(shard.plane.limits().drain_ms);
    let empty = stay.left.until(|| stay.exchanges() == 0);
    if within(limit, empty).await.is_none() {
        tracing::warn!(session = %stay.id, "sealed with exchanges under way: they end unrecorded");
    }
    if !stay.sealed.replace(true) {
        let at_ms = shard.plane.now().wall_ms;
        let sealed = append(shard, &stay, Record::Sealed(Sealed { at_ms })).await;
        stay.left.ring();
        sealed?;
    }
    // Another close may have come first; its seal may still be on its way.
    let written = stay.left.until(|| stay.session.borrow().sealed() || stay.journal.is_broken());
    within(limit, written).await;
    if !stay.session.borrow().sealed() {
        let message = "the session's seal could not be written: close it again";
        return Err(Fault::new(FaultKind::JournalFailed, message).into());
    }
    Ok(stay.session.borrow().state())
}

/// Appends a record of ours and takes it over once it is durable.
async fn append(shard: &Rc<Shard>, stay: &Stay, record: Record) -> Result<(), CommandError> {
    let frame = record.clone().to_frame();
    let frame = frame.map_err(|error| Fault::new(FaultKind::Internal, error))?;
    if let Err(fault) = stay.journal.append(frame).await {
        shard.sessions.forget(stay.cell());
        return Err(fault.into());
    }
    let applied = stay.session.borrow_mut().apply(&record);
    applied.map_err(|error| Fault::new(FaultKind::Internal, error).into())
}
