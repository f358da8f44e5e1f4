//! Samples as they lie in files.

use std::path::{Path, PathBuf};

use rollgate_pipeline::sample::{Sample, columns_blake3};

/// Reads JSONL.
pub fn parse(text: &str) -> Vec<Sample> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let sample = |line: &str| {
        serde_json::from_str(line)
            .unwrap_or_else(|error| panic!("not a sample ({error}): {line:.400}"))
    };
    lines.map(sample).collect()
}

/// Writes JSONL.
pub fn to_jsonl(samples: &[Sample]) -> String {
    let line = |sample| serde_json::to_string(sample).expect("a sample is JSON") + "\n";
    samples.iter().map(line).collect()
}

/// The sample files of an out directory.
pub fn files(out: &Path) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(out).unwrap_or_else(|error| panic!("{}: {error}", out.display()));
    let paths = entries.map(|entry| entry.expect("the directory can be read").path());
    let named = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| name.starts_with("samples-") && name.ends_with(".jsonl"))
    };
    let mut files: Vec<_> = paths.filter(named).collect();
    files.sort();
    files
}

/// All samples of an out directory.
pub fn read(out: &Path) -> Vec<Sample> {
    let text = |path: &PathBuf| std::fs::read_to_string(path).expect("a sample file can be read");
    files(out).iter().flat_map(|path| parse(&text(path))).collect()
}

/// The sample with the digest of its columns made anew, as a careful forger would.
#[must_use]
pub fn resealed(mut sample: Sample) -> Sample {
    sample.provenance.columns_blake3 = columns_blake3(&sample);
    sample
}
