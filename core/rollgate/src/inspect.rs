//! `rollgate inspect`: samples as one page to look at.

mod page;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use rollgate_controller::sink::read_samples;

use crate::exit::{Exit, Stop};

/// Writes samples as one self-contained HTML page.
///
/// The page shows branches, tokens coloured by mask and log-probability, turns, links, messages and
/// counts. It opens from a file and loads nothing.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  rollgate inspect out                          writes out/inspect.html
  rollgate inspect out --sample n1-4c1d-0       one sample
  rollgate inspect samples.jsonl --model ./Qwen3-8B -o page.html")]
pub struct InspectArgs {
    /// An out directory, or a file of samples.
    path: PathBuf,
    /// Where to write the page; default: inspect.html in the out directory or beside the file.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only samples whose id contains this; may be repeated.
    #[arg(long, value_name = "TEXT")]
    sample: Vec<String>,
    /// Most samples on the page.
    #[arg(long, default_value_t = 100)]
    most: usize,
    /// Tokenizer for the tokens' texts; default: as run.json says, else ids are shown.
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Writes the page and says where it is.
pub fn run(args: &InspectArgs) -> anyhow::Result<Exit> {
    let model = crate::verify::model_of(&args.path, args.model.as_deref())
        .map_err(|error| Stop::wrong_use(format!("{error:#}")))?;
    let mut page = page::Page::default();
    for sample in read_samples(&args.path).map_err(Stop::wrong_use)? {
        let (_, sample) = sample.map_err(Stop::wrong_use)?;
        let wanted = args.sample.is_empty()
            || args.sample.iter().any(|part| sample.sample_id.contains(part.as_str()));
        if wanted && page.samples.len() < args.most {
            page.add(sample, model.as_deref());
        } else if wanted {
            page.left_out += 1;
        }
    }
    if page.samples.is_empty() {
        let what = if args.sample.is_empty() { "no sample" } else { "no such sample" };
        return Err(Stop::wrong_use(format!("{} holds {what}", args.path.display())).into());
    }
    let file = args.output.clone().unwrap_or_else(|| beside(&args.path));
    let title = format!("Samples of {}", args.path.display());
    std::fs::write(&file, page.to_html(&title)?)
        .with_context(|| format!("the page cannot be written to {}", file.display()))?;
    if args.json {
        let (samples, left_out) = (page.samples.len(), page.left_out);
        println!("{}", serde_json::json!({"page": file, "samples": samples, "left_out": left_out}));
        return Ok(Exit::Well);
    }
    println!("{} samples are in {}", page.samples.len(), file.display());
    if page.left_out > 0 {
        println!("{} more are not: raise --most, or name them with --sample", page.left_out);
    }
    Ok(Exit::Well)
}

fn beside(path: &Path) -> PathBuf {
    if path.is_dir() { path.join("inspect.html") } else { path.with_extension("html") }
}
