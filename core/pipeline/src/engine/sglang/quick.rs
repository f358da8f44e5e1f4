//! SGLang's replies, read straight into columns.

use super::{Meta, Reason, Reply};
use crate::engine::check::{Matched, Span};
use crate::engine::numbers::Column;
use crate::engine::pull::{Pull, Slot};

/// Reads a reply; `None`: see [`Pull`].
pub fn read(reply: &[u8]) -> Option<Reply> {
    Pull::whole(reply, |pull| {
        let (mut ids, mut told) = (Slot::default(), Slot::default());
        pull.object(|pull, key| match key {
            b"output_ids" => ids.put(pull.nullable(Pull::ids)?),
            b"meta_info" => told.put(meta(pull)?),
            _ => pull.skip(),
        })?;
        Some(Reply { output_ids: ids.0.flatten(), meta_info: told.0? })
    })
}

fn meta(pull: &mut Pull<'_>) -> Option<Meta> {
    let (mut finish, mut prompt, mut sampled) = (Slot::default(), Slot::default(), Slot::default());
    let (mut cached, mut version, mut spans) = (Slot::default(), Slot::default(), Slot::default());
    let mut column = Slot::default();
    pull.object(|pull, key| match key {
        b"finish_reason" => finish.put(pull.nullable(reason)?),
        b"prompt_tokens" => prompt.put(pull.nullable(Pull::integer)?),
        b"completion_tokens" => sampled.put(pull.nullable(Pull::integer)?),
        b"cached_tokens" => cached.put(pull.nullable(Pull::integer)?),
        b"weight_version" => version.put(pull.nullable(Pull::text)?.map(String::from)),
        b"weight_versions" => spans.put(pull.nullable(Span::pull_all)?),
        b"output_token_logprobs" => column.put(pull.nullable(triples)?),
        _ => pull.skip(),
    })?;
    Some(Meta {
        finish_reason: finish.0.flatten(),
        prompt_tokens: prompt.0.flatten(),
        completion_tokens: sampled.0.flatten(),
        cached_tokens: cached.0.flatten(),
        weight_version: version.0.flatten(),
        weight_versions: spans.0.flatten(),
        output_token_logprobs: column.0.flatten(),
    })
}

fn reason(pull: &mut Pull<'_>) -> Option<Reason> {
    let (mut kind, mut matched) = (Slot::default(), Slot::default());
    pull.object(|pull, key| match key {
        b"type" => kind.put(pull.text()?.into_owned()),
        b"matched" => matched.put(pull.nullable(Matched::pull)?),
        _ => pull.skip(),
    })?;
    Some(Reason { kind: kind.0?, matched: matched.0.flatten() })
}

/// `[[logprob, id, text], …]`.
fn triples(pull: &mut Pull<'_>) -> Option<Column> {
    let mut column = Column::with_room();
    pull.array(|pull| {
        let mut place = 0;
        pull.array(|pull| {
            place += 1;
            match place {
                1 => column.logprobs.push(pull.nullable(Pull::float)?),
                2 => column.ids.push(Some(pull.integer()?)),
                3 => pull.skip()?,
                _ => return None,
            }
            Some(())
        })?;
        (place == 3).then_some(())
    })?;
    Some(column)
}
