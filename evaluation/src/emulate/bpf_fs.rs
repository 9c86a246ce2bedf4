//! A BPF file system for one run, in a mount namespace without a name.
//!
//! The kernel's datapath outlives the agent that brought it, as it has to when agents die and come back.
//! It shall not outlive the run: when the run and its agents have ended, however they did, nobody holds
//! the namespace any more, and the kernel takes away the file system and the datapath in it.

use anyhow::{Context, Result, anyhow};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;

/// The file system, and who can see it.
#[derive(Debug)]
pub struct BpfFs {
    namespace: File,
    folder: PathBuf,
}

impl BpfFs {
    /// Mounts it over a folder made inside of `parent`.
    pub fn mount_in(parent: &Path) -> Result<BpfFs> {
        let folder = parent.join("bpf");
        std::fs::create_dir(&folder).context("cannot make a folder")?;
        let none = None::<&str>;
        let mounted = in_thread(|| {
            unshare(CloneFlags::CLONE_NEWNS)?;
            // Nobody outside sees what is mounted from here on.
            mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
            mount(Some("bpf"), &folder, Some("bpf"), MsFlags::empty(), none)?;
            Ok(File::open("/proc/thread-self/ns/mnt")?)
        });
        let namespace = mounted.context("cannot mount a BPF file system for the agent")?;
        Ok(BpfFs { namespace, folder })
    }

    /// Where it is for those that see it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts a process that sees it.
    pub fn spawn(&self, command: &mut Command) -> Result<Child> {
        self.look(|_| Ok(command.spawn()?))
    }

    /// Does something where it is seen; `act` is told its folder.
    pub fn look<T: Send>(&self, act: impl FnOnce(&Path) -> Result<T> + Send) -> Result<T> {
        in_thread(|| {
            // Threads that share a working directory may not go to different places.
            unshare(CloneFlags::CLONE_FS)?;
            // Entering goes to the root; paths that the user gave are relative to where this process is.
            let here = std::env::current_dir()?;
            setns(&self.namespace, CloneFlags::CLONE_NEWNS)?;
            std::env::set_current_dir(here)?;
            act(&self.folder)
        })
    }
}

/// A namespace belongs to a thread, and this process has other work to do outside.
fn in_thread<T: Send>(act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        scope.spawn(act).join().unwrap_or_else(|_| Err(anyhow!("the namespace's thread failed")))
    })
}
