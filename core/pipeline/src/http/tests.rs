//! Bytes in, text out; each case at every cut of its bytes.

mod codings;
mod fuzz;
mod plainer;

use bytes::BytesMut;
use proptest::prelude::*;

use super::*;
use crate::fault::{Fault, FaultKind};
use crate::limits::{HEAD_BYTES, HEADERS};

const LIMIT_BYTES: u64 = 40;

/// A reader at work: given the buffer and whether these are the last bytes, its verdict.
type Steps = Box<dyn FnMut(&mut BytesMut, bool) -> Option<String>>;
/// Makes a reader under test.
type Reader<'a> = &'a dyn Fn() -> Steps;

/// Feeds the pieces; the verdict, and what is left in the buffer at the end.
fn feed<'a>(reader: Reader<'_>, pieces: impl Iterator<Item = &'a [u8]>) -> String {
    let (mut read, mut buf, mut verdict) = (reader(), BytesMut::new(), None);
    let mut pieces = pieces.peekable();
    while let Some(piece) = pieces.next() {
        buf.extend_from_slice(piece);
        if verdict.is_none() {
            verdict = read(&mut buf, pieces.peek().is_none());
        }
    }
    match verdict {
        Some(verdict) if verdict.starts_with("Err") => verdict,
        Some(verdict) => format!("{verdict} | {:?}", String::from_utf8_lossy(&buf)),
        None => "more".to_owned(),
    }
}

/// Feeds the bytes whole, cut in two at every place (few places of many bytes), and one by one:
/// always the same.
fn check(reader: Reader<'_>, bytes: &[u8], want: &str) {
    let whole = feed(reader, std::iter::once(bytes));
    assert_eq!(whole, want, "{}", String::from_utf8_lossy(bytes));
    let few = bytes.len() < 1_000;
    for at in (0..bytes.len()).step_by(if few { 1 } else { bytes.len() / 5 }) {
        let (first, second) = bytes.split_at(at);
        assert_eq!(feed(reader, [first, second].into_iter()), whole, "cut at {at}");
    }
    if few && !bytes.is_empty() {
        assert_eq!(feed(reader, bytes.chunks(1)), whole, "byte by byte");
    }
}

fn told(fault: &Fault) -> Option<String> {
    Some(format!("Err {}: {}", fault.kind.label(), fault.message))
}

fn head_reader() -> Steps {
    Box::new(|buf, _| match read_head(buf) {
        Err(fault) => told(&fault),
        Ok(head) => head.map(|head| {
            let flags = [
                (head.keep_alive, " keep"),
                (head.expect_continue, " expect"),
                (head.upgrade, " upgrade"),
            ];
            let flags: String = flags.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
            format!("{:?} {} {:?}{flags}", head.method, head.target, head.framing)
        }),
    })
}

fn body_reader(framing: Framing) -> Steps {
    let mut reader = Some(BodyReader::new(framing, LIMIT_BYTES));
    Box::new(move |buf, _| match reader.as_mut()? {
        Err(fault) => told(fault),
        Ok(body) => match body.read(buf) {
            Err(fault) => told(&fault),
            Ok(BodyState::More) => None,
            Ok(BodyState::Done) => {
                let body = reader.take()?.ok()?.into_bytes();
                Some(String::from_utf8_lossy(&body).into_owned())
            }
        },
    })
}

fn reply_reader() -> Steps {
    let mut reader = Some(ReplyReader::new(LIMIT_BYTES));
    Box::new(move |buf, eof| match reader.as_mut()?.read(buf, eof) {
        Err(fault) => told(&fault),
        Ok(BodyState::More) => None,
        Ok(BodyState::Done) => {
            let (head, body) = reader.take()?.into_parts()?;
            let body = String::from_utf8_lossy(&body).into_owned();
            Some(format!("{} {} {:?} {body}", head.status, head.keep_alive, head.retry_after_s))
        }
    })
}

fn check_head(bytes: &str, want: &str) {
    check(&head_reader, bytes.as_bytes(), want);
}

/// The head is refused with this kind of fault.
fn check_bad_head(head: &str, kind: FaultKind) {
    let verdict = feed(&head_reader, std::iter::once(head.as_bytes()));
    assert!(verdict.starts_with(&format!("Err {}:", kind.label())), "{head:?}: {verdict}");
    check_head(head, &verdict);
}

