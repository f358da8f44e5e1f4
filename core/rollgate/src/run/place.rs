//! Where sandboxes of a run are made: the one place that knows each backend by name.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use clap::ValueEnum;
use rollgate_backends::local::{Local, LocalConfig};
use rollgate_backends::{Backend, Docker, E2b, Reach, Resources};
use rollgate_controller::plan::{Rate, Room};
use rollgate_controller::runtime::Sandboxes;

use super::RunArgs;
use crate::agents::bundle;
use crate::config::Places;
use crate::exit::Stop;

/// Creations a minute on this machine, for each core. Each is followed by the start of an agent, and
/// what starts at once competes for the cores with the gateway.
const LOCAL_PER_CORE: u32 = 600;

/// The backends that there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum BackendName {
    /// This machine: private directories and process groups.
    Local,
    /// Containers of a Docker engine.
    Docker,
    /// E2B, or a server that speaks its protocol.
    E2b,
}

/// A backend with all that goes with it.
pub(super) struct Place {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) sandboxes: Sandboxes,
    /// What its sandboxes may use together.
    pub(super) offer: Room,
    /// How fast they are asked for, where nothing else is said.
    pub(super) rate: Option<Rate>,
    /// Folders that must not run full, besides the out directory.
    pub(super) dirs: Vec<PathBuf>,
}

/// Makes the backend. To be called within the runtime that will use it.
pub(super) fn make(args: &RunArgs, places: &Places) -> anyhow::Result<Place> {
    match args.backend {
        BackendName::Local => local(args, places),
        BackendName::Docker => docker(args, places),
        BackendName::E2b => e2b(args, places),
    }
}

fn docker(args: &RunArgs, places: &Places) -> anyhow::Result<Place> {
    let own = &places.backends.docker;
    let mut config = own.backend(own_program()?);
    config.image = args.image.clone().or(config.image);
    let image = config.image.clone();
    let sandboxes = Sandboxes {
        owner: owner(),
        image,
        resources: own.resources(),
        // Where this machine's programs are not, agents bring theirs along.
        bundles: bundles(args),
        ..Sandboxes::default()
    };
    Ok(Place {
        backend: Arc::new(Docker::new(config)),
        sandboxes,
        offer: Room::ENDLESS,
        rate: None,
        dirs: Vec::new(),
    })
}

fn e2b(args: &RunArgs, places: &Places) -> anyhow::Result<Place> {
    let key = std::env::var("E2B_API_KEY").unwrap_or_default();
    let mut config = places.backends.e2b.backend(key);
    if let Some(template) = &args.image {
        config.template.clone_from(template);
    }
    let backend = E2b::new(config).map_err(Stop::wrong_use)?;
    Ok(Place {
        backend: Arc::new(backend),
        sandboxes: Sandboxes { owner: owner(), bundles: bundles(args), ..Sandboxes::default() },
        offer: Room::ENDLESS,
        rate: None,
        dirs: Vec::new(),
    })
}

/// The directory of bundles, absolute; none without a HOME.
fn bundles(args: &RunArgs) -> Option<PathBuf> {
    std::path::absolute(bundle::dir(args.agents.as_deref()).ok()?).ok()
}

fn own_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot find the rollgate program itself")
}

fn local(args: &RunArgs, places: &Places) -> anyhow::Result<Place> {
    let own = &places.backends.local;
    let root = if own.root.as_os_str().is_empty() { sandbox_root() } else { own.root.clone() };
    let path = if own.path.is_empty() { path_env() } else { own.path.clone() };
    let backend = Local::new(LocalConfig {
        root: root.clone(),
        rollgate: own_program()?,
        keep: args.keep_sandboxes,
        path_env: path,
    });
    let some = |number: f64| (number > 0.0).then_some(number);
    let resources = Resources {
        cpus: some(own.cpus),
        memory_mib: (own.memory_mib > 0).then_some(own.memory_mib),
        ..Resources::default()
    };
    let offer = Room {
        millicores: some(own.offer_cpus).map_or(u64::MAX, |cores| (cores * 1_000.0) as u64),
        memory_mib: if own.offer_memory_mib > 0 { own.offer_memory_mib } else { u64::MAX },
    };
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    Ok(Place {
        backend: Arc::new(backend),
        sandboxes: Sandboxes { owner: owner(), resources, ..Sandboxes::default() },
        offer,
        rate: Some(Rate { per_minute: LOCAL_PER_CORE * cores, burst: 4 * cores }),
        dirs: vec![root],
    })
}

/// Who owns the sandboxes: this run.
fn owner() -> String {
    format!("run-{}", std::process::id())
}

/// Where the gateway listens so that sandboxes reach it; and how they call it, where that differs.
pub(super) fn listen(reach: &Reach, args: &RunArgs) -> Result<SocketAddr, Stop> {
    if let Some(listen) = args.listen {
        return Ok(listen);
    }
    match reach {
        Reach::Loopback => Ok((Ipv4Addr::LOCALHOST, 0).into()),
        Reach::Address(ip) => Ok((*ip, 0).into()),
        Reach::Public if args.reach.is_some() => Ok((IpAddr::from(Ipv4Addr::LOCALHOST), 0).into()),
        Reach::Public => Err(Stop::wrong_use(
            "sandboxes of this backend are elsewhere: say where the gateway listens (--listen) and \
             how they reach it (--reach https://…)",
        )),
    }
}

/// PATH of local sandboxes.
pub(super) fn path_env() -> String {
    std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned())
}

/// Outside of every work tree, so that an agent's `git` finds its own repository or none.
fn sandbox_root() -> PathBuf {
    let user = nix::unistd::getuid();
    std::env::temp_dir().join(format!("rollgate-{user}")).join("sandboxes")
}
