//! vLLM's replies, read straight into columns.

use super::{Choice, Details, Reply, Usage, listed};
use crate::engine::check::{Matched, Span};
use crate::engine::numbers::{Column, spelled_id};
use crate::engine::pull::{Pull, Slot};
use crate::id::TokenId;

/// Reads a reply whose choices have log-probabilities of this kind; `None`: see [`Pull`].
pub fn read(
    reply: &[u8],
    logprobs: fn(&mut Pull<'_>) -> Option<Option<Column>>,
) -> Option<Reply<Choice<Column>>> {
    Pull::whole(reply, |pull| {
        let (mut choices, mut counts) = (Slot::default(), Slot::default());
        pull.object(|pull, key| match key {
            b"choices" => {
                let mut read = Vec::new();
                pull.array(|pull| {
                    read.push(choice(pull, logprobs)?);
                    Some(())
                })?;
                choices.put(read)
            }
            b"usage" => counts.put(pull.nullable(usage)?),
            _ => pull.skip(),
        })?;
        Some(Reply { choices: choices.0.unwrap_or_default(), usage: counts.0.flatten() })
    })
}

fn choice(
    pull: &mut Pull<'_>,
    logprobs: fn(&mut Pull<'_>) -> Option<Option<Column>>,
) -> Option<Choice<Column>> {
    let (mut ids, mut finish, mut stop) = (Slot::default(), Slot::default(), Slot::default());
    let (mut column, mut spans) = (Slot::default(), Slot::default());
    pull.object(|pull, key| match key {
        b"token_ids" => ids.put(pull.nullable(Pull::ids)?),
        b"finish_reason" => finish.put(pull.nullable(Pull::text)?.map(String::from)),
        b"stop_reason" => stop.put(pull.nullable(Matched::pull)?),
        b"logprobs" => column.put(pull.nullable(logprobs)?.flatten()),
        b"weight_versions" => spans.put(pull.nullable(Span::pull_all)?),
        _ => pull.skip(),
    })?;
    Some(Choice {
        token_ids: ids.0.flatten(),
        finish_reason: finish.0.flatten(),
        stop_reason: stop.0.flatten(),
        logprobs: column.0.flatten(),
        weight_versions: spans.0.flatten(),
    })
}

fn usage(pull: &mut Pull<'_>) -> Option<Usage> {
    let (mut prompt, mut sampled, mut more) = (Slot::default(), Slot::default(), Slot::default());
    pull.object(|pull, key| match key {
        b"prompt_tokens" => prompt.put(pull.nullable(Pull::integer)?),
        b"completion_tokens" => sampled.put(pull.nullable(Pull::integer)?),
        b"prompt_tokens_details" => more.put(pull.nullable(details)?),
        _ => pull.skip(),
    })?;
    Some(Usage {
        prompt_tokens: prompt.0.flatten(),
        completion_tokens: sampled.0.flatten(),
        prompt_tokens_details: more.0.flatten(),
    })
}

fn details(pull: &mut Pull<'_>) -> Option<Details> {
    let mut cached = Slot::default();
    pull.object(|pull, key| match key {
        b"cached_tokens" => cached.put(pull.nullable(Pull::integer)?),
        _ => pull.skip(),
    })?;
    Some(Details { cached_tokens: cached.0.flatten() })
}

/// `logprobs` of the tokens route.
pub fn contents(pull: &mut Pull<'_>) -> Option<Option<Column>> {
    let mut content = Slot::default();
    pull.object(|pull, key| match key {
        b"content" => content.put(pull.nullable(|pull| {
            let mut column = Column::with_room();
            pull.array(|pull| named(pull, &mut column))?;
            Some(column)
        })?),
        _ => pull.skip(),
    })?;
    Some(content.0.flatten())
}

/// One entry of `content`, as vLLM writes it to the letter, which is worth a guess.
fn usual(pull: &mut Pull<'_>) -> Option<(TokenId, f32)> {
    let begin = pull.begin();
    let eat = |pull: &mut Pull<'_>, text: &[u8]| pull.eat_all(text).then_some(());
    eat(pull, br#"{"token_id":"#)?;
    let id = pull.integer()?;
    eat(pull, br#","logprob":"#)?;
    let logprob = pull.float()?;
    eat(pull, br#","rank":"#)?;
    pull.integer()?;
    let end = pull.place();
    eat(pull, br#","top_logprobs":"#)?;
    let repeated = pull.eat_repeated(begin, end);
    (repeated && pull.eat_all(b"}")).then_some((id, logprob))
}

/// One entry of `content`: `{"token_id":1,"logprob":-0.5,"rank":1,"top_logprobs":[…]}`.
fn named(pull: &mut Pull<'_>, column: &mut Column) -> Option<()> {
    if let Some((id, logprob)) = pull.attempt(usual) {
        column.ids.push(Some(id));
        column.logprobs.push(Some(logprob));
        return Some(());
    }
    let (mut id, mut token, mut logprob) = (Slot::default(), Slot::default(), Slot::default());
    let begin = pull.begin();
    let mut end = begin;
    pull.object(|pull, key| {
        match key {
            b"token_id" => id.put(pull.nullable(Pull::integer)?)?,
            b"token" => token.put(pull.nullable(Pull::text)?)?,
            b"logprob" => logprob.put(pull.nullable(Pull::float)?)?,
            b"top_logprobs" if pull.eat_repeated(begin, end) => {}
            _ => pull.skip()?,
        }
        end = pull.place();
        Some(())
    })?;
    let spelled = || token.0.flatten().as_deref().and_then(spelled_id);
    column.ids.push(id.0.flatten().or_else(spelled));
    column.logprobs.push(logprob.0.flatten());
    Some(())
}

/// `logprobs` of the completions route.
pub fn lists(pull: &mut Pull<'_>) -> Option<Option<Column>> {
    let (mut tokens, mut logprobs) = (Slot::default(), Slot::default());
    pull.object(|pull, key| match key {
        b"tokens" => {
            let mut ids = Vec::new();
            pull.array(|pull| {
                ids.push(spelled_id(&pull.text()?));
                Some(())
            })?;
            tokens.put(ids)
        }
        b"token_logprobs" => {
            let mut read = Vec::new();
            pull.array(|pull| {
                read.push(pull.nullable(Pull::float)?);
                Some(())
            })?;
            logprobs.put(read)
        }
        _ => pull.skip(),
    })?;
    Some(Some(listed(tokens.0.unwrap_or_default(), logprobs.0.unwrap_or_default())))
}
