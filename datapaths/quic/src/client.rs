//! The sending end: one connection, for a size or a time.

use crate::QuicError;
use crate::congestion::CongestionControl;
use crate::meter::{Meter, RttSample};
use crate::tls::{SERVER_NAME, ServerCertificate};
use crate::transport::{self, DatagramSize, STREAMS};
use anole_transfer::{Amount, TransferReport};
use bytes::Bytes;
use noq::{Connection, ConnectionError, Endpoint, SendStream};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Size of the pieces handed to the stack, bytes; every piece is the same memory.
const CHUNK_BYTES: usize = 64 * 1024;

/// How long the end of a connection is waited for once its transfer is over.
const CLOSE_WAIT: Duration = Duration::from_millis(200);

/// What a connection is opened with.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The server.
    pub remote: SocketAddr,
    /// Its certificate.
    pub certificate: ServerCertificate,
    /// The peer is given up when it has not answered for this long.
    pub idle_timeout: Duration,
    /// Size of the datagrams that carry data.
    pub datagram: DatagramSize,
    /// Where every round-trip sample goes, for whoever wants each one.
    pub rtt_samples: Option<Sender<RttSample>>,
}

/// An open connection, about to send.
#[derive(Debug)]
pub struct Transfer {
    endpoint: Endpoint,
    connection: Connection,
    meter: Arc<Meter>,
    options: ClientOptions,
    handshake: Duration,
}

/// Ends a connection from outside its transfer.
#[derive(Clone, Debug)]
pub struct Closing {
    endpoint: Endpoint,
    connection: Connection,
}

impl Closing {
    /// Closes the connection, and gives the closing packet the time to leave; a peer that is gone does not hold up the end.
    pub async fn close(self) {
        self.connection.close(0u32.into(), b"done");
        let _ = tokio::time::timeout(CLOSE_WAIT, self.endpoint.wait_idle()).await;
    }
}

impl Transfer {
    /// Opens a connection from a socket of its own. To be called inside a tokio runtime.
    pub async fn connect(options: ClientOptions, cc: &CongestionControl) -> Result<Transfer, QuicError> {
        let remote = options.remote;
        let meter = Arc::new(Meter::new(options.rtt_samples.clone()));
        let mut transport = transport::config(options.datagram, options.idle_timeout)?;
        transport.congestion_controller_factory(cc.factory(&meter));
        let mut config = options.certificate.client_config()?;
        config.transport_config(Arc::new(transport));
        let any: SocketAddr = match remote {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let endpoint = transport::endpoint(any, None)?;
        let refused = |reason: String| QuicError::Connect { remote, reason };
        let started = Instant::now();
        let connection = endpoint
            .connect_with(config, remote, SERVER_NAME)
            .map_err(|e| refused(e.to_string()))?
            .await
            .map_err(|error| match error {
                ConnectionError::TimedOut => refused(format!(
                    "no answer for {} s; is `anole-quic serve` listening there?",
                    options.idle_timeout.as_secs_f64()
                )),
                other => {
                    let mut reason = other.to_string();
                    if reason.contains("invalid peer certificate") {
                        // A server makes another one each time that it starts.
                        reason.push_str("; --cert has to be the file that this server wrote when it started");
                    }
                    refused(reason)
                }
            })?;
        Ok(Transfer { endpoint, connection, meter, options, handshake: started.elapsed() })
    }

    /// The connection's counters, for whoever watches.
    pub fn meter(&self) -> Arc<Meter> {
        self.meter.clone()
    }

    /// How long the handshake took.
    pub fn handshake(&self) -> Duration {
        self.handshake
    }

    /// Its end, for whoever does not await [`Transfer::run`] to it.
    pub fn closing(&self) -> Closing {
        Closing { endpoint: self.endpoint.clone(), connection: self.connection.clone() }
    }

    /// Sends `amount`, closes the connection and reports.
    pub async fn run(self, amount: Amount) -> Result<TransferReport, QuicError> {
        let started = Instant::now();
        let outcome = match amount {
            Amount::Bytes(bytes) => send(&self.connection, bytes).await,
            Amount::Time(time) => {
                match tokio::time::timeout_at(started + time, send(&self.connection, u64::MAX)).await {
                    Ok(outcome) => outcome,
                    Err(_deadline) => Ok(()),
                }
            }
        };
        let report = TransferReport {
            handshake: self.handshake,
            elapsed: started.elapsed(),
            reading: self.meter.read(),
        };
        // An error of the stream is the connection's, which says more.
        let failure = match outcome {
            Ok(()) => None,
            Err(stream) => {
                Some(self.connection.close_reason().map_or(stream, |reason| self.describe(&reason)))
            }
        };
        self.closing().close().await;
        match failure {
            None => Ok(report),
            Some(reason) if reason.is_empty() => Err(QuicError::Vanished {
                remote: self.options.remote,
                idle: self.options.idle_timeout,
                delivered_bytes: report.reading.delivered_bytes,
            }),
            Some(reason) => Err(QuicError::Ended {
                remote: self.options.remote,
                delivered_bytes: report.reading.delivered_bytes,
                reason,
            }),
        }
    }

    /// A connection's end in words; empty for a peer that fell silent.
    fn describe(&self, reason: &ConnectionError) -> String {
        match reason {
            ConnectionError::TimedOut => String::new(),
            other => other.to_string(),
        }
    }
}

/// Sends so many bytes over as many streams as they fill; over when all of them are acknowledged. The streams take their
/// pieces from one supply, so that none waits for another.
async fn send(connection: &Connection, bytes: u64) -> Result<(), String> {
    let chunk = Bytes::from(vec![0; CHUNK_BYTES]);
    let supply = Arc::new(AtomicU64::new(bytes));
    let mut streams = JoinSet::new();
    for _ in 0..bytes.div_ceil(CHUNK_BYTES as u64).clamp(1, u64::from(STREAMS)) {
        let stream = connection.open_uni().await.map_err(|e| e.to_string())?;
        streams.spawn(send_pieces(stream, chunk.clone(), supply.clone()));
    }
    while let Some(ended) = streams.join_next().await {
        ended.map_err(|e| e.to_string())??;
    }
    Ok(())
}

/// Sends pieces on one stream until the supply is used up.
async fn send_pieces(mut stream: SendStream, chunk: Bytes, supply: Arc<AtomicU64>) -> Result<(), String> {
    loop {
        let take = |left: u64| (left > 0).then(|| left.saturating_sub(chunk.len() as u64));
        let Ok(left) = supply.fetch_update(Relaxed, Relaxed, take) else { break };
        let length = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        stream.write_chunk(chunk.slice(..length)).await.map_err(|e| e.to_string())?;
    }
    stream.finish().map_err(|e| e.to_string())?;
    match stream.stopped().await {
        Ok(None) => Ok(()),
        Ok(Some(code)) => Err(format!("the receiver stopped the stream with code {code}")),
        Err(error) => Err(error.to_string()),
    }
}
