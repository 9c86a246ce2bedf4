// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! Least privilege: what the datapath needs once it is registered.

use std::time::{Duration, Instant};
use std::{fs, io};

/// What interrupts a thread: one that comes too late is ignored, as is SIGURG by default.
const SIGNAL: libc::c_int = libc::SIGURG;
/// How long all threads together may take, and how long one is given before it is asked again.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_micros(100);

// linux/capability.h
const VERSION_3: u32 = 0x2008_0522;
const CAP_NET_ADMIN: u32 = 12;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;
/// What is kept, in two words as capset(2) wants them.
const KEPT: [u32; 2] = [1 << CAP_NET_ADMIN, 1 << (CAP_PERFMON - 32) | 1 << (CAP_BPF - 32)];

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Gives up every capability of all threads of the process but CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN, which loading a
/// fold program takes; forbids gaining others by executing files. capset(2) is of one thread, so that the others, such as
/// those of a library, are interrupted to do it by themselves.
pub fn drop_privileges() -> io::Result<()> {
    drop_own()?;
    let asked = Asked::listen()?;
    let begun = Instant::now();
    // Again and again: a thread that has not done it may have started another.
    while let Some(thread) = left()? {
        if begun.elapsed() > PATIENCE {
            return Err(io::Error::other(format!("thread {thread} of this process keeps its capabilities")));
        }
        asked.ask(thread);
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Runs `act` with no more capabilities in effect than [`drop_privileges`] leaves, in this thread and those that it starts:
/// what is within reach then is so afterwards.
pub fn with_privileges_kept<T>(act: impl FnOnce() -> T) -> io::Result<T> {
    let before = capabilities()?;
    let mut within = before;
    for (set, kept) in within.iter_mut().zip(KEPT) {
        set.effective = set.permitted & kept;
    }
    set_capabilities(&within)?;
    let done = act();
    set_capabilities(&before)?;
    Ok(done)
}

/// A thread of the process that has more than what is kept, or may gain more.
fn left() -> io::Result<Option<libc::pid_t>> {
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?;
        // One that has ended has no status, or an empty one.
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        if let Some(thread) = task.file_name().to_str().and_then(|name| name.parse().ok())
            && has_more(&status)
        {
            return Ok(Some(thread));
        }
    }
    Ok(None)
}

/// The thread of this status (proc_pid_status(5)) has more than what is kept, or may gain more.
fn has_more(status: &str) -> bool {
    let kept = u64::from(KEPT[0]) | u64::from(KEPT[1]) << 32;
    let set = |value: &str| u64::from_str_radix(value, 16).unwrap_or(u64::MAX);
    status.lines().filter_map(|line| line.split_once(":\t")).any(|(key, value)| match key {
        "CapPrm" | "CapEff" => set(value) & !kept != 0,
        "CapInh" => set(value) != 0,
        "NoNewPrivs" => value != "1",
        _ => false,
    })
}

/// Threads hear of [`SIGNAL`]; when it is dropped, whoever heard of it before does again.
struct Asked(libc::sigaction);

impl Asked {
    fn listen() -> io::Result<Asked> {
        // SAFETY: all zeros are a sigaction: no handler, no flags, nothing blocked.
        let (mut ours, mut before): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
        ours.sa_sigaction = do_it as extern "C" fn(libc::c_int) as libc::sighandler_t;
        ours.sa_flags = libc::SA_RESTART;
        // SAFETY: both live; the handler makes system calls and nothing else.
        match unsafe { libc::sigaction(SIGNAL, &raw const ours, &raw mut before) } {
            0 => Ok(Asked(before)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn ask(&self, thread: libc::pid_t) {
        // SAFETY: takes integers. A thread that has ended is not found.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, SIGNAL) };
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // SAFETY: the action is one that was in force.
        unsafe { libc::sigaction(SIGNAL, &raw const self.0, std::ptr::null_mut()) };
    }
}

/// In a thread that was interrupted: whether it came off is in the thread's status.
extern "C" fn do_it(_signal: libc::c_int) {
    // SAFETY: the thread's own; what was interrupted finds it as it left it.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let _ = drop_own();
    // SAFETY: as above.
    unsafe { *errno = before };
}

/// What [`drop_privileges`] does, for this thread and those that it starts. System calls alone, for a signal handler.
fn drop_own() -> io::Result<()> {
    let mut sets = capabilities()?;
    for (set, kept) in sets.iter_mut().zip(KEPT) {
        let kept = set.permitted & kept;
        *set = Sets { effective: kept, permitted: kept, inheritable: 0 };
    }
    set_capabilities(&sets)?;
    // SAFETY: takes integers.
    checked(libc::c_long::from(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }))
}

/// This thread's.
fn capabilities() -> io::Result<[Sets; 2]> {
    let (own, mut sets) = (Header { version: VERSION_3, pid: 0 }, [Sets::default(); 2]);
    // SAFETY: capget(2) fills two sets for this version.
    checked(unsafe { libc::syscall(libc::SYS_capget, &raw const own, sets.as_mut_ptr()) })?;
    Ok(sets)
}

fn set_capabilities(sets: &[Sets; 2]) -> io::Result<()> {
    let own = Header { version: VERSION_3, pid: 0 };
    // SAFETY: capset(2) reads two sets for this version.
    checked(unsafe { libc::syscall(libc::SYS_capset, &raw const own, sets.as_ptr()) })
}

fn checked(code: libc::c_long) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
