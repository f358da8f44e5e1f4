//! Anything as a stream of requests: the same requests however it is cut, and nothing beyond them read.

use super::*;
use crate::fuzz;

const WORDS: [&str; 24] = [
    "POST / HTTP/1.1\r\n",
    "GET /v1/models HTTP/1.1\r\n",
    "HTTP/1.0\r\n",
    "\r\n\r\n",
    "\r\n",
    "\n",
    "Content-Length: 5\r\n",
    "Content-Length: ",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: ",
    "Connection: close\r\n",
    "Connection: keep-alive\r\n",
    "Expect: 100-continue\r\n",
    "Upgrade: websocket\r\n",
    "Content-Encoding: gzip\r\n",
    "Content-Encoding: deflate\r\n",
    "Content-Encoding: zstd\r\n",
    "5\r\nhello\r\n",
    "0\r\n\r\n",
    "0\r\nTrailer: x\r\n\r\n",
    "ffffffffffffffff\r\n",
    ";ext=1",
    "\t",
    " ",
];

/// Reads requests as a connection does.
#[derive(Default)]
struct Connection {
    buf: BytesMut,
    body: Option<BodyReader>,
    seen: Vec<String>,
    over: bool,
}

impl Connection {
    fn feed(&mut self, bytes: &[u8]) {
        self.buf.extend_from_slice(bytes);
        while !self.over && self.step() {}
    }

    /// Whether there is more to do with what is here.
    fn step(&mut self) -> bool {
        if let Some(body) = &mut self.body {
            match body.read(&mut self.buf) {
                Ok(BodyState::More) => return false,
                Ok(BodyState::Done) => {
                    let body = self.body.take().unwrap().into_bytes();
                    assert!(body.len() <= 4_000, "the limit holds");
                    self.seen.push(format!("{body:?}"));
                }
                Err(fault) => self.end(&fault),
            }
            return true;
        }
        match read_head(&mut self.buf) {
            Ok(None) => false,
            Ok(Some(head)) => {
                let flags = (head.keep_alive, head.expect_continue, head.upgrade, head.http10);
                let routed = route(&head).map_err(|(dialect, fault)| (dialect, fault.kind));
                self.seen.push(format!("{} {:?} {flags:?} {routed:?}", head.target, head.framing));
                match BodyReader::of(&head, 4_000) {
                    Ok(reader) => self.body = Some(reader),
                    Err(fault) => self.end(&fault),
                }
                true
            }
            Err(fault) => {
                self.end(&fault);
                false
            }
        }
    }

    fn end(&mut self, fault: &Fault) {
        assert!((400..500).contains(&fault.kind.status()), "{fault}");
        self.seen.push(format!("{:?}", fault.kind));
        self.over = true;
    }
}

#[test]
fn fuzz_requests() {
    fuzz::run("requests", &WORDS, |input| {
        let mut whole = Connection::default();
        whole.feed(input);
        let mut cut = Connection::default();
        for pair in fuzz::cuts(input, 7).windows(2) {
            cut.feed(&input[pair[0]..pair[1]]);
        }
        assert_eq!(cut.seen, whole.seen);
        if !whole.over {
            assert_eq!(cut.buf, whole.buf);
            assert!(input.ends_with(&whole.buf), "what is left is what came last");
        }
    });
}
