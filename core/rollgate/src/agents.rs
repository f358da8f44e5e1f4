//! `rollgate agents`: agents from their registries as bundles, made once and then used offline.
//!
//! A bundle is a directory `NAME@VERSION` with everything the agent runs on but the system itself;
//! it may be copied, moved or mounted anywhere. It appears under its name only when it is whole.

pub mod bundle;
mod install;
mod launcher;
mod list;
mod npm;
mod place;
mod platform;
mod pypi;
mod tool;
mod wanted;

use std::path::PathBuf;

use clap::Subcommand;

use crate::exit::Exit;

/// Agents as bundles.
#[derive(Subcommand, Debug)]
pub enum AgentsCommand {
    /// Makes a bundle of an agent, to be used offline.
    #[command(after_help = "Examples:
  rollgate agents install claude-code
  rollgate agents install mini-swe-agent@2.4.6 --into /srv/agents
  rollgate agents install pi --json

Needs npm (for agents from npm) or python3 with venv (for agents from PyPI), and their registries as
these programs are set up to reach them. What is there already is left alone. Install scripts of
packages are not run.

Exit codes: 0 the bundle is there; 2 wrong use; 3 a program, the network or the disk.")]
    Install {
        /// The agent, with a version where it is not to be the one this Rollgate is proven with.
        #[arg(value_name = "NAME[@VERSION]")]
        agent: String,
        /// Where bundles are kept; default: $ROLLGATE_AGENTS, else ~/.local/share/rollgate/agents.
        #[arg(long, value_name = "DIR")]
        into: Option<PathBuf>,
        /// Print the bundle as one JSON object, and no progress.
        #[arg(long)]
        json: bool,
    },
    /// Lists the agents there are, and what is installed of them.
    #[command(after_help = "Examples:
  rollgate agents list
  rollgate agents list --dir /srv/agents --json")]
    List {
        /// Where bundles are kept; default: $ROLLGATE_AGENTS, else ~/.local/share/rollgate/agents.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command.
pub fn run(command: &AgentsCommand) -> anyhow::Result<Exit> {
    match command {
        AgentsCommand::Install { agent, into, json } => {
            let wanted = wanted::Wanted::read(agent)?;
            let dir = bundle::dir(into.as_deref())?;
            install::run(&wanted, &dir, *json)?;
        }
        AgentsCommand::List { dir, json } => list::run(&bundle::dir(dir.as_deref())?, *json)?,
    }
    Ok(Exit::Well)
}
