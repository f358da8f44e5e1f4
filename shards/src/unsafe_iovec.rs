//! Bytes in pieces, as the kernel takes them in one write. Unsafe: the driver wants bare pointers.

#![expect(unsafe_code, reason = "monoio's buffers of many pieces are an unsafe trait")]

use bytes::{Buf, Bytes};
use nix::libc::iovec;

use crate::bounds::PIECES_AT_ONCE;
use crate::rt::buf::IoVecBuf;

/// What is left to write, in pieces that are shared and not copied. The driver owns it while it
/// writes, so the pieces live for as long as the kernel may read them.
pub(crate) struct Pieces {
    pieces: Vec<Bytes>,
    /// The first piece that is not written.
    at: usize,
    /// Where the next pieces lie, at most [`PIECES_AT_ONCE`].
    shown: Vec<iovec>,
}

impl Pieces {
    pub(crate) fn new(mut pieces: Vec<Bytes>) -> Self {
        pieces.retain(|piece| !piece.is_empty());
        let mut new = Self { pieces, at: 0, shown: Vec::new() };
        new.show();
        new
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.pieces.len()
    }

    /// So many bytes are written.
    pub(crate) fn advance(&mut self, mut written: usize) {
        while let Some(piece) = self.pieces.get_mut(self.at) {
            if written < piece.len() {
                piece.advance(written);
                break;
            }
            written -= piece.len();
            *piece = Bytes::new();
            self.at += 1;
        }
        self.show();
    }

    fn next(&self) -> impl Iterator<Item = &Bytes> {
        self.pieces[self.at..].iter().take(PIECES_AT_ONCE)
    }

    fn show(&mut self) {
        let mut shown = std::mem::take(&mut self.shown);
        shown.clear();
        let place = |piece: &Bytes| iovec {
            iov_base: piece.as_ptr().cast_mut().cast(),
            iov_len: piece.len(),
        };
        shown.extend(self.next().map(place));
        self.shown = shown;
    }
}

// SAFETY: each entry of `shown` is a piece that `self` holds a handle of and that nothing writes to.
// Neither the list nor the bytes of a piece move when `self` does, and both change in `advance` only,
// which the driver, as the owner, rules out until it gives `self` back.
unsafe impl IoVecBuf for Pieces {
    fn read_iovec_ptr(&self) -> *const iovec {
        self.shown.as_ptr()
    }

    fn read_iovec_len(&self) -> usize {
        self.shown.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(count: usize) -> Vec<Bytes> {
        (0..count).map(|at| vec![at as u8; [3, 1, 0, 17, 2][at % 5]].into()).collect()
    }

    /// A kernel that takes so many bytes at once, or all that it is shown.
    fn taken(pieces: Vec<Bytes>, short: usize) -> (Vec<u8>, usize) {
        let (mut left, mut out, mut writes) = (Pieces::new(pieces), Vec::new(), 0);
        while !left.is_empty() {
            assert!(left.shown.len() <= PIECES_AT_ONCE && !left.shown.is_empty());
            let shown: Vec<u8> = left.next().flatten().copied().collect();
            let lengths: usize = left.shown.iter().map(|place| place.iov_len).sum();
            assert_eq!(lengths, shown.len());
            let written = shown.len().min(short);
            out.extend_from_slice(&shown[..written]);
            left.advance(written);
            writes += 1;
        }
        (out, writes)
    }

    #[test]
    fn writes_may_end_at_every_byte() {
        let whole = pieces(23).concat();
        for short in 1..=whole.len() + 1 {
            let (out, writes) = taken(pieces(23), short);
            assert_eq!(out, whole, "{short} bytes at once");
            assert_eq!(writes, whole.len().div_ceil(short));
        }
        // The first write ends at each byte, the second takes the rest.
        for first in 0..whole.len() {
            let mut left = Pieces::new(pieces(23));
            left.advance(first);
            assert_eq!(left.next().flatten().copied().collect::<Vec<u8>>(), &whole[first..]);
            left.advance(whole.len() - first);
            assert!(left.is_empty());
        }
    }

    #[test]
    fn three_thousand_pieces_are_more_than_one_write() {
        for short in [1, 7, 1_000, usize::MAX] {
            let (out, writes) = taken(pieces(3_750), short);
            assert_eq!(out, pieces(3_750).concat());
            assert!(short < usize::MAX || writes == 3, "{writes}");
        }
        assert!(Pieces::new(vec![Bytes::new()]).is_empty());
    }
}
