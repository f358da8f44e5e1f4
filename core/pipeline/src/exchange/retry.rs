//! From a request's body to a call of its own, or to what another exchange already has; and what
//! becomes of an answer that did not reach its agent.

use std::rc::Rc;

use bytes::Bytes;

use super::budget::Room;
use super::prepare::prepare;
use super::ticket::{self, Adoption, Course, Kept, Key};
use super::{Context, Exchange, Stage, Task, Want};
use crate::fault::{Fault, FaultKind};
use crate::limits::LOOK_AGAIN_MS;
use crate::planted::{self, Bug};
use crate::protocol::{self, Past};
use crate::record::{Delivery, Record};
use crate::turn::{Asked, ReplyForm};

impl Exchange {
    /// The body is whole.
    pub(super) fn begin(&mut self, cx: &mut Context<'_>, body: Bytes) -> Want {
        if self.task == Task::Count {
            return self.count(cx, &body);
        }
        let key = ticket::key(&self.lineage, self.dialect, &body);
        let now_ms = cx.now.mono_ms;
        if let Some(adoption) = cx.session.tickets.adopt(&key, now_ms) {
            let form = adoption.orphan().form;
            self.form = Some(form);
            self.passage.adopted = true;
            self.passage.replayed = matches!(adoption.orphan().course(), Course::Answered(_));
            // It can be taken over in its turn.
            self.take_ticket(cx, key, form);
            return self.look_after(cx, adoption, body);
        }
        let room = match cx.session.room() {
            Ok(Room::Tokens(room)) => room,
            Ok(Room::Wait) => {
                // Signs of life go out while it waits. What cannot be read is refused at its turn.
                if self.form.is_none() {
                    self.form = self.read_body(&body, cx).ok().map(|asked| {
                        self.model = asked.model;
                        asked.form
                    });
                }
                self.stage = Stage::Queue(body);
                return Want::Wait { ms: LOOK_AGAIN_MS };
            }
            Err(fault) => return self.fail(cx, &fault),
        };
        let asked = self.read_body(&body, cx);
        let prepared = asked.and_then(|asked| prepare(asked, room, self.asker(), cx));
        match prepared {
            Ok(prepared) => {
                self.form = Some(prepared.form);
                self.model.clone_from(&prepared.model);
                self.take_ticket(cx, key, prepared.form);
                self.call_engine(cx, Box::new(prepared))
            }
            Err(fault) => self.fail(cx, &fault),
        }
    }

    /// The body, in canonical form.
    pub(super) fn read_body(&self, body: &[u8], cx: &Context<'_>) -> Result<Asked, Fault> {
        let past: &dyn Past = &*cx.session;
        match self.task {
            Task::Compact => protocol::responses::read_compact(body, past),
            Task::Turn | Task::Count => self.dialect.read(body, past),
        }
    }

    /// Makes the exchange known to others that ask for the same.
    fn take_ticket(&mut self, cx: &mut Context<'_>, key: Key, form: ReplyForm) {
        let ticket = cx.session.tickets.issue(key, form, cx.now.mono_ms);
        // Its agent may have left while it waited.
        if self.gone {
            ticket.gone();
        }
        self.ticket = Some(ticket);
    }

    /// Gives the agent what came of the orphan that was adopted, or waits for it.
    pub(super) fn look_after(
        &mut self,
        cx: &mut Context<'_>,
        adoption: Adoption,
        body: Bytes,
    ) -> Want {
        match adoption.orphan().course() {
            Course::Running => {
                self.stage = Stage::Adopt { adoption, body };
                Want::Wait { ms: LOOK_AGAIN_MS }
            }
            Course::Answered(_) if planted::on(Bug::RetrySamplesAnew) => {
                adoption.take_over();
                self.ticket = None;
                self.begin(cx, body)
            }
            Course::Answered(kept) => {
                adoption.take_over();
                self.hand_out(cx, kept)
            }
            Course::Failed(fault) => self.fail(cx, &fault),
            Course::Over => {
                drop(adoption);
                self.ticket = None;
                self.begin(cx, body)
            }
        }
    }

    /// The answer is recorded: it may leave.
    pub(super) fn hand_out(&mut self, cx: &mut Context<'_>, kept: Rc<Kept>) -> Want {
        let refusal = match self.passage.cancelled {
            true => Some(closing()),
            false => kept.answer.refusal(self.dialect),
        };
        if !self.passage.cancelled && self.fault.is_none() {
            self.fault.clone_from(&refusal);
        }
        // An agent that was given a torso may have ended over it.
        cx.session.last_fault = self.fault.as_ref().map(|fault| fault.kind);
        // What was cut short because nobody came back is given to nobody.
        if let Some(ticket) = self.ticket.as_ref().filter(|_| !self.given_up) {
            ticket.answered(kept.clone());
        }
        let bytes = match &refusal {
            Some(fault) => self.frame_fault(fault),
            None => self.frame_answer(&kept.answer),
        };
        self.stage = Stage::Write(Some(kept));
        Want::Agent(bytes)
    }

    /// The answer's way to the agent is over.
    pub(super) fn delivered(&mut self, cx: &mut Context<'_>, kept: &Kept) -> Want {
        let refused = self.passage.cancelled || kept.answer.refusal(self.dialect).is_some();
        let whole = !self.gone && !refused;
        if let Some(ticket) = self.ticket.as_ref().filter(|_| !whole) {
            ticket.keep_until(cx.now.mono_ms.saturating_add(cx.gatehouse.sessions.orphan_grace_ms));
        }
        if !kept.ended(whole) || planted::on(Bug::DeliveryLost) {
            return self.done();
        }
        let record = Record::Delivery(Delivery { turn: kept.turn, whole });
        match cx.session.take_over(record) {
            Ok(frame) => {
                self.stage = Stage::Deliver;
                Want::Durable(frame)
            }
            // The answer is out, or nobody waits for it.
            Err(fault) => {
                self.fault = Some(fault);
                self.done()
            }
        }
    }

    pub(super) fn done(&mut self) -> Want {
        self.stage = Stage::Over;
        Want::Done { keep_alive: self.keep_alive && !self.gone }
    }
}

/// Why an agent gets no answer to a call that was cancelled.
pub(super) fn closing() -> Fault {
    let message = "the session is being closed: this call was cancelled";
    Fault::new(FaultKind::SessionClosed, message)
}
