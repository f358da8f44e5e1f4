//! From a sealed session's journal to samples.

use rollgate_pipeline::id::SessionId;
use rollgate_pipeline::sample;

use super::{Ask, Cancel, Halt, Report, Runtime, guard};
use crate::journal;
use crate::limits;
use crate::outcome::Reason;

impl Runtime {
    /// Builds the samples of an attempt that settled. An attempt that did not has none: it is made
    /// again, and its tokens stay in the journal.
    pub(super) async fn collect(&self, ask: &Ask, id: &SessionId, report: &mut Report) {
        if !report.outcome.settles() {
            return;
        }
        let about = sample::Attempt {
            task_id: ask.task.task_id.clone(),
            group_id: ask.task.task_id.clone(),
            attempt: ask.tried.slot.attempt,
            siblings: self.siblings,
            agent: report.agent.clone(),
            outcome: Some(report.outcome.name().to_owned()),
        };
        let path = self.gate.journal_path(id);
        let build = async {
            let _turn = self.collects.acquire().await;
            let built = tokio::task::spawn_blocking(move || {
                let journal = journal::read_blocking(&path)?;
                Ok(sample::build(&journal.records, &about))
            });
            let built = built.await.map_err(|e| Reason::new("collect_panic", e))?;
            built.map_err(|e: journal::JournalError| Reason::new("journal", e))
        };
        match guard("collect", limits::COLLECT, &Cancel::never(), build).await {
            Ok(samples) => report.samples = samples,
            Err(Halt { outcome, reason }) => report.fail(Halt { outcome, reason }),
        }
    }
}
