//! Asking an engine, and waiting for another time to ask.

use std::convert::identity;
use std::time::Duration;

use bytes::BytesMut;
use rollgate_pipeline::engine::EngineRequest;
use rollgate_pipeline::exchange::{Exchange, Want};
use rollgate_pipeline::fault::{Fault, FaultKind};
use rollgate_pipeline::planted::{self, Bug};

use super::watch::Pause;
use super::{Broken, Course};
use crate::pool::Asked;
use crate::stream::within;

impl Course<'_> {
    pub(super) async fn engine(&mut self, request: EngineRequest) -> Result<Want, Broken> {
        self.release_engine();
        let (shard, session) = (self.shard.clone(), self.stay.id.clone());
        let asked = Asked::default();
        let call = shard.pool.call(&session, &request, &asked);
        match self.watched(Pause::Engine(&asked), call).await?.and_then(identity) {
            Ok(reply) => {
                self.reply = Some(reply);
                self.give_reply(false)
            }
            Err(fault) => self.engine_failed(fault),
        }
    }

    pub(super) async fn engine_bytes(&mut self) -> Result<Want, Broken> {
        let Some(mut reply) = self.reply.take() else {
            let message = "an engine's reply was asked for before its request";
            return self.engine_failed(Fault::new(FaultKind::Internal, message));
        };
        let shard = self.shard.clone();
        let asked = reply.asked();
        let read = shard.pool.more(&mut reply);
        match self.watched(Pause::Engine(&asked), read).await?.and_then(identity) {
            Ok(eof) => {
                self.reply = Some(reply);
                self.give_reply(eof)
            }
            Err(fault) => {
                if planted::on(Bug::UnfinishedKept) {
                    shard.pool.keep(reply);
                }
                self.engine_failed(fault)
            }
        }
    }

    pub(super) async fn wait(&mut self, ms: u64) -> Result<Want, Broken> {
        let cell = self.stay.cell().clone();
        let ended = cell.ended();
        let other = cell.left.until(|| cell.ended() != ended);
        match self.watched(Pause::Parked, within(Duration::from_millis(ms), other)).await? {
            Ok(_) => self.step(Exchange::woken),
            Err(fault) => self.engine_failed(fault),
        }
    }

    /// Lets the exchange take what came of the reply.
    fn give_reply(&mut self, eof: bool) -> Result<Want, Broken> {
        let mut unread = match &mut self.reply {
            Some(reply) => std::mem::take(&mut reply.unread),
            None => BytesMut::new(),
        };
        let want = self.step(|exchange, cx| exchange.engine_bytes(cx, &mut unread, eof))?;
        if let Some(reply) = &mut self.reply {
            reply.unread = unread;
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
        self.shard.counters().faults.add(1);
        self.step(|exchange, cx| exchange.engine_failed(cx, &fault))
    }

    pub(super) fn release_engine(&mut self) {
        if let Some(reply) = self.reply.take()
            && self.exchange.engine_reusable()
        {
            self.shard.pool.keep(reply);
        }
    }
}
