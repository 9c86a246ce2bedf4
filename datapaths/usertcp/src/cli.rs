//! Flags.

use anole_cli::Failure;
use anole_transfer::TransferFlags;
use anole_transfer::flags::{address, seconds};
use anyhow::anyhow;
use clap::{Args, Parser, Subcommand};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Bulk transfers over a user-space TCP under CCP, to and from any TCP.
#[derive(Debug, Parser)]
#[command(name = "anole-usertcp")]
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

/// Where the stack's packets come from and go to.
#[derive(Clone, Debug, Args)]
pub struct DeviceFlags {
    /// A TUN device, such as one made by `ip tuntap add dev NAME mode tun`, up and with the kernel's address.
    #[arg(long, value_name = "NAME", required_unless_present = "interface", conflicts_with = "interface")]
    pub tun: Option<String>,
    /// An Ethernet interface without an address of its own, whose frames the stack takes (AF_PACKET).
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// The stack's own address and the length of its network's prefix; no other host's.
    #[arg(long, value_name = "ADDR/BITS", value_parser = network)]
    pub address: (IpAddr, u8),
    /// The router to other networks.
    #[arg(long, value_name = "ADDR")]
    pub gateway: Option<IpAddr>,
}

impl DeviceFlags {
    /// Refuses what is of another family than the stack's own address.
    pub fn check(&self, remote: Option<IpAddr>) -> Result<(), Failure> {
        let own = self.address.0;
        for (name, other) in [("--gateway", self.gateway), ("HOST:PORT", remote)] {
            if let Some(other) = other.filter(|other| other.is_ipv4() != own.is_ipv4()) {
                let error = anyhow!(
                    "{name} {other}: --address {own} is of another family; give both as IPv4 or both as IPv6"
                );
                return Err(Failure::Usage(error));
            }
        }
        Ok(())
    }
}

/// Flags of `serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// The device.
    #[command(flatten)]
    pub device: DeviceFlags,
    /// TCP port to listen on.
    #[arg(long, value_name = "PORT", default_value_t = 5001, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
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
    /// The device.
    #[command(flatten)]
    pub device: DeviceFlags,
    /// The server is `iperf3 -s`: agree on the test with it first, over a TCP connection of the kernel to the same address,
    /// and ask at the end what it received.
    #[arg(long)]
    pub iperf3: bool,
    /// What every transfer takes.
    #[command(flatten)]
    pub transfer: TransferFlags,
}

/// An address and the length of its network's prefix.
fn network(text: &str) -> Result<(IpAddr, u8), String> {
    let (address, bits) = text.split_once('/').ok_or("give ADDRESS/BITS, such as 10.0.0.2/24")?;
    let address: IpAddr = address.parse().map_err(|_| format!("{address:?} is no address"))?;
    if !smoltcp::wire::IpAddress::from(address).is_unicast() {
        return Err(format!("{address} is no address of a single host"));
    }
    let most = if address.is_ipv4() { 32 } else { 128 };
    match bits.parse() {
        Ok(bits) if bits <= most => Ok((address, bits)),
        _ => Err(format!("{bits:?} is no number from 0 to {most}")),
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
            |args: &[&str]| Cli::try_parse_from([&["anole-usertcp", "send", "127.0.0.1:1"], args].concat());
        assert!(parse(&["--tun", "t0", "--address", "10.0.0.2/24"]).is_ok());
        assert!(parse(&["--address", "10.0.0.2/24"]).is_err());
        assert!(parse(&["--tun", "t0", "--interface", "e0", "--address", "10.0.0.2/24"]).is_err());
        assert!(parse(&["--tun", "t0", "--address", "10.0.0.2"]).is_err());
        assert!(parse(&["--tun", "t0", "--address", "10.0.0.2/33"]).is_err());
        assert!(parse(&["--tun", "t0", "--address", "2001:db8::2/64"]).is_ok());
        for nobody in ["224.0.0.1/24", "255.255.255.255/24", "0.0.0.0/0", "ff02::1/64", "::/0"] {
            assert!(parse(&["--tun", "t0", "--address", nobody]).is_err(), "{nobody}");
        }
    }
}
