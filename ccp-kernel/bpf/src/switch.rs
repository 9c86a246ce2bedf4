// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! The kernel's own congestion control algorithms, and who of a cgroup's connections uses which.
//!
//! A BPF program, attached to the cgroup as long as this process lives, tells what happens to each connection and sets
//! the algorithm that it is told (`src/bpf/switch.bpf.c`). No datapath of CCP is involved.

use crate::map::Ring;
use crate::{Error, kernel, select};
use libbpf_rs::{ErrorKind, Link, MapCore, MapFlags, MapHandle, ObjectBuilder};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::time::Duration;

static OBJECT: &[u8] = include_bytes!("bpf/prebuilt/switch.bpf.o");

/// Algorithms that there is room for (`SWITCH_ARMS`).
pub const MAX_ARMS: usize = 8;
/// With its NUL.
const NAME_BYTES: usize = 16;
/// `SWITCH_EVENT_BYTES`.
const EVENTS: usize = 1 << 20;
/// Of `struct switch_event`.
const EVENT_BYTES: usize = 88;
/// Of the 128 bits of an address, those that the kernel's programs go by.
const PREFIX_BITS: u32 = 24;

/// What happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It is followed from now on.
    Begins,
    /// Some round trips under one algorithm.
    Stretch,
    /// It is closed.
    Ends,
    /// Its program or its route has chosen an algorithm: it is followed no more.
    Left,
}

/// An event of a connection. Sums and lengths are those since the event before, or since its algorithm was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowEvent {
    /// What happened.
    pub what: What,
    /// The socket's, unique on the host.
    pub cookie: u64,
    /// The algorithm that governs: its place among the names of [`Switch::open`].
    pub arm: usize,
    /// It grows exponentially.
    pub starting: bool,
    /// Length, µs.
    pub elapsed_us: u64,
    /// Bytes acknowledged.
    pub acked: u64,
    /// Packets acknowledged.
    pub packets: u64,
    /// Packets found lost.
    pub lost: u64,
    /// The largest pacing rate of the connection so far, bytes/s; 0: none yet.
    pub pacing: u64,
    /// The smoothed round-trip time, on the mean of the packets, µs.
    pub mean_rtt_us: u64,
    /// And as it is now.
    pub srtt_us: u64,
    /// The smallest round-trip time, µs.
    pub min_rtt_us: u64,
    /// Largest segment, bytes.
    pub mss: u32,
    /// The peer's address, over an IPv6 socket too; none under IPv6.
    pub remote: Option<Ipv4Addr>,
    /// The connection's ports.
    pub local_port: u16,
    /// The peer's.
    pub remote_port: u16,
}

impl FlowEvent {
    /// Reads `struct switch_event`.
    fn read(bytes: &[u8; EVENT_BYTES]) -> Option<FlowEvent> {
        let mut words =
            bytes.chunks_exact(4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
        let mut longs = bytes.chunks_exact(8).map(|long| long.try_into().map_or(0, u64::from_ne_bytes));
        let [cookie, elapsed_us, acked, pacing, rtts_us] = std::array::from_fn(|_| longs.next().unwrap_or(0));
        // Of the ten words before them, nothing more is wanted.
        let mut words = words.by_ref().skip(10);
        let [what, arm, starting, packets, lost, srtt_us, min_rtt_us, mss, remote, local_port, remote_port] =
            std::array::from_fn(|_| words.next().unwrap_or(0));
        let what = match what {
            0 => What::Begins,
            1 => What::Stretch,
            2 => What::Ends,
            3 => What::Left,
            _ => return None,
        };
        Some(FlowEvent {
            what,
            cookie,
            arm: arm as usize,
            starting: starting != 0,
            elapsed_us,
            acked,
            packets: packets.into(),
            lost: lost.into(),
            pacing,
            mean_rtt_us: rtts_us.checked_div(packets.into()).unwrap_or(0),
            srtt_us: srtt_us.into(),
            min_rtt_us: min_rtt_us.into(),
            mss,
            remote: Some(Ipv4Addr::from_bits(remote)).filter(|address| !address.is_unspecified()),
            local_port: local_port as u16,
            remote_port: remote_port as u16,
        })
    }
}

/// Where new connections to a prefix begin: given to whoever learns it, on any thread.
#[derive(Debug)]
pub struct Beginnings(MapHandle);

impl Beginnings {
    /// New connections to this address's /24 begin with this algorithm, until they are too many prefixes and it is
    /// the one that was longest not used.
    pub fn set(&self, address: Ipv4Addr, arm: usize) -> Result<(), Error> {
        Ok(self.0.update(&prefix(address), &(arm as u32).to_ne_bytes(), MapFlags::ANY)?)
    }

