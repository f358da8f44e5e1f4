//! Which sandboxes are of one kind.

use rollgate_backends::Spec;

/// BLAKE3 of all that makes a difference inside: image, resources, mounts. Each part goes in with its
/// length, so that no two specs run into one another.
pub fn digest(spec: &Spec) -> blake3::Hash {
    let Spec { attempt_id: _, owner: _, image, resources, ttl: _, mounts } = spec;
    let mut hasher = blake3::Hasher::new();
    let mut part = |bytes: Option<&[u8]>| {
        let length = bytes.map_or(u64::MAX, |bytes| bytes.len() as u64);
        hasher.update(&length.to_le_bytes());
        hasher.update(bytes.unwrap_or_default());
    };
    part(image.as_ref().map(String::as_bytes));
    for number in [
        resources.cpus.map(f64::to_bits),
        resources.memory_mib,
        resources.disk_mib,
        resources.pids.map(u64::from),
    ] {
        part(number.map(u64::to_le_bytes).as_ref().map(<[u8; 8]>::as_slice));
    }
    for mount in mounts {
        part(Some(mount.from.as_os_str().as_encoded_bytes()));
        part(Some(mount.to.as_bytes()));
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rollgate_backends::Mount;

    use super::*;

    fn spec(change: impl FnOnce(&mut Spec)) -> blake3::Hash {
        let mut spec = Spec::new("a", "b");
        change(&mut spec);
        digest(&spec)
    }

    #[test]
    fn only_what_is_inside_makes_a_kind() {
        let plain = spec(|_| {});
        assert_eq!(plain, spec(|spec| spec.attempt_id = "c".into()));
        assert_eq!(plain, spec(|spec| spec.ttl = Duration::ZERO));
        let mount = |from: &str, to: &str| Mount { from: from.into(), to: to.into() };
        let kinds = [
            plain,
            spec(|spec| spec.image = Some(String::new())),
            spec(|spec| spec.image = Some("x".into())),
            spec(|spec| spec.resources.cpus = Some(1.0)),
            spec(|spec| spec.resources.memory_mib = Some(1)),
            spec(|spec| spec.resources.disk_mib = Some(1)),
            spec(|spec| spec.resources.pids = Some(1)),
            spec(|spec| spec.mounts = vec![mount("/ab", "/c")]),
            spec(|spec| spec.mounts = vec![mount("/a", "/bc")]),
            spec(|spec| spec.mounts = vec![mount("/a", "/bc"), mount("/a", "/bc")]),
        ];
        let different: std::collections::HashSet<_> = kinds.into_iter().collect();
        assert_eq!(different.len(), kinds.len());
    }
}
