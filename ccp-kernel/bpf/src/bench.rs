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
pub struct BenchControls {
    _links: Vec<Link>,
}

impl BenchControls {
    /// Registers [`CUBIC`] and [`NOTHING`]; takes Linux 6.4 with CUBIC.
    pub fn register() -> Result<BenchControls, Error> {
        libbpf_rs::set_print(None);
        let mut object = ObjectBuilder::default().open_memory(OBJECT)?.load().map_err(Error::Load)?;
        let mut links = Vec::new();
        for mut map in
            object.maps_mut().filter(|map| matches!(map.name().to_str(), Some("cubic" | "nothing")))
        {
            links.push(map.attach_struct_ops().map_err(Error::Register)?);
        }
        Ok(BenchControls { _links: links })
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

impl Runs {
    fn add(&mut self, more: Runs) {
        self.count += more.count;
        self.nanos += more.nanos;
    }
}

/// The statistics of some programs of the host at a moment, by id: other processes load and unload programs of the
/// same names meanwhile.
#[derive(Clone, Debug, Default)]
pub struct ProgramReading(BTreeMap<u32, (String, Runs)>);

impl ProgramReading {
    /// Of the programs whose names begin with `prefix`. The kernel keeps 15 letters of a name.
    pub fn take(prefix: &str) -> ProgramReading {
        let programs = ProgInfoIter::default().map(|info| {
            let runs = Runs { count: info.run_cnt, nanos: info.run_time_ns };
            (info.id, (info.name.to_string_lossy().into_owned(), runs))
        });
        ProgramReading(programs.filter(|(_, (name, _))| name.starts_with(prefix)).collect())
    }

    /// What the programs did since an earlier reading: all of them, and those with the name `once`. A program that is
    /// not in both readings is left out.
    pub fn since(&self, earlier: &ProgramReading, once: &str) -> (Runs, Runs) {
        let (mut all, mut ones) = (Runs::default(), Runs::default());
        for (id, (name, now)) in &self.0 {
            let Some((_, before)) = earlier.0.get(id) else { continue };
            let did = Runs {
                count: now.count.saturating_sub(before.count),
                nanos: now.nanos.saturating_sub(before.nanos),
            };
            all.add(did);
            if name == once {
                ones.add(did);
            }
        }
        (all, ones)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(programs: &[(u32, &str, u64, u64)]) -> ProgramReading {
        let program = |&(id, name, count, nanos): &(u32, &str, u64, u64)| {
            (id, (name.to_string(), Runs { count, nanos }))
        };
        ProgramReading(programs.iter().map(program).collect())
    }

    #[test]
    fn programs_that_come_and_go_count_for_nothing() {
        let before = reading(&[(1, "acked", 900, 90_000), (2, "acked", 10, 500), (3, "opened", 4, 100)]);
        // The first one is gone with its agent; another one has come.
        let after = reading(&[(2, "acked", 30, 1_500), (3, "opened", 5, 150), (4, "acked", 7, 70)]);
        let (all, acked) = after.since(&before, "acked");
        assert_eq!(all, Runs { count: 21, nanos: 1_050 });
        assert_eq!(acked, Runs { count: 20, nanos: 1_000 });
        assert_eq!(before.since(&after, "acked").0, Runs::default(), "never negative");
        assert_eq!(after.since(&reading(&[]), "acked"), Default::default());
    }
}
