//! The stall detector: a shard that does not come back to its loop serves nobody.
//!
//! Each shard beats at a fixed pace. A beat that comes late tells how long something kept the loop
//! busy; one that does not come at all shows in the age of the last beat, which others read.

use std::time::Duration;

use crate::bounds::{BEAT, STALL};
use crate::rt;
use crate::rt::time::now;
use crate::shard::Shard;

/// Beats for as long as the shard lives.
pub(crate) async fn beat(shard: std::rc::Rc<Shard>) {
    let mut due = now();
    loop {
        let late = now().saturating_duration_since(due);
        if late >= STALL {
            let counters = shard.counters();
            counters.stalls.add(1);
            let ms = millis(late);
            counters.longest_stall_ms.raise(ms);
            tracing::warn!(shard = shard.index.0, ms, "something kept a shard from its work");
        }
        shard.counters().beat_ms.set(shard.plane.now().mono_ms);
        due = now() + BEAT;
        rt::time::sleep(BEAT).await;
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
