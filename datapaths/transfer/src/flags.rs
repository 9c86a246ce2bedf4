//! Flags of every program that transfers, and their values.

use anole_cli::Failure;
use anole_datapath::wire::AlgorithmName;
use anole_datapath_host::{Host, HostOptions};
use anyhow::{Context, anyhow};
use clap::Args;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What a transfer without --size and --duration does.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// How much to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// This many bytes; over when the peer has acknowledged all of them.
    Bytes(u64),
    /// As much as goes in this time, counted from the end of the handshake.
    Time(Duration),
}

/// Flags of a transfer.
#[derive(Clone, Debug, Args)]
pub struct TransferFlags {
    /// How much every connection sends, in bytes; K, M and G stand for 10^3, 10^6 and 10^9.
    #[arg(long, value_name = "BYTES", value_parser = size, conflicts_with = "duration")]
    pub size: Option<u64>,
    /// For how long every connection sends (10 s when neither this nor --size is given).
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub duration: Option<Duration>,
    /// The agent's socket; without it our datapath runs on its native fallback.
    #[arg(long, value_name = "SOCKET", group = "decides")]
    pub agent: Option<PathBuf>,
    /// The algorithm to ask of the agent; without it the agent chooses.
    #[arg(long, value_name = "NAME", requires = "decides")]
    pub alg: Option<String>,
    /// Write sent, delivered, lost, RTT, window and pacing over time; the name ends in .csv or .json.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Time between the rows of the trace.
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = clap::value_parser!(u64).range(10..=1000))]
    pub trace_interval_ms: u64,
    /// Give up when the server has not answered for this long.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub idle_timeout: Duration,
    /// The summary as one JSON object.
    #[arg(long)]
    pub json: bool,
}

impl TransferFlags {
    /// How much to send.
    pub fn amount(&self) -> Amount {
        match self.size {
            Some(bytes) => Amount::Bytes(bytes),
            None => Amount::Time(self.duration.unwrap_or(DEFAULT_DURATION)),
        }
    }

    /// Time between the rows of the trace.
    pub fn trace_interval(&self) -> Duration {
        Duration::from_millis(self.trace_interval_ms)
    }

    /// The way to the agent, and the algorithm to ask of it.
    pub fn host(&self) -> Result<(Arc<Host>, AlgorithmName), Failure> {
        let name = self.alg.as_deref().unwrap_or("");
        let algorithm = AlgorithmName::new(name)
            .ok_or_else(|| Failure::Usage(anyhow!("--alg {name:?}: at most 63 bytes without NUL")))?;
        let host = match &self.agent {
            Some(agent) => Host::connect(agent, HostOptions::default())
                .with_context(|| format!("--agent {}", agent.display()))
                .map_err(Failure::Usage)?,
            None => Host::detached(HostOptions::default()),
        };
        Ok((Arc::new(host), algorithm))
    }
}

/// A time in seconds, at most a day.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_string())?;
    if seconds > 0.0 && seconds <= 86_400.0 {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("has to be more than 0 and at most 86400 seconds".to_string())
    }
}

/// A number of bytes with an optional decimal suffix.
pub fn size(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 1_000),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 1_000_000),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let number: u64 =
        digits.parse().map_err(|_| "not a number of bytes, such as 25000000 or 25M".to_string())?;
    match number.checked_mul(factor) {
        Some(bytes) if bytes > 0 => Ok(bytes),
        _ => Err("has to be at least 1 byte and less than 2^64".to_string()),
    }
}

/// The first address of a host and port.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let mut addresses = text.to_socket_addrs().map_err(|error| format!("{error}; give HOST:PORT"))?;
    addresses.next().ok_or_else(|| "has no address".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times() {
        assert_eq!(size("25M"), Ok(25_000_000));
        assert_eq!(size("7"), Ok(7));
        for bad in ["", "M", "0", "-1", "1.5M", "99999999999G"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "-1", "nan", "inf", "1e9", "x"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
