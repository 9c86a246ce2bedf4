// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! What a process gives up, it gives up in all of its threads. In a process of its own, which has nothing left afterwards.

#![allow(clippy::disallowed_methods, reason = "reads what the kernel says of this process")]

use std::fs;
use std::io::Read;
use std::sync::mpsc::channel;
use std::thread::Builder;

/// The values of this key in the status of every thread.
fn of_threads(key: &str) -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let statuses = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("status")).unwrap());
    statuses
        .map(|status| status.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim().to_string())
        .collect()
}

#[test]
fn threads_that_there_are_keep_no_more_than_the_one_that_asks() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let (sender, receiver) = channel::<()>();
    let named = |name: &str| Builder::new().name(name.to_string());
    let reads = named("reads").spawn(move || reader.read(&mut [0; 1]).unwrap()).unwrap();
    let waits = named("waits").spawn(move || receiver.recv().is_err()).unwrap();
    let kept = 1_u64 << 12 | 1 << 38 | 1 << 39;
    // For a while, of the one that asks alone.
    let effective = || {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let set = status.lines().find_map(|line| line.strip_prefix("CapEff:\t"));
        u64::from_str_radix(set.unwrap(), 16).unwrap()
    };
    let before = effective();
    let within = anole_bpf::with_privileges_kept(effective).unwrap();
    assert_eq!((within & !kept, effective()), (0, before), "{within:x} of {before:x}");
    anole_bpf::drop_privileges().unwrap();
    for key in ["CapEff:", "CapPrm:"] {
        let sets = of_threads(key);
        assert!(sets.len() >= 4, "{sets:?}");
        assert!(sets.iter().all(|set| u64::from_str_radix(set, 16).unwrap() & !kept == 0), "{key} {sets:?}");
    }
    assert!(of_threads("NoNewPrivs:").iter().all(|value| value == "1"));
    // None of them noticed.
    drop((writer, sender));
    assert_eq!((reads.join().unwrap(), waits.join().unwrap()), (0, true));
}
