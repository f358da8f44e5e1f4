//! Graders on the host and behind HTTP: JSON in, JSON out.

use base64::Engine as _;
use rollgate_pipeline::record::Reward;
use serde_json::{Map, Value, json};

use super::{Bench, Evaluate, Grader};
use crate::attempt::about::told;
use crate::attempt::artifacts::{self, Artifact, Found};
use crate::attempt::inside::Inside;
use crate::host::{self, HostError};
use crate::limits;
use crate::outcome::Reason;
use crate::post::post;
use crate::reward;
use crate::runtime::{Halt, guard};

/// Asks the grader; its answer is `{reward, parts?}`.
pub(super) async fn graded(
    inside: &Inside<'_>,
    evaluate: &Evaluate,
    taken: &[Artifact],
    bench: &Bench<'_>,
) -> Result<Result<Reward, Reason>, Halt> {
    let deadline = evaluate.timeout().saturating_add(limits::SLACK);
    let ask = async { Ok(asked(inside, evaluate, taken, bench).await) };
    let answer = guard("evaluate", deadline, inside.cancel, ask).await?;
    Ok(answer.and_then(|answer| {
        reward::answered(&answer)
            .map_err(|what| Reason::new("reward_unusable", format_args!("the answer {what}")))
    }))
}

async fn asked(
    inside: &Inside<'_>,
    evaluate: &Evaluate,
    taken: &[Artifact],
    bench: &Bench<'_>,
) -> Result<Value, Reason> {
    let mut body = told("evaluate", bench.about, &bench.ended(), bench.task)
        .map_err(|e| Reason::new("evaluate", e))?;
    match &evaluate.grader {
        Grader::Program(program) => {
            let dir = bench.logs.join("artifacts");
            let mut found = Found { files: taken.to_vec(), left_out: Vec::new() };
            artifacts::keep(&dir, &inside.workdir, &mut found).await?;
            body.insert("artifacts".to_owned(), json!(dir));
            body.insert("logs".to_owned(), json!(bench.logs));
            let (argv, body) = (program.argv(), Value::Object(body));
            let answer = host::ask(&argv, &evaluate.env, &body, evaluate.timeout()).await;
            answer.map_err(|error| match error {
                HostError::Late(_) => Reason::new("evaluate_timeout", error),
                error => Reason::new("evaluate_program", error),
            })
        }
        Grader::Url { url, headers } => {
            body.insert("artifacts".to_owned(), Value::Object(sent(inside, taken)));
            let body = Value::Object(body);
            let answer = post(url, headers, &body, evaluate.timeout()).await;
            let answer = answer.map_err(|e| Reason::new("evaluate_url", e))?;
            serde_json::from_slice(&answer).map_err(|e| {
                Reason::new("reward_unusable", format_args!("the answer of {url} is not JSON: {e}"))
            })
        }
        // `Evaluate::sandbox` says so.
        _ => Err(Reason::new("evaluate", "a grader in a sandbox")),
    }
}

/// The files by path, relative where they lie in the work directory: as text where they are UTF-8.
fn sent(inside: &Inside<'_>, taken: &[Artifact]) -> Map<String, Value> {
    let one = |file: &Artifact| {
        let inner = file.path.strip_prefix(&inside.workdir).and_then(|rest| rest.strip_prefix('/'));
        let contents = match std::str::from_utf8(&file.contents) {
            Ok(text) => json!({"text": text}),
            Err(_) => {
                let engine = base64::engine::general_purpose::STANDARD;
                json!({"base64": engine.encode(&file.contents)})
            }
        };
        (inner.unwrap_or(&file.path).to_owned(), contents)
    };
    taken.iter().map(one).collect()
}
