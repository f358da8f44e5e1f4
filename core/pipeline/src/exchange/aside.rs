//! Encodes that take long enough to hold up a shard: they are done beside it.

use std::fmt;
use std::sync::Arc;

use super::counts::Counts;
use super::prompt::foreign_tokens;
use crate::fault::Fault;
use crate::limits::ENCODE_INLINE_BYTES;
use crate::render::{Draft, Model, Stretch};
use crate::turn::Message;

/// Text to encode. Any thread may [`EncodeJob::run`] it.
pub struct EncodeJob {
    model: Arc<Model>,
    draft: Box<Draft>,
    /// Messages of which the assistant's texts are to be counted.
    messages: Vec<Message>,
}

/// What came of a job.
pub struct Encoded {
    pub(super) stretch: Stretch,
    pub(super) foreign_tokens: u32,
}

impl EncodeJob {
    /// The job of encoding this, where it is too long to be done at once: then the draft is taken.
    pub(super) fn of(
        model: &Arc<Model>,
        draft: &mut Option<Draft>,
        messages: &[Message],
    ) -> Option<Self> {
        let draft = draft.take_if(|draft| draft.bytes() > ENCODE_INLINE_BYTES)?;
        Some(Self { model: model.clone(), draft: Box::new(draft), messages: messages.to_vec() })
    }

    /// Bytes of its text.
    pub fn bytes(&self) -> usize {
        self.draft.bytes()
    }

    /// Does it. Takes about 10 ms for each MB of text.
    pub fn run(self) -> Result<Encoded, Fault> {
        let Self { model, draft, messages } = self;
        let foreign_tokens = foreign_tokens(&model, &Counts::default(), &messages)?;
        Ok(Encoded { stretch: draft.encode(&model)?, foreign_tokens })
    }
}

impl fmt::Debug for EncodeJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncodeJob").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}
