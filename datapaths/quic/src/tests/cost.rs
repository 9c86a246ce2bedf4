//! What the controllers cost per ACK frame, noq's and ours without an agent.

use super::in_process::{MBPS, ROUND_TRIP_MS, ours};
use super::path::{Link, VirtualTransfer};
use super::{FULL, SECOND};
use crate::congestion::CongestionControl;
use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use std::any::Any;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const RUNS: usize = 5;

/// What controllers take of the thread's time, and how many ACK frames that was.
#[derive(Clone, Debug, Default)]
struct Cost(Arc<Mutex<(Duration, u64)>>);

impl Cost {
    fn note(&self, began: Instant, acks: u64) {
        let mut sum = self.0.lock().unwrap();
        sum.0 += began.elapsed();
        sum.1 += acks;
    }

    /// Nanoseconds per ACK frame.
    fn per_ack(&self) -> f64 {
        let sum = self.0.lock().unwrap();
        sum.0.as_nanos() as f64 / sum.1 as f64
    }
}

/// A controller whose calls are timed.
#[derive(Debug)]
struct Timed(Box<dyn Controller>, Cost);

struct TimedFactory(Arc<dyn ControllerFactory + Send + Sync>, Cost);

impl ControllerFactory for TimedFactory {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        Box::new(Timed(self.0.clone().build(now, mtu), self.1.clone()))
    }
}

impl Controller for Timed {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        let began = Instant::now();
        self.0.on_packet_sent(now, bytes, pn);
        self.1.note(began, 0);
    }
    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        limited: bool,
        rtt: &RttEstimator,
    ) {
        let began = Instant::now();
        self.0.on_ack(now, sent, bytes, pn, limited, rtt);
        self.1.note(began, 0);
    }
    fn on_end_acks(&mut self, now: Instant, in_flight: u64, limited: bool, largest: Option<u64>) {
        let began = Instant::now();
        self.0.on_end_acks(now, in_flight, limited, largest);
        self.1.note(began, 1);
    }
    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        p: bool,
        ecn: bool,
        lost: u64,
        largest: u64,
    ) {
        let began = Instant::now();
        self.0.on_congestion_event(now, sent, p, ecn, lost, largest);
        self.1.note(began, 0);
    }
    fn on_sent(&mut self, now: Instant, bytes: u64, largest_pn: u64) {
        self.0.on_sent(now, bytes, largest_pn);
    }
    fn on_cwnd_limited(&mut self) {
        self.0.on_cwnd_limited();
    }
    fn on_packet_lost(&mut self, bytes: u16, pn: u64, now: Instant) {
        self.0.on_packet_lost(bytes, pn, now);
    }
    fn on_mtu_update(&mut self, mtu: u16) {
        self.0.on_mtu_update(mtu);
    }
    fn window(&self) -> u64 {
        self.0.window()
    }
    fn metrics(&self) -> ControllerMetrics {
        self.0.metrics()
    }
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Timed(self.0.clone_box(), self.1.clone()))
    }
    fn initial_window(&self) -> u64 {
        self.0.initial_window()
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.0.into_any()
    }
}

/// A controller that does nothing, to time the timing.
#[derive(Clone, Debug)]
struct Idle;

impl ControllerFactory for Idle {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        self.clone_box()
    }
}

impl Controller for Idle {
    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: bool, _: u64, _: u64) {}
    fn on_mtu_update(&mut self, _: u16) {}
    fn window(&self) -> u64 {
        150_000
    }
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Idle)
    }
    fn initial_window(&self) -> u64 {
        150_000
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// ns per ACK frame: all that the stack tells of it and of the packets that it acknowledges, decisions included. The least
/// of some runs, which are the same but for what else the host does.
fn cost(factory: Arc<dyn ControllerFactory + Send + Sync>) -> f64 {
    let runs = (0..RUNS).map(|_| {
        let cost = Cost::default();
        let link = Link::new(MBPS, ROUND_TRIP_MS, 1.0);
        let timed = Arc::new(TimedFactory(factory.clone(), cost.clone()));
        let mut transfer = VirtualTransfer::start(link, timed, FULL);
        transfer.run(SECOND * 10).unwrap();
        cost.per_ack()
    });
    runs.fold(f64::INFINITY, f64::min)
}

#[test]
fn what_an_ack_costs() {
    if !anole_testing::measuring() {
        return;
    }
    let idle = cost(Arc::new(Idle));
    let seen = |cc: CongestionControl| cost(cc.unmetered(&Arc::default())) - idle;
    let bbr = seen(CongestionControl::Bbr);
    let figure = |name: &str, seen| {
        anole_testing::figure(&format!("ns per ACK frame, with decisions: {name}"), .., seen);
    };
    figure("noq's BBR", bbr);
    figure("noq's CUBIC", seen(CongestionControl::Cubic));
    for name in ["cubic", "bbr", "anole"] {
        let ours = seen(ours(name));
        figure(&format!("{name} in the process"), ours);
        anole_testing::figure(
            &format!("{name} in the process, per ACK frame, of noq's BBR"),
            ..=1.0,
            ours / bbr,
        );
    }
}
