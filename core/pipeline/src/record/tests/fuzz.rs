//! Anything as a journal: what is read back was written, or the end is told.

use super::*;
use crate::fuzz;

#[test]
fn fuzz_journals() {
    fuzz::run("journals", &["RGJ1", "\0\0\0\0", "{\"", "RGJ1\u{10}\0\0\0"], |input| {
        check(input);
        check(&framed(input));
        // And what a write that was cut, or a page of zeros, leaves behind good records.
        let good = good();
        check(&[&good[..], input].concat());
        let records = check(&[&good[..], &input[..input.len().min(8)]].concat());
        assert!(records.is_none_or(|records| records >= 2), "no good record is lost");
    });
}

/// A frame whose checksum is right and whose content is anything.
fn framed(payload: &[u8]) -> Vec<u8> {
    let (json, columns) = payload.split_at(payload.len() / 2);
    let whole = |part: &[u8], out: &mut Vec<u8>| out.extend_from_slice(part);
    let json = |out: &mut Vec<u8>| {
        whole(json, out);
        Ok(())
    };
    super::super::frame::write(0, json, |out| whole(columns, out)).unwrap().to_vec()
}

fn good() -> Vec<u8> {
    let turns = [turn_record(TurnIndex(0)), turn_record(TurnIndex(1))];
    let frame = |turn| Record::Turn(Box::new(turn)).to_frame().unwrap().to_vec();
    turns.map(frame).concat()
}

/// How many records are read; `None` where the file is refused.
fn check(file: &[u8]) -> Option<usize> {
    let (records, tail) = Frames::new(file).read_all().ok()?;
    match tail {
        Tail::Whole => {}
        Tail::Torn { valid_bytes, lost_bytes } => {
            assert_eq!(valid_bytes + lost_bytes, file.len() as u64);
            let valid = &file[..usize::try_from(valid_bytes).unwrap()];
            let (again, tail) = Frames::new(valid).read_all().unwrap();
            assert_eq!(
                (again.len(), tail),
                (records.len(), Tail::Whole),
                "cut once, whole for good"
            );
        }
    }
    Some(records.len())
}
