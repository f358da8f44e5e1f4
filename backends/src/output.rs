//! A bounded view of an endless output: its head, its tail, and how much is missing between.

use std::collections::VecDeque;

/// Keeps at most `cap` bytes of what is pushed: half from the start, the rest from the end.
#[derive(Debug)]
pub(crate) struct HeadTail {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_cap: usize,
    tail_cap: usize,
    cut_bytes: u64,
}

impl HeadTail {
    pub fn new(cap_bytes: usize) -> Self {
        let head_cap = cap_bytes / 2;
        let (head, tail) = (Vec::new(), VecDeque::new());
        Self { head, tail, head_cap, tail_cap: cap_bytes - head_cap, cut_bytes: 0 }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        let room = (self.head_cap - self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        let skipped = rest.len().saturating_sub(self.tail_cap);
        let rest = &rest[skipped..];
        let dropped = (self.tail.len() + rest.len()).saturating_sub(self.tail_cap);
        self.tail.drain(..dropped);
        self.tail.extend(rest);
        self.cut_bytes += (skipped + dropped) as u64;
    }

    /// What was kept of the start so far.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// What was kept, and how many bytes were not.
    pub fn finish(mut self) -> (Vec<u8>, u64) {
        self.head.extend(self.tail);
        (self.head, self.cut_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cap: usize, pieces: &[&str], kept: &str, cut: u64) {
        let mut output = HeadTail::new(cap);
        for piece in pieces {
            output.push(piece.as_bytes());
        }
        assert_eq!(output.finish(), (kept.as_bytes().to_vec(), cut), "{pieces:?} in {cap}");
    }

    #[test]
    fn the_middle_is_cut_whatever_the_pieces() {
        check(4, &["abcdefgh"], "abgh", 4);
        check(4, &["a", "b", "c", "d", "e", "f", "g", "h"], "abgh", 4);
        check(4, &["abc", "defgh"], "abgh", 4);
        check(5, &["abcdefgh"], "abfgh", 3);
        check(8, &["abcd", "efgh"], "abcdefgh", 0);
        check(0, &["abc"], "", 3);
        check(4, &[], "", 0);
    }
}
