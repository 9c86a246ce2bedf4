//! Network namespaces without a name.
//!
//! A namespace lives as long as somebody holds it open. Nobody else can: whatever ends the process takes
//! the namespace, its devices and its sockets along, and nothing is left to clean up.

use crate::EmulatorError;
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

/// A network namespace of its own.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// Makes an empty one, with no device up.
    pub fn new() -> Result<Namespace, EmulatorError> {
        in_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|error| match error {
                Errno::EPERM => EmulatorError::Privilege,
                other => EmulatorError::Namespace(other.into()),
            })?;
            let file = File::open("/proc/thread-self/ns/net").map_err(EmulatorError::Namespace)?;
            Ok(Namespace { file })
        })
    }

    /// That of a process.
    pub(crate) fn of(process: u32) -> Result<Namespace, EmulatorError> {
        let file = File::open(format!("/proc/{process}/ns/net")).map_err(EmulatorError::Namespace)?;
        Ok(Namespace { file })
    }

    /// The same once more.
    pub(crate) fn again(&self) -> Result<Namespace, EmulatorError> {
        Ok(Namespace { file: self.file.try_clone().map_err(EmulatorError::Namespace)? })
    }

    /// Does something inside, on a thread of its own. Sockets, devices and child processes made there
    /// stay inside; `/proc/sys/net` is the namespace's own.
    pub fn run<T: Send>(
        &self,
        act: impl FnOnce() -> Result<T, EmulatorError> + Send,
    ) -> Result<T, EmulatorError> {
        in_thread(|| {
            setns(&self.file, CloneFlags::CLONE_NEWNET)
                .map_err(|error| EmulatorError::Namespace(error.into()))?;
            act()
        })
    }
}

/// For programs that take a namespace as a file, `/proc/PID/fd/FD`.
impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A namespace belongs to a thread, and this process has other work to do outside.
fn in_thread<T: Send>(act: impl FnOnce() -> Result<T, EmulatorError> + Send) -> Result<T, EmulatorError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("anole-namespace".to_string()).spawn_scoped(scope, act);
        let joined = thread.map_err(EmulatorError::Namespace)?.join();
        joined.unwrap_or_else(|_| Err(EmulatorError::Namespace(io::Error::other("its thread panicked"))))
    })
}
