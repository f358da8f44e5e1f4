//! Parquet files: how they come to be, and what damaged ones are told as.

use super::*;

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.starts_with("samples")).collect();
    names.sort();
    names
}

fn accept(sink: &mut Sink, n: u32) -> Sample {
    let sample = sample(u128::from(n), vec![n, 1], vec![-0.5, -0.25]);
    sink.accept(&mut line(&format!("t.{n}"), Outcome::Done), vec![sample.clone()]).unwrap();
    sample
}

#[test]
fn files_are_rolled_and_the_last_is_made_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut sink = Sink::open_rolling(dir.path(), &run(Format::Parquet), 1).unwrap();
    let mut samples: Vec<Sample> = (0..3).map(|n| accept(&mut sink, n)).collect();
    let rolled = ["samples-00001.parquet", "samples-00002.parquet", "samples-00003.jsonl"];
    assert_eq!(names(dir.path()), rolled);
    assert_eq!(read(dir.path()), samples, "while it runs");
    sink.finish().unwrap();
    sink.finish().unwrap();
    assert_eq!(names(dir.path()), [1, 2, 3].map(|n| format!("samples-0000{n}.parquet")));
    drop(sink);
    // A later run goes on in the next file.
    let mut sink = Sink::open_rolling(dir.path(), &run(Format::Parquet), 1).unwrap();
    assert!(sink.is_settled("t.2") && !sink.is_settled("t.3"));
    samples.push(accept(&mut sink, 3));
    sink.finish().unwrap();
    assert_eq!(names(dir.path()).len(), 4);
    assert_eq!(read(dir.path()), samples);
}

#[test]
fn a_crash_while_a_file_is_made_loses_and_doubles_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut sink = Sink::open(dir.path(), &run(Format::Parquet)).unwrap();
    let samples = vec![accept(&mut sink, 1), accept(&mut sink, 2)];
    drop(sink);
    let lines = dir.path().join("samples-00001.jsonl");
    let text = std::fs::read(&lines).unwrap();
    // Before the file is whole.
    std::fs::write(dir.path().join("samples-00001.parquet.tmp"), b"PAR1").unwrap();
    assert_eq!(read(dir.path()), samples);
    Sink::open(dir.path(), &run(Format::Parquet)).unwrap().finish().unwrap();
    assert_eq!(names(dir.path()), ["samples-00001.parquet"]);
    assert_eq!(read(dir.path()), samples);
    // Before the lines are removed.
    std::fs::write(&lines, text).unwrap();
    assert_eq!(read(dir.path()), samples);
    Sink::open(dir.path(), &run(Format::Parquet)).unwrap();
    assert_eq!(names(dir.path()), ["samples-00001.parquet"]);
    assert_eq!(read(dir.path()), samples);
}

#[test]
fn samples_without_a_line_are_not_put_into_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut sink = Sink::open(dir.path(), &run(Format::Parquet)).unwrap();
    let first = accept(&mut sink, 1);
    sink.doubtful = true;
    sink.finish().unwrap();
    assert_eq!(names(dir.path()), ["samples-00001.jsonl"]);
    assert_eq!(read(dir.path()), [first]);
}

#[test]
fn many_samples_make_many_row_groups() {
    let samples: Vec<Sample> =
        (0..9).map(|n| sample(n, vec![n as u32; 50], vec![-0.5; 50])).collect();
    let mut file = parquet::ParquetFile::new(Vec::new(), 1_000).unwrap();
    samples.iter().for_each(|sample| file.push(sample.clone()).unwrap());
    let bytes = file.finish().unwrap();
    assert!(from_parquet(bytes.clone()).unwrap() == samples);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("samples-00001.parquet"), &bytes).unwrap();
    let rows: Vec<u64> =
        read_samples(dir.path()).unwrap().map(|item| item.unwrap().0.line.unwrap()).collect();
    assert_eq!(rows, (1..10).collect::<Vec<_>>());
    let groups = parquet::row_groups(bytes).unwrap();
    assert!(groups > 2, "{groups}");
}

#[test]
fn damaged_files_are_told_and_do_not_end_the_reading() {
    let dir = tempfile::tempdir().unwrap();
    let good = to_parquet(vec![sample(1, vec![1, 2], vec![-0.5, 0.0])]).unwrap();
    let path = dir.path().join("samples-00001.parquet");
    for cut in [0, 4, 100, good.len() / 2, good.len() - 1] {
        std::fs::write(&path, &good[..cut]).unwrap();
        let read: Vec<_> = read_samples(&path).unwrap().collect();
        assert!(matches!(read.as_slice(), [Err(ReadError::NotASample { .. })]), "cut at {cut}");
    }
    // Whatever byte is damaged: an answer, not a panic.
    for at in (0..good.len()).step_by(7) {
        let mut damaged = good.clone();
        damaged[at] ^= 0x55;
        std::fs::write(&path, &damaged).unwrap();
        assert!(read_samples(&path).unwrap().count() <= 1);
    }
    std::fs::write(&path, &good).unwrap();
    let (at, _) = read_samples(&path).unwrap().next().unwrap().unwrap();
    assert_eq!(at.line, Some(1));
}
