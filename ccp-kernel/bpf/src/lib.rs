// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! The congestion control plane's datapath for Linux TCP, in eBPF: user space's side.
//!
//! [`BpfDatapath::open`] registers the congestion control `anole_ccp` with the kernel; from then on
//! [`BpfDatapath::receive`] and [`BpfDatapath::send`] carry CCP's messages, as bytes, from and to it. Fold
//! programs become BPF byte code when they are installed.
//!
//! [`switch::Switch`] is no datapath: it chooses among the kernel's own algorithms.
//!
//! What runs in the kernel is in `src/bpf`; `README.md` in the folder above says how it works.

#![allow(clippy::disallowed_methods, reason = "talks to the kernel: reads a clock, opens files")]

mod assembler;
#[cfg(feature = "bench")]
pub mod bench;
mod error;
pub mod generate;
#[cfg(feature = "harness")]
pub mod harness;
mod kernel;
#[doc(hidden)]
#[allow(missing_docs, reason = "mirrors the C headers, which say it")]
pub mod layout;
#[doc(hidden)]
pub mod map;
#[doc(hidden)]
pub mod message;
mod object;
mod privileges;
mod programs;
mod select;
pub mod switch;
mod waits;
#[cfg(test)]
mod window;

pub use error::Error;
pub use object::{MAX_NAMES, default_directory, named};
pub use privileges::{drop_privileges, with_privileges_kept};
pub use programs::Mode;
pub use select::{MAX_PREFIXES, Prefix, PrefixError, check_cgroup, top_cgroup};
pub use waits::{Waits, waits};

use layout::{
    AGENT_BYTES, AgentState, EVENT_BYTES, MAIL_EMPTY, MAIL_FULL, MAIL_READING, MAIL_WRITING, MAX_FLOWS,
    Mailbox,
};
use libbpf_rs::Link;
use map::{Mapping, Ring};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use object::Registered;
use programs::Programs;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::fence;
use std::time::Duration;

/// Where messages come more often than this, waiting for each to wake the agent costs more than it is worth: they
/// wait this long at most, and are taken together.
const NAP: Duration = Duration::from_micros(500);

/// The datapath's counters since it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatapathStats {
    /// Flows opened.
    pub opened: u64,
    /// Flows that the agent could not govern when they began, because too many existed, or too many of their user or
    /// network namespace.
    pub unslotted: u64,
    /// Times that a flow lost its agent.
    pub fallbacks: u64,
    /// Times that an agent took a flow.
    pub adopted: u64,
    /// Runs of programs that were given up half-way.
    pub aborts: u64,
    /// Messages to the agent that found no room.
    pub unsent: u64,
}

/// The registered datapath.
pub struct BpfDatapath {
    installed: Registered,
    agent: Mapping,
    mailboxes: Mapping,
    ring: Ring,
    programs: Programs,
    mode: Mode,
    /// READY has not been handed out.
    greet: bool,
    /// When a wait last ended, µs; and whether the next one is a nap.
    woken_us: u64,
    often: bool,
    /// Choices that are attached to cgroups.
    selected: Vec<Link>,
}

impl fmt::Debug for BpfDatapath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BpfDatapath").field("pinned", &self.is_pinned()).finish_non_exhaustive()
    }
}

/// Now, µs of CLOCK_MONOTONIC, the clock of TCP's timestamps.
fn now_us() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    now.map_or(0, |now| now.tv_sec() as u64 * 1_000_000 + now.tv_nsec() as u64 / 1000)
}

/// The counters of the datapath that is registered in `directory`, whoever runs it.
pub fn stats(directory: &Path) -> Result<DatapathStats, Error> {
    let map = object::pinned(directory, "agent")?;
    let agent = Mapping::new(map.as_fd(), 0, AGENT_BYTES, false)?;
    // SAFETY: as in `Datapath::agent`.
    Ok(read_stats(unsafe { agent.get::<AgentState>(0).expect("mapped whole").as_ref() }))
}

/// Flows that an agent governs or may govern, of the datapath that is registered in `directory`.
pub fn flows(directory: &Path) -> Result<usize, Error> {
    let map = object::pinned(directory, "mailboxes")?;
    let mailboxes = Mapping::new(map.as_fd(), 0, size_of::<Mailbox>() * MAX_FLOWS as usize, false)?;
    let held = |n: &u32| {
        // SAFETY: within the map; the word is atomic on both sides.
        mailboxes
            .get::<Mailbox>(*n as usize)
            .is_some_and(|at| unsafe { (*at.as_ptr()).sid.load(Acquire) != 0 })
    };
    Ok((0..MAX_FLOWS).filter(held).count())
}

fn read_stats(agent: &AgentState) -> DatapathStats {
    DatapathStats {
        opened: agent.opened.load(Relaxed),
        unslotted: agent.unslotted.load(Relaxed),
        fallbacks: agent.fallbacks.load(Relaxed),
        adopted: agent.adopted.load(Relaxed),
        aborts: agent.aborts.load(Relaxed),
        unsent: agent.unsent.load(Relaxed),
    }
}

