//! Keeps the processors of a virtual machine awake during runs in real time.
//!
//! A virtual processor that goes idle is taken from the machine, and comes back when the host has room again: packets
//! due by then leave milliseconds late. One that always has something to do keeps its place. The kernel's `idle=poll`
//! does that for a machine, this for a run: a thread on each processor that runs only where nothing else would
//! (SCHED_IDLE, sched(7)), so that whatever wakes up takes its place at once.
#![allow(unsafe_code, reason = "the scheduling policy is set by a system call")]

use nix::libc;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, available_parallelism};

/// Rounds between two looks at whether to go on: less than a tenth of a millisecond.
const ROUNDS: u32 = 1000;

/// The processors that this process may use are awake until this is dropped.
#[derive(Debug)]
pub struct Awake {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    /// Keeps them awake, as far as the kernel lets a process do so. Not where this process has a quota of their time
    /// (cgroups' `cpu.max`): it would be used up.
    pub fn keep() -> Awake {
        let over = Arc::new(AtomicBool::new(false));
        let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
        let mut processors: Vec<usize> = (0..CpuSet::count()).collect();
        processors.retain(|&processor| allowed.is_set(processor) == Ok(true));
        if available_parallelism().is_ok_and(|share| share.get() < processors.len()) {
            processors.clear();
        }
        let start = |processor| {
            let over = Arc::clone(&over);
            std::thread::Builder::new().name("awake".to_string()).spawn(move || spin(processor, &over)).ok()
        };
        let threads = processors.into_iter().filter_map(start).collect();
        Awake { over, threads }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Spins on one processor, and only with the lowest of all priorities.
fn spin(processor: usize, over: &AtomicBool) {
    let mut own = CpuSet::new();
    if own.set(processor).and_then(|()| sched_setaffinity(Pid::from_raw(0), &own)).is_err() || !yields() {
        return;
    }
    while !over.load(Ordering::Relaxed) {
        (0..ROUNDS).for_each(|_| std::hint::spin_loop());
    }
}

/// Gives the calling thread the policy that runs only where nothing else would; false where it is refused.
fn yields() -> bool {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure is read during the call only; 0 names the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &param) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// Policy numbers of this process's threads of that name, from /proc/PID/task/TID/stat, field 41.
    fn policies() -> Vec<String> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let stat = |task: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_to_string(task.ok()?.path().join("stat")).ok()
        };
        let of = |stat: String| {
            let (name, rest) = stat.split_once(") ")?;
            name.ends_with("(awake").then(|| rest.split(' ').nth(38).map(str::to_string))?
        };
        tasks.filter_map(stat).filter_map(of).collect()
    }

    fn wait_for(expected: &[String]) {
        let begin = Instant::now();
        while policies() != expected {
            assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", policies());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn every_thread_gives_way_and_none_is_left_behind() {
        let awake = Awake::keep();
        let idle = vec![libc::SCHED_IDLE.to_string(); awake.threads.len()];
        wait_for(&idle);
        drop(awake);
        // One that was joined may be listed a little longer.
        wait_for(&[]);
    }
}
