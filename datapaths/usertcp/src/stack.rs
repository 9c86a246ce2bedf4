//! What a sender and a server have in common: the stack's interface on a device.

use crate::device::{Epoch, Watched};
use smoltcp::iface::{Config, Interface, PollIngressSingleResult, PollResult, SocketSet};
use smoltcp::phy::{Device, Medium};
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr};
use std::net::IpAddr;
use std::time::Instant;

/// Packets taken, or rounds sent, before the other direction has its turn.
const MAX_BATCH: usize = 64;

/// The host that the stack plays.
#[derive(Clone, Copy, Debug)]
pub struct HostAddress {
    /// Its address.
    pub address: IpAddr,
    /// The length of its network's prefix, bits.
    pub prefix: u8,
    /// The router for other networks.
    pub gateway: Option<IpAddr>,
    /// Its Ethernet address, where the device is an Ethernet interface.
    pub ethernet: Option<[u8; 6]>,
    /// Seed of initial sequence numbers.
    pub seed: u64,
}

/// The stack on one device.
pub(crate) struct Stack<D: Device> {
    epoch: Epoch,
    pub device: Watched<D>,
    pub interface: Interface,
    pub sockets: SocketSet<'static>,
}

impl<D: Device> Stack<D> {
    pub fn new(mut device: Watched<D>, host: &HostAddress, now: Instant) -> Stack<D> {
        let hardware = match device.capabilities().medium {
            Medium::Ip => HardwareAddress::Ip,
            Medium::Ethernet => {
                HardwareAddress::Ethernet(EthernetAddress(host.ethernet.unwrap_or([2, 0, 0, 0, 0, 1])))
            }
        };
        let mut config = Config::new(hardware);
        config.random_seed = host.seed;
        let epoch = Epoch(now);
        let mut interface = Interface::new(config, &mut device, epoch.stack_time(now));
        interface.update_ip_addrs(|addresses| {
            // The list is empty and has room for two.
            let _ = addresses.push(IpCidr::new(IpAddress::from(host.address), host.prefix));
        });
        let routed = match host.gateway {
            Some(IpAddr::V4(gateway)) => interface.routes_mut().add_default_ipv4_route(gateway).is_ok(),
            Some(IpAddr::V6(gateway)) => interface.routes_mut().add_default_ipv6_route(gateway).is_ok(),
            None => true,
        };
        debug_assert!(routed, "an empty table has room");
        Stack { epoch, device, interface, sockets: SocketSet::new(Vec::new()) }
    }

    /// Takes one packet; false when none waits.
    pub fn take(&mut self, now: Instant) -> bool {
        let taken = self.interface.poll_ingress_single(
            self.epoch.stack_time(now),
            &mut self.device,
            &mut self.sockets,
        );
        !matches!(taken, PollIngressSingleResult::None)
    }

    /// Takes what waits, and does `after` after each packet; true when something came.
    pub fn take_all(&mut self, now: Instant, mut after: impl FnMut(&mut Stack<D>)) -> bool {
        let mut taken = false;
        for _ in 0..MAX_BATCH {
            if !self.take(now) {
                break;
            }
            taken = true;
            after(self);
        }
        taken
    }

    /// Sends what may go.
    pub fn send(&mut self, now: Instant) {
        for _ in 0..MAX_BATCH {
            let sent =
                self.interface.poll_egress(self.epoch.stack_time(now), &mut self.device, &mut self.sockets);
            if matches!(sent, PollResult::None) {
                break;
            }
        }
    }

    /// When the stack wants to be polled again, unless a packet comes.
    pub fn next(&mut self, now: Instant) -> Option<Instant> {
        match self.device.take_blocked() {
            Some(blocked) => Some(blocked),
            None => {
                let at = self.interface.poll_at(self.epoch.stack_time(now), &self.sockets);
                at.map(|at| self.epoch.instant(at).max(now))
            }
        }
    }
}
