//! Logs go to stderr, so that stdout stays for results.

use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;
use crate::exit::Stop;

/// Starts logging. `level` is a level or a filter; `RUST_LOG` wins over it.
pub fn start(level: &str, format: LogFormat) -> Result<(), Stop> {
    let filter = match EnvFilter::try_from_default_env() {
        Ok(filter) => filter,
        Err(_) => EnvFilter::try_new(level)
            .map_err(|error| Stop::wrong_use(format!("log level {level:?}: {error}")))?,
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().init(),
    }
    Ok(())
}
