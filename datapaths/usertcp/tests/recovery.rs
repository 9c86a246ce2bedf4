//! What smoltcp's loss recovery costs, in virtual time. docs/usertcp.md has the table.
#![allow(clippy::disallowed_methods, reason = "virtual time begins at the clock's")]

mod common;

use anole_emulator::NetworkLink;
use anole_model::Dur;
use anole_sim::link::Reorder;
use anole_transfer::Amount;
use common::{VirtualTransfer, fallback_only, link};
use std::time::Duration;

const SECONDS: u64 = 30;
const SEEDS: std::ops::RangeInclusive<u64> = 1..=5;

/// Mbps delivered in order and transmissions per segment that arrived, on average of five seeds.
fn measure(name: &str, impair: impl Fn(&mut NetworkLink)) -> f64 {
    let (mut mbps, mut overhead) = (0.0, 0.0);
    for seed in SEEDS {
        let mut link = link(20.0, 20);
        link.config.seed = seed;
        impair(&mut link);
        let amount = Amount::Time(Duration::from_secs(SECONDS));
        let mut transfer = VirtualTransfer::start(link, fallback_only(), amount);
        let report = transfer
            .run(Duration::from_secs(2 * SECONDS), |_, _| {})
            .expect("it ends")
            .expect("it ends well");
        mbps += report.throughput_mbps();
        overhead += report.reading.sent_bytes as f64 / report.reading.delivered_bytes as f64 - 1.0;
    }
    let runs = SEEDS.count() as f64;
    println!(
        "{name}: {:.2} Mbps of 20, {:.1} % sent in vain or under way",
        mbps / runs,
        100.0 * overhead / runs
    );
    mbps / runs
}

#[test]
fn a_transfer_gets_on_whatever_the_link_does() {
    let clean = measure("no loss but the queue's", |_| {});
    let rare = measure("0.1 % lost", |link| link.config.random_loss = 0.001);
    let common = measure("1 % lost", |link| link.config.random_loss = 0.01);
    let reordered = measure("1 % late by 5 ms", |link| {
        link.config.impairments.reorder = Some(Reorder { share: 0.01, by: Dur::from_millis(5) });
    });
    assert!(clean > 12.0 && rare > 8.0 && common > 3.0 && reordered > 3.0);
}
