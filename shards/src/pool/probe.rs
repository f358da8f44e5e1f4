//! Looking at engines: their health routes, and what they serve once they are well.
//!
//! One shard does it for all. What it finds is written where all read it, on change.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::{Either, select};
use rollgate_pipeline::engine::{MODELS_PATH, Wellbeing, served_models};
use rollgate_pipeline::http::{BodyState, ReplyReader};

use super::health::State;
use crate::bounds::{PROBE_BYTES, PROBE_LIMIT, PROBE_STRIKES, TEND};
use crate::shard::Shard;
use crate::stream::{read, within, write};

/// Closes connections that nobody needs and lets calls through that have room meanwhile, until the
/// drain begins. On the first shard it looks at the engines' health, too.
pub(crate) fn tend(shard: &Rc<Shard>) {
    crate::rt::spawn(until_drain(shard.clone(), |shard| async move {
        shard.pool.tend();
        crate::rt::time::sleep(TEND).await;
    }));
    let looks = shard.plane.limits().engine_health_ms > 0;
    let engines = if shard.index.0 == 0 && looks { shard.plane.engines.len() } else { 0 };
    for engine in 0..engines {
        let strikes = Rc::new(std::cell::Cell::new(0));
        crate::rt::spawn(until_drain(shard.clone(), move |shard| {
            let strikes = strikes.clone();
            async move {
                look(&shard, engine, &strikes).await;
                let pause = shard.plane.limits().engine_health_ms;
                crate::rt::time::sleep(Duration::from_millis(pause)).await;
            }
        }));
    }
}

async fn until_drain<F: Future<Output = ()>>(shard: Rc<Shard>, round: impl Fn(Rc<Shard>) -> F) {
    loop {
        let draining = pin!(shard.drain.until(|| shard.plane.draining()));
        if let Either::Left(_) = select(draining, pin!(round(shard.clone()))).await {
            return;
        }
    }
}

/// One look at one engine. A look that fails is no proof; some in a row are.
async fn look(shard: &Shard, engine: usize, strikes: &std::cell::Cell<u32>) {
    let plane = &shard.plane;
    let path = plane.gatehouse.engine.health_path();
    let (wellbeing, reason) = match get(shard, engine, path).await {
        Ok((status, _)) => (Some(Wellbeing::of(status)), format!("{path} answers {status}")),
        Err(reason) => (None, format!("{path}: {reason}")),
    };
    let fine = matches!(wellbeing, Some(Wellbeing::Well | Wellbeing::Unavailable));
    strikes.set(if fine { 0 } else { strikes.get() + 1 });
    if !fine && strikes.get() < PROBE_STRIKES {
        return;
    }
    let change = plane.healths[engine].told(wellbeing);
    plane.tell_change(engine, change, &reason);
    if change.is_some_and(|change| change.to == State::Healthy) {
        check_model(shard, engine).await;
    }
}

/// An engine that came (back) may serve something else than what the node was started for.
async fn check_model(shard: &Shard, engine: usize) {
    let gatehouse = &shard.plane.gatehouse;
    let url = &shard.plane.engines[engine].url;
    let models = match get(shard, engine, MODELS_PATH).await {
        Ok((200, body)) => served_models(&body),
        Ok(_) => Vec::new(),
        Err(reason) => {
            tracing::debug!(%url, %reason, "the engine cannot be asked for its models");
            Vec::new()
        }
    };
    if models.is_empty() {
        return tracing::debug!(%url, "the engine does not list its models");
    }
    let Some(served) = models.iter().find(|model| model.name == gatehouse.engine_model) else {
        let names: Vec<_> = models.iter().map(|model| model.name.as_str()).collect();
        let wanted = &gatehouse.engine_model;
        return tracing::warn!(%url, %wanted, ?names, "the engine serves another model");
    };
    let node = gatehouse.model.max_context;
    if let Some(engine) = served.max_context.filter(|engine| *engine < node) {
        tracing::warn!(
            %url, engine, node,
            "the engine's context is shorter than the node's: long prompts will be refused there"
        );
    }
}

/// Status and body of a `GET`, on a connection of its own.
async fn get(shard: &Shard, engine: usize, path: &str) -> Result<(u16, Bytes), String> {
    let target = &shard.plane.engines[engine];
    let request = format!(
        "GET {}{path} HTTP/1.1\r\nhost: {}\r\naccept: application/json\r\n\
         accept-encoding: identity\r\nconnection: close\r\n\r\n",
        target.prefix, target.host
    );
    let asked = async {
        let mut stream = shard.pool.open(engine).await?;
        let broken = |error: std::io::Error| error.to_string();
        write(&mut stream, Bytes::from(request), PROBE_LIMIT).await.map_err(broken)?;
        let mut reader = ReplyReader::new(PROBE_BYTES);
        let (mut unread, mut eof) = (BytesMut::new(), false);
        while let BodyState::More = reader.read(&mut unread, eof).map_err(|fault| fault.message)? {
            eof = read(&mut stream, &mut unread).await.map_err(broken)? == 0;
        }
        let (head, body) = reader.into_parts().ok_or("its reply is not whole")?;
        Ok((head.status, body))
    };
    let late = || Err(format!("no answer within {PROBE_LIMIT:?}"));
    within(PROBE_LIMIT, asked).await.unwrap_or_else(late)
}
