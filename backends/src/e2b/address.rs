//! Where calls go: URLs, and the headers that go along.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

use super::config::{E2bConfig, Route};
use crate::BackendError;

/// Port of the daemon in a sandbox.
const DAEMON_PORT: &str = "49983";

/// A server, as far as connections are concerned.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Origin {
    pub https: bool,
    pub host: String,
    pub port: u16,
}

/// Where calls go.
#[derive(Clone, Debug)]
pub(super) struct Address {
    pub origin: Origin,
    /// Host, and port where it is not the usual one, as the server knows itself.
    pub authority: String,
    /// Before every path; without a slash at its end.
    pub prefix: String,
    /// On every call.
    pub headers: HeaderMap,
}

impl Address {
    /// The control plane.
    pub fn control(config: &E2bConfig) -> Result<Self, BackendError> {
        let url = config.api_url.clone();
        let url = url.unwrap_or_else(|| format!("https://api.{}", config.domain));
        let mut address = Self::parse("api_url", &url)?;
        address.add_all(&config.headers)?;
        address.add("x-api-key", &config.api_key)?;
        Ok(address)
    }

    /// The daemon of a sandbox; `domain` and `token` are what its create answered.
    pub fn sandbox(
        config: &E2bConfig,
        id: &str,
        domain: Option<&str>,
        token: Option<&str>,
    ) -> Result<Self, BackendError> {
        let domain = domain.unwrap_or(&config.domain);
        let template = config.sandbox_url.as_deref().unwrap_or(match config.route {
            Route::Host => "https://{port}-{id}.{domain}",
            Route::Headers | Route::Path => "https://sandbox.{domain}",
        });
        let fill = |template: &str| {
            template.replace("{id}", id).replace("{port}", DAEMON_PORT).replace("{domain}", domain)
        };
        let mut address = Self::parse("sandbox_url", &fill(template))?;
        if let Some(host) = &config.sandbox_host {
            address.authority = fill(host);
        }
        address.add_all(&config.headers)?;
        // They make a shared host work, and mean nothing elsewhere.
        address.add("e2b-sandbox-id", id)?;
        address.add("e2b-sandbox-port", DAEMON_PORT)?;
        if let Some(token) = token {
            address.add("x-access-token", token)?;
        }
        Ok(address)
    }

    fn parse(key: &str, url: &str) -> Result<Self, BackendError> {
        let wrong = |what: &str| BackendError::Unusable(format!("backends.e2b: `{key}`: {what}"));
        let uri: hyper::Uri = url.parse().map_err(|error| wrong(&format!("{url}: {error}")))?;
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => {
                return Err(wrong(&format!("{url} begins neither with http:// nor with https://")));
            }
        };
        let host = uri.host().ok_or_else(|| wrong(&format!("{url} has no host")))?;
        let port = uri.port_u16().unwrap_or(if https { 443 } else { 80 });
        let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
        Ok(Self {
            origin: Origin { https, host: host.trim_matches(['[', ']']).to_owned(), port },
            authority,
            prefix: uri.path().trim_end_matches('/').to_owned(),
            headers: HeaderMap::new(),
        })
    }

    fn add(&mut self, name: &str, value: &str) -> Result<(), BackendError> {
        let wrong = || BackendError::Unusable(format!("backends.e2b: `{name}` is no valid header"));
        let name_of = HeaderName::try_from(name).map_err(|_| wrong())?;
        let mut value = HeaderValue::try_from(value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        self.headers.insert(name_of, value);
        Ok(())
    }

    fn add_all(&mut self, headers: &[(String, String)]) -> Result<(), BackendError> {
        headers.iter().try_for_each(|(name, value)| self.add(name, value))
    }
}

/// A path with parameters.
pub(super) fn with_query(path: &str, parameters: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(parameters);
    format!("{path}?{}", query.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(edit: impl FnOnce(&mut E2bConfig), origin: &str, authority: &str, prefix: &str) {
        let mut config = E2bConfig::new("key");
        edit(&mut config);
        config.check().unwrap();
        let address = Address::sandbox(&config, "abc", None, Some("t")).unwrap();
        let Origin { https, host, port } = &address.origin;
        let scheme = if *https { "https" } else { "http" };
        assert_eq!(format!("{scheme}://{host}:{port}"), origin);
        assert_eq!((address.authority.as_str(), address.prefix.as_str()), (authority, prefix));
        assert_eq!(address.headers["e2b-sandbox-id"], "abc");
        assert_eq!(address.headers["e2b-sandbox-port"], "49983");
        assert_eq!(address.headers["x-access-token"], "t");
    }

    #[test]
    fn sandboxes_are_found_by_headers_host_or_path() {
        check(|_| (), "https://sandbox.e2b.app:443", "sandbox.e2b.app", "");
        let host = |config: &mut E2bConfig| {
            config.route = Route::Host;
            config.domain = "box.example".to_owned();
        };
        let name = "49983-abc.box.example";
        check(host, "https://49983-abc.box.example:443", name, "");
        let path = |config: &mut E2bConfig| {
            config.route = Route::Path;
            config.sandbox_url = Some("http://10.0.0.7:8080/kruise/{id}/{port}/".to_owned());
        };
        check(path, "http://10.0.0.7:8080", "10.0.0.7:8080", "/kruise/abc/49983");
        let named = |config: &mut E2bConfig| {
            config.route = Route::Host;
            config.sandbox_url = Some("http://[::1]:81".to_owned());
            config.sandbox_host = Some("{port}-{id}.cluster".to_owned());
        };
        check(named, "http://::1:81", "49983-abc.cluster", "");
    }

    #[test]
    fn a_wrong_set_up_names_its_setting() {
        let wrong = |edit: fn(&mut E2bConfig)| {
            let mut config = E2bConfig::new("key");
            edit(&mut config);
            let checked = config.check().and_then(|()| Address::control(&config));
            checked.unwrap_err().to_string()
        };
        assert!(wrong(|config| config.api_key.clear()).contains("`api_key`"));
        assert!(wrong(|config| config.route = Route::Path).contains("`sandbox_url`"));
        assert!(wrong(|config| config.api_url = Some("ftp://x".to_owned())).contains("`api_url`"));
        assert!(wrong(|config| config.ttl = std::time::Duration::ZERO).contains("`ttl`"));
        let headers = |config: &mut E2bConfig| config.headers.push(("a b".into(), "c".into()));
        assert!(wrong(headers).contains("`a b`"));
    }

    #[test]
    fn queries_are_encoded_once_more_inside() {
        let path = with_query("/v2/sandboxes", &[("metadata", "a=b%20c&d=e")]);
        assert_eq!(path, "/v2/sandboxes?metadata=a%3Db%2520c%26d%3De");
    }
}
