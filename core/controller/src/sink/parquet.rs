//! Parquet: one row a sample. `tokens`, `loss_mask` and `logprobs` are lists, what is simple has a
//! typed column, all else is JSON text. `health` is `clean` or a JSON list of reasons.

mod read;

use std::io::Write;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, DataType, DoubleType, FloatType, Int32Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use rollgate_pipeline::sample::Sample;
use serde_json::{Map, Value};

use super::SinkError;
use crate::limits::PARQUET_GROUP_BYTES;

pub(super) use read::Rows;
pub use read::from_parquet;
#[cfg(test)]
pub(super) use read::row_groups;

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    U32,
    Text,
    /// JSON as text.
    Json,
    /// A word as it is, or a list as JSON text.
    WordOrList,
    /// A number or null.
    Number,
    /// `tokens`.
    Ids,
    /// `loss_mask`.
    Mask,
    /// `logprobs`.
    Logprobs,
}

/// In the order of the sample's fields.
const COLUMNS: [(&str, Kind); 25] = [
    ("format", Kind::U32),
    ("sample_id", Kind::Text),
    ("task_id", Kind::Text),
    ("group_id", Kind::Text),
    ("attempt", Kind::U32),
    ("session_id", Kind::Text),
    ("segment", Kind::U32),
    ("segments", Kind::U32),
    ("siblings", Kind::U32),
    ("tokens", Kind::Ids),
    ("prompt_len", Kind::U32),
    ("loss_mask", Kind::Mask),
    ("logprobs", Kind::Logprobs),
    ("turns", Kind::Json),
    ("weight_versions", Kind::Json),
    ("links", Kind::Json),
    ("messages", Kind::Json),
    ("tools", Kind::Json),
    ("scene", Kind::Text),
    ("reward", Kind::Number),
    ("reward_parts", Kind::Json),
    ("outcome", Kind::Text),
    ("health", Kind::WordOrList),
    ("counts", Kind::Json),
    ("provenance", Kind::Json),
];

fn schema() -> String {
    let list = |name: &str, element: &str| {
        format!("required group {name} (LIST) {{ repeated group list {{ required {element}; }} }}")
    };
    let column = |(name, kind): (&str, Kind)| match kind {
        Kind::U32 => format!("required int32 {name} (INTEGER(32,false));"),
        Kind::Text | Kind::Json | Kind::WordOrList => format!("required binary {name} (STRING);"),
        Kind::Number => format!("optional double {name};"),
        Kind::Ids => list(name, "int32 element (INTEGER(32,false))"),
        Kind::Mask => list(name, "int32 element (INTEGER(8,false))"),
        Kind::Logprobs => list(name, "float element"),
    };
    format!(
        "message sample {{ {} }}",
        COLUMNS.into_iter().map(column).collect::<Vec<_>>().join(" ")
    )
}

/// Samples as the bytes of one file.
pub fn to_parquet(samples: Vec<Sample>) -> std::result::Result<Vec<u8>, SinkError> {
    let first = samples.first().map_or_else(String::new, |sample| sample.sample_id.clone());
    let write = || {
        let mut file = ParquetFile::new(Vec::new(), PARQUET_GROUP_BYTES)?;
        samples.into_iter().try_for_each(|sample| file.push(sample))?;
        file.finish()
    };
    write().map_err(|e| SinkError::Sample { sample_id: first, what: e.to_string() })
}

/// A sample, its columns apart from its other fields.
struct Row {
    tokens: Vec<i32>,
    loss_mask: Vec<i32>,
    logprobs: Vec<f32>,
    rest: Map<String, Value>,
}

impl Row {
    fn new(mut sample: Sample) -> Result<Self> {
        // Parquet has no unsigned numbers; readers take the bits for what the schema says.
        let tokens = std::mem::take(&mut sample.tokens).into_iter().map(u32::cast_signed).collect();
        let loss_mask = std::mem::take(&mut sample.loss_mask).into_iter().map(i32::from).collect();
        let logprobs = std::mem::take(&mut sample.logprobs);
        match serde_json::to_value(sample).map_err(external)? {
            Value::Object(rest) => Ok(Self { tokens, loss_mask, logprobs, rest }),
            _ => Err(ParquetError::General("a sample is no object".into())),
        }
    }

    /// About how many bytes it is.
    fn weight(&self) -> usize {
        let text = ["messages", "tools"].map(|name| self.rest.get(name).map_or(0, text_bytes));
        9 * self.tokens.len() + text.iter().sum::<usize>()
    }
}

fn text_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(text_bytes).sum(),
        Value::Object(members) => members.values().map(text_bytes).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}

/// A file that is being written. Rows are held until they make a group.
pub(super) struct ParquetFile<W: Write + Send> {
    file: SerializedFileWriter<W>,
    group_bytes: usize,
    rows: Vec<Row>,
    bytes: usize,
}