fn check_chunked(bytes: &str, want: &str) {
    check(&|| body_reader(Framing::Chunked), bytes.as_bytes(), want);
}

#[test]
fn heads_are_read() {
    check_head("GET / HTTP/1.1\r\n\r\n", "Get / None keep | \"\"");
    check_head(
        "POST /v1/x?a=b HTTP/1.1\r\nhost: h\r\nContent-LENGTH:  3 \r\n\r\nabcGET",
        "Post /v1/x?a=b Length(3) keep | \"abcGET\"",
    );
    check_head("\r\n\r\nBREW / HTTP/1.1\r\n\r\n", "Other / None keep | \"\"");
    check_head("GET / HTTP/1.1\r\nHost: h\r\n", "more");
}

#[test]
fn connections_stay_open_as_the_version_says() {
    let cases = [
        ("HTTP/1.1\r\nConnection: Close", ""),
        ("HTTP/1.1\r\nConnection: x-a, close", ""),
        ("HTTP/1.1\r\nConnection: keep-alive", " keep"),
        ("HTTP/1.0\r\nHost: h", ""),
        ("HTTP/1.0\r\nConnection: Keep-Alive", " keep"),
        ("HTTP/1.0\r\nExpect: 100-continue", ""),
    ];
    for (rest, flags) in cases {
        check_head(&format!("GET / {rest}\r\n\r\n"), &format!("Get / None{flags} | \"\""));
    }
}

#[test]
fn l02_expect_continue_is_seen() {
    check_head(
        "POST / HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 5000000\r\n\r\n",
        "Post / Length(5000000) keep expect | \"\"",
    );
}

#[test]
fn l10_l11_ambiguous_lengths_are_refused() {
    let bad = [
        "Content-Length: 5\r\nContent-Length: 50",
        "Content-Length: 5, 5",
        "Content-Length: +5",
        "Content-Length: -5",
        "Content-Length: 0x5",
        "Content-Length: 5 5",
        "Content-Length:",
        "Content-Length: 99999999999999999999999",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: \u{b}chunked",
        "Transfer-Encoding:",
        "Transfer-Encoding : chunked",
        "Content-Length : 5",
        "A: b\r\n c: folded",
        "A: b\r\n\tc: folded",
        "A: b\rContent-Length: 5",
        "A: b\nContent-Length: 5",
        "A\r\nB: c",
        ": no name",
        "A: nul\0",
    ];
    for fields in bad {
        check_bad_head(&format!("POST / HTTP/1.1\r\n{fields}\r\n\r\n"), FaultKind::BadHttp);
    }
    check_bad_head("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", FaultKind::BadHttp);
    check_head(
        "POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
        "Post / Length(5) keep | \"\"",
    );
    for value in ["chunked", "CHUNKED", " chunked\t"] {
        check_head(
            &format!("POST / HTTP/1.1\r\nTransfer-Encoding:{value}\r\n\r\n"),
            "Post / Chunked keep | \"\"",
        );
    }
}

#[test]
fn request_lines_that_are_none_are_refused() {
    for line in [
        "GET /\r\n\r\n",
        "GET / HTTP/2.0\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET  / HTTP/1.1\r\n\r\n",
        "GET / x HTTP/1.1\r\n\r\n",
        "\x16\x03\x01\x02\0\x01",
        "{\"a\":1}\r\n\r\n",
        "GET / HTTP/1.1\n\n",
    ] {
        check_bad_head(line, FaultKind::BadHttp);
    }
}

#[test]
fn l20_websocket_upgrades_are_seen_and_others_ignored() {
    let head = |to| format!("GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: {to}\r\n\r\n");
    check_head(&head("WebSocket"), "Get / None keep upgrade | \"\"");
    check_head(&head("h2c"), "Get / None keep | \"\"");
}

