//! Asking an engine, and waiting for another time to ask.

use std::convert::identity;
use std::time::Duration;

use bytes::BytesMut;
use rollgate_pipeline::engine::EngineRequest;
use rollgate_pipeline::exchange::{EncodeJob, Exchange, Want};
use rollgate_pipeline::fault::{Fault, FaultKind};
use rollgate_pipeline::planted::{self, Bug};

use super::watch::Pause;
use super::{Broken, Course};
use crate::aside;
use crate::pool::{Asked, Trail};
use crate::stream::within;

impl Course<'_> {
    pub(super) async fn engine(&mut self, request: EngineRequest) -> Result<Want, Broken> {
        self.release_engine();
        if let Some(fault) = self.before_retry().await? {
            return self.engine_failed(fault);
        }
        let (shard, session) = (self.shard.clone(), self.stay.id.clone());
        let asked = Asked::default();
        let mut trail = std::mem::take(&mut self.trail);
        let call = shard.pool.call(&session, &request, &asked, &mut trail);
        let called = self.watched(Pause::Engine(&asked), call).await?;
        self.trail = trail;
        match called.and_then(identity) {
            Ok(reply) => {
                self.exchange.queued(reply.queued_ms);
                self.reply = Some(reply);
                self.give_reply(false)
            }
            Err(fault) => self.engine_failed(fault),
        }
    }

    /// Where the call is made again: waits, if there is no other engine, and counts it. The fault is
    /// of an agent that left meanwhile: nobody waits for another try.
    async fn before_retry(&mut self) -> Result<Option<Fault>, Broken> {
        let Some((_, last)) = self.trail.last() else { return Ok(None) };
        let last = last.clone();
        if let Some(pause) = self.shard.pool.back_off(&self.trail) {
            let pause = crate::rt::time::sleep(pause);
            if let Err(fault) = self.watched(Pause::Parked, pause).await? {
                return Ok(Some(fault));
            }
            if self.presence.alone() && !self.exchange.adopted() {
                return Ok(Some(last));
            }
        }
        self.shard.pool.count_retry(&self.stay.id, &self.trail);
        Ok(None)
    }

    pub(super) async fn engine_bytes(&mut self) -> Result<Want, Broken> {
        let Some(mut reply) = self.reply.take() else {
            let message = "an engine's reply was asked for before its request";
            return self.engine_failed(Fault::new(FaultKind::Internal, message));
        };
        let shard = self.shard.clone();
        let asked = reply.asked();
        let mut trail = std::mem::take(&mut self.trail);
        let more = shard.pool.more(&mut reply, &mut trail);
        let read = self.watched(Pause::Engine(&asked), more).await?;
        self.trail = trail;
        match read.and_then(identity) {
            Ok(eof) => {
                self.reply = Some(reply);
                self.give_reply(eof)
            }
            Err(fault) => {
                // The next try may want the room that this one has.
                match planted::on(Bug::UnfinishedKept) {
                    true => shard.pool.keep(reply),
                    false => drop(reply),
                }
                self.engine_failed(fault)
            }
        }
    }

    pub(super) async fn wait(&mut self, ms: u64) -> Result<Want, Broken> {
        // After a pause an engine that failed may well be up.
        self.trail = Trail::default();
        let cell = self.stay.cell().clone();
        let ended = cell.ended();
        let other = cell.left.until(|| cell.ended() != ended);
        match self.watched(Pause::Parked, within(Duration::from_millis(ms), other)).await? {
            Ok(_) => self.step(Exchange::woken),
            Err(fault) => self.engine_failed(fault),
        }
    }

    /// Lets the shard's helper encode; where that has too much to do, the shard encodes itself.
    pub(super) async fn encode(&mut self, job: EncodeJob) -> Result<Want, Broken> {
        let shard = self.shard.clone();
        let encoded = match shard.helper.give(job) {
            Ok(answer) => match self.watched(Pause::Encode, answer).await? {
                Ok(encoded) => encoded.unwrap_or_else(|_| Err(aside::broken())),
                Err(fault) => Err(fault),
            },
            Err(job) => {
                shard.counters().encodes_held_up.add(1);
                aside::run(job)
            }
        };
        self.step(|exchange, cx| exchange.encoded(cx, encoded))
    }

    /// Lets the exchange take what came of the reply.
    fn give_reply(&mut self, eof: bool) -> Result<Want, Broken> {
        let mut unread = match &mut self.reply {
            Some(reply) => std::mem::take(&mut reply.unread),
            None => BytesMut::new(),
        };
        let want = self.step(|exchange, cx| exchange.engine_bytes(cx, &mut unread, eof))?;
        let fault = self.exchange.reply_fault();
        if let Some(reply) = &mut self.reply {
            reply.unread = unread;
            if fault.is_some() || !matches!(want, Want::EngineBytes) {
                let fault = fault.as_ref().map(|fault| (fault, eof));
                self.shard.pool.judge(reply, fault, &mut self.trail);
            }
        }
        match want {
            Want::EngineBytes if eof => {
                self.reply = None;
                let message = "the engine's reply ended too early: send the request again";
                self.engine_failed(Fault::new(FaultKind::EngineBadReply, message))
            }
            Want::EngineBytes => Ok(Want::EngineBytes),
            next => {
                // The engine is free for others while this one is recorded and written.
                if eof {
                    self.reply = None;
                }
                self.release_engine();
                Ok(next)
            }
        }
    }

    fn engine_failed(&mut self, fault: Fault) -> Result<Want, Broken> {
        self.reply = None;
        let want = self.step(|exchange, cx| exchange.engine_failed(cx, &fault))?;
        // Of tries that are followed by another the pool has counted the failure.
        self.shard.counters().faults.add(u64::from(!matches!(want, Want::Engine(_))));
        Ok(want)
    }

    pub(super) fn release_engine(&mut self) {
        if let Some(reply) = self.reply.take()
            && self.exchange.engine_reusable()
        {
            self.shard.pool.keep(reply);
        }
    }
}
