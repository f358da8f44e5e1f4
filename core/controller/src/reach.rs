//! Under which addresses agents find the gateway.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Base URLs for agents. The key is not part of them: it goes where an API key goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BaseUrls {
    /// For clients of OpenAI's APIs, `/v1` included.
    pub openai: String,
    /// For clients of Anthropic's API, which add `/v1` themselves.
    pub anthropic: String,
}

impl BaseUrls {
    /// The URLs at `public_url`, else at the address the data plane listens on (loopback where that
    /// is every address).
    pub fn new(public_url: Option<&str>, agents: SocketAddr) -> Self {
        let root = match public_url {
            Some(url) => {
                let url = url.trim_end_matches('/');
                url.strip_suffix("/v1").unwrap_or(url).to_owned()
            }
            None => format!("http://{}", SocketAddr::new(reachable(agents.ip()), agents.port())),
        };
        Self { openai: format!("{root}/v1"), anthropic: root }
    }
}

fn reachable(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(v4) if v4.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(v6) if v6.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(public_url: Option<&str>, agents: &str, openai: &str, anthropic: &str) {
        let urls = BaseUrls::new(public_url, agents.parse().unwrap());
        assert_eq!((urls.openai.as_str(), urls.anthropic.as_str()), (openai, anthropic));
    }

    #[test]
    fn urls_of_an_address_or_a_public_url() {
        check(None, "127.0.0.1:8400", "http://127.0.0.1:8400/v1", "http://127.0.0.1:8400");
        check(None, "0.0.0.0:8400", "http://127.0.0.1:8400/v1", "http://127.0.0.1:8400");
        check(None, "[::]:1", "http://[::1]:1/v1", "http://[::1]:1");
        check(Some("https://g.example/"), "0.0.0.0:1", "https://g.example/v1", "https://g.example");
        check(
            Some("https://g.example/a/v1"),
            "0.0.0.0:1",
            "https://g.example/a/v1",
            "https://g.example/a",
        );
    }
}
