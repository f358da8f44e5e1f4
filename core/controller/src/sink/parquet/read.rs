//! Reading rows back. Columns are found by name; those that are not ours are passed over.

use std::fs::File;
use std::path::Path;

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use rollgate_pipeline::sample::Sample;
use serde_json::{Map, Value};

use super::{COLUMNS, Kind, external};

/// The samples of one file's bytes.
pub fn from_parquet(bytes: Vec<u8>) -> std::result::Result<Vec<Sample>, String> {
    let file = guarded(|| SerializedFileReader::new(bytes::Bytes::from(bytes)))?;
    let mut samples = Vec::new();
    for index in 0..file.num_row_groups() {
        for sample in guarded(|| read_group(&file, index))? {
            samples.push(sample?);
        }
    }
    Ok(samples)
}

/// How many row groups a file has.
#[cfg(test)]
pub(crate) fn row_groups(bytes: Vec<u8>) -> Result<usize> {
    Ok(SerializedFileReader::new(bytes::Bytes::from(bytes))?.num_row_groups())
}

/// The samples of a file, row group by row group.
pub(crate) struct Rows {
    file: SerializedFileReader<File>,
    next_group: usize,
    waiting: std::vec::IntoIter<std::result::Result<Sample, String>>,
}

impl Rows {
    pub(crate) fn open(path: &Path) -> std::result::Result<Self, String> {
        let file = File::open(path).map_err(|e| e.to_string())?;
        let open = || SerializedFileReader::new(file);
        let file = guarded(open)?;
        Ok(Self { file, next_group: 0, waiting: Vec::new().into_iter() })
    }
}

impl Iterator for Rows {
    type Item = std::result::Result<Sample, String>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(sample) = self.waiting.next() {
                return Some(sample);
            }
            let index = self.next_group;
            if index >= self.file.num_row_groups() {
                return None;
            }
            self.next_group += 1;
            match guarded(|| read_group(&self.file, index)) {
                Ok(samples) => self.waiting = samples.into_iter(),
                Err(what) => return Some(Err(format!("row group {index}: {what}"))),
            }
        }
    }
}

/// The reader of Parquet may panic at damaged bytes; that is a finding about the file.
fn guarded<T>(read: impl FnOnce() -> Result<T>) -> std::result::Result<T, String> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)) {
        Ok(read) => read.map_err(|e| e.to_string()),
        Err(_) => Err("it is damaged: its reader broke off".to_owned()),
    }
}

type Samples = Vec<std::result::Result<Sample, String>>;

fn read_group(file: &dyn FileReader, index: usize) -> Result<Samples> {
    let group = file.get_row_group(index)?;
    let rows = usize::try_from(group.metadata().num_rows()).map_err(external)?;
    let mut rest: Vec<Map<String, Value>> = vec![Map::new(); rows];
    let (mut tokens, mut loss_mask, mut logprobs) = (Vec::new(), Vec::new(), Vec::new());
    for (name, kind) in COLUMNS {
        let (column, levels) = column(group.as_ref(), name)?;
        match (kind, column) {
            (Kind::Ids, ColumnReader::Int32ColumnReader(column)) => {
                tokens = lists(column, rows, levels)?;
            }
            (Kind::Mask, ColumnReader::Int32ColumnReader(column)) => {
                loss_mask = lists(column, rows, levels)?;
            }
            (Kind::Logprobs, ColumnReader::FloatColumnReader(column)) => {
                logprobs = lists(column, rows, levels)?;
            }
            (Kind::U32, ColumnReader::Int32ColumnReader(column)) => {
                let values = scalars(column, rows, levels)?;
                put(&mut rest, name, values, |number| Ok(number.cast_unsigned().into()))?;
            }
            (Kind::Number, ColumnReader::DoubleColumnReader(column)) => {
                // JSON has no such number: it would read as if there were none.
                let number = |number: f64| match number.is_finite() {
                    true => Ok(number.into()),
                    false => Err(ParquetError::General(format!("column `{name}`: {number}"))),
                };
                put(&mut rest, name, scalars(column, rows, levels)?, number)?;
            }
            (
                Kind::Text | Kind::Json | Kind::WordOrList,
                ColumnReader::ByteArrayColumnReader(column),
            ) => put(&mut rest, name, scalars(column, rows, levels)?, |text| value(kind, &text))?,
            _ => return Err(ParquetError::General(format!("column `{name}` has another type"))),
        }
        if [Kind::Ids, Kind::Mask, Kind::Logprobs].contains(&kind) {
            rest.iter_mut().for_each(|row| drop(row.insert(name.to_owned(), Value::Array(vec![]))));
        }
    }
    let columns = tokens.into_iter().zip(loss_mask).zip(logprobs);
    let samples = rest.into_iter().zip(columns).map(|(rest, ((tokens, mask), logprobs))| {
        let mut sample: Sample = serde_json::from_value(rest.into()).map_err(|e| e.to_string())?;
        sample.tokens = tokens.into_iter().map(i32::cast_unsigned).collect();
        let mask = mask.into_iter().map(u8::try_from).collect::<std::result::Result<_, _>>();
        sample.loss_mask = mask.map_err(|e| format!("loss_mask: {e}"))?;
        sample.logprobs = logprobs;
        Ok(sample)
    });
    Ok(samples.collect())
}

