//! From a request's body to a call of its own, or to what another exchange already has; and what
//! becomes of an answer that did not reach its agent.

use std::rc::Rc;

use super::aside::{EncodeJob, Encoded};
use super::budget::Room;
use super::prepare::{Extent, extent, prepare};
use super::ticket::{self, Adoption, Course, Kept, Key};
use super::{Context, Exchange, Stage, Task, Want};
use crate::fault::{Fault, FaultKind};
use crate::ingest::{Arrived, Request};
use crate::limits::LOOK_AGAIN_MS;
use crate::planted::{self, Bug};
use crate::protocol::{Past, responses};
use crate::record::{Delivery, Record};
use crate::turn::ReplyForm;

/// A request whose prompt is being encoded.
pub(super) struct Halted {
    pub(super) extent: Extent,
    /// Of one that asks the engine; none where tokens are counted.
    pub(super) key: Option<Key>,
}

impl Exchange {
    /// The body is whole.
    pub(super) fn arrived(&mut self, cx: &mut Context<'_>, body: Arrived) -> Want {
        let mut seen = std::mem::take(&mut cx.session.seen);
        let past: &dyn Past = &*cx.session;
        let mut request = seen.read(self.dialect, body, &mut cx.desk.shelf, past);
        cx.session.seen = seen;
        self.passage.unseen_bytes = request.work.scanned_bytes as u64;
        match self.task {
            Task::Count => return self.count(cx, request.asked),
            Task::Compact => request.asked = request.asked.map(responses::compacted),
            Task::Turn => {}
        }
        self.begin(cx, Box::new(request))
    }

    /// The request was read.
    pub(super) fn begin(&mut self, cx: &mut Context<'_>, request: Box<Request>) -> Want {
        let key = ticket::key(&self.lineage, self.dialect, request.digest);
        let now_ms = cx.now.mono_ms;
        if let Some(adoption) = cx.session.tickets.adopt(&key, now_ms) {
            let form = adoption.orphan().form;
            self.form = Some(form);
            self.passage.adopted = true;
            self.passage.replayed = matches!(adoption.orphan().course(), Course::Answered(_));
            // It can be taken over in its turn.
            self.take_ticket(cx, key, form);
            return self.look_after(cx, adoption, request);
        }
        let room = match cx.session.room() {
            Ok(Room::Tokens(room)) => room,
            Ok(Room::Wait) => {
                // Signs of life go out while it waits. What cannot be read is refused at its turn.
                if let (None, Ok(asked)) = (self.form, &request.asked) {
                    self.model.clone_from(&asked.model);
                    self.form = Some(asked.form);
                }
                self.stage = Stage::Queue(request);
                return Want::Wait { ms: LOOK_AGAIN_MS };
            }
            Err(fault) => return self.fail(cx, &fault),
        };
        match request.asked.and_then(|asked| extent(asked, self.asker(), cx)) {
            Ok(mut extent) => {
                self.form = Some(extent.form());
                self.model.clone_from(extent.model());
                self.passage.head = extent.head();
                match extent.job(&cx.gatehouse.model) {
                    Some(job) => self.encode_aside(job, Halted { extent, key: Some(key) }),
                    None => self.ask(cx, extent, key, room),
                }
            }
            Err(fault) => self.fail(cx, &fault),
        }
    }

    /// The prompt is known: the engine is asked.
    fn ask(&mut self, cx: &mut Context<'_>, extent: Extent, key: Key, room: u32) -> Want {
        match prepare(extent, room, self.asker(), cx) {
            Ok(prepared) => {
                self.take_ticket(cx, key, prepared.form);
                self.call_engine(cx, Box::new(prepared))
            }
            Err(fault) => self.fail(cx, &fault),
        }
    }

    /// Lets what takes long be encoded beside the shard.
    pub(super) fn encode_aside(&mut self, job: EncodeJob, halted: Halted) -> Want {
        self.passage.encodes_aside += 1;
        self.stage = Stage::Encode(Box::new(halted));
        Want::Encode(job)
    }

    /// Goes on with what was encoded. Other turns of the session may have come and gone meanwhile:
    /// what it continues is still there, for turns are only ever added; its budget is asked again.
    pub(super) fn go_on(
        &mut self,
        cx: &mut Context<'_>,
        halted: Halted,
        encoded: Result<Encoded, Fault>,
    ) -> Want {
        let Halted { mut extent, key } = halted;
        let encoded = cx.session.admit(cx.gatehouse).and(encoded);
        let extent = match encoded {
            Ok(encoded) => {
                extent.put(encoded);
                extent
            }
            Err(fault) if key.is_none() => return self.count_failed(fault),
            Err(fault) => return self.fail(cx, &fault),
        };
        match key {
            Some(key) => self.ask_in_turn(cx, extent, key),
            None => self.counted(cx, extent),
        }
    }

    /// The prompt is known: the engine is asked as soon as the session's budget has room.
    pub(super) fn ask_in_turn(&mut self, cx: &mut Context<'_>, extent: Extent, key: Key) -> Want {
        // Nothing was sampled for it yet, and who asks again asks for itself.
        if self.gone {
            let message = "the agent left while its prompt was encoded";
            return self.refuse(&Fault::new(FaultKind::RequestTimeout, message));
        }
        match cx.session.room() {
            Ok(Room::Tokens(room)) => self.ask(cx, extent, key, room),
            Ok(Room::Wait) => {
                self.stage = Stage::Room(Box::new((extent, key)));
                Want::Wait { ms: LOOK_AGAIN_MS }
            }
            Err(fault) => self.fail(cx, &fault),
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
        request: Box<Request>,
    ) -> Want {
        match adoption.orphan().course() {
            Course::Running => {
                self.stage = Stage::Adopt { adoption, request };
                Want::Wait { ms: LOOK_AGAIN_MS }
            }
            Course::Answered(_) if planted::on(Bug::RetrySamplesAnew) => {
                adoption.take_over();
                self.ticket = None;
                self.begin(cx, request)
            }
            Course::Answered(kept) => {
                adoption.take_over();
                self.hand_out(cx, kept)
            }
            Course::Failed(fault) => self.fail(cx, &fault),
            Course::Over => {
                drop(adoption);
                self.ticket = None;
                self.begin(cx, request)
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
