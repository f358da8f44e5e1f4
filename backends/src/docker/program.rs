//! What the mounted `rollgate` program needs from an image.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// The loader that a program asks the kernel for; `None` when it is static, or cannot be read.
pub(super) fn loader(program: &Path) -> Option<String> {
    let mut file = std::fs::File::open(program).ok()?;
    let mut head = [0; 64];
    file.read_exact(&mut head).ok()?;
    // 64 bits, little-endian: what Rollgate is built for.
    if head.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let table = u64::from_le_bytes(head.get(32..40)?.try_into().ok()?);
    let entry_bytes = u16::from_le_bytes(head.get(54..56)?.try_into().ok()?);
    let entries = u16::from_le_bytes(head.get(56..58)?.try_into().ok()?);
    for number in 0..u64::from(entries) {
        file.seek(SeekFrom::Start(table + number * u64::from(entry_bytes))).ok()?;
        let mut entry = [0; 56];
        file.read_exact(&mut entry).ok()?;
        let field = |at: usize| Some(u64::from_le_bytes(entry.get(at..at + 8)?.try_into().ok()?));
        if entry.get(..4)? != PT_INTERP {
            continue;
        }
        let (offset, size) = (field(8)?, field(32)?.min(PATH_BYTES));
        file.seek(SeekFrom::Start(offset)).ok()?;
        let mut path = Vec::new();
        file.take(size).read_to_end(&mut path).ok()?;
        let path = path.split(|&byte| byte == 0).next()?;
        return String::from_utf8(path.to_vec()).ok();
    }
    None
}

const PT_INTERP: [u8; 4] = 3u32.to_le_bytes();
const PATH_BYTES: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_of_a_program_is_found() {
        let own = std::env::current_exe().unwrap();
        let found = loader(&own).unwrap();
        assert!(Path::new(&found).exists(), "{found}");
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        std::fs::write(&script, "#!/bin/sh\n".repeat(20)).unwrap();
        assert_eq!(loader(&script), None);
        assert_eq!(loader(&dir.path().join("none")), None);
    }
}
