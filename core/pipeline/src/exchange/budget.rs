//! What a session's budget still allows, with calls that run at the same time.
//!
//! Each call reserves a turn and the tokens it may sample until it is recorded, so that parallel
//! calls together stay within the budget. A call for which nothing is left only because others hold
//! it waits for them: they may use less.

use std::cell::Cell;
use std::rc::Rc;

use crate::fault::{Fault, FaultKind};
use crate::record::Budget;

/// What calls under way have reserved.
#[derive(Default)]
pub(super) struct Reservations {
    turns: Cell<u32>,
    tokens: Cell<u64>,
}

/// The reservation of one call; given back when dropped.
pub(super) struct Reserved {
    of: Rc<Reservations>,
    tokens: u64,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.of.turns.set(self.of.turns.get().saturating_sub(1));
        self.of.tokens.set(self.of.tokens.get().saturating_sub(self.tokens));
    }
}

/// What a session has used up.
#[derive(Clone, Copy)]
pub(super) struct Used {
    pub(super) turns: u32,
    pub(super) sampled_tokens: u64,
}

/// What is left for one more call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Room {
    /// So many tokens.
    Tokens(u32),
    /// Nothing, until a call under way is over.
    Wait,
}

impl Reservations {
    /// Reserves a turn and so many tokens.
    pub(super) fn take(self: &Rc<Self>, tokens: u32) -> Reserved {
        let tokens = u64::from(tokens);
        self.turns.set(self.turns.get().saturating_add(1));
        self.tokens.set(self.tokens.get().saturating_add(tokens));
        Reserved { of: self.clone(), tokens }
    }

    /// What is left for one more call; a fault when no call can follow any more.
    pub(super) fn room(&self, budget: &Budget, used: Used) -> Result<Room, Fault> {
        let spent = |most: u64, what: &str| {
            let message = format!("the session's budget of {most} {what} is used up");
            Err(Fault::new(FaultKind::Budget, message))
        };
        let mut wait = false;
        if let Some(most) = budget.turns {
            if used.turns >= most {
                return spent(u64::from(most), "turns");
            }
            wait |= used.turns.saturating_add(self.turns.get()) >= most;
        }
        let Some(most) = budget.tokens else {
            return Ok(if wait { Room::Wait } else { Room::Tokens(u32::MAX) });
        };
        if used.sampled_tokens >= most {
            return spent(most, "sampled tokens");
        }
        let left = most - used.sampled_tokens;
        let free = left.saturating_sub(self.tokens.get());
        Ok(match u32::try_from(free).unwrap_or(u32::MAX) {
            0 => Room::Wait,
            _ if wait => Room::Wait,
            free => Room::Tokens(free),
        })
    }
}
