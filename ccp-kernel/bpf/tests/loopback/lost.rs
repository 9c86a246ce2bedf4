// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! What does not reach the agent: reports that find no room, and an agent that ends while the application has little to
//! send.

use super::idle::{alone, connected, is_acknowledged, threshold, window};
use super::support::{fields, message, next, program, registered, sums, word, words};
use anole_bpf::layout::c_layout;
use anole_bpf::{BpfDatapath, Mode};
use libbpf_rs::query::{MapInfo, MapInfoIter};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::io::Write;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Packets.
const WINDOW: u32 = 100;
/// Report registers: a report of 816 bytes, of which the ring buffer holds some 5000.
const REGISTERS: usize = 100;
const PATIENCE: Duration = Duration::from_secs(60);

fn wait_until_acknowledged(stream: &TcpStream) {
    let end = Instant::now() + PATIENCE;
    while !is_acknowledged(stream) {
        assert!(Instant::now() < end, "everything is acknowledged");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_agent_lost_while_the_application_is_idle_leaves_slow_start() {
    let Some((mut datapath, _guard)) = registered(Mode::Generated) else { return };
    alone(move || {
        next(&mut datapath, 5);
        datapath.send(&program()).unwrap();
        datapath.beat();
        let (mut stream, _other) = connected("anole_ccp");
        let create = next(&mut datapath, 0);
        let (sid, mss) = (word(&create, 4), u64::from(word(&create, 12)));
        let change = [words(&[1, 2]), fields(u64::from(WINDOW) * mss, 0)].concat();
        datapath.send(&message(4, sid, &change)).unwrap();
        // A packet now and then; nobody answers.
        let end = Instant::now() + PATIENCE;
        while datapath.stats().fallbacks == 0 {
            assert!(Instant::now() < end, "the fallback takes over");
            stream.write_all(&[1; 100]).unwrap();
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(datapath.stats().adopted, 1);
        // Ten packets; a busy machine may have more in flight.
        let window = window(&stream);
        assert!((10..WINDOW).contains(&window), "{window} packets");
        assert_eq!(threshold(&stream), WINDOW);
    });
}

/// Reads every report that waits; returns the sum of its first register.
fn drain(datapath: &mut BpfDatapath) -> u64 {
    let (mut sum, mut buffer) = (0, [0; 1024]);
    while let Some(length) = datapath.receive(&mut buffer, Duration::from_millis(50)) {
        if buffer[0] == 1 && length > 16 {
            sum += u64::from(word(&buffer, 16));
            datapath.send(&message(3, word(&buffer, 4), &words(&[0]))).unwrap();
        }
    }
    sum
}

#[test]
fn a_report_that_finds_no_room_is_in_the_next() {
    let Some((mut datapath, _guard)) = registered(Mode::Generated) else { return };
    alone(move || {
        next(&mut datapath, 5);
        // A report at every ACK that comes more than 0 us after the last.
        datapath.send(&sums(1, &[0; REGISTERS], 0)).unwrap();
        datapath.beat();
        let (mut stream, _other) = connected("anole_ccp");
        let create = next(&mut datapath, 0);
        let (sid, mss) = (word(&create, 4), word(&create, 12) as usize);
        let change = [words(&[1, 2]), fields((WINDOW as usize * mss) as u64, 0)].concat();
        datapath.send(&message(4, sid, &change)).unwrap();
        let (mut written, data) = (0, vec![1; 2 * mss]);
        let end = Instant::now() + PATIENCE;
        while datapath.stats().unsent < 100 {
            assert!(Instant::now() < end, "the ring buffer is full: {:?}", datapath.stats());
            stream.write_all(&data).unwrap();
            written += data.len() as u64;
            if !datapath.is_taken(sid) {
                continue;
            }
            // It lives, and answers without having read.
            datapath.beat();
            datapath.send(&message(3, sid, &words(&[0]))).unwrap();
        }
        wait_until_acknowledged(&stream);
        let mut told = drain(&mut datapath);
        // Another ACK, for what found no room; one may come within the microsecond of the one before.
        while told < written && Instant::now() < end {
            stream.write_all(&data).unwrap();
            written += data.len() as u64;
            wait_until_acknowledged(&stream);
            told += drain(&mut datapath);
        }
        assert_eq!(told, written, "bytes in reports, of bytes sent; {:?}", datapath.stats());
    });
}

/// `leniency` of the flow: so many words before the machine, with which a flow's storage (`src/bpf/flow.bpf.h`) ends.
fn leniency(stream: &TcpStream) -> u32 {
    const BEFORE_THE_MACHINE: usize = 16;
    let stored = |info: MapInfo| {
        let flows = (info.name == "flows").then(|| MapHandle::from_map_id(info.id).ok())??;
        flows.lookup(&stream.as_raw_fd().to_ne_bytes(), MapFlags::ANY).ok()?
    };
    let flow = MapInfoIter::default().find_map(stored).expect("it is a flow");
    let [_, _, _, machine, ..] = c_layout().map(|bytes| bytes as usize);
    word(&flow, flow.len() - machine - 4 * BEFORE_THE_MACHINE)
}

#[test]
fn an_agent_that_follows_another_at_once_has_the_usual_time() {
    let Some((mut datapath, _guard)) = registered(Mode::Generated) else { return };
    next(&mut datapath, 5);
    datapath.send(&program()).unwrap();
    datapath.beat();
    let (mut stream, _other) = connected("anole_ccp");
    let mut send = move || {
        stream.write_all(&[1; 100]).unwrap();
        wait_until_acknowledged(&stream);
        leniency(&stream)
    };
    let sid = word(&next(&mut datapath, 0), 4);
    datapath.send(&message(4, sid, &words(&[1, 0]))).unwrap();
    assert_eq!((send(), datapath.stats().adopted), (1, 1));
    datapath.change_agent();
    assert_eq!((send(), datapath.stats().fallbacks), (1, 1));
    next(&mut datapath, 5);
    datapath.send(&program()).unwrap();
    datapath.beat();
    send();
    next(&mut datapath, 0);
    datapath.send(&message(4, sid, &words(&[1, 0]))).unwrap();
    assert_eq!((send(), datapath.stats().adopted), (1, 2));
}
