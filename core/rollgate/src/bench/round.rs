//! One kind of load: ours and the peers in turns, repeat by repeat.

use std::time::Duration;

use indicatif::ProgressBar;
use rollgate_bench::load::Dialect;
use rollgate_bench::report::{Cell, Header, Latency, OURS, Run};

use super::BenchArgs;
use super::cell::{self, Extent, Kind, Subject};
use super::gateway::{Gateway, Wanted};
use super::peers::Peer;
use super::setting::{MAX_CONTEXT, Setting};

/// Seconds of asking the engine directly.
const DIRECT_S: f64 = 1.0;

/// How many runs there will be.
pub fn steps(args: &BenchArgs, kinds: &[Kind]) -> u64 {
    let gateways = kinds.iter().map(|kind| {
        let peers = if takes_peers(kind, kinds) { args.peer.len() } else { 0 };
        peers + usize::from(!args.only_peers)
    });
    gateways.sum::<usize>() as u64 * u64::from(args.repeats)
}

/// Peers speak Chat only. Where a shape is measured in several dialects, they are measured once.
fn takes_peers(kind: &Kind, kinds: &[Kind]) -> bool {
    let same = |other: &&Kind| (other.shape, other.sessions) == (kind.shape, kind.sessions);
    let first = kinds.iter().filter(same).min_by_key(|other| other.dialect);
    first.is_some_and(|first| first.dialect == kind.dialect)
}

/// Measures ours and the peers: A B A B.
pub fn cells(
    args: &BenchArgs,
    setting: &Setting,
    kind: Kind,
    kinds: &[Kind],
    header: &mut Header,
    bar: &ProgressBar,
) -> anyhow::Result<Vec<Cell>> {
    let peers: &[Peer] = if takes_peers(&kind, kinds) { &args.peer } else { &[] };
    let extent = Extent {
        seconds: args.seconds,
        turns: args.turns,
        think: Duration::from_millis(args.think_ms),
        checked: args.check,
    };
    let say = |who: &str| {
        bar.set_message(format!(
            "{who}: {} {} x {}",
            kind.shape,
            kind.dialect.name(),
            kind.sessions
        ));
    };
    let mut ours = Vec::new();
    let mut theirs = vec![Vec::new(); peers.len()];
    for _ in 0..args.repeats {
        if !args.only_peers {
            say(OURS);
            ours.push(run_ours(args, setting, kind, extent, header)?);
            bar.inc(1);
        }
        for (peer, runs) in peers.iter().zip(&mut theirs) {
            say(&peer.name);
            runs.push(run_peer(setting, peer, kind, extent)?);
            bar.inc(1);
        }
    }
    say("the engine");
    let direct = match args.no_direct {
        true => None,
        false => {
            let extent = Extent { seconds: DIRECT_S.min(args.seconds), ..extent };
            Some(cell::measure(&setting.load, Subject::Direct, kind, extent)?.latency)
        }
    };
    let mut cells = Vec::new();
    if !args.only_peers {
        cells.push(as_cell(OURS, kind, ours, direct.clone()));
    }
    for (peer, runs) in peers.iter().zip(theirs) {
        cells.push(as_cell(&peer.name, in_chat(kind), runs, direct.clone()));
    }
    Ok(cells)
}

fn in_chat(kind: Kind) -> Kind {
    Kind { dialect: Dialect::Chat, ..kind }
}

fn as_cell(gateway: &str, kind: Kind, runs: Vec<Run>, direct: Option<Latency>) -> Cell {
    Cell {
        gateway: gateway.to_owned(),
        shape: kind.shape.name().to_owned(),
        dialect: kind.dialect.name().to_owned(),
        stream: kind.stream,
        sessions: kind.sessions,
        runs,
        direct,
        limit_us: (gateway == OURS).then(|| kind.shape.limit_us(kind.sessions)).flatten(),
    }
}

/// A gateway of its own for each run, so that memory begins anew.
fn run_ours(
    args: &BenchArgs,
    setting: &Setting,
    kind: Kind,
    extent: Extent,
    header: &mut Header,
) -> anyhow::Result<Run> {
    let directory = tempfile::tempdir_in(setting.directory.path())?;
    let gateway = Gateway::start(&Wanted {
        directory: directory.path(),
        model: &setting.model_dir,
        name: &setting.model.name,
        max_context: MAX_CONTEXT,
        engine: setting.load.engine(),
        shards: args.shards,
        driver: &args.driver,
        cores: &setting.cores.gateway,
        own_core: setting.cores.load,
    })?;
    header.driver.clone_from(&gateway.driver);
    let mut run = cell::measure(&setting.load, Subject::Rollgate(&gateway), kind, extent)?;
    let log = gateway.log();
    if run.errors + run.wrong > 0 && !log.is_empty() {
        run.words.push(format!("the gateway logged: {log}"));
    }
    Ok(run)
}

fn run_peer(setting: &Setting, peer: &Peer, kind: Kind, extent: Extent) -> anyhow::Result<Run> {
    let directory = tempfile::tempdir_in(setting.directory.path())?;
    let cores = &setting.cores;
    let running =
        peer.start(directory.path(), setting.load.engine(), &cores.gateway, cores.load)?;
    let subject = Subject::Peer(running.address, running.pid());
    cell::measure(&setting.load, subject, in_chat(kind), extent)
}
