//! Files written by the same library, in the shapes that data sets have.

use std::path::PathBuf;
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::super::{Loaded, TaskError, load};
use super::*;

/// Rows of a text `question` (one of them null), an integer `nr`, and a chat in `turns`.
const SCHEMA: &str = "message schema {
    optional binary question (UTF8);
    required int64 nr;
    required binary plain;
    optional group turns (LIST) {
        repeated group list {
            optional group element {
                optional binary role (UTF8);
                optional binary content (UTF8);
            }
        }
    }
}";

fn file(dir: &tempfile::TempDir, questions: &[Option<&str>], compression: Compression) -> PathBuf {
    let path = dir.path().join("set.parquet");
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let properties = WriterProperties::builder().set_compression(compression).build();
    let out = File::create(&path).unwrap();
    let mut writer = SerializedFileWriter::new(out, schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let texts: Vec<ByteArray> =
        questions.iter().flatten().map(|text| ByteArray::from(*text)).collect();
    let levels: Vec<i16> = questions.iter().map(|text| i16::from(text.is_some())).collect();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<ByteArrayType>().write_batch(&texts, Some(&levels), None).unwrap();
    column.close().unwrap();
    let numbers: Vec<i64> = (0..).take(questions.len()).collect();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&numbers, None, None).unwrap();
    column.close().unwrap();
    let plain = vec![ByteArray::from("{\"A\": \"b\"}"); questions.len()];
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<ByteArrayType>().write_batch(&plain, None, None).unwrap();
    column.close().unwrap();
    for texts in [["system", "user"], ["Be brief.", "Go."]] {
        let entries = questions.len() * 2;
        let values: Vec<ByteArray> =
            (0..entries).map(|entry| ByteArray::from(texts[entry % 2])).collect();
        let repetition: Vec<i16> = (0..entries).map(|entry| i16::from(entry % 2 == 1)).collect();
        let mut column = group.next_column().unwrap().unwrap();
        let definition = vec![4; entries];
        let typed = column.typed::<ByteArrayType>();
        typed.write_batch(&values, Some(&definition), Some(&repetition)).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    path
}

fn read_it(path: &Path, columns: &str) -> Result<Loaded, TaskError> {
    load(path, &columns.parse().unwrap())
}

#[test]
fn rows_become_tasks_by_a_column_map() {
    let zstd = Compression::ZSTD(ZstdLevel::default());
    for compression in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(Default::default()),
        zstd,
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = file(&dir, &[Some("one?"), Some("two?")], compression);
        let loaded = read_it(&path, "question=instruction,plain=env,nr=metadata.nr").unwrap();
        let tasks = &loaded.tasks;
        assert_eq!(tasks.len(), 2);
        assert_eq!(
            (tasks[1].task_id.as_str(), tasks[1].instruction.as_str()),
            ("set-000001", "two?")
        );
        assert_eq!((&tasks[1].env["A"], &tasks[1].metadata["nr"]), (&"b".to_owned(), &1.into()));
    }
}

#[test]
fn a_chat_is_an_instruction_and_a_number_an_id() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, &[None], Compression::SNAPPY);
    // The name says nothing; the first bytes do.
    let other = dir.path().join("data");
    std::fs::rename(&path, &other).unwrap();
    let tasks = read_it(&other, "turns=instruction,nr=task_id").unwrap().tasks;
    assert_eq!(
        (tasks[0].task_id.as_str(), tasks[0].instruction.as_str()),
        ("0", "Be brief.\n\nGo.")
    );
}

#[test]
fn an_error_names_file_row_and_column() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, &[Some("one?"), None], Compression::SNAPPY);
    let check = |columns: &str| read_it(&path, columns).unwrap_err().to_string();
    let missing = check("question=instruction");
    assert!(missing.ends_with("set.parquet, row 2: missing field `instruction`"), "{missing}");
    let near = check("qestion=instruction");
    assert!(
        near.ends_with("row 1: there is no column `qestion`; did you mean `question`?"),
        "{near}"
    );
    let twice = check("turns=instruction,plain=task_id");
    assert!(twice.contains("row 2: task_id `{\"A\": \"b\"}` was used on an earlier"), "{twice}");
    let bare = read_it(&path, "").unwrap_err().to_string();
    assert!(bare.contains("row 1: missing field `instruction`"), "{bare}");
}

#[test]
fn a_damaged_file_is_told_and_breaks_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, &[Some("one?"), Some("two?")], Compression::SNAPPY);
    let whole = std::fs::read(&path).unwrap();
    let mut refused = 0;
    for at in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x5a;
        std::fs::write(&path, &bytes).unwrap();
        match read_it(&path, "turns=instruction") {
            Ok(loaded) => assert_eq!(loaded.tasks.len(), 2, "byte {at}"),
            Err(error) => {
                assert!(error.to_string().contains("set.parquet"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 10, "{refused}");
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let error = read_it(&path, "turns=instruction").unwrap_err().to_string();
    assert!(error.contains("not a Parquet file that can be read"), "{error}");
}
