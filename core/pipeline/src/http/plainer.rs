//! Answers for agents that speak HTTP/1.0: without chunks, ended by the end of the connection.

use bytes::{Bytes, BytesMut};

use super::chunked::Chunked;

/// Makes an answer of HTTP/1.1, as it leaves, one that a reader of HTTP/1.0 understands. What is not
/// chunked passes as it is.
#[derive(Default)]
pub struct Plainer {
    place: Place,
}

#[derive(Default)]
enum Place {
    /// The next bytes begin with a whole head, as all our answers do.
    #[default]
    Head,
    /// The answer has a length.
    Plain,
    Chunks(Chunked, BytesMut),
}

impl Plainer {
    /// The bytes to send in place of these.
    pub fn pass(&mut self, bytes: &Bytes) -> Bytes {
        match &mut self.place {
            Place::Plain => bytes.clone(),
            Place::Chunks(chunked, unread) => {
                unread.extend_from_slice(bytes);
                data(chunked, unread)
            }
            Place::Head => self.head(bytes),
        }
    }

    fn head(&mut self, bytes: &Bytes) -> Bytes {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let head = end.map(|end| &bytes[..end + 2]).and_then(|head| std::str::from_utf8(head).ok());
        let (Some(end), Some(head)) = (end, head) else { return bytes.clone() };
        let chunked =
            |line: &&str| line.trim_end().eq_ignore_ascii_case("transfer-encoding: chunked");
        if !head.split_inclusive('\n').any(|line| chunked(&line)) {
            self.place = Place::Plain;
            return bytes.clone();
        }
        let mut plain = BytesMut::new();
        for line in head.split_inclusive('\n').filter(|line| !chunked(line)) {
            let connection = line.to_ascii_lowercase().starts_with("connection:");
            plain.extend_from_slice(if connection {
                b"connection: close\r\n"
            } else {
                line.as_bytes()
            });
        }
        plain.extend_from_slice(b"\r\n");
        let (mut chunks, mut unread) = (Chunked::new(u64::MAX), BytesMut::from(&bytes[end + 4..]));
        plain.extend_from_slice(&data(&mut chunks, &mut unread));
        self.place = Place::Chunks(chunks, unread);
        plain.freeze()
    }
}

/// The data of chunks that we wrote ourselves.
fn data(chunks: &mut Chunked, unread: &mut BytesMut) -> Bytes {
    let mut data = BytesMut::new();
    // Ours are sound; were they not, nothing would be sent.
    let _ = chunks.read(unread, &mut data);
    data.freeze()
}
