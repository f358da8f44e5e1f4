//! Engines as the shards see them: where they listen, under which name, how much they take.

use std::net::{SocketAddr, ToSocketAddrs};

use rollgate_pipeline::id::{ShardCount, ShardIndex};

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
    /// Its name in metrics: the URL without its scheme.
    pub(crate) name: String,
    /// Calls in flight, over all shards.
    max_in_flight: usize,
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
        if target.max_in_flight < u32::from(shards) {
            return Err(wrong(&format!(
                "max_in_flight is {}, but each of the {shards} shards needs room for one call: \
                 raise it, or lower shards.count",
                target.max_in_flight
            )));
        }
        let prefix = prefix(path);
        Ok(Self {
            url: target.url.clone(),
            host: host.to_owned(),
            name: format!("{host}{prefix}"),
            prefix,
            addr,
            max_in_flight: usize::try_from(target.max_in_flight).unwrap_or(usize::MAX),
        })
    }

    /// This shard's part of the calls in flight. The parts add up to the whole: what does not divide
    /// goes to the first shards.
    pub(crate) fn share(&self, shards: ShardCount, shard: ShardIndex) -> usize {
        let shards = usize::from(shards.0.max(1));
        let more = usize::from(shard.0) < self.max_in_flight % shards;
        self.max_in_flight / shards + usize::from(more)
    }
}

/// A path without slashes at its end and without the `/v1` that people copy from clients' settings:
/// routes of engines begin below it.
fn prefix(path: &str) -> String {
    let path = path.trim_end_matches('/');
    path.strip_suffix("/v1").unwrap_or(path).trim_end_matches('/').to_owned()
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
        assert_eq!(engine.name, "127.0.0.1:8000/a/b");
        assert_eq!(settle("http://127.0.0.1").unwrap().addr.port(), 80);
    }

    #[test]
    fn l23_a_base_url_may_end_in_v1_and_in_slashes() {
        for (path, prefix) in [
            ("", ""),
            ("/", ""),
            ("/v1", ""),
            ("/v1/", ""),
            ("//v1//", ""),
            ("/a/v1/", "/a"),
            ("/a", "/a"),
            ("/av1", "/av1"),
        ] {
            let engine = settle(&format!("http://127.0.0.1:8000{path}")).unwrap();
            assert_eq!(engine.prefix, prefix, "{path:?}");
        }
    }

    #[test]
    fn shares_add_up_and_none_is_empty() {
        for (most, shards) in [(3, 2), (256, 7), (5, 5), (1_000, 64)] {
            let url = "http://127.0.0.1".to_owned();
            let target = EngineTarget { url, max_in_flight: most };
            let engine = Engine::settle(&target, shards).unwrap();
            let share = |shard| engine.share(ShardCount(shards), ShardIndex(shard));
            let shares: Vec<_> = (0..shards).map(share).collect();
            assert_eq!(shares.iter().sum::<usize>(), most as usize);
            assert!(shares.is_sorted_by(|one, next| one >= next && *next > 0), "{shares:?}");
        }
        let target = EngineTarget { url: "http://127.0.0.1".to_owned(), max_in_flight: 1 };
        let error = Engine::settle(&target, 2).err().unwrap().to_string();
        assert!(error.contains("max_in_flight is 1") && error.contains("shards.count"), "{error}");
    }

    #[test]
    fn what_cannot_be_reached_is_named() {
        for url in ["https://x:1", "127.0.0.1:8000", "http:///x", "http://a@b:1"] {
            let error = settle(url).err().unwrap_or_else(|| panic!("{url} was accepted"));
            assert!(error.to_string().contains(url), "{error}");
        }
    }
}
