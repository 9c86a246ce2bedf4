//! Both ends in this process, in real time: what the stack and the datapath cost.
#![allow(clippy::disallowed_methods, reason = "the test runs in real time")]

mod common;

use anole_testing::{figure, measuring};
use anole_transfer::Amount;
use anole_usertcp::{Progress, Receiver, ReceiverOptions, Sender, pair};
use common::{PORT, fallback_only, host, to};
use std::time::{Duration, Instant};

#[test]
fn a_server_that_is_stopped_tells_of_the_connections_that_are_open() {
    let (near, far) = pair(1500);
    let start = Instant::now();
    let mut sender = Sender::connect(near, fallback_only(), to(2, Amount::Bytes(u64::MAX)), start).unwrap();
    let options = ReceiverOptions { host: host(2, 8), port: PORT, idle_timeout: Duration::from_secs(10) };
    let mut receiver = Receiver::listen(far, options, start);
    while receiver.bytes() < 100_000 {
        assert!(matches!(sender.poll(Instant::now()), Progress::Running(_)));
        assert!(receiver.poll(Instant::now()).0.is_empty());
    }
    let (bytes, ended) = (receiver.bytes(), receiver.stop(Instant::now()));
    assert_eq!((ended.len(), ended[0].bytes, ended[0].error), (1, bytes, Some("the server was stopped")));
    let Progress::Over(Err(error)) = sender.poll(Instant::now()) else { panic!("the sender hears nothing") };
    assert!(error.to_string().contains("closed the connection"), "{error}");
}

#[test]
fn bytes_cross_a_pair() {
    let size = if measuring() { 1_000_000_000 } else { 20_000_000 };
    let (near, far) = pair(1500);
    let start = Instant::now();
    let mut sender = Sender::connect(near, fallback_only(), to(2, Amount::Bytes(size)), start).unwrap();
    let options = ReceiverOptions { host: host(2, 8), port: PORT, idle_timeout: Duration::from_secs(10) };
    let mut receiver = Receiver::listen(far, options, start);
    let mut received = 0;
    let report = loop {
        let progress = sender.poll(Instant::now());
        let (ended, _) = receiver.poll(Instant::now());
        received += ended.iter().map(|ended| ended.bytes).sum::<u64>();
        if let Progress::Over(report) = progress {
            break report.unwrap();
        }
    };
    assert_eq!((report.reading.delivered_bytes, received), (size, size));
    assert_eq!(report.reading.lost_packets, 0);
    // One thread, always busy: a second is a second of a processor.
    println!(
        "{:.0} Mbps, {:.2} CPU seconds per Gbit",
        report.throughput_mbps(),
        1e3 / report.throughput_mbps()
    );
    figure("User-space TCP: in process, Mbps", 300.0.., report.throughput_mbps());
}