#[test]
fn l22_heads_are_bounded_from_both_sides() {
    let many = |count| format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(count));
    check_head(&many(HEADERS), "Get / None keep | \"\"");
    check_bad_head(&many(HEADERS + 1), FaultKind::HeadTooLarge);

    let frame = "GET / HTTP/1.1\r\nA: \r\n\r\n".len();
    let large =
        |bytes: usize| format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(bytes - frame));
    check_head(&large(20_000), "Get / None keep | \"\"");
    check_head(&large(HEAD_BYTES), "Get / None keep | \"\"");
    check_bad_head(&large(HEAD_BYTES + 1), FaultKind::HeadTooLarge);
    check_bad_head(&large(600_000), FaultKind::HeadTooLarge);
}

#[test]
fn m04_header_bytes_that_are_not_utf8_are_tolerated() {
    let mut buf = BytesMut::from(&b"GET / HTTP/1.1\r\nX-Name: a\xFF\xE5b\r\n\r\n"[..]);
    let head = read_head(&mut buf).unwrap().unwrap();
    assert_eq!(head.header("x-name"), Some("a\u{fffd}\u{fffd}b"));
}

#[test]
fn heads_are_never_printed_with_their_values() {
    let mut buf = BytesMut::from(&b"GET /k/secret HTTP/1.1\r\nX-Api-Key: secret\r\n\r\n"[..]);
    let head = read_head(&mut buf).unwrap().unwrap();
    assert!(!format!("{head:?}").contains("secret"));
}

#[test]
fn bodies_are_read_by_length() {
    let length = |bytes| move || body_reader(Framing::Length(bytes));
    check(&length(3), b"abcGET", "abc | \"GET\"");
    check(&length(0), b"GET", " | \"GET\"");
    check(&length(5), b"abc", "more");
    check(&|| body_reader(Framing::None), b"GET", " | \"GET\"");
}

#[test]
fn l05_bodies_over_the_limit_are_refused() {
    let told = "Err body_too_large: the request body is larger than 40 bytes; raise \
                `limits.body_bytes` of the node or send less";
    let text = "x".repeat(40);
    check(&|| body_reader(Framing::Length(40)), text.as_bytes(), &format!("{text} | \"\""));
    check(&|| body_reader(Framing::Length(41)), b"x", told);
    check_chunked(&format!("28\r\n{text}\r\n0\r\n\r\n"), &format!("{text} | \"\""));
    check_chunked(
        &format!("20\r\n{}\r\n8\r\n{}\r\n0\r\n\r\n", &text[8..], &text[..8]),
        &format!("{text} | \"\""),
    );
    check_chunked("29\r\n", told);
    check_chunked("ffffffffffffffff\r\n", told);
    check_chunked(&format!("28\r\n{text}\r\n1\r\n"), told);
}

#[test]
fn l05_large_bodies_are_read() {
    let piece = [b'x'; 50_000];
    let pieces = 400;
    let bytes = (piece.len() * pieces) as u64;
    for framing in [Framing::Length(bytes), Framing::Chunked] {
        let mut reader = BodyReader::new(framing, bytes).unwrap();
        let mut buf = BytesMut::new();
        for _ in 0..pieces {
            assert_eq!(reader.read(&mut buf), Ok(BodyState::More));
            match framing {
                Framing::Chunked => buf.extend_from_slice(&chunk(&piece)),
                _ => buf.extend_from_slice(&piece),
            }
        }
        if framing == Framing::Chunked {
            buf.extend_from_slice(&last_chunk());
        }
        assert_eq!(reader.read(&mut buf), Ok(BodyState::Done));
        assert_eq!(reader.into_bytes().len() as u64, bytes);
    }
}

#[test]
fn l11_chunks_with_extensions_and_trailers_are_read() {
    check_chunked(
        "3;name=\"v\"\r\nabc\r\n00A ; x\r\n0123456789\r\n0\r\nTrailer: t\r\nB: c\r\n\r\nGET",
        "abc0123456789 | \"GET\"",
    );
    check_chunked("0\r\n\r\n", " | \"\"");
    check_chunked("3\r\nabc\r\n0\r\n", "more");
}

