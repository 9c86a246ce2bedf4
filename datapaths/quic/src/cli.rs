//! Flags.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

/// Bulk transfers over QUIC under CCP.
#[derive(Debug, Parser)]
#[command(name = "anole-quic")]
pub struct Cli {
    /// Log filter: error, warn, info, debug, or per module.
    #[arg(long, global = true, default_value = "warn")]
    pub log_level: String,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Receive and count what others send.
    Serve(Serve),
    /// Send to a server.
    Send(Send),
}

/// Flags of `serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// Address and UDP port to listen on.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:4433")]
    pub listen: SocketAddr,
    /// Where to write the certificate that clients need.
    #[arg(long, value_name = "FILE", default_value = "anole-quic.pem")]
    pub cert: PathBuf,
    /// Stop after this many connections have ended; without it, serve until interrupted.
    #[arg(long, value_name = "N")]
    pub connections: Option<u64>,
    /// Close a connection from which nothing came for this long.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub idle_timeout: Duration,
    /// One JSON object per connection.
    #[arg(long)]
    pub json: bool,
}

/// Flags of `send`.
#[derive(Debug, Args)]
pub struct Send {
    /// The server, HOST:PORT.
    #[arg(value_name = "HOST:PORT", value_parser = address)]
    pub remote: SocketAddr,
    /// The certificate that the server wrote.
    #[arg(long, value_name = "FILE", default_value = "anole-quic.pem")]
    pub cert: PathBuf,
    /// How much every connection sends, in bytes; K, M and G stand for 10^3, 10^6 and 10^9.
    #[arg(long, value_name = "BYTES", value_parser = size, conflicts_with = "duration")]
    pub size: Option<u64>,
    /// For how long every connection sends (10 s when neither this nor --size is given).
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub duration: Option<Duration>,
    /// How many connections send at once.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub connections: u16,
    /// Congestion control: ours, or one of the stack's own.
    #[arg(long, value_enum, default_value = "anole-ccp")]
    pub cc: Cc,
    /// The agent's socket; without it our datapath runs on its native fallback.
    #[arg(long, value_name = "SOCKET")]
    pub agent: Option<PathBuf>,
    /// The algorithm to ask of the agent; without it the agent chooses.
    #[arg(long, value_name = "NAME", requires = "agent")]
    pub alg: Option<String>,
    /// Write sent, delivered, lost, RTT, window and pacing over time; the name ends in .csv or .json.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Time between the rows of the trace.
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = clap::value_parser!(u64).range(10..=1000))]
    pub trace_interval_ms: u64,
    /// Size of the UDP payloads, at least 1200; without it found out by probing, up to 1472.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(1200..=1472))]
    pub datagram_bytes: Option<u16>,
    /// Give up when the server has not answered for this long.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub idle_timeout: Duration,
    /// The summary as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cc {
    /// The agent, or our native fallback.
    AnoleCcp,
    /// The stack's CUBIC.
    Cubic,
    /// The stack's BBRv3.
    Bbr,
    /// The stack's NewReno.
    Newreno,
}

impl Cc {
    /// The name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Cc::AnoleCcp => "anole-ccp",
            Cc::Cubic => "cubic",
            Cc::Bbr => "bbr",
            Cc::Newreno => "newreno",
        }
    }
}

/// A time in seconds, at most a day.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_string())?;
    if seconds > 0.0 && seconds <= 86_400.0 {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("has to be more than 0 and at most 86400 seconds".to_string())
    }
}

/// A number of bytes with an optional decimal suffix.
fn size(text: &str) -> Result<u64, String> {
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
fn address(text: &str) -> Result<SocketAddr, String> {
    let mut addresses = text.to_socket_addrs().map_err(|error| format!("{error}; give HOST:PORT"))?;
    addresses.next().ok_or_else(|| "has no address".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

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

    #[test]
    fn bounds() {
        let parse =
            |args: &[&str]| Cli::try_parse_from([&["anole-quic", "send", "127.0.0.1:1"], args].concat());
        assert!(parse(&["--size", "1M", "--duration", "3"]).is_err());
        assert!(parse(&["--connections", "0"]).is_err());
        assert!(parse(&["--alg", "anole"]).is_err());
        assert!(parse(&["--cc", "vegas"]).is_err());
        assert!(parse(&["--datagram-bytes", "1500"]).is_err());
        assert!(parse(&["--agent", "/tmp/a", "--alg", "anole", "--cc", "anole-ccp"]).is_ok());
    }
}
