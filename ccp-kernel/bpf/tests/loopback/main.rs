// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! The datapath over loopback, without an agent: what a flow announces, obeys, reports, and what it does
//! when nobody answers. Needs root; skipped with the reason elsewhere.

#![allow(clippy::disallowed_methods, reason = "real sockets, in real time")]

mod addresses;
mod congestion;
mod idle;
mod lost;
mod mail;
mod path;
mod pins;
mod selection;
mod support;
mod switch;
mod wakes;

use anole_bpf::{Error, Mode};
use std::time::{Duration, Instant};
use support::{
    Transfer, fields, is_gone, message, next, program, program_with_ten_registers, registered, settle, word,
    words,
};

fn a_flow_obeys_reports_and_falls_back(mode: Mode) {
    let Some((mut datapath, _guard)) = registered(mode) else { return };
    next(&mut datapath, 5);
    datapath.send(&[program(), program_with_ten_registers()].concat()).unwrap();
    assert_eq!(datapath.programs(mode), 2, "the verifier takes what is generated");
    let named = Transfer::start("anole_libra_rl");
    let create = next(&mut datapath, 0);
    assert!(create[32..].starts_with(b"libra-rl\0"), "{create:?}");
    named.end();
    next(&mut datapath, 1);
    let transfer = Transfer::start("anole_ccp");
    let create = next(&mut datapath, 0);
    assert_eq!(create[32], 0);
    let (sid, mss) = (word(&create, 4), word(&create, 12));
    assert_eq!((create.len(), word(&create, 16)), (96, u32::from_ne_bytes([127, 0, 0, 1])));
    assert_eq!(word(&create, 20), u32::from(transfer.stream.local_addr().unwrap().port()));
    assert_eq!(word(&create, 28), u32::from(transfer.stream.peer_addr().unwrap().port()));

    let change =
        |uid: u32| message(4, sid, &[words(&[uid, 2]), fields(20 * u64::from(mss), 30_000_000)].concat());
    assert!(matches!(datapath.send(&change(9)), Err(Error::UnknownProgram(9))));
    datapath.send(&change(1)).unwrap();
    let report = next(&mut datapath, 1);
    assert_eq!((word(&report, 4), word(&report, 8), word(&report, 12)), (sid, 1, 1));
    assert!(word(&report, 16) >= 8192, "bytes were acknowledged in 20 ms: {report:?}");
    // The packet size grows with the receiver's window; the window in bytes does not.
    let (packets, size, rate) = support::control(&transfer.stream);
    assert!((20 * mss - size..=20 * mss).contains(&(packets * size)), "{packets} packets of {size} bytes");
    assert_eq!(rate, 30_000_000);

    // Below every bound: two packets, or what TCP sends at once, of which the path holds little.
    for wanted in [20_000_000, 400_000_000] {
        datapath.send(&message(3, sid, &[words(&[2]), fields(1, wanted)].concat())).unwrap();
        settle(&mut datapath, sid);
        // A report from before it was taken may wait; the second one is none.
        next(&mut datapath, 1);
        next(&mut datapath, 1);
        let (packets, size, rate) = support::control(&transfer.stream);
        assert!((2..=2.max((1 << 16) / size)).contains(&packets), "{packets} packets of {size} bytes");
        assert_eq!(rate, wanted);
    }
    let unknown = message(3, sid ^ 0x10000, &[words(&[2]), fields(1, 1)].concat());
    assert!(matches!(datapath.send(&unknown), Err(Error::UnknownFlow(_))));
    anole_testing::figure("loopback: fallbacks under an agent", 0.0..=0.0, datapath.stats().fallbacks as f64);

    datapath.send(&message(4, sid, &words(&[2, 0]))).unwrap();
    let report = loop {
        let report = next(&mut datapath, 1);
        if word(&report, 8) == 2 {
            break report;
        }
    };
    assert_eq!((word(&report, 12), report.len()), (10, 16 + 80));
    assert!(word(&report, 16) > 0 && word(&report, 24) > 0, "{report:?}");
    datapath.send(&message(3, sid, &words(&[0]))).unwrap();
    settle(&mut datapath, sid);

    // Nobody answers, although the agent lives; the report that waits may be some time older than this.
    let begin = Instant::now();
    let announced = next(&mut datapath, 0);
    assert_eq!(word(&announced, 4), sid);
    let silence = begin.elapsed().as_secs_f64();
    anole_testing::figure("loopback: silence until the flow is announced anew, s", 0.4..1.0, silence);
    let (fallbacks, adopted) = (datapath.stats().fallbacks, datapath.stats().adopted);
    assert!(fallbacks >= 1);
    datapath.send(&message(3, sid, &words(&[0]))).unwrap();
    next(&mut datapath, 1);
    assert!(datapath.stats().adopted > adopted, "any message brings the flow back");

    // Nobody is there.
    let end = Instant::now() + Duration::from_secs(60);
    while datapath.stats().fallbacks == fallbacks {
        assert!(Instant::now() < end, "the fallback does not take over");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(datapath.stats().aborts, 0);
    transfer.end();
    drop(datapath);
    assert!(is_gone());
}

#[test]
fn a_flow_under_generated_byte_code() {
    a_flow_obeys_reports_and_falls_back(Mode::Generated);
}

#[test]
fn a_flow_under_the_interpreter() {
    a_flow_obeys_reports_and_falls_back(Mode::Interpreted);
}
