//! Answers for HTTP/1.0.

use bytes::Bytes;

use super::*;

/// What a reader of HTTP/1.0 gets where the answer leaves in these pieces.
fn plain(pieces: &[Bytes]) -> String {
    let mut plainer = Plainer::default();
    let sent: Vec<u8> = pieces.iter().flat_map(|piece| plainer.pass(piece).to_vec()).collect();
    String::from_utf8(sent).unwrap()
}

#[test]
fn a_stream_has_no_chunks_and_ends_with_the_connection() {
    let head = events_head(true, &[("x-request-id", "r")]);
    let (one, two) = (chunk(b"data: 1\n\n"), chunk(b"data: 2\n\n"));
    let apart = [head.clone(), one.clone(), two.clone(), last_chunk()];
    let together = [Bytes::from([&head[..], &one, &two, &last_chunk()].concat())];
    let told = plain(&apart);
    assert_eq!(plain(&together), told);
    let (head, body) = told.split_once("\r\n\r\n").unwrap();
    assert_eq!(body, "data: 1\n\ndata: 2\n\n");
    assert!(!head.contains("transfer-encoding"), "{head}");
    assert!(head.contains("\r\nconnection: close") && !head.contains("keep-alive"), "{head}");
    assert!(head.contains("x-request-id: r"), "{head}");
}

#[test]
fn an_answer_with_a_length_passes() {
    let answer = reply(200, "application/json", b"transfer-encoding: chunked\r\n", true, &[]);
    let pieces = [answer.clone(), Bytes::from_static(b"0\r\n\r\n")];
    assert_eq!(plain(&pieces), String::from_utf8([&answer[..], b"0\r\n\r\n"].concat()).unwrap());
}
