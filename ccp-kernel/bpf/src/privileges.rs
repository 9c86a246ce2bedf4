// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! Least privilege: what the datapath needs once it is registered.

use std::io;

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

/// Gives up every capability of this thread, and of those it starts, but CAP_BPF, CAP_PERFMON and
/// CAP_NET_ADMIN, which loading a fold program takes; forbids gaining others by executing files.
pub fn drop_privileges() -> io::Result<()> {
    let header = Header { version: VERSION_3, pid: 0 };
    let mut sets = [Sets::default(); 2];
    let checked = |code: libc::c_long| if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: capget(2) fills two sets for this version.
    checked(unsafe { libc::syscall(libc::SYS_capget, &raw const header, sets.as_mut_ptr()) })?;
    for (set, kept) in sets.iter_mut().zip(KEPT) {
        let kept = set.permitted & kept;
        *set = Sets { effective: kept, permitted: kept, inheritable: 0 };
    }
    // SAFETY: capset(2) reads two sets for this version.
    checked(unsafe { libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) })?;
    // SAFETY: takes integers.
    checked(libc::c_long::from(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }))
}
