//! vLLM's token route, `/inference/v1/generate`.

use rollgate_pipeline::id::TokenId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::body::{Choice, Usage, prompt_logprobs};
use super::params::{Params, known_model, play, request_id};
use super::{bad, read, refusal};
use crate::engine::answer::{Answer, Answered};
use crate::engine::serve::Request;
use crate::engine::stage::Stage;

/// What the engine puts before the caller's request id.
const ID_PREFIX: &str = "generate-tokens-";

#[derive(Deserialize)]
struct Generate {
    request_id: Option<String>,
    token_ids: Vec<TokenId>,
    sampling_params: Params,
    model: Option<String>,
    #[serde(default)]
    return_token_ids: Option<bool>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    output_mode: Option<String>,
    cache_salt: Option<String>,
}

pub(super) async fn generate(stage: &Stage, request: &Request) -> Answered {
    let call: Generate = read(request)?;
    known_model(stage, call.model.as_deref())?;
    if call.token_ids.is_empty() {
        let message = "List should have at least 1 item after validation, not 0";
        return Err(refusal(400, "Bad Request", Some("body.token_ids"), message));
    }
    if call.stream == Some(true) || call.output_mode.is_some_and(|mode| mode != "tokens") {
        return Err(bad("the scripted engine has no `stream` and only the output mode `tokens`"));
    }
    fits(stage, call.token_ids.len(), call.sampling_params.max_tokens.is_some())?;
    let id = request_id(request, call.request_id, &call.token_ids);
    let (wanted, of_prompt) = (call.sampling_params.logprobs, call.sampling_params.prompt_logprobs);
    let echoes = call.return_token_ids == Some(true);
    // Aborts name the prefixed id, so that is what the call runs under.
    let id = format!("{ID_PREFIX}{id}");
    let ask = call.sampling_params.ask(stage, id, call.token_ids, call.cache_salt)?;
    let sampled = play(stage, &ask).await?;
    let body = Generated {
        request_id: &ask.request_id,
        model: &stage.model.name,
        created: 0,
        output_mode: "tokens",
        choices: [Choice::new(stage, &ask, &sampled, wanted)],
        usage: Usage::new(&ask, &sampled),
        prompt_token_ids: echoes.then_some(&ask.prompt),
        prompt_logprobs: of_prompt.map(|_| prompt_logprobs(stage, &ask.prompt)),
        prompt_token_id_logprobs: (),
        mm_placeholders: (),
        metrics: (),
        kv_transfer_params: (),
        ec_transfer_params: (),
    };
    Ok(Answer::json(200, &body).faulty(sampled.fault.as_ref()))
}

/// The token route's three overflow errors.
fn fits(stage: &Stage, length: usize, budgeted: bool) -> Result<(), Answer> {
    let limit = stage.model.max_context as usize;
    match (length.cmp(&limit), budgeted) {
        (std::cmp::Ordering::Less, _) => Ok(()),
        (std::cmp::Ordering::Greater, false) => Err(bad(&format!(
            "Input length ({length}) exceeds model's maximum context length ({limit})."
        ))),
        (std::cmp::Ordering::Greater, true) => Err(bad(&format!(
            "The decoder prompt (length {length}) is longer than the maximum model \
             length of {limit}."
        ))),
        (std::cmp::Ordering::Equal, _) => Err(bad(&format!(
            "The decoder prompt (length {length}) plus the number of requested output tokens \
             (at least 1) is longer than the maximum model length of {limit}."
        ))),
    }
}

#[derive(Serialize)]
struct Generated<'a> {
    request_id: &'a str,
    model: &'a str,
    created: u64,
    output_mode: &'static str,
    choices: [Choice<'a>; 1],
    usage: Usage,
    prompt_token_ids: Option<&'a Vec<TokenId>>,
    prompt_logprobs: Option<Value>,
    prompt_token_id_logprobs: (),
    mm_placeholders: (),
    metrics: (),
    kv_transfer_params: (),
    ec_transfer_params: (),
}
