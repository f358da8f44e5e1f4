//! The machine: cores, who runs where, and what is known of it.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Who runs where.
#[derive(Clone, Debug)]
pub struct Cores {
    /// Cores that this process may use.
    pub all: Vec<usize>,
    /// Those of the gateway.
    pub gateway: Vec<usize>,
    /// That of load and engine.
    pub load: usize,
}

impl Cores {
    /// The first core is for load and engine, the last for a gateway of one shard. More shards get
    /// all but the first, or all where there are too few.
    pub fn share(shards: u16) -> nix::Result<Self> {
        let allowed = sched_getaffinity(Pid::from_raw(0))?;
        let all: Vec<usize> =
            (0..CpuSet::count()).filter(|core| allowed.is_set(*core).unwrap_or(false)).collect();
        let load = all.first().copied().unwrap_or_default();
        let shards = usize::from(shards);
        let gateway = match all.len() {
            0 | 1 => vec![load],
            count if shards < count => all[count - shards..].to_vec(),
            _ => all.clone(),
        };
        Ok(Self { all, gateway, load })
    }

    /// What people must know of this.
    pub fn warning(&self) -> Option<String> {
        self.gateway.contains(&self.load).then(|| {
            format!(
                "gateway and load share a core ({} there are): CPU a turn holds, turns/s and latency do not",
                self.all.len()
            )
        })
    }
}

/// Lets the calling thread, and what it starts from now on, run on these cores only.
pub fn pin(cores: &[usize]) -> nix::Result<()> {
    let mut set = CpuSet::new();
    cores.iter().try_for_each(|core| set.set(*core))?;
    sched_setaffinity(Pid::from_raw(0), &set)
}

/// Name of the processor.
pub fn processor() -> String {
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = about.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

/// Release of the kernel.
pub fn kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}
