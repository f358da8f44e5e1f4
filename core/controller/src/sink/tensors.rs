//! `samples/SAMPLE_ID.safetensors`: tensors `tokens` (U32), `loss_mask` (U8) and `logprobs` (F32),
//! each of shape `[L]`; all other fields as JSON in the header's metadata under `rollgate`.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use rollgate_pipeline::sample::Sample;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::Value;

use super::{AttemptLine, SinkError};

const HEADER: &str = "rollgate";
const COLUMNS: [&str; 3] = ["tokens", "loss_mask", "logprobs"];
const EXTENSION: &str = "safetensors";

/// A sample as the bytes of one file.
pub fn to_safetensors(mut sample: Sample) -> Result<Vec<u8>, SinkError> {
    let tokens = std::mem::take(&mut sample.tokens);
    let loss_mask = std::mem::take(&mut sample.loss_mask);
    let logprobs = std::mem::take(&mut sample.logprobs);
    serialize(&sample, &tokens, &loss_mask, &logprobs)
        .map_err(|what| SinkError::Sample { sample_id: sample.sample_id, what })
}

fn serialize(rest: &Sample, ids: &[u32], mask: &[u8], logprobs: &[f32]) -> Result<Vec<u8>, String> {
    let mut header = serde_json::to_value(rest).map_err(|e| e.to_string())?;
    if let Value::Object(header) = &mut header {
        header.retain(|key, _| !COLUMNS.contains(&key.as_str()));
    }
    let ids_bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    let logprob_bytes: Vec<u8> = logprobs.iter().flat_map(|p| p.to_le_bytes()).collect();
    let tensors = [
        (COLUMNS[0], TensorView::new(Dtype::U32, vec![ids.len()], &ids_bytes)),
        (COLUMNS[1], TensorView::new(Dtype::U8, vec![mask.len()], mask)),
        (COLUMNS[2], TensorView::new(Dtype::F32, vec![logprobs.len()], &logprob_bytes)),
    ];
    let mut views = Vec::with_capacity(tensors.len());
    for (name, view) in tensors {
        views.push((name, view.map_err(|e| e.to_string())?));
    }
    let metadata = HashMap::from([(HEADER.to_owned(), header.to_string())]);
    safetensors::serialize(views, Some(metadata)).map_err(|e| e.to_string())
}

/// The sample of one file's bytes. The error says what is wrong with them.
pub fn from_safetensors(bytes: &[u8]) -> Result<Sample, String> {
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|e| e.to_string())?;
    let rest = header.metadata().as_ref().and_then(|metadata| metadata.get(HEADER));
    let rest = rest.ok_or_else(|| format!("its header has no `{HEADER}`: not a sample"))?;
    let mut rest: serde_json::Map<String, Value> =
        serde_json::from_str(rest).map_err(|e| e.to_string())?;
    for name in COLUMNS {
        rest.insert(name.to_owned(), Value::Array(Vec::new()));
    }
    let mut sample: Sample = serde_json::from_value(rest.into()).map_err(|e| e.to_string())?;
    let file = SafeTensors::deserialize(bytes).map_err(|e| e.to_string())?;
    let words = |name, dtype| -> Result<Vec<[u8; 4]>, String> {
        let (words, rest) = column(&file, name, dtype)?.as_chunks::<4>();
        if rest.is_empty() { Ok(words.to_vec()) } else { Err(format!("`{name}` has odd bytes")) }
    };
    let tokens = words(COLUMNS[0], Dtype::U32)?;
    let logprobs = words(COLUMNS[2], Dtype::F32)?;
    sample.tokens = tokens.into_iter().map(u32::from_le_bytes).collect();
    sample.loss_mask = column(&file, COLUMNS[1], Dtype::U8)?.to_vec();
    sample.logprobs = logprobs.into_iter().map(f32::from_le_bytes).collect();
    Ok(sample)
}

fn column<'a>(file: &SafeTensors<'a>, name: &str, dtype: Dtype) -> Result<&'a [u8], String> {
    let view = file.tensor(name).map_err(|_| format!("it has no tensor `{name}`"))?;
    if view.dtype() != dtype || view.shape().len() != 1 {
        let (found, shape) = (view.dtype(), view.shape());
        return Err(format!("`{name}` is {found:?} of shape {shape:?}, not {dtype:?} [L]"));
    }
    Ok(view.data())
}

/// The directory that samples are written into.
#[derive(Debug)]
pub(super) struct Tensors {
    dir: PathBuf,
}

impl Tensors {
    /// Opens the directory; files of attempts that were not accepted are removed.
    pub(super) fn open(dir: &Path, lines: &[AttemptLine]) -> Result<Self, SinkError> {
        let dir = dir.join("samples");
        std::fs::create_dir_all(&dir).map_err(SinkError::io(&dir))?;
        let accepted: BTreeSet<&str> =
            lines.iter().flat_map(|line| &line.samples).map(String::as_str).collect();
        for entry in std::fs::read_dir(&dir).map_err(SinkError::io(&dir))? {
            let path = entry.map_err(SinkError::io(&dir))?.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            let ours = path.extension().is_some_and(|e| e == EXTENSION || e == "tmp");
            if ours && !accepted.contains(stem) {
                std::fs::remove_file(&path).map_err(SinkError::io(&path))?;
            }
        }
        Ok(Self { dir })
    }

    /// Writes the samples of one attempt and makes them durable.
    pub(super) fn write(&mut self, samples: Vec<Sample>) -> Result<(), SinkError> {
        for sample in samples {
            let id = sample.sample_id.clone();
            if super::file_name(&id) != id {
                let what = "its id cannot be the name of a file".to_owned();
                return Err(SinkError::Sample { sample_id: id, what });
            }
            let temporary = self.dir.join(format!("{id}.tmp"));
            let path = self.dir.join(format!("{id}.{EXTENSION}"));
            write_durably(&temporary, &to_safetensors(sample)?)
                .and_then(|()| std::fs::rename(&temporary, &path))
                .map_err(SinkError::io(&path))?;
        }
        File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(SinkError::io(&self.dir))
    }
}

fn write_durably(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_data()
}
