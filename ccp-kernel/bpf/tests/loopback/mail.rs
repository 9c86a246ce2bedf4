// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! Mailboxes: whose mail counts, and who gets one.

use super::pins::BpfFs;
use super::support::{
    Transfer, message, next, open, program, program_with_ten_registers, registered, registered_in, word,
    words,
};
use super::{idle, support};
use anole_bpf::{Mode, top_cgroup};
use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

#[test]
fn mail_of_an_agent_that_is_gone_starts_no_program_of_the_next() {
    let Some(place) = BpfFs::mount_or_skip() else { return };
    let Some((mut first, _guard)) = registered_in(&place.0, Mode::Generated) else { return };
    next(&mut first, 5);
    first.send(&program()).unwrap();
    first.beat();
    let (mut stream, _other) = idle::connected("anole_ccp");
    let sid = word(&next(&mut first, 0), 4);
    // Nothing is sent, so that this waits.
    first.send(&message(4, sid, &words(&[1, 0]))).unwrap();
    assert!(!first.is_taken(sid));
    drop(first);
    let mut second = open(&place.0, Mode::Generated).unwrap();
    next(&mut second, 5);
    second.send(&program_with_ten_registers()).unwrap();
    second.beat();
    let (mut buffer, end) = ([0; 1024], Instant::now() + Duration::from_secs(20));
    while second.receive(&mut buffer, Duration::from_millis(50)).is_none() {
        assert!(Instant::now() < end, "it is announced, since nobody has answered it");
        stream.write_all(&[1; 100]).unwrap();
    }
    assert_eq!((buffer[0], word(&buffer, 4)), (0, sid));
    assert_eq!(second.stats().adopted, 0);
    second.send(&message(4, sid, &words(&[2, 0]))).unwrap();
    stream.write_all(&[1; 100]).unwrap();
    support::settle(&mut second, sid);
    assert_eq!(second.stats().adopted, 1);
    drop((second, stream));
    place.remove_pins();
}

/// Mailboxes of one user, at most (src/bpf/datapath.h).
const MAX_HELD: u64 = 16_384 / 4 * 3;

/// The datapath's map of who holds mailboxes, that of the newest datapath if others are being cleared up.
fn holders() -> MapHandle {
    let ids = MapInfoIter::default().filter(|info| info.name == "holders").map(|info| info.id);
    MapHandle::from_map_id(ids.max().expect("the datapath has it")).unwrap()
}

#[test]
fn a_user_with_too_many_flows_gets_no_mailbox_until_one_is_free() {
    let Some((mut datapath, _guard)) = registered(Mode::Generated) else { return };
    next(&mut datapath, 5);
    datapath.beat();
    let holders = holders();
    // struct holder: a user, root.
    let root = [0u8; 8];
    holders.update(&root, &MAX_HELD.to_ne_bytes(), MapFlags::ANY).unwrap();
    let transfer = Transfer::start("anole_ccp");
    let begin = datapath.stats();
    assert_eq!((begin.opened, begin.unslotted), (1, 1));
    let held = || {
        let value = holders.lookup(&root, MapFlags::ANY).unwrap();
        value.map_or(0, |bytes| u64::from_ne_bytes(bytes.try_into().unwrap()))
    };
    let mut buffer = [0; 1024];
    let end = Instant::now() + Duration::from_millis(700);
    while Instant::now() < end {
        assert_eq!(datapath.receive(&mut buffer, Duration::from_millis(20)), None, "it is not announced");
    }
    assert_eq!(held(), MAX_HELD);
    holders.update(&root, &0u64.to_ne_bytes(), MapFlags::ANY).unwrap();
    next(&mut datapath, 0);
    assert_eq!(held(), 1);
    transfer.end();
    next(&mut datapath, 1);
    assert_eq!(held(), 0);
}

/// Connections that a cgroup's program gives to the datapath.
const MANY: usize = 400;

#[test]
fn connections_that_come_and_go_leave_no_mailbox() {
    let Some(top) = top_cgroup() else {
        anole_testing::skip!("there is no cgroup2 file system");
        return;
    };
    let Some((mut datapath, _guard)) = registered(Mode::Generated) else { return };
    let holders = holders();
    datapath.select(&top, None, &[("127.79.0.0/16".parse().unwrap(), None)]).unwrap();
    let threads = [0; 4].map(|_| std::thread::spawn(|| (0..MANY / 4).for_each(|_| one_connection())));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    // The listening ends are connected to an address that is not chosen.
    assert!(datapath.stats().opened >= MANY as u64, "{:?}", datapath.stats());
    let end = Instant::now() + Duration::from_secs(20);
    while holders.lookup(&[0; 8], MapFlags::ANY).unwrap().is_some() {
        assert!(Instant::now() < end, "mailboxes are left: {:?}", holders.lookup(&[0; 8], MapFlags::ANY));
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn one_connection() {
    let listener = TcpListener::bind("127.79.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    client.write_all(&[1; 1000]).unwrap();
    drop(server);
}