impl BpfDatapath {
    /// Registers the datapath, or takes over what an earlier agent left in `directory`, a BPF file system. For
    /// each of `algorithms` (up to [`MAX_NAMES`], of up to 9 letters) it also registers `anole_NAME`, whose flows ask the
    /// agent for that one.
    /// If it is none, nothing is left there and the registration ends with this value.
    pub fn open(directory: &Path, algorithms: &[&str], mode: Mode) -> Result<BpfDatapath, Error> {
        let installed = object::install(directory, algorithms)?;
        let maps = &installed.maps;
        let agent = Mapping::new(maps.agent.as_fd(), 0, AGENT_BYTES, true)?;
        let bytes = size_of::<Mailbox>() * MAX_FLOWS as usize;
        let mailboxes = Mapping::new(maps.mailboxes.as_fd(), 0, bytes, true)?;
        let ring = Ring::new(maps.events.as_fd(), EVENT_BYTES)?;
        let mut datapath = BpfDatapath {
            agent,
            mailboxes,
            ring,
            programs: Programs::default(),
            mode,
            greet: true,
            woken_us: 0,
            often: false,
            selected: Vec::new(),
            installed,
        };
        datapath.start();
        Ok(datapath)
    }

    /// Forgets an earlier agent's programs, mail (its epoch is another one) and events.
    fn start(&mut self) {
        self.agent().epoch.fetch_add(1, SeqCst);
        self.agent().sleeps.store(0, SeqCst);
        while self.ring.read(&mut []).is_some() {}
    }

    /// The agent behind this value has gone, and another one may come: its flows fall back at once, and the next
    /// message is READY again.
    pub fn change_agent(&mut self) {
        self.agent().heartbeat_us.store(0, Release);
        self.programs = Programs::default();
        self.greet = true;
        self.start();
    }

    /// From now on the connections of a cgroup's processes, and of those below it, use the datapath when they are
    /// established: those to the longest of `prefixes` (up to [`MAX_PREFIXES`]), by the algorithm given with it, or by
    /// `algorithm`, or by the agent's own choice (`anole_ccp`). Without prefixes it is every one. What a program
    /// chose for itself stays. It ends with this value; connections that there are then keep what they have.
    pub fn select(
        &mut self,
        cgroup: &Path,
        algorithm: Option<&str>,
        prefixes: &[(Prefix, Option<&str>)],
    ) -> Result<(), Error> {
        let all = [(Prefix::ALL, None)];
        let prefixes = if prefixes.is_empty() { &all } else { prefixes };
        let choices: Result<Vec<_>, Error> = prefixes
            .iter()
            .map(|(prefix, own)| Ok((*prefix, self.installed.control_name(own.or(algorithm))?)))
            .collect();
        self.selected.push(select::attach(cgroup, &choices?)?);
        Ok(())
    }

    /// It stays registered when this value goes, and the next agent takes it over.
    pub fn is_pinned(&self) -> bool {
        self.installed.pinned
    }

    /// An earlier agent had registered it.
    pub fn is_adopted(&self) -> bool {
        self.installed.adopted
    }

    /// The counters.
    pub fn stats(&self) -> DatapathStats {
        read_stats(self.agent())
    }

    /// How many of the agent's programs run like this: those that the verifier refuses as byte code of their own
    /// are interpreted.
    pub fn programs(&self, mode: Mode) -> usize {
        self.programs.count(mode)
    }

    /// Tells the kernel that the agent lives; it is lost after 500 ms without. [`BpfDatapath::receive`] does
    /// it too.
    pub fn beat(&self) {
        self.agent().heartbeat_us.store(now_us(), Release);
    }

    /// Waits for a message of the kernel, at most for `wait`, and copies it to `buffer`. Returns its
    /// length, which is more than `buffer` has if it does not fit. The first is READY; from the next call
    /// on the agent counts as alive. The wait ends early, with None, while another processor is still writing the
    /// message.
    pub fn receive(&mut self, buffer: &mut [u8], wait: Duration) -> Option<usize> {
        self.receive_beside(buffer, wait, None)
    }

    /// As [`BpfDatapath::receive`]; the wait ends early, with None, once `other` can be read, too.
    pub fn receive_beside(
        &mut self,
        buffer: &mut [u8],
        wait: Duration,
        other: Option<BorrowedFd<'_>>,
    ) -> Option<usize> {
        // Flows that announce themselves before the programs are there would do so again and again.
        if std::mem::take(&mut self.greet) {
            let ready = [5, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            let room = ready.len().min(buffer.len());
            buffer[..room].copy_from_slice(&ready[..room]);
            return Some(ready.len());
        }
        self.beat();
        let mut length = self.ring.read(buffer);
        if length.is_none() && self.often {
            std::thread::sleep(wait.min(NAP));
            length = self.ring.read(buffer);
            self.often = length.is_some();
        }
        if length.is_none() {
            length = self.sleep(buffer, wait, other);
        }
        self.beat();
        length
    }

    /// Waits to be woken. The datapath wakes nobody who has not said that he sleeps, and says why none does with
    /// a message unread (`tell_agent` in `bpf/flow.bpf.h`): here `sleeps` is written, and then the ring is read.
    fn sleep(&mut self, buffer: &mut [u8], wait: Duration, other: Option<BorrowedFd<'_>>) -> Option<usize> {
        self.agent().sleeps.store(1, SeqCst);
        fence(SeqCst);
        let mut length = self.ring.read(buffer);
        if length.is_none() {
            let millis = u16::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u16::MAX);
            let events = self.installed.maps.events.as_fd();
            let mut fds = [events, other.unwrap_or(events)].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
            // An interrupted wait is a short one.
            let _ = poll(&mut fds, PollTimeout::from(millis));
        }
        self.agent().sleeps.store(0, SeqCst);
        length = length.or_else(|| self.ring.read(buffer));
        let now_us = now_us();
        self.often = length.is_some() && now_us - self.woken_us < NAP.as_micros() as u64;
        self.woken_us = now_us;
        length
    }

