//! Engines as the shards see them: where they listen, under which name, how much they take.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::{EngineTarget, StartError};

/// One engine, its address settled.
pub(crate) struct Engine {
    /// As configured; named in faults.
    pub(crate) url: String,
    /// The `Host` header.
    pub(crate) host: String,
    /// Goes before every path; empty or `/…` without a slash at its end.
    pub(crate) prefix: String,
    pub(crate) addr: SocketAddr,
    /// Calls in flight per shard.
    pub(crate) per_shard: usize,
}

impl Engine {
    /// Reads the URL and resolves its host. Blocks; for the start only.
    pub(crate) fn settle(target: &EngineTarget, shards: u16) -> Result<Self, StartError> {
        let wrong = |reason: &str| {
            let url = &target.url;
            StartError::Environment(format!("engine {url:?}: {reason}"))
        };
        let rest = target
            .url
            .strip_prefix("http://")
            .ok_or_else(|| wrong("only http:// is spoken; put a proxy in front of https"))?;
        let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        if host.is_empty() || host.contains('@') {
            return Err(wrong("the form is http://HOST:PORT[/PREFIX]"));
        }
        let with_port = match host.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() => host.to_owned(),
            _ => format!("{host}:80"),
        };
        let addr = with_port
            .to_socket_addrs()
            .map_err(|error| wrong(&format!("its host is not known: {error}")))?
            .min_by_key(SocketAddr::is_ipv6)
            .ok_or_else(|| wrong("its host has no address"))?;
        // Rounded down, so that the sum keeps the limit; a shard without any could serve nobody.
        let per_shard = (target.max_in_flight / u32::from(shards.max(1))).max(1);
        Ok(Self {
            url: target.url.clone(),
            host: host.to_owned(),
            prefix: path.trim_end_matches('/').to_owned(),
            addr,
            per_shard: usize::try_from(per_shard).unwrap_or(usize::MAX),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settle(url: &str) -> Result<Engine, StartError> {
        Engine::settle(&EngineTarget { url: url.to_owned(), max_in_flight: 3 }, 2)
    }

    #[test]
    fn a_url_becomes_address_host_and_prefix() {
        let engine = settle("http://127.0.0.1:8000/a/b/").unwrap();
        assert_eq!(engine.addr, "127.0.0.1:8000".parse().unwrap());
        assert_eq!((engine.host.as_str(), engine.prefix.as_str()), ("127.0.0.1:8000", "/a/b"));
        assert_eq!(engine.per_shard, 1);
        assert_eq!(settle("http://127.0.0.1").unwrap().addr.port(), 80);
    }

    #[test]
    fn what_cannot_be_reached_is_named() {
        for url in ["https://x:1", "127.0.0.1:8000", "http:///x", "http://a@b:1"] {
            let error = settle(url).err().unwrap_or_else(|| panic!("{url} was accepted"));
            assert!(error.to_string().contains(url), "{error}");
        }
    }
}
