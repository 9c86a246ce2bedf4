//! `anole-usertcp serve`.

use crate::cli::Serve;
use crate::{failed, interrupted};
use anole_cli::Failure;
use anole_transfer::received;
use anole_usertcp::real::{self, Turn, Waiter, drive};
use anole_usertcp::{Receiver, ReceiverOptions};
use anyhow::anyhow;
use smoltcp::phy::Device;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Serves until interrupted, or until as many connections have ended as were asked for.
pub fn run(options: Serve) -> Result<(), Failure> {
    let flags = &options.device;
    flags.check(None)?;
    match (&flags.tun, &flags.interface) {
        (Some(tun), _) => listen(&options, real::open_tun(tun).map_err(failed)?),
        (None, Some(interface)) => listen(&options, real::open_interface(interface).map_err(failed)?),
        (None, None) => Err(Failure::Usage(anyhow!("--tun or --interface is needed"))),
    }
}

fn listen<D: Device + AsRawFd>(options: &Serve, device: D) -> Result<(), Failure> {
    let flags = &options.device;
    let stop = interrupted()?;
    let receiver = ReceiverOptions {
        host: real::host(flags.interface.as_deref(), flags.address, flags.gateway),
        port: options.port,
        idle_timeout: options.idle_timeout,
    };
    let waiter = Waiter::of(&device);
    let mut receiver = Receiver::listen(device, receiver, Instant::now());
    eprintln!("listening on {}", SocketAddr::new(flags.address.0, options.port));
    let mut left = options.connections.unwrap_or(u64::MAX);
    drive(&waiter, |now| {
        let (ended, next) = receiver.poll(now);
        left = left.saturating_sub(ended.len() as u64);
        let over = left == 0 || stop.load(Relaxed);
        let open = if over { receiver.stop(now) } else { Vec::new() };
        for end in ended.into_iter().chain(open) {
            received(&end.remote.to_string(), end.bytes, end.lasted, end.error, options.json);
        }
        Ok(if over { Turn::Over(()) } else { Turn::Until(next) })
    })
    .map_err(failed)
}
