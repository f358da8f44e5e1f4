//! The bytes of the buffers that operations are given.

#![expect(unsafe_code, reason = "monoio shows its buffers as pointers only")]

use monoio::buf::{IoBuf, IoBufMut, IoVecBuf};

/// What is to be written.
pub(super) fn bytes_of(buf: &impl IoBuf) -> &[u8] {
    // SAFETY: the trait promises that so many bytes from there on are initialized, and `buf` is
    // borrowed for as long as the slice lives.
    unsafe { std::slice::from_raw_parts(buf.read_ptr(), buf.bytes_init()) }
}

/// Lays bytes, no more than it has room for, at the buffer's beginning.
pub(super) fn fill(buf: &mut impl IoBufMut, bytes: &[u8]) {
    assert!(bytes.len() <= buf.bytes_total(), "more than the buffer has room for");
    // SAFETY: the trait promises room for `bytes_total`, the length is checked above, and nothing
    // else refers to the buffer, which is borrowed alone.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), buf.write_ptr(), bytes.len());
        buf.set_init(bytes.len());
    }
}

/// What is to be written, in one piece.
pub(super) fn gather(buf: &impl IoVecBuf) -> Vec<u8> {
    // SAFETY: the trait promises so many vectors, each of initialized bytes, for as long as `buf`
    // is borrowed.
    unsafe {
        let pieces = std::slice::from_raw_parts(buf.read_iovec_ptr(), buf.read_iovec_len());
        let bytes = pieces.iter().flat_map(|piece| {
            std::slice::from_raw_parts(piece.iov_base.cast::<u8>().cast_const(), piece.iov_len)
        });
        bytes.copied().collect()
    }
}
