//! Containers that nobody holds, and their end.

use std::collections::HashMap;

use bollard::query_parameters::{
    ListContainersOptionsBuilder, RemoveContainerOptions, RemoveContainerOptionsBuilder,
};
use futures_util::{StreamExt, stream};

use super::engine::{Engine, Fault};
use super::labels::{self, Verdict};
use super::limits;
use crate::BackendError;

/// A container of ours on the engine.
pub(super) struct Found {
    pub id: String,
    pub running: bool,
    pub labels: HashMap<String, String>,
}

/// The containers with this label, `KEY` or `KEY=VALUE`, ended ones too.
pub(super) async fn list(engine: &Engine, label: &str) -> Result<Vec<Found>, Fault> {
    let filters = HashMap::from([("label", vec![label])]);
    let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
    let all = engine.call(limits::ASK, |docker| docker.list_containers(Some(options))).await?;
    let found = all.into_iter().filter_map(|summary| {
        // One that is being made or started counts as running: its owner is about to use it.
        let state = summary.state.map(|state| state.to_string()).unwrap_or_default();
        let running = !matches!(state.as_str(), "exited" | "dead" | "removing");
        let labels = summary.labels.unwrap_or_default();
        summary.id.map(|id| Found { id, running, labels })
    });
    Ok(found.collect())
}

/// Removes what no living owner holds and what is past its time; how many.
pub(super) async fn sweep(engine: &Engine) -> Result<usize, BackendError> {
    let what = "list the sandboxes";
    let found = list(engine, labels::SANDBOX).await;
    let found = found.map_err(|fault| engine.error(what, fault))?;
    let doubts = engine.take_doubts();
    let mut condemned = Vec::new();
    for container in found {
        let name = container.labels.get(labels::SANDBOX).cloned().unwrap_or_default();
        let Some(lease) = labels::lease(&container.labels) else { continue };
        let doubted = doubts.iter().any(|(doubt, _)| *doubt == name);
        let verdict = lease.verdict(container.running);
        if doubted || verdict != Verdict::Held {
            tracing::info!(sandbox = name, ?verdict, doubted, "a left-over sandbox is removed");
            condemned.push((name, container.id));
        }
    }
    let removals = stream::iter(condemned).map(|(name, id)| async move {
        let removed = remove(engine, &id).await;
        if let Err(error) = &removed {
            tracing::warn!(sandbox = name, %error, "a left-over sandbox stays");
        }
        (name, removed.is_ok())
    });
    let ends: HashMap<String, bool> = removals.buffer_unordered(limits::IN_FLIGHT).collect().await;
    for doubt in doubts {
        // One that has not shown up yet still may.
        if ends.get(&doubt.0) != Some(&true) {
            engine.doubt_again(doubt);
        }
    }
    Ok(ends.values().filter(|removed| **removed).count())
}

/// Kills and removes a container with all it has. One that is gone already is fine.
pub(super) async fn remove(engine: &Engine, container: &str) -> Result<(), BackendError> {
    let mut pause = limits::PAUSE;
    let mut tries = 0;
    loop {
        let fault = match remove_once(engine, container).await {
            Ok(()) => return Ok(()),
            Err(fault) if fault.status() == Some(404) => return Ok(()),
            Err(fault) => fault,
        };
        tries += 1;
        // 409: somebody else is removing it; it is over when it is not found.
        if tries >= limits::REMOVE_TRIES {
            return Err(engine.error(&format!("remove container {container}"), fault));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(limits::PAUSE_MOST);
    }
}

async fn remove_once(engine: &Engine, container: &str) -> Result<(), Fault> {
    let options: RemoveContainerOptions =
        RemoveContainerOptionsBuilder::default().force(true).v(true).build();
    let closed = |_| Fault::Lost("this backend shuts down".to_owned());
    let _permit = engine.removes.acquire().await.map_err(closed)?;
    engine.call(limits::REMOVE, |docker| docker.remove_container(container, Some(options))).await
}