#[test]
fn malformed_chunks_are_refused() {
    let size = "a chunk size is not a hexadecimal number";
    let cases = [
        ("\r\n", size),
        ("x\r\n", size),
        ("0x3\r\n", size),
        ("+3\r\n", size),
        ("-1\r\n", size),
        (" 3\r\n", size),
        ("3 4\r\n", size),
        ("11112222333344445\r\n", size),
        ("3\n", "a line between chunks ends without a carriage return"),
        ("3;a\rb\r\n", "a line between chunks holds a bare carriage return"),
        ("3\r\nabcd\r\n", "a chunk is longer than its size says"),
        ("3\r\nabc\n", "a line between chunks ends without a carriage return"),
    ];
    for (bytes, why) in cases {
        let want = format!("Err bad_http: the chunked request body is malformed: {why}");
        check_chunked(bytes, &want);
    }
    let long = format!("3;{}", "x".repeat(2_000));
    let want =
        "Err bad_http: the chunked request body is malformed: a line between chunks is too long";
    check_chunked(&long, want);
    let trailers = format!("0\r\n{}", "A: bcdefghijklmnopqrst\r\n".repeat(1_000));
    let verdict = feed(&|| body_reader(Framing::Chunked), trailers.as_bytes().chunks(700));
    assert!(verdict.ends_with("chunk extensions and trailers are too long"), "{verdict}");
}

fn check_reply(bytes: &str, want: &str) {
    check(&reply_reader, bytes.as_bytes(), want);
}

fn check_bad_reply(bytes: &str, why: &str) {
    let want = format!("Err engine_bad_reply: the engine's reply is unusable: {why}");
    check_reply(bytes, &want);
}

#[test]
fn replies_are_read_however_they_are_framed() {
    check_reply("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcX", "200 true None abc | \"X\"");
    check_reply(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "200 true None abc | \"\"",
    );
    check_reply("HTTP/1.1 200 OK\r\n\r\nabc", "200 false None abc | \"\"");
    check_reply("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", "200 false None a | \"\"");
    check_reply("HTTP/1.1 204 No Content\r\n\r\n", "204 true None  | \"\"");
    check_reply("HTTP/1.1 304 \r\nContent-Length: 9\r\n\r\n", "304 true None  | \"\"");
    check_reply(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\nHTTP/1.1 503 Busy\r\n\
         Retry-After: 7\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        "503 false Some(7)  | \"\"",
    );
    check_reply(
        "HTTP/1.1 429 \r\nRetry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\nContent-Length: 0\r\n\r\n",
        "429 true None  | \"\"",
    );
}

#[test]
fn replies_that_end_early_say_how_far_they_came() {
    check_bad_reply("", "the connection was closed before its first byte");
    check_bad_reply("HTTP/1.1 200", "the connection was closed after 12 bytes of its head");
    check_bad_reply(
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
        "the connection was closed after 3 of 9 bytes of its body",
    );
    check_bad_reply(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        "the connection was closed after 3 bytes of an unfinished body",
    );
}

#[test]
fn replies_that_cannot_be_trusted_are_refused() {
    let limit = "its body is larger than `limits.engine_reply_bytes`, 40";
    let more = "x".repeat(41);
    check_bad_reply("HTTP/1.1 200 OK\r\nContent-Length: 41\r\n\r\n", limit);
    check_bad_reply("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n29\r\n", limit);
    check_bad_reply(&format!("HTTP/1.1 200 OK\r\n\r\n{more}"), limit);
    check_bad_reply("HTTP/1.1 101 Switching\r\n\r\n", "its status is 101");
    check_bad_reply(
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "there are two Content-Length fields that differ",
    );
    check_bad_reply("SSH-2.0-x\r\n\r\n", "it is not sound HTTP/1.1: invalid HTTP version");
}

#[test]
fn l07_a_compressed_reply_is_named() {
    check_bad_reply(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\u{b}x",
        "its body is compressed, which was not asked for",
    );
}

#[test]
fn l22_an_engine_head_is_bounded() {
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(HEADERS + 1));
    check_bad_reply(&many, "its head has more than 128 fields");
    let large = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(HEAD_BYTES));
    check_bad_reply(&large, "its head is larger than 65536 bytes");
}