    /// Takes a datagram of the agent, which may hold several messages. A message that is refused does not
    /// keep those behind it from being taken; the first error is returned.
    pub fn send(&mut self, datagram: &[u8]) -> Result<(), Error> {
        let mut outcome = Ok(());
        let mut rest = datagram;
        loop {
            let (message, refused) = message::read(rest);
            let (bytes, behind) = rest.split_at_checked(message.length as usize).unwrap_or((rest, &[]));
            let taken = refused.map_err(Error::from).and_then(|()| self.take(&message, bytes));
            outcome = outcome.and(taken);
            // Where the next one starts is not known.
            if message.length == 0 {
                return outcome;
            }
            rest = behind;
            if rest.is_empty() {
                return outcome;
            }
        }
    }

    fn take(&mut self, message: &layout::FoldMessage, bytes: &[u8]) -> Result<(), Error> {
        if message.kind == message::INSTALL {
            let program = message::install(bytes)?;
            return self.programs.install(&self.installed, program, self.mode).map(|_| ());
        }
        let program = match message.kind {
            message::CHANGE_PROG => {
                Some(self.programs.place(message.uid).ok_or(Error::UnknownProgram(message.uid))?)
            }
            _ => None,
        };
        self.post(message.sid, program, bytes)
    }

    /// Puts a message into a flow's mailbox, to what waits there.
    fn post(&mut self, sid: u32, program: Option<u32>, bytes: &[u8]) -> Result<(), Error> {
        let at = self.mailbox((sid & 0xffff).wrapping_sub(1)).ok_or(Error::UnknownFlow(sid))?;
        // SAFETY: within the map; these two words are atomic on both sides.
        let (state, owner) = unsafe { (&(*at).state, &(*at).sid) };
        let is_ours = || owner.load(Acquire) == sid;
        let found = loop {
            if !is_ours() {
                return Err(Error::UnknownFlow(sid));
            }
            match state.load(Acquire) {
                // The kernel holds it for some hundred instructions, without sleeping.
                MAIL_READING => std::hint::spin_loop(),
                found if state.compare_exchange(found, MAIL_WRITING, SeqCst, SeqCst).is_ok() => break found,
                _ => {}
            }
        };
        // The flow may have ended before the mailbox was taken; later on, what is written names it.
        if !is_ours() {
            state.store(found, SeqCst);
            return Err(Error::UnknownFlow(sid));
        }
        let epoch = self.agent().epoch.load(Relaxed);
        // SAFETY: the mailbox is ours until its state changes.
        let mailbox = unsafe { &mut *at };
        // What another agent wrote, or to a flow before this one, is not to be added to.
        if found == MAIL_EMPTY || mailbox.to != sid || mailbox.epoch != epoch {
            (mailbox.to, mailbox.epoch, mailbox.program) = (sid, epoch, 0);
            mailbox.staged.present = [0; 2];
        }
        if let Some(program) = program {
            mailbox.program = program;
        }
        let staged = message::stage(bytes, &mut mailbox.staged);
        mailbox.state.store(MAIL_FULL, SeqCst);
        Ok(staged?)
    }

    /// The flow has taken every message that it was sent, or there is no such flow.
    pub fn is_taken(&self, sid: u32) -> bool {
        let mailbox = self.mailbox((sid & 0xffff).wrapping_sub(1));
        // SAFETY: within the map; both words are atomic.
        mailbox.is_none_or(|at| unsafe {
            (*at).sid.load(Acquire) != sid || (*at).state.load(Acquire) == MAIL_EMPTY
        })
    }

    fn agent(&self) -> &AgentState {
        // SAFETY: the map has one value, all words of which are atomic on both sides.
        unsafe { self.agent.get::<AgentState>(0).expect("mapped whole").as_ref() }
    }

    fn mailbox(&self, slot: u32) -> Option<*mut Mailbox> {
        self.mailboxes.get(slot as usize).map(std::ptr::NonNull::as_ptr)
    }
}

impl Drop for BpfDatapath {
    fn drop(&mut self) {
        // The flows need not wait for the heartbeat to grow old.
        self.agent().heartbeat_us.store(0, Release);
    }
}
