//! Grading in a sandbox that the agent never saw.

use rollgate_backends::Sandbox;
use rollgate_pipeline::record::Reward;

use super::Evaluate;
use super::grade::{Bench, Taken, excused, in_sandbox};
use crate::attempt::inside::Inside;
use crate::limits;
use crate::outcome::Reason;
use crate::pool::Held;
use crate::runtime::{Cancel, Halt, guard};

/// Makes a sandbox, grades in it, and destroys it in every case.
pub(super) async fn graded(
    evaluate: &Evaluate,
    image: Option<&str>,
    taken: &Taken<'_>,
    bench: &Bench<'_>,
) -> Result<Result<Reward, Reason>, Halt> {
    let held = made(evaluate, image, taken.from.cancel, bench).await?;
    let done = inside(held.sandbox(), evaluate, taken, bench).await;
    let id = held.sandbox().id().to_owned();
    let destroy = async { held.destroy().await.map_err(|e| Reason::new("destroy", e)) };
    if let Err(halt) = guard("destroy", limits::DESTROY, &Cancel::never(), destroy).await {
        tracing::warn!(sandbox = id, "not destroyed yet: {halt}");
    }
    done
}

async fn inside(
    sandbox: &dyn Sandbox,
    evaluate: &Evaluate,
    taken: &Taken<'_>,
    bench: &Bench<'_>,
) -> Result<Result<Reward, Reason>, Halt> {
    let fresh = Inside::new(sandbox, bench.task, taken.from.cancel);
    fresh.prepare(bench.task).await?;
    let graded = async {
        for file in taken.files {
            fresh.put(&moved(taken.from, &fresh, &file.path), &file.contents).await?;
        }
        in_sandbox(&fresh, evaluate, bench).await
    };
    let graded = graded.await;
    Ok(excused(&fresh, graded).await?.and_then(|graded| graded))
}

/// Where a file of the agent's sandbox goes: work directory and HOME are elsewhere, on some
/// backends.
fn moved(from: &Inside<'_>, to: &Inside<'_>, path: &str) -> String {
    let homes = (from.sandbox.home().to_owned(), to.sandbox.home().to_owned());
    for (from, to) in [(from.workdir.clone(), to.workdir.clone()), homes] {
        if let Some(rest) = path.strip_prefix(&from).filter(|rest| rest.starts_with('/')) {
            return format!("{to}{rest}");
        }
    }
    path.to_owned()
}

/// A sandbox that is made too late is destroyed by the pool as soon as it is there.
async fn made(
    evaluate: &Evaluate,
    image: Option<&str>,
    cancel: &Cancel,
    bench: &Bench<'_>,
) -> Result<Held, Halt> {
    let id = match bench.about.retry {
        0 => format!("{}.verifier", bench.about.attempt_id),
        retry => format!("{}.retry-{retry}.verifier", bench.about.attempt_id),
    };
    // Set-up and grading, each at its deadline.
    let setups = u32::try_from(bench.task.setup.len() + 1).unwrap_or(u32::MAX);
    let setup = limits::SETUP.saturating_mul(setups);
    let life = setup.saturating_add(evaluate.timeout()).saturating_add(limits::SANDBOX);
    let mut spec = bench.sandboxes.of(bench.task, life, id);
    if let Some(image) = image {
        spec.image = Some(image.to_owned());
    }
    let borrow =
        async { bench.pool.borrow(&spec).await.map_err(|e| Reason::new("verifier_sandbox", e)) };
    guard("verifier_sandbox", limits::SANDBOX, cancel, borrow).await
}
