// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! What can go wrong, in words that lead on.

use crate::message;
use libbpf_rs::ErrorKind;
use std::io;
use std::path::{Path, PathBuf};

/// Why the datapath cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel lacks what is needed.
    #[error("this kernel cannot run the datapath: {0}; it needs Linux 6.1 or newer")]
    Kernel(String),
    /// Another agent runs.
    #[error("another agent uses the datapath in {0}; stop it first")]
    Taken(PathBuf),
    /// The file system.
    #[error("{}: cannot {what}: {reason}{}", path.display(), way_out(reason))]
    Pin {
        /// The folder.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// The system's word.
        reason: io::Error,
    },
    /// The kernel refuses the programs.
    #[error(
        "the kernel does not load the datapath ({0}); it needs root, or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"
    )]
    Load(libbpf_rs::Error),
    /// The kernel refuses the registration.
    #[error(
        "the kernel does not register anole_ccp ({0:#}); if a running agent has the name, perhaps in another container or with another --bpf-fs, stop that one; if the kernel module is loaded, rmmod tcp_anole_ccp; otherwise a datapath was left behind: remove its pins, or unregister it with bpftool struct_ops"
    )]
    Register(libbpf_rs::Error),
    /// A cgroup.
    #[error("cgroup {}: cannot {what}: {reason}", path.display())]
    Cgroup {
        /// Its folder.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// The system's word.
        reason: String,
    },
    /// No cgroup of version 2.
    #[error("{} is no cgroup of version 2; {}", path.display(), hint(top.as_deref()))]
    NoCgroup {
        /// What was given.
        path: PathBuf,
        /// Where the host has some.
        top: Option<PathBuf>,
    },
    /// No congestion control is registered for the algorithm.
    #[error("\"{0}\" has no name in the kernel; there are {1}")]
    UnknownName(String, String),
    /// Something is missing in the object.
    #[error("the embedded object has no {0}")]
    Object(String),
    /// The kernel, otherwise.
    #[error("bpf: {0}")]
    Bpf(#[from] libbpf_rs::Error),
    /// A map cannot be mapped.
    #[error("a map cannot be mapped: {0}")]
    Map(#[from] io::Error),
    /// A message that is none.
    #[error(transparent)]
    Message(#[from] message::FoldRefusal),
    /// No such flow (any more).
    #[error("no flow has the id {0}")]
    UnknownFlow(u32),
    /// No such program.
    #[error("no program has the id {0}")]
    UnknownProgram(u32),
    /// Too many programs.
    #[error("the program table is full")]
    TableFull,
}

impl Error {
    /// The host does not let this process run the datapath at all, as opposed to a fault of the datapath: for
    /// tests, which skip then.
    pub fn is_out_of_reach(&self) -> bool {
        match self {
            Error::Kernel(_) => true,
            Error::Load(error) => error.kind() == ErrorKind::PermissionDenied,
            _ => false,
        }
    }
}

/// What a process without the rights can do.
fn way_out(reason: &io::Error) -> &'static str {
    match reason.kind() {
        io::ErrorKind::PermissionDenied => {
            "; it needs root, or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN and a BPF file system of its own with --bpf-fs"
        }
        _ => "",
    }
}

fn hint(top: Option<&Path>) -> String {
    match top {
        Some(top) => format!("this host's are in {}", top.display()),
        None => "this host has none (mount -t cgroup2 cgroup2 /sys/fs/cgroup)".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_finds_the_name_taken_hears_by_whom() {
        let text = Error::Register(libbpf_rs::Error::from_raw_os_error(libc::EEXIST)).to_string();
        for holder in ["running agent", "rmmod tcp_anole_ccp", "bpftool struct_ops"] {
            assert!(text.contains(holder), "{text}");
        }
    }

    #[test]
    fn whoever_may_not_pin_hears_what_that_takes() {
        let text = |kind: io::ErrorKind| {
            let path = PathBuf::from("/sys/fs/bpf/anole_ccp");
            Error::Pin { path, what: "create it", reason: kind.into() }.to_string()
        };
        let denied = text(io::ErrorKind::PermissionDenied);
        assert!(denied.starts_with("/sys/fs/bpf/anole_ccp: cannot create it: "), "{denied}");
        assert!(denied.contains("needs root") && denied.contains("--bpf-fs"), "{denied}");
        assert!(!text(io::ErrorKind::StorageFull).contains("root"));
    }
}