impl<W: Write + Send> ParquetFile<W> {
    pub(super) fn new(into: W, group_bytes: usize) -> Result<Self> {
        let schema = Arc::new(parse_message_type(&schema())?);
        let lists = ["tokens", "logprobs"]
            .map(|name| ColumnPath::new([name, "list", "element"].map(str::to_owned).to_vec()));
        let [tokens, logprobs] = lists;
        let properties = WriterProperties::builder()
            .set_created_by(concat!("rollgate ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::None)
            // Log-probabilities do not repeat, ids of a large vocabulary seldom do.
            .set_column_dictionary_enabled(tokens, false)
            .set_column_dictionary_enabled(logprobs, false)
            .build();
        let file = SerializedFileWriter::new(into, schema, Arc::new(properties))?;
        Ok(Self { file, group_bytes, rows: Vec::new(), bytes: 0 })
    }

    pub(super) fn push(&mut self, sample: Sample) -> Result<()> {
        let row = Row::new(sample)?;
        self.bytes += row.weight();
        self.rows.push(row);
        if self.bytes >= self.group_bytes { self.write_group() } else { Ok(()) }
    }

    /// What was written into.
    pub(super) fn finish(mut self) -> Result<W> {
        self.write_group()?;
        self.file.into_inner()
    }

    fn write_group(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        if rows.is_empty() {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        for (name, kind) in COLUMNS {
            let missing = || ParquetError::General(format!("no column for `{name}`"));
            let mut column = group.next_column()?.ok_or_else(missing)?;
            write_column(&mut column, name, kind, &rows)?;
            column.close()?;
        }
        group.close()?;
        Ok(())
    }
}

fn write_column(
    column: &mut SerializedColumnWriter<'_>,
    name: &str,
    kind: Kind,
    rows: &[Row],
) -> Result<()> {
    let fields = || rows.iter().map(|row| row.rest.get(name).unwrap_or(&Value::Null));
    match (kind, column.untyped()) {
        (Kind::U32, ColumnWriter::Int32ColumnWriter(column)) => {
            let number = |value: &Value| {
                let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
                number.map(u32::cast_signed).ok_or_else(|| wrong(name, value))
            };
            let values: Vec<i32> = fields().map(number).collect::<Result<_>>()?;
            column.write_batch(&values, None, None)?;
        }
        (
            Kind::Text | Kind::Json | Kind::WordOrList,
            ColumnWriter::ByteArrayColumnWriter(column),
        ) => {
            let text = |value: &Value| match (kind, value) {
                (Kind::Text | Kind::WordOrList, Value::String(text)) => Ok(text.clone()),
                (Kind::Text, _) => Err(wrong(name, value)),
                _ => Ok(value.to_string()),
            };
            let values =
                fields().map(|value| text(value).map(|text| ByteArray::from(text.into_bytes())));
            column.write_batch(&values.collect::<Result<Vec<_>>>()?, None, None)?;
        }
        (Kind::Number, ColumnWriter::DoubleColumnWriter(column)) => {
            let there: Vec<i16> = fields().map(|value| i16::from(!value.is_null())).collect();
            let values: Vec<f64> = fields().filter_map(Value::as_f64).collect();
            write_optional::<DoubleType>(column, &values, &there)?;
        }
        (Kind::Ids, ColumnWriter::Int32ColumnWriter(column)) => {
            write_lists::<Int32Type>(column, rows.iter().map(|row| row.tokens.as_slice()))?;
        }
        (Kind::Mask, ColumnWriter::Int32ColumnWriter(column)) => {
            write_lists::<Int32Type>(column, rows.iter().map(|row| row.loss_mask.as_slice()))?;
        }
        (Kind::Logprobs, ColumnWriter::FloatColumnWriter(column)) => {
            write_lists::<FloatType>(column, rows.iter().map(|row| row.logprobs.as_slice()))?;
        }
        _ => return Err(ParquetError::General(format!("the schema of `{name}` is another"))),
    }
    Ok(())
}

type Column<'a, T> = parquet::column::writer::ColumnWriterImpl<'a, T>;

fn write_optional<T: DataType>(
    column: &mut Column<'_, T>,
    values: &[T::T],
    there: &[i16],
) -> Result<()> {
    column.write_batch(values, Some(there), None)?;
    Ok(())
}

/// Lists as Parquet has them: an entry is there (definition level 1) or the list is empty (0); an
/// entry begins a list (repetition level 0) or goes on with it (1).
fn write_lists<'r, T: DataType>(
    column: &mut Column<'_, T>,
    lists: impl Iterator<Item = &'r [T::T]>,
) -> Result<()>
where
    T::T: 'r,
{
    let (mut definition, mut repetition) = (Vec::new(), Vec::new());
    for list in lists {
        let levels = list.len().max(1);
        definition.clear();
        definition.resize(levels, i16::from(!list.is_empty()));
        repetition.clear();
        repetition.resize(levels, 1);
        repetition[0] = 0;
        column.write_batch(list, Some(&definition), Some(&repetition))?;
    }
    Ok(())
}

fn wrong(name: &str, value: &Value) -> ParquetError {
    ParquetError::General(format!("`{name}` cannot be {value}"))
}

fn external(error: impl std::error::Error + Send + Sync + 'static) -> ParquetError {
    ParquetError::External(Box::new(error))
}
