//! The receiving end: takes every stream of every connection, counts and forgets.

use crate::QuicError;
use crate::tls::{self, ServerCertificate};
use crate::transport::{self, DatagramSize};
use noq::{Connection, ConnectionError, Endpoint, Incoming, ReadError, RecvStream};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// Largest piece read at once, bytes: as much as a burst of datagrams delivers.
const CHUNK_BYTES: usize = 1 << 20;

/// Connections remembered after their end, so that a long-running server does not grow.
const MAX_REMEMBERED: usize = 4096;

/// What a server is set up with.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// Where to listen; port 0 takes any free one.
    pub listen: SocketAddr,
    /// A connection from which nothing came for this long is closed.
    pub idle_timeout: Duration,
}

/// What one connection has delivered.
#[derive(Debug)]
pub struct ReceivedBytes {
    /// The sender's address.
    pub remote: SocketAddr,
    bytes: AtomicU64,
}

impl ReceivedBytes {
    /// Payload bytes delivered in order to the application.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}

/// How a connection ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What it delivered.
    pub received: Arc<ReceivedBytes>,
    /// How long it lasted.
    pub lasted: Duration,
    /// Why it ended, unless the sender closed it.
    pub error: Option<String>,
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    endpoint: Endpoint,
    certificate: ServerCertificate,
    connections: Arc<Mutex<Vec<Arc<ReceivedBytes>>>>,
}

impl Server {
    /// Binds the socket and makes a certificate. To be called inside a tokio runtime.
    pub fn bind(options: &ServerOptions) -> Result<Server, QuicError> {
        let (mut config, certificate) = tls::server_config()?;
        config.transport_config(Arc::new(transport::config(DatagramSize::Discovered, options.idle_timeout)?));
        let endpoint = transport::endpoint(options.listen, Some(config))?;
        Ok(Server { endpoint, certificate, connections: Arc::default() })
    }

    /// The address that it listens on.
    pub fn address(&self) -> Result<SocketAddr, QuicError> {
        self.endpoint.local_addr().map_err(|e| QuicError::Tls(e.to_string()))
    }

    /// The certificate that clients have to know.
    pub fn certificate(&self) -> &ServerCertificate {
        &self.certificate
    }

    /// What the connection from `remote` has delivered, the latest if there were several.
    pub fn received_from(&self, remote: SocketAddr) -> Option<Arc<ReceivedBytes>> {
        let connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.iter().rev().find(|received| received.remote == remote).cloned()
    }

    /// Serves until the server is closed; tells of every connection that ends.
    pub async fn run(&self, ended: mpsc::UnboundedSender<Ended>) {
        while let Some(incoming) = self.endpoint.accept().await {
            let connections = self.connections.clone();
            let ended = ended.clone();
            tokio::spawn(async move {
                if let Some(end) = serve(incoming, &connections).await {
                    // Nobody may be listening for it.
                    let _ = ended.send(end);
                }
            });
        }
    }

    /// Closes every connection.
    pub async fn close(&self) {
        self.endpoint.close(0u32.into(), b"server closed");
        self.endpoint.wait_idle().await;
    }
}

async fn serve(incoming: Incoming, connections: &Mutex<Vec<Arc<ReceivedBytes>>>) -> Option<Ended> {
    let remote = incoming.remote_address();
    let connection = match incoming.await {
        Ok(connection) => connection,
        Err(error) => {
            tracing::info!(%remote, %error, "handshake failed");
            return None;
        }
    };
    let started = tokio::time::Instant::now();
    let received = Arc::new(ReceivedBytes { remote, bytes: AtomicU64::new(0) });
    {
        let mut list = connections.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() == MAX_REMEMBERED {
            list.remove(0);
        }
        list.push(received.clone());
    }
    let error = take_streams(&connection, &received).await;
    let error = match error {
        ConnectionError::ApplicationClosed(_) => None,
        ConnectionError::LocallyClosed => Some("the server was stopped".to_string()),
        error => Some(error.to_string()),
    };
    Some(Ended { received, lasted: started.elapsed(), error })
}

/// Takes streams until the connection ends; says how it did.
async fn take_streams(connection: &Connection, received: &Arc<ReceivedBytes>) -> ConnectionError {
    loop {
        match connection.accept_uni().await {
            Ok(stream) => {
                tokio::spawn(drain(stream, received.clone()));
            }
            Err(error) => return error,
        }
    }
}

async fn drain(mut stream: RecvStream, received: Arc<ReceivedBytes>) -> Result<(), ReadError> {
    while let Some(chunk) = stream.read_chunk(CHUNK_BYTES).await? {
        received.bytes.fetch_add(chunk.len() as u64, Relaxed);
    }
    Ok(())
}
