//! What only shows when samples are seen together.

use std::collections::BTreeMap;

use rollgate_pipeline::sample::{Sample, check_session, trained_share};

use super::{Report, Trained};

/// Looks at all samples at once; `locations` are theirs, in the same order.
pub(super) fn look(samples: &[Sample], locations: &[String], report: &mut Report) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for sample in samples {
        *seen.entry(&sample.sample_id).or_default() += 1;
    }
    for (sample_id, times) in seen.into_iter().filter(|(_, times)| *times > 1) {
        report.find("duplicate", sample_id, format!("{times} samples have this id"));
    }
    for (at, violation) in check_session(samples) {
        let location = locations.get(at).map_or("", String::as_str);
        report.find(violation.code, location, violation.found);
    }
    let share = trained_share(samples);
    report.trained = Trained { tokens: share.tokens, once: share.trained_once };
}
