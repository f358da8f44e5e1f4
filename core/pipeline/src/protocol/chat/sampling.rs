//! Sampling parameters of a request.

use serde_json::{Map, Value};

use super::request::{RawRequest, bad};
use crate::fault::Fault;
use crate::turn::Sampling;

/// The parameters, within the ranges that engines take: what they would refuse is better refused
/// here, with the field's name.
pub(super) fn sampling(raw: &mut RawRequest) -> Result<Sampling, Fault> {
    let max_tokens = match (raw.max_completion_tokens, raw.max_tokens) {
        (Some(0), _) => return Err(bad("max_completion_tokens", "at least 1 is needed")),
        (None, Some(0)) => return Err(bad("max_tokens", "at least 1 is needed")),
        (newer, older) => newer.or(older),
    };
    within("temperature", raw.temperature, 0.0, f64::MAX)?;
    within("top_p", raw.top_p, f64::MIN_POSITIVE, 1.0)?;
    within("min_p", raw.min_p, 0.0, 1.0)?;
    within("presence_penalty", raw.presence_penalty, -2.0, 2.0)?;
    within("frequency_penalty", raw.frequency_penalty, -2.0, 2.0)?;
    if raw.top_k.is_some_and(|top_k| top_k < -1) {
        return Err(bad("top_k", "a number of candidates is needed; -1 or 0 is off"));
    }
    Ok(Sampling {
        temperature: raw.temperature,
        top_p: raw.top_p,
        top_k: raw.top_k,
        min_p: raw.min_p,
        presence_penalty: raw.presence_penalty,
        frequency_penalty: raw.frequency_penalty,
        // More than any context holds is the same as no bound.
        max_tokens: max_tokens.map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
        seed: raw.seed,
        stop: stop(raw.stop.take())?,
        extra: extra(raw),
    })
}

/// Refuses a value that is not within these bounds.
pub(in crate::protocol) fn within(
    name: &str,
    value: Option<f64>,
    least: f64,
    most: f64,
) -> Result<(), Fault> {
    if value.is_none_or(|value| (least..=most).contains(&value)) {
        return Ok(());
    }
    let why = match name {
        "temperature" => "0 or more is needed",
        "top_p" => "more than 0 and at most 1 is needed",
        "min_p" => "0 to 1 is needed",
        _ => "-2 to 2 is needed",
    };
    Err(bad(name, why))
}

/// Stop texts. Empty ones stop nothing, and engines refuse them.
fn stop(value: Option<Value>) -> Result<Vec<String>, Fault> {
    let list = match value {
        None => Vec::new(),
        Some(Value::Array(list)) => list,
        Some(one) => vec![one],
    };
    let texts = list.into_iter().map(|item| match item {
        Value::String(text) => Ok(text),
        _ => Err(bad("stop", "a text or a list of texts is needed")),
    });
    texts.filter(|text| !matches!(text, Ok(text) if text.is_empty())).collect()
}

/// Switches of engines that agents set at the top level, a closed list, and `sampling.extra`, which
/// wins.
fn extra(raw: &mut RawRequest) -> Map<String, Value> {
    let switches = [
        ("structured_outputs", &mut raw.structured_outputs),
        ("guided_json", &mut raw.guided_json),
        ("guided_regex", &mut raw.guided_regex),
        ("guided_choice", &mut raw.guided_choice),
        ("guided_grammar", &mut raw.guided_grammar),
        ("logit_bias", &mut raw.logit_bias),
        ("stop_token_ids", &mut raw.stop_token_ids),
        ("repetition_penalty", &mut raw.repetition_penalty),
        ("min_tokens", &mut raw.min_tokens),
        ("ignore_eos", &mut raw.ignore_eos),
        ("bad_words", &mut raw.bad_words),
        ("allowed_token_ids", &mut raw.allowed_token_ids),
    ];
    let set = switches.into_iter().filter_map(|(name, slot)| Some((name.to_owned(), slot.take()?)));
    let mut extra: Map<String, Value> = set.collect();
    extra.extend(raw.sampling.take().and_then(|own| own.extra).unwrap_or_default());
    extra
}
