//! Flags.

use anole_transfer::TransferFlags;
use anole_transfer::flags::{address, seconds};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::net::SocketAddr;
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
    /// How many connections send at once.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub connections: u16,
    /// Congestion control: ours, or one of the stack's own.
    #[arg(long, value_enum, default_value = "anole-ccp")]
    pub cc: Cc,
    /// Run the algorithm in this process, without an agent: --alg, or anole.
    #[arg(long, group = "decides")]
    pub in_process: bool,
    /// Size of the UDP payloads, at least 1200; without it found out by probing, up to 1472.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(1200..=1472))]
    pub datagram_bytes: Option<u16>,
    /// What every transfer takes.
    #[command(flatten)]
    pub transfer: TransferFlags,
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn bounds() {
        let parse =
            |args: &[&str]| Cli::try_parse_from([&["anole-quic", "send", "127.0.0.1:1"], args].concat());
        assert!(parse(&["--size", "1M", "--duration", "3"]).is_err());
        assert!(parse(&["--connections", "0"]).is_err());
        assert!(parse(&["--alg", "anole"]).is_err());
        assert!(parse(&["--in-process", "--agent", "/tmp/a"]).is_err());
        assert!(parse(&["--in-process", "--alg", "copa"]).is_ok());
        assert!(parse(&["--cc", "vegas"]).is_err());
        assert!(parse(&["--datagram-bytes", "1500"]).is_err());
        assert!(parse(&["--agent", "/tmp/a", "--alg", "anole", "--cc", "anole-ccp"]).is_ok());
    }
}
