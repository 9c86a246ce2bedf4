// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! What measuring the datapath takes: the kernel's run-time statistics of BPF programs, and congestion controls
//! to compare with under the same statistics (`src/bpf/bench.bpf.c`).

use crate::Error;
use libbpf_rs::libbpf_sys::{BPF_STATS_RUN_TIME, bpf_enable_stats};
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{Link, MapCore, ObjectBuilder};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

static OBJECT: &[u8] = include_bytes!("bpf/prebuilt/bench.bpf.o");

/// CUBIC by the kernel's functions, each called by a callback that does nothing else.
pub const CUBIC: &str = "bench_cubic";
/// Its callback for ACKs does nothing.
pub const NOTHING: &str = "bench_nothing";

/// While it lives, congestion controls to compare with are registered.
#[derive(Debug)]
pub struct Peers {
    _links: Vec<Link>,
}

impl Peers {
    /// Registers [`CUBIC`] and [`NOTHING`]; takes Linux 6.4 with CUBIC.
    pub fn register() -> Result<Peers, Error> {
        libbpf_rs::set_print(None);
        let mut object = ObjectBuilder::default().open_memory(OBJECT)?.load().map_err(Error::Load)?;
        let mut links = Vec::new();
        for mut map in
            object.maps_mut().filter(|map| matches!(map.name().to_str(), Some("cubic" | "nothing")))
        {
            links.push(map.attach_struct_ops().map_err(Error::Register)?);
        }
        Ok(Peers { _links: links })
    }
}

/// While it lives, the kernel counts runs and time of every BPF program. That costs time itself, part of which
/// is in the figures: what [`NOTHING`] is said to take.
#[derive(Debug)]
pub struct Statistics {
    _kept_on_by: OwnedFd,
}

impl Statistics {
    /// Switches them on.
    pub fn enable() -> io::Result<Statistics> {
        // SAFETY: takes an integer, returns a descriptor.
        let fd = unsafe { bpf_enable_stats(BPF_STATS_RUN_TIME) };
        if fd < 0 {
            return Err(io::Error::from_raw_os_error(-fd));
        }
        // SAFETY: a descriptor that is ours alone.
        Ok(Statistics { _kept_on_by: unsafe { OwnedFd::from_raw_fd(fd) } })
    }
}

/// What one program, or several of the same name, did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// How many times it ran.
    pub count: u64,
    /// For how long, with everything that it jumped to.
    pub nanos: u64,
}

/// The programs whose names begin with `prefix`. The kernel keeps 15 letters of a name.
pub fn runs(prefix: &str) -> BTreeMap<String, Runs> {
    let mut all = BTreeMap::<String, Runs>::new();
    for info in ProgInfoIter::default() {
        let name = info.name.to_string_lossy();
        if name.starts_with(prefix) {
            let runs = all.entry(name.into_owned()).or_default();
            runs.count += info.run_cnt;
            runs.nanos += info.run_time_ns;
        }
    }
    all
}

/// Limits a socket's pacing rate, bytes/s, whatever its congestion control (`SO_MAX_PACING_RATE`).
pub fn limit_rate(socket: impl AsFd, bytes_per_s: u64) -> io::Result<()> {
    // SAFETY: points to eight bytes, and says so.
    let set = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const bytes_per_s).cast(),
            size_of::<u64>() as libc::socklen_t,
        )
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
