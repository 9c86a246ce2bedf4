//! A QUIC connection under Anole, without an agent: 20 MB over loopback.
//!
//!     cargo run -p anole --example transfer
//!
//! What is Anole's is in the last four lines of `client_config`.

#![allow(clippy::disallowed_methods, reason = "an application reads the clock and opens sockets")]

use noq::rustls::RootCertStore;
use noq::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use noq::{ClientConfig, Endpoint, ServerConfig, TransportConfig};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const MEGABYTES: usize = 20;

fn main() -> Outcome<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(transfer())
}

async fn transfer() -> Outcome<()> {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_string()])?;
    let certificate = certified.cert.der().clone();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
    let any: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
    let server = Endpoint::server(ServerConfig::with_single_cert(vec![certificate.clone()], key)?, any)?;
    let address = server.local_addr()?;
    let receiver = tokio::spawn(receive(server));

    let client = Endpoint::client(any)?;
    let connection = client.connect_with(client_config(certificate)?, address, "localhost")?.await?;
    let began = Instant::now();
    let mut stream = connection.open_uni().await?;
    let megabyte = vec![0; 1_000_000];
    for _ in 0..MEGABYTES {
        stream.write_all(&megabyte).await?;
    }
    stream.finish()?;
    let received = receiver.await??;
    let seconds = began.elapsed().as_secs_f64();
    println!("{received} bytes in {seconds:.2} s, {:.0} Mbps", received as f64 * 8e-6 / seconds);
    Ok(())
}

fn client_config(certificate: CertificateDer<'static>) -> Outcome<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(anole::noq::anole());
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// Counts what one connection sends on its first stream.
async fn receive(server: Endpoint) -> Outcome<usize> {
    let connection = server.accept().await.ok_or("the endpoint is closed")?.await?;
    let mut stream = connection.accept_uni().await?;
    let received = stream.read_to_end(MEGABYTES * 1_000_000).await?.len();
    connection.close(0u8.into(), b"done");
    Ok(received)
}