/// How deep a column's values lie: highest definition and repetition level.
#[derive(Clone, Copy)]
struct Levels {
    definition: i16,
    repetition: i16,
}

fn column(group: &dyn RowGroupReader, name: &str) -> Result<(ColumnReader, Levels)> {
    let all = group.metadata().columns().iter();
    let mut found = all.enumerate().filter(|(_, column)| {
        column.column_path().parts().first().is_some_and(|part| part == name)
    });
    let Some((index, column)) = found.next() else {
        return Err(ParquetError::General(format!("there is no column `{name}`")));
    };
    let descriptor = column.column_descr();
    let (definition, repetition) = (descriptor.max_def_level(), descriptor.max_rep_level());
    Ok((group.get_column_reader(index)?, Levels { definition, repetition }))
}

/// All of a column: its values, and a definition and a repetition level of each entry.
struct Whole<T> {
    values: Vec<T>,
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

fn whole<T: DataType>(mut column: ColumnReaderImpl<T>, rows: usize) -> Result<Whole<T::T>> {
    let (mut values, mut definition, mut repetition) = (Vec::new(), Vec::new(), Vec::new());
    let (records, _, _) =
        column.read_records(rows, Some(&mut definition), Some(&mut repetition), &mut values)?;
    if records != rows {
        return Err(ParquetError::General(format!("{records} of {rows} rows are there")));
    }
    Ok(Whole { values, definition, repetition })
}

fn scalars<T: DataType>(
    column: ColumnReaderImpl<T>,
    rows: usize,
    levels: Levels,
) -> Result<Vec<Option<T::T>>> {
    if levels.repetition != 0 {
        return Err(ParquetError::General("a list where one value should be".into()));
    }
    let Whole { values, definition, .. } = whole(column, rows)?;
    if levels.definition == 0 {
        return Ok(values.into_iter().map(Some).collect());
    }
    let mut values = values.into_iter();
    let row = |level: i16| if level == levels.definition { values.next() } else { None };
    Ok(definition.into_iter().map(row).collect())
}

fn lists<T: DataType>(
    column: ColumnReaderImpl<T>,
    rows: usize,
    levels: Levels,
) -> Result<Vec<Vec<T::T>>> {
    if levels.repetition != 1 {
        return Err(ParquetError::General("not a list of numbers".into()));
    }
    let Whole { values, definition, repetition } = whole(column, rows)?;
    let mut values = values.into_iter();
    let mut lists: Vec<Vec<T::T>> = Vec::with_capacity(rows);
    for (definition, repetition) in definition.into_iter().zip(repetition) {
        if repetition == 0 {
            lists.push(Vec::new());
        }
        let Some(list) = lists.last_mut() else { continue };
        if definition == levels.definition {
            list.extend(values.next());
        } else if repetition != 0 {
            // Only an empty list has an entry without a value, and that entry begins it.
            return Err(ParquetError::General("a list holds a null".into()));
        }
    }
    Ok(lists)
}

fn put<T>(
    rows: &mut [Map<String, Value>],
    name: &str,
    values: Vec<Option<T>>,
    read: impl Fn(T) -> Result<Value>,
) -> Result<()> {
    for (row, value) in rows.iter_mut().zip(values) {
        let value = value.map_or(Ok(Value::Null), &read);
        let value = value.map_err(|e| ParquetError::General(format!("column `{name}`: {e}")))?;
        row.insert(name.to_owned(), value);
    }
    Ok(())
}

fn value(kind: Kind, text: &ByteArray) -> Result<Value> {
    let text = text.as_utf8()?;
    match kind {
        Kind::Json => serde_json::from_str(text).map_err(external),
        Kind::WordOrList if text.starts_with('[') => serde_json::from_str(text).map_err(external),
        _ => Ok(text.into()),
    }
}