    /// New connections to this address's /24 begin as the host has it.
    pub fn remove(&self, address: Ipv4Addr) -> Result<(), Error> {
        match self.0.delete(&prefix(address)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// The key of an address's /24.
fn prefix(address: Ipv4Addr) -> [u8; 4] {
    (address.to_bits() >> (u32::BITS - PREFIX_BITS)).to_ne_bytes()
}

/// The program, attached.
#[derive(Debug)]
pub struct Switch {
    ring: Ring,
    events: MapHandle,
    choices: MapHandle,
    prefixes: MapHandle,
    _attached: Link,
}

impl Switch {
    /// Follows the connections that processes of `cgroup`, and of those below it, open or accept from now on, as long
    /// as this value is there, and while they use one of `arms`: up to [`MAX_ARMS`] names of the kernel's; an empty
    /// one is a place that nothing has. Each begins with `first`, if that is given.
    pub fn open(cgroup: &Path, arms: &[&str], first: Option<usize>) -> Result<Switch, Error> {
        libbpf_rs::set_print(None);
        let folder = select::open(cgroup)?;
        let mut object = ObjectBuilder::default().name("anole_switch")?.open_memory(OBJECT)?;
        let config = object.maps_mut().find(|map| map.name().to_string_lossy().ends_with(".rodata"));
        let mut config = config.ok_or(Error::Object(".rodata".to_string()))?;
        let config = config.initial_value_mut().ok_or(Error::Object(".rodata".to_string()))?;
        for (place, name) in config.chunks_exact_mut(NAME_BYTES).zip(arms).take(MAX_ARMS) {
            place.iter_mut().zip(name.bytes().take(NAME_BYTES - 1)).for_each(|(to, from)| *to = from);
        }
        if let (Some(place), Some(first)) = (config.get_mut(MAX_ARMS * NAME_BYTES..), first) {
            let number = (first as u32 + 1).to_ne_bytes();
            place.iter_mut().zip(number).for_each(|(to, from)| *to = from);
        }
        let object = object.load().map_err(kernel::not_loaded)?;
        let map = |name: &str| {
            let map = object.maps().find(|map| map.name() == name);
            Ok::<_, Error>(MapHandle::try_from(&map.ok_or(Error::Object(name.to_string()))?)?)
        };
        let (events, choices, prefixes) = (map("events")?, map("choices")?, map("prefixes")?);
        let program = object.progs_mut().find(|program| program.name() == "anole_switch");
        let program = program.ok_or(Error::Object("anole_switch".to_string()))?;
        let attached = program.attach_cgroup(folder.as_raw_fd());
        let attached = attached.map_err(|error| select::failed(cgroup, "attach to it", error.to_string()))?;
        let ring = Ring::new(events.as_fd(), EVENTS)?;
        Ok(Switch { ring, events, choices, prefixes, _attached: attached })
    }

    /// Where new connections begin.
    pub fn beginnings(&self) -> Result<Beginnings, Error> {
        Ok(Beginnings(MapHandle::try_from(&self.prefixes)?))
    }

    /// The connection uses this algorithm from its next round trip on. Of one that has ended it is forgotten.
    pub fn choose(&self, cookie: u64, arm: usize) -> Result<(), Error> {
        Ok(self.choices.update(&cookie.to_ne_bytes(), &(arm as u32).to_ne_bytes(), MapFlags::ANY)?)
    }

    /// The next event; waits for it, at most for `wait`.
    pub fn receive(&mut self, wait: Duration) -> Option<FlowEvent> {
        self.read().or_else(|| {
            let millis = u16::try_from(wait.as_millis()).unwrap_or(u16::MAX);
            let mut events = [PollFd::new(self.events.as_fd(), PollFlags::POLLIN)];
            // An interrupted wait is a short one.
            let _ = poll(&mut events, PollTimeout::from(millis));
            self.read()
        })
    }

    fn read(&mut self) -> Option<FlowEvent> {
        let mut bytes = [0; EVENT_BYTES];
        self.ring.read(&mut bytes).filter(|length| *length == EVENT_BYTES)?;
        FlowEvent::read(&bytes)
    }
}

/// How many programs hear of the connections of a cgroup, by attachment to it: for tests.
#[doc(hidden)]
pub fn attached(cgroup: &Path) -> Result<u32, Error> {
    let (folder, kind) = (select::open(cgroup)?, libbpf_rs::libbpf_sys::BPF_CGROUP_SOCK_OPS);
    let (mut flags, mut count, none) = (0, 0, std::ptr::null_mut());
    // SAFETY: writes two numbers, and no list where there is none.
    let code = unsafe {
        libbpf_rs::libbpf_sys::bpf_prog_query(folder.as_raw_fd(), kind, 0, &mut flags, none, &mut count)
    };
    if code == 0 { Ok(count) } else { Err(std::io::Error::last_os_error().into()) }
}

/// The kernel's congestion control algorithms that can be used without loading a module.
pub fn available() -> Vec<String> {
    let names = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    names.unwrap_or_default().split_whitespace().map(str::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::c_layout;

    #[test]
    fn both_compilers_see_the_same_event() {
        assert_eq!(c_layout()[11] as usize, EVENT_BYTES);
        assert_eq!(c_layout()[12] as usize, MAX_ARMS * NAME_BYTES + 8);
    }

    #[test]
    fn an_event_is_read_whatever_it_holds() {
        let longs = [7u64, 50_000, 290_000, 1_000_000, 10_000_000];
        let words = [1u32, 2, 1, 200, 3, 51_000, 40_000, 1448, 0xc000_0207, 40_000, 443, 0];
        let bytes: Vec<u8> = longs
            .iter()
            .flat_map(|long| long.to_ne_bytes())
            .chain(words.iter().flat_map(|word| word.to_ne_bytes()))
            .collect();
        let mut bytes: [u8; EVENT_BYTES] = bytes.try_into().unwrap();
        let event = FlowEvent::read(&bytes).unwrap();
        assert_eq!((event.what, event.cookie, event.arm, event.starting), (What::Stretch, 7, 2, true));
        assert_eq!((event.packets, event.lost, event.mean_rtt_us, event.srtt_us), (200, 3, 50_000, 51_000));
        assert_eq!(event.remote, Some(Ipv4Addr::new(192, 0, 2, 7)));
        assert_eq!((event.local_port, event.remote_port, event.mss), (40_000, 443, 1448));
        bytes[40] = 9;
        assert_eq!(FlowEvent::read(&bytes), None);
        let begins = FlowEvent::read(&[0; EVENT_BYTES]).unwrap();
        assert_eq!((begins.what, begins.mean_rtt_us, begins.remote), (What::Begins, 0, None));
    }
}
