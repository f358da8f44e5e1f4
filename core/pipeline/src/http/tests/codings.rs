//! Compressed bodies: what is sent plain is what is read, up to the bounds and no further.

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use super::*;
use crate::limits::{EXPANSION, EXPANSION_FREE_BYTES};

type Encode = fn(&[u8]) -> Vec<u8>;

/// A coding by its name in the header, and how clients write it.
const CODINGS: [(&str, Encode); 6] = [
    ("identity", <[u8]>::to_vec),
    ("gzip", gzip),
    ("x-gzip", two_members),
    ("deflate", zlib),
    ("deflate", raw_deflate),
    ("zstd", zstandard),
];

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn two_members(plain: &[u8]) -> Vec<u8> {
    let (first, second) = plain.split_at(plain.len() / 2);
    [gzip(first), gzip(second)].concat()
}

fn zlib(plain: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn raw_deflate(plain: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

/// As Codex does: level 3, with a checksum.
fn zstandard(plain: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn reader(coding: &str, framing: Framing, limit_bytes: u64) -> Result<BodyReader, Fault> {
    let head = format!("POST / HTTP/1.1\r\nContent-Encoding: {coding}\r\n\r\n");
    let mut head = read_head(&mut BytesMut::from(head.as_bytes())).unwrap().unwrap();
    head.framing = framing;
    BodyReader::of(&head, limit_bytes)
}

/// Reads a body that comes in pieces.
fn read(coding: &str, wire: &[u8], step: usize, limit_bytes: u64) -> Result<Vec<u8>, Fault> {
    let mut reader = reader(coding, Framing::Length(wire.len() as u64), limit_bytes)?;
    let mut buf = BytesMut::new();
    let mut state = reader.read(&mut buf)?;
    for piece in wire.chunks(step) {
        assert_eq!(state, BodyState::More);
        buf.extend_from_slice(piece);
        state = reader.read(&mut buf)?;
        assert!(buf.is_empty());
    }
    assert_eq!(state, BodyState::Done);
    Ok(reader.into_bytes().to_vec())
}

fn text(bytes: usize) -> Vec<u8> {
    (0..).flat_map(|n: u32| format!("line {n} of a body, ").into_bytes()).take(bytes).collect()
}

#[test]
fn l06_every_coding_gives_back_what_was_sent_at_every_cut() {
    let plain = text(60 << 10);
    for (name, encode) in CODINGS {
        let wire = encode(&plain);
        for step in [1, 2, 3, 1_000, wire.len()] {
            assert_eq!(read(name, &wire, step, 1 << 20).unwrap(), plain, "{name} by {step}");
        }
        assert_eq!(read(name, &encode(b""), 1 << 10, 100).unwrap(), b"", "{name}: nothing");
    }
}

#[test]
fn l06_a_compressed_body_may_be_chunked_and_what_follows_stays() {
    for (name, encode) in CODINGS {
        let wire = encode(b"some body");
        let mut buf = BytesMut::new();
        wire.chunks(5).for_each(|piece| buf.extend_from_slice(&chunk(piece)));
        buf.extend_from_slice(b"0\r\n\r\nGET /");
        let mut reader = reader(name, Framing::Chunked, 1_000).unwrap();
        assert_eq!(reader.read(&mut buf), Ok(BodyState::Done), "{name}");
        assert_eq!((&reader.into_bytes()[..], &buf[..]), (&b"some body"[..], &b"GET /"[..]));
    }
}

#[test]
fn l06_what_is_damaged_or_cut_is_refused() {
    let plain = text(10 << 10);
    for (name, encode) in CODINGS.into_iter().filter(|(name, _)| *name != "identity") {
        let wire = encode(&plain);
        let mut bad = vec![
            b"{\"model\":\"plain\"}".to_vec(),
            wire[..wire.len() - 1].to_vec(),
            wire[..wire.len() / 2].to_vec(),
            wire[..1].to_vec(),
            [&wire[..], b"more"].concat(),
            Vec::new(),
        ];
        // What has a checksum shows every damage.
        if encode(b"") != raw_deflate(b"") {
            for at in (0..wire.len()).step_by(41) {
                let mut damaged = wire.clone();
                damaged[at] ^= 0x55;
                bad.push(damaged);
            }
        }
        for bad in bad {
            match read(name, &bad, 100, 1 << 20) {
                Err(fault) => assert_eq!(fault.kind.status(), 400, "{name}: {fault}"),
                // A field of the header that changes nothing.
                Ok(body) => assert_eq!(body, plain, "{name}"),
            }
        }
    }
}

#[test]
fn l06_expansion_is_bounded_by_the_limit_and_by_its_ratio() {
    for (name, encode) in CODINGS {
        let exact = encode(&text(10_000));
        assert_eq!(read(name, &exact, 100, 10_000).unwrap().len(), 10_000, "{name}");
        let fault = read(name, &exact, 100, 9_999).unwrap_err();
        assert_eq!((fault.kind, fault.message.contains("9999")), (FaultKind::BodyTooLarge, true));
    }
    // Levels of zstd reach any ratio, deflate about 1,030.
    for (name, encode) in CODINGS.into_iter().filter(|(name, _)| *name != "identity") {
        let small = vec![b'x'; EXPANSION_FREE_BYTES as usize];
        assert_eq!(read(name, &encode(&small), 100, 64 << 20).unwrap().len(), small.len());
        let wire = encode(&vec![b'x'; 8 << 20]);
        let fault = read(name, &wire, 4 << 10, 64 << 20).unwrap_err();
        assert!(fault.message.contains(&EXPANSION.to_string()), "{name}: {fault}");
        assert_eq!(fault.kind, FaultKind::BodyTooLarge);
    }
}

#[test]
fn l06_a_window_beyond_what_http_demands_is_refused() {
    let wide = |log| {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(log).unwrap();
        // A frame whose size is not known names its window.
        encoder.include_contentsize(false).unwrap();
        encoder.write_all(&text(200_000)).unwrap();
        encoder.finish().unwrap()
    };
    assert_eq!(read("zstd", &wide(23), 1_000, 1 << 20).unwrap().len(), 200_000);
    assert_eq!(read("zstd", &wide(24), 1_000, 1 << 20).unwrap_err().kind, FaultKind::BadHttp);
}

#[test]
fn l06_what_is_not_read_is_named() {
    for coding in ["br", "foo", "gzip, zstd"] {
        let fault = reader(coding, Framing::Length(1), 10).err().unwrap();
        assert_eq!(fault.kind.status(), 415, "{coding}");
        assert!(fault.message.contains("gzip, deflate or zstd"), "{fault}");
    }
}

proptest! {
    /// Any bytes under any label: refused or read, the same however they are cut, never beyond the limit.
    #[test]
    fn noise_under_a_label_is_judged_alike(
        noise in prop::collection::vec(any::<u8>(), 0..200),
        begin in 0_usize..6,
        step in 1_usize..40,
    ) {
        let (name, encode) = CODINGS[begin];
        let mut wire = encode(b"begun well");
        wire.truncate(wire.len() / 2);
        wire.extend_from_slice(&noise);
        let whole = read(name, &wire, wire.len().max(1), 1_000);
        let pieces = read(name, &wire, step, 1_000);
        prop_assert_eq!(whole.is_ok(), pieces.is_ok());
        if let (Ok(whole), Ok(pieces)) = (whole, pieces) {
            prop_assert!(whole.len() <= 1_000);
            prop_assert_eq!(whole, pieces);
        }
    }
}
