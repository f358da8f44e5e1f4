//! Messages that were made of several items, one handle for equal ones.

use std::collections::HashMap;
use std::hash::BuildHasher;

use crate::turn::{Message, Role};

/// Handles of the model's messages.
#[derive(Default)]
pub(crate) struct Pool(HashMap<u64, Message>);

impl Pool {
    /// Puts the handle of an equal message in its place, or keeps this one.
    pub(super) fn share(&mut self, message: &mut Message) {
        let hash = self.hash(message);
        match self.0.get(&hash) {
            Some(kept) if kept == message => message.clone_from(kept),
            _ => _ = self.0.insert(hash, message.clone()),
        }
    }

    /// Lets go of all but these, where there are too many.
    pub(super) fn bound(&mut self, messages: &[Message]) {
        if self.0.len() > 2 * messages.len() + 64 {
            self.0.clear();
            // The model's messages, and results that tell of tools.
            let made = |message: &&Message| matches!(message.role, Role::Assistant | Role::Tool);
            for message in messages.iter().filter(made) {
                self.0.insert(self.hash(message), message.clone());
            }
        }
    }

    fn hash(&self, message: &Message) -> u64 {
        let calls = message.tool_calls.iter();
        let calls: Vec<_> = calls.map(|call| (&call.id, &call.name, &call.arguments)).collect();
        self.0.hasher().hash_one((&message.content, &message.reasoning, calls))
    }
}
