//! A certificate per server, pinned by its clients.
//!
//! There is no public authority between two ends of a measurement: the server makes a self-signed
//! certificate and writes it to a file, and a client trusts that one certificate and no other.

use crate::QuicError;
use noq::rustls::pki_types::pem::PemObject;
use noq::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use noq::rustls::{self, RootCertStore};
use std::path::Path;
use std::sync::Arc;

/// The name in every certificate: clients identify a server by its certificate, not by its host name.
pub(crate) const SERVER_NAME: &str = "anole-quic";

/// The application protocol (ALPN): streams of bytes that the server counts.
const ALPN: &[u8] = b"anole-bulk/1";

/// A server's certificate as its clients know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerCertificate {
    der: CertificateDer<'static>,
    pem: String,
}

impl ServerCertificate {
    /// Reads a certificate that a server wrote.
    pub fn read(path: &Path) -> Result<ServerCertificate, QuicError> {
        let error = |reason: String| QuicError::Certificate { path: path.to_owned(), reason };
        let pem = std::fs::read_to_string(path).map_err(|e| error(e.to_string()))?;
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|e| error(e.to_string()))?;
        Ok(ServerCertificate { der, pem })
    }

    /// The certificate in PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A client configuration that trusts this certificate alone.
    pub(crate) fn client_config(&self) -> Result<noq::ClientConfig, QuicError> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).map_err(tls)?;
        let mut config = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(tls)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![ALPN.to_vec()];
        let config = noq_proto::crypto::rustls::QuicClientConfig::try_from(config).map_err(tls)?;
        Ok(noq::ClientConfig::new(Arc::new(config)))
    }
}

/// Makes a certificate and the server configuration that presents it.
pub(crate) fn server_config() -> Result<(noq::ServerConfig, ServerCertificate), QuicError> {
    let made = rcgen::generate_simple_self_signed(vec![SERVER_NAME.to_string()]).map_err(tls)?;
    let certificate = ServerCertificate { der: made.cert.der().clone(), pem: made.cert.pem() };
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let mut config = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(tls)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der.clone()], key)
        .map_err(tls)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    let config = noq_proto::crypto::rustls::QuicServerConfig::try_from(config).map_err(tls)?;
    Ok((noq::ServerConfig::with_crypto(Arc::new(config)), certificate))
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn tls(error: impl std::fmt::Display) -> QuicError {
    QuicError::Tls(error.to_string())
}
