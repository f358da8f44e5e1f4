//! Logs go to stderr, so that stdout stays for results.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;
use crate::exit::Stop;

/// Libraries whose everyday remarks nobody needs, and our own line for each exchange, which is told
/// where it is asked for by name.
const QUIET: &str = "tk_encode=warn,tk_convert=warn,tokenizers=warn,rollgate::exchange=off";

/// Whether this is a level or a filter.
pub fn check(level: &str) -> Result<EnvFilter, Stop> {
    EnvFilter::try_new(format!("{QUIET},{level}"))
        .map_err(|error| Stop::wrong_use(format!("log level {level:?}: {error}")))
}

/// Starts logging. `level` is a level or a filter; `RUST_LOG` wins over it.
pub fn start(level: &str, format: LogFormat) -> Result<(), Stop> {
    let filter = match EnvFilter::try_from_default_env() {
        Ok(filter) => filter,
        Err(_) => check(level)?,
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().init(),
    }
    Ok(())
}