#[test]
fn l01_a_reader_knows_whether_the_engine_began_to_answer() {
    let mut reader = ReplyReader::new(LIMIT_BYTES);
    let mut buf = BytesMut::new();
    assert_eq!(reader.read(&mut buf, false), Ok(BodyState::More));
    assert!(!reader.started());
    buf.extend_from_slice(b"H");
    assert_eq!(reader.read(&mut buf, false), Ok(BodyState::More));
    assert!(reader.started());
    assert_eq!(reader.into_parts(), None);
}

#[test]
fn l03_pipelined_requests_come_one_after_the_other() {
    let mut buf = BytesMut::from(
        "POST /a HTTP/1.1\r\nContent-Length: 1\r\n\r\nx\r\nPOST /b HTTP/1.1\r\n\
         Transfer-Encoding: chunked\r\n\r\n1\r\ny\r\n0\r\n\r\n",
    );
    for (target, body) in [("/a", "x"), ("/b", "y")] {
        let head = read_head(&mut buf).unwrap().unwrap();
        assert_eq!(head.target, target);
        let mut reader = BodyReader::new(head.framing, LIMIT_BYTES).unwrap();
        assert_eq!(reader.read(&mut buf), Ok(BodyState::Done));
        assert_eq!(reader.into_bytes(), body);
    }
    assert!(buf.is_empty());
}

#[test]
fn what_is_written_is_exact() {
    let text = |bytes: bytes::Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    assert_eq!(
        text(reply(503, "application/json", b"{}", false, &[("retry-after", "1\r\nx: y")])),
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n\
         content-length: 2\r\nconnection: close\r\nretry-after: 1  x: y\r\n\r\n{}"
    );
    let head = text(events_head(true, &[]));
    assert!(head.contains("cache-control: no-cache\r\nx-accel-buffering: no\r\n"), "{head}");
    assert!(!head.contains("content-length"), "{head}");
    assert_eq!(text(chunk(&[b'x'; 26])), format!("1a\r\n{}\r\n", "x".repeat(26)));
    assert_eq!(text(chunk(b"")), "");
    let whole = [chunk(b"data: x\n\n"), last_chunk()].concat();
    assert_eq!(rest_of_chunks(b"", b"data: x\n\n"), whole);
    assert_eq!(rest_of_chunks(b"head", b"data: x\n\n"), [b"head", &whole[..]].concat());
    assert_eq!(rest_of_chunks(b"", b""), last_chunk(), "no empty chunk before the end");
    let request = text(request_head("h:1", "/generate", 7, &[("x-request-id", "r")]));
    assert!(request.starts_with("POST /generate HTTP/1.1\r\nhost: h:1\r\n"), "{request}");
    assert!(request.contains("content-length: 7\r\n"), "{request}");
    assert!(request.ends_with("x-request-id: r\r\n\r\n"), "{request}");
}

fn body_bytes() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 0..4)
}

proptest! {
    /// What we write, our reader reads back, at every cut.
    #[test]
    fn chunks_round_trip(pieces in body_bytes(), step in 1_usize..9) {
        let mut wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for piece in &pieces {
            wire.extend_from_slice(&chunk(piece));
        }
        wire.extend_from_slice(&last_chunk());
        let mut reader = ReplyReader::new(1_000);
        let mut buf = BytesMut::new();
        let mut state = BodyState::More;
        for piece in wire.chunks(step) {
            prop_assert_eq!(state, BodyState::More);
            buf.extend_from_slice(piece);
            state = reader.read(&mut buf, false).unwrap();
        }
        prop_assert_eq!(state, BodyState::Done);
        let (_, body) = reader.into_parts().unwrap();
        prop_assert_eq!(body, pieces.concat());
    }

    /// Any bytes: the same verdict however they are cut.
    #[test]
    fn noise_is_judged_alike(
        noise in concat!(
            "(POST / HTTP/1\\.[01]\r\n)?([a-zT:\\-]{0,9}: ?[0-9a-z, \t]{0,4}\r?\n?){0,4}",
            "(\r\n)?[0-9a-f;\r\n]{0,9}",
        ),
        step in 1_usize..9,
    ) {
        let bytes = noise.as_bytes();
        for reader in [&head_reader as Reader<'_>, &|| body_reader(Framing::Chunked)] {
            let whole = feed(reader, std::iter::once(bytes));
            prop_assert_eq!(feed(reader, bytes.chunks(step)), whole);
        }
    }
}
