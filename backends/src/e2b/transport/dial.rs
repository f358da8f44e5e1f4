//! Connections are made: TCP, TLS, and which HTTP is spoken.

use std::sync::Arc;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;

use super::pool::{One, Two};
use super::{Lost, told};
use crate::BackendError;
use crate::e2b::address::Origin;
use crate::e2b::config::HttpVersion;
use crate::e2b::limits;

const H2: &[u8] = b"h2";

/// Makes connections.
pub(in crate::e2b) struct Dialer {
    tls: TlsConnector,
    http: HttpVersion,
    in_flight: Semaphore,
}

impl std::fmt::Debug for Dialer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dialer").field("http", &self.http).finish_non_exhaustive()
    }
}

pub(super) enum Dialed {
    One(One),
    Two(Two),
}

impl Dialer {
    /// `verify`: whether certificates are checked, against the system's.
    pub fn new(http: HttpVersion, verify: bool) -> Result<Self, BackendError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| BackendError::Unusable(format!("TLS cannot be set up: {error}")))?;
        let mut config = if verify {
            let mut roots = RootCertStore::empty();
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            builder.with_root_certificates(roots).with_no_client_auth()
        } else {
            let unchecked = Arc::new(Unchecked(provider));
            let builder = builder.dangerous().with_custom_certificate_verifier(unchecked);
            builder.with_no_client_auth()
        };
        let one = b"http/1.1".to_vec();
        config.alpn_protocols = match http {
            HttpVersion::Auto => vec![H2.to_vec(), one],
            HttpVersion::Http1 => vec![one],
            HttpVersion::Http2 => vec![H2.to_vec()],
        };
        let tls = TlsConnector::from(Arc::new(config));
        Ok(Self { tls, http, in_flight: Semaphore::new(limits::DIALS_IN_FLIGHT) })
    }

    pub(super) async fn dial(&self, origin: &Origin) -> Result<Dialed, Lost> {
        // The semaphore is never closed.
        let _permit = self.in_flight.acquire().await;
        let Origin { host, port, .. } = origin;
        let failed = |why: &str| Lost::NotSent(format!("cannot connect to {host}:{port}: {why}"));
        match tokio::time::timeout(limits::DIAL, self.connect(origin)).await {
            Ok(dialed) => dialed.map_err(|why| failed(&why)),
            Err(_) => Err(failed(&format!("no answer in {:?}", limits::DIAL))),
        }
    }

    async fn connect(&self, origin: &Origin) -> Result<Dialed, String> {
        let tcp = TcpStream::connect((origin.host.as_str(), origin.port)).await;
        let tcp = tcp.map_err(|error| error.to_string())?;
        tcp.set_nodelay(true).map_err(|error| error.to_string())?;
        if !origin.https {
            return shake(tcp, self.http == HttpVersion::Http2).await;
        }
        let name = ServerName::try_from(origin.host.clone()).map_err(|error| error.to_string())?;
        let tls = self.tls.connect(name, tcp).await.map_err(|error| {
            let error = told(&error);
            format!(
                "TLS: {error} (a private authority has to be among the system's, or in the \
                     file that SSL_CERT_FILE names)"
            )
        })?;
        let two = tls.get_ref().1.alpn_protocol() == Some(H2);
        shake(tls, two).await
    }
}

async fn shake(
    io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    two: bool,
) -> Result<Dialed, String> {
    let io = TokioIo::new(io);
    if two {
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new());
        builder.keep_alive_interval(limits::PING).keep_alive_timeout(limits::PING);
        let (sender, connection) = builder.handshake(io).await.map_err(|error| told(&error))?;
        tokio::spawn(drive(connection));
        return Ok(Dialed::Two(sender));
    }
    let shaken = hyper::client::conn::http1::handshake(io).await;
    let (sender, connection) = shaken.map_err(|error| told(&error))?;
    tokio::spawn(drive(connection));
    Ok(Dialed::One(sender))
}

/// Whoever waits for an answer learns how the connection ended; here it only has to be driven.
async fn drive(connection: impl Future<Output = hyper::Result<()>>) {
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection ended");
    }
}

/// Accepts every certificate, because the config says so; signatures are still checked.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, cert, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, cert, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
