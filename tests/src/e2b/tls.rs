//! A certificate for 127.0.0.1, made anew for each server.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::TlsAcceptor;

/// Who a server is.
pub(super) struct Identity {
    /// Its certificate, as a file would have it.
    pub pem: String,
    pub acceptor: TlsAcceptor,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

impl Identity {
    pub fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]);
        let made = made.expect("a certificate can be made");
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the usual versions are there")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into())
            .expect("the key is the certificate's");
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Self { pem: made.cert.pem(), acceptor: TlsAcceptor::from(Arc::new(config)) }
    }
}
