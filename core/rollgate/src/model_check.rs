//! `rollgate model check`: can this model be served, and what does its chat template do to history?

use std::path::PathBuf;

use clap::Args;
use rollgate_pipeline::render::{
    Compared, Counterexample, Marker, ProbeReport, TemplateClass, check_bridges,
};
use serde::Serialize;

use crate::exit::{Exit, Stop};
use crate::model_dir;

/// Probes a model's tokenizer and chat template, and says how its turns are continued.
///
/// The tokenizer is compared with the reference one, the template is rendered on made-up
/// conversations, and prompts that continue earlier ones are compared with whole renders.
#[derive(Args, Debug)]
#[command(after_help = "Example:
  rollgate model check ./Qwen3-8B
  rollgate model check ./Qwen3-8B --json | jq .class

Classes:
  append_only                a longer conversation begins with the shorter one: one segment
  append_only_in_tool_cycle  so while tool results follow; a user message changes earlier turns
  rewrites_history           every turn is rendered whole, each a segment of its own
  unsupported                not served; the reason is printed

Exit codes: 0 served; 2 unsupported, or wrong use.")]
pub struct ModelCheckArgs {
    /// Directory with tokenizer.json, tokenizer_config.json, and what else the model has.
    dir: PathBuf,
    /// Longest prompt plus answer, in tokens; default: as the model's files say.
    #[arg(long, value_name = "TOKENS")]
    max_context: Option<u32>,
    /// Treat control text in messages as control tokens, as engines do (`inject = "engine"`).
    #[arg(long)]
    inject_engine: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// A model that is served.
#[derive(Serialize)]
struct Served {
    #[serde(flatten)]
    report: ProbeReport,
    /// Prompts that continue an earlier one.
    continued: Continued,
}

#[derive(Serialize)]
struct Continued {
    compared: u32,
    same_ids: u32,
    refused_conversations: u32,
}

/// A model that is not.
#[derive(Serialize)]
struct Unsupported {
    name: String,
    class: &'static str,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    counterexample: Option<Counterexample>,
}

/// Runs the command.
pub fn run(args: &ModelCheckArgs) -> anyhow::Result<Exit> {
    if !args.dir.is_dir() {
        let why = format!("{}: no such directory", args.dir.display());
        return Err(Stop::wrong_use(why).into());
    }
    let name = model_dir::name_of(&args.dir);
    let unsupported = |reason: String, counterexample| Unsupported {
        name: name.clone(),
        class: "unsupported",
        reason,
        counterexample,
    };
    let loaded = model_dir::load(&args.dir, &name, args.max_context, args.inject_engine);
    let checked = match loaded {
        Err(error) => Err(unsupported(format!("{error:#}"), None)),
        Ok(model) => match check_bridges(&model) {
            Ok(compared) => Ok((model.class, served(model.report(), compared))),
            Err(found) => Err(unsupported(found.what.clone(), Some(found))),
        },
    };
    let (exit, json, text) = match &checked {
        Ok((class, served)) => {
            (Exit::Well, serde_json::to_string_pretty(served)?, for_people(*class, served))
        }
        Err(refused) => (Exit::WrongUse, serde_json::to_string_pretty(refused)?, refusal(refused)),
    };
    println!("{}", if args.json { json } else { text }.trim_end());
    Ok(exit)
}

fn served(report: ProbeReport, compared: Compared) -> Served {
    let Compared { prompts, same_ids, refused } = compared;
    let continued = Continued { compared: prompts, same_ids, refused_conversations: refused };
    Served { report, continued }
}

fn refusal(refused: &Unsupported) -> String {
    let mut text = format!("{}: unsupported\n{}\n", refused.name, refused.reason);
    if let Some(found) = &refused.counterexample {
        text.push_str(&counterexample(found));
    }
    text
}

fn for_people(class: TemplateClass, served: &Served) -> String {
    let report = &served.report;
    let meaning = match class {
        TemplateClass::AppendOnly => "a longer conversation begins with the shorter one",
        TemplateClass::AppendOnlyInToolCycle => {
            "so while tool results follow; a user message changes earlier turns"
        }
        TemplateClass::RewritesHistory => {
            "every turn is rendered whole and is a segment of its own"
        }
    };
    let mut text = format!("{}: served\n\n", report.name);
    let mut row = |name: &str, value: String| text.push_str(&format!("{name:<18}{value}\n"));
    row("class", format!("{}: {meaning}", report.class));
    row("family", format!("{}, parser {}", report.family, report.parser));
    row(
        "turn ends with",
        format!("{}, then {:?}", markers(std::slice::from_ref(&report.close)), report.separator),
    );
    row("prompt ends with", format!("{:?}", report.generation_prompt));
    row("stop tokens", markers(&report.stop));
    row("reasoning", markers(&report.reasoning));
    row("tool calls", markers(&report.calls));
    row("switches", switches(report));
    row("context", format!("{} tokens, vocabulary {}", report.max_context, report.vocab_size));
    let Continued { compared, same_ids, refused_conversations } = served.continued;
    row(
        "continued prompts",
        match compared {
            0 => "none: every prompt is rendered whole".to_owned(),
            _ => format!(
                "{compared} compared with whole renders, {same_ids} the same to the last id; the \
                 template refuses {refused_conversations} conversations"
            ),
        },
    );
    if let Some(found) = &report.counterexample {
        text.push_str(&counterexample(found));
    }
    if !report.notes.is_empty() {
        text.push_str("\nnotes\n");
        report.notes.iter().for_each(|note| text.push_str(&format!("  - {note}\n")));
    }
    text
}

fn counterexample(found: &Counterexample) -> String {
    let Counterexample { messages, what, expected, got } = found;
    format!(
        "\nfirst counterexample\n  messages  {messages}\n  what      {what}\n  expected  \
         {expected:?}\n  got       {got:?}\n"
    )
}

fn markers(markers: &[Marker]) -> String {
    match markers {
        [] => "none among the added tokens".to_owned(),
        markers => {
            let one = |marker: &Marker| format!("{} ({})", marker.text, marker.id);
            markers.iter().map(one).collect::<Vec<_>>().join(" ")
        }
    }
}

fn switches(report: &ProbeReport) -> String {
    match report.switches.is_empty() {
        true => "none".to_owned(),
        false => {
            let one = |(name, value): (&String, &serde_json::Value)| format!("{name}={value}");
            report.switches.iter().map(one).collect::<Vec<_>>().join(" ")
        }
    }
}
