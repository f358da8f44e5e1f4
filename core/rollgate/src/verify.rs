//! `rollgate verify`: are these samples what they claim to be?

mod across;
mod report;
mod rescore;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use rollgate_controller::sink::read_samples;
use rollgate_pipeline::render::{ControlText, Model};
use rollgate_pipeline::sample::{Sample, check, check_vocabulary};
use serde_json::Value;

use crate::exit::{Exit, Stop};
pub use report::{Finding, Report, Row, Trained};

/// Checks every sample's invariants, what samples of one session say together, and with an engine
/// the log-probabilities.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  rollgate verify out
  rollgate verify out --allow logprob
  rollgate verify out --engine http://127.0.0.1:8000 --json

Exit codes: 0 all well; 1 a violated invariant, an unhealthy sample, or log-probabilities that
differ; 2 wrong use; 3 the engine cannot be asked.")]
pub struct VerifyArgs {
    /// An out directory, or a .jsonl, .parquet or .safetensors file.
    path: PathBuf,
    /// Re-score every sampled token through this engine's prompt log-probabilities.
    #[arg(long, value_name = "URL")]
    engine: Option<String>,
    /// Largest mean difference of log-probabilities.
    #[arg(long, default_value_t = 1e-2)]
    max_mean: f64,
    /// Largest single difference of log-probabilities.
    #[arg(long, default_value_t = 5e-2)]
    max_diff: f64,
    /// Accept this finding or reason (docs/samples.md), such as `segments`; may be repeated.
    #[arg(long, value_name = "REASON")]
    allow: Vec<String>,
    /// Tokenizer for vocabulary and canonical-split checks; default: as run.json says.
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the checks and prints the report.
pub fn run(args: &VerifyArgs) -> anyhow::Result<Exit> {
    let model = model_of(&args.path, args.model.as_deref())
        .map_err(|error| Stop::wrong_use(format!("{error:#}")))?;
    if model.is_none() {
        eprintln!(
            "rollgate verify: no tokenizer is known here, so ids are not held against a vocabulary \
             (--model DIR)"
        );
    }
    let (mut report, samples) = examine(args, model.as_deref())?;
    if let Some(url) = &args.engine {
        let scores = rescore::rescore(url, &samples, &mut report);
        let scores = match scores {
            Ok(scores) => scores,
            Err(message) => {
                eprintln!("rollgate verify: {message}");
                return Ok(Exit::Environment);
            }
        };
        if scores.mean >= args.max_mean || scores.max >= args.max_diff {
            let found = format!(
                "log-probabilities differ by {:.3e} on average and {:.3e} at most; \
                 allowed are {:.0e} and {:.0e}",
                scores.mean, scores.max, args.max_mean, args.max_diff
            );
            report.find("rescore", "", found);
        }
        report.scores = Some(scores);
    }
    println!("{}", if args.json { report.to_json() } else { report.to_text() });
    Ok(if report.findings.is_empty() { Exit::Well } else { Exit::Failed })
}

/// All checks that need no engine, and the samples that were read.
fn examine(args: &VerifyArgs, model: Option<&Model>) -> anyhow::Result<(Report, Vec<Sample>)> {
    let mut report = Report::default();
    let (mut samples, mut locations) = (Vec::new(), Vec::new());
    for sample in read_samples(&args.path).map_err(Stop::wrong_use)? {
        match sample {
            Ok((location, sample)) => {
                let location = location.to_string();
                look(&sample, &location, args, model, &mut report);
                samples.push(sample);
                locations.push(location);
            }
            Err(error) => report.find("unreadable", "", error.to_string()),
        }
    }
    if samples.is_empty() && report.findings.is_empty() {
        report.find("nothing", &args.path.display().to_string(), "there is no sample in it");
    }
    across::look(&samples, &locations, &mut report);
    all_there(&args.path, &samples, &mut report)?;
    report.findings.retain(|finding| !args.allow.contains(&finding.code));
    Ok((report, samples))
}

/// The model that wrote the samples, where it can be found.
pub(crate) fn model_of(path: &Path, dir: Option<&Path>) -> anyhow::Result<Option<Arc<Model>>> {
    if let Some(dir) = dir {
        return reading(dir).map(Some);
    }
    let file = path.join("run.json");
    let Ok(text) = std::fs::read(&file) else { return Ok(None) };
    let run: Value =
        serde_json::from_slice(&text).with_context(|| format!("{} is damaged", file.display()))?;
    match run["notes"]["model_dir"].as_str() {
        Some("demo") => crate::demo::model().map(Some),
        Some(dir) if Path::new(dir).is_dir() => reading(Path::new(dir)).map(Some),
        _ => Ok(None),
    }
}

/// A model to read ids with: neither how long its context is nor what control text does matters, so
/// whatever way it was served, it loads.
fn reading(dir: &Path) -> anyhow::Result<Arc<Model>> {
    crate::model_dir::load(dir, "model", Some(u32::MAX), true)
}

fn look(
    sample: &Sample,
    location: &str,
    args: &VerifyArgs,
    model: Option<&Model>,
    report: &mut Report,
) {
    for violation in check(sample) {
        report.find(violation.code, location, violation.found);
    }
    for reason in sample.health.reasons() {
        if !args.allow.contains(reason) {
            report.find("unhealthy", location, format!("the sample says: {reason}"));
        }
    }
    if let Some(model) = model
        && model.tokenizer_digest != sample.provenance.tokenizer
    {
        let found = "it was made with another tokenizer than it is checked with (--model)";
        report.find("tokenizer", location, found);
    }
    let outside = model.and_then(|model| check_vocabulary(sample, model.vocab_size));
    if let Some(violation) = outside {
        report.find(violation.code, location, violation.found);
    }
    report.rows.push(Row {
        sample_id: sample.sample_id.clone(),
        turns: sample.turns.len(),
        tool_calls: tool_calls(sample),
        tokens: sample.tokens.len(),
        trained: sample.loss_mask.iter().filter(|mask| **mask == 1).count(),
        non_canonical: model.map(|model| non_canonical(sample, model)),
        outcome: sample.outcome.clone(),
        reward: sample.reward,
        health: match sample.health.reasons() {
            [] => "clean".to_owned(),
            reasons => reasons.join(","),
        },
    });
}

fn tool_calls(sample: &Sample) -> usize {
    let calls = sample.messages.iter().filter_map(|message| message["tool_calls"].as_array());
    calls.map(Vec::len).sum()
}

/// Sampled spans whose ids are not those that the tokenizer makes of their text.
fn non_canonical(sample: &Sample, model: &Model) -> usize {
    let differs = |span: &&rollgate_pipeline::sample::SampledSpan| {
        let Some(ids) = sample.tokens.get(span.start as usize..span.end as usize) else {
            return false;
        };
        let (mut bytes, mut again) = (Vec::new(), Vec::new());
        model.detokenize(ids, &mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        let encoded = model.tokenizer.encode(&text, ControlText::Match, &mut again);
        encoded.is_ok() && again != ids
    };
    sample.turns.iter().filter(differs).count()
}

/// Whether every sample that the attempts' lines name is here.
fn all_there(path: &Path, samples: &[Sample], report: &mut Report) -> anyhow::Result<()> {
    let file = path.join("attempts.jsonl");
    if !file.exists() {
        return Ok(());
    }
    let text = std::fs::read_to_string(&file)
        .map_err(|error| Stop::wrong_use(format!("{}: {error}", file.display())))?;
    let here: BTreeSet<&str> = samples.iter().map(|sample| sample.sample_id.as_str()).collect();
    for line in text.lines() {
        let attempt: Value =
            serde_json::from_str(line).with_context(|| format!("{} is damaged", file.display()))?;
        let named = attempt["samples"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for lost in named.filter(|sample_id| !here.contains(sample_id)) {
            report.find("lost", lost, "attempts.jsonl names it, but it is not here");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
