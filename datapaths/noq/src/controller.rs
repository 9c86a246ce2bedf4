//! The CCP datapath as noq's congestion controller.
//!
//! | noq tells | the flow hears |
//! |---|---|
//! | `on_packet_sent` of more than the path's MTU | nothing: it is a probe for a larger one, and its loss means none |
//! | `on_ack` per packet, then `on_end_acks` | one sample per ACK frame: bytes and packets acknowledged, RTT of the newest packet, rates, in flight |
//! | `on_packet_lost` per packet, then `on_congestion_event` | a sample of its own with the losses, at once, since no ACK may ever follow; packets that asked for no acknowledgement do not count, nor do those of a path left behind |
//! | `on_congestion_event` with persistent congestion (RFC 9002 §7.6) | `was_timeout` |
//! | `on_congestion_event` for ECN-CE | one marked packet |
//! | `on_mtu_update` | the segment size: the smallest window is two packets of it |
//! | `clone_box`, for a path to which the connection migrates | [`PathFlow::migrated`], with nothing in flight |
//!
//! and noq obeys `window()` and `metrics().pacing_rate`. A rate of 0 leaves pacing to noq, which then
//! spreads 1.25 windows over a smoothed RTT.
//!
//! Deviations: the RTT sample is the time from sending to the ACK's arrival and so includes the peer's
//! ACK delay (RFC 9002 subtracts it only where it is known to be harmless; a delay gradient needs the
//! raw value). noq does not tell how much data waits, so `Flow.bytes_pending` is one packet while the
//! connection is limited by its window or pacing and 0 while the application has nothing to send.
//! QUIC never delivers out of order in the sense of `Ack.bytes_misordered`, which stays 0.

use anole_datapath::{AckSample, InForce};
use anole_datapath_host::{Packets, RateSample};
use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerMetrics};
use std::any::Any;
use std::fmt::Debug;
use std::time::{Duration, Instant};

/// The flow of one path, whoever decides over it.
pub trait PathFlow: Debug + Send + Sync + 'static {
    /// Takes what one ACK, loss detection or timeout tells; returns what to obey from now on.
    fn on_ack(&mut self, now: Instant, sample: &AckSample) -> InForce;

    /// The segment size has changed (path-MTU discovery).
    fn set_mss(&mut self, mss: u32);

    /// What the transport has to obey now.
    fn control(&self) -> InForce;

    /// A flow for the path to which the connection migrates. One of the two is dropped later.
    fn migrated(&self) -> Self;
}

/// Initial window: 10 datagrams, at most 14 720 bytes unless two datagrams are larger (RFC 9002 §7.2).
pub fn initial_window(mtu: u16) -> u32 {
    let mtu = u32::from(mtu);
    (10 * mtu).min((2 * mtu).max(14_720))
}

/// When an ACK was seen, of which noq says that it came at `now`: noq reads its clock before it asks the socket what
/// has come, and whatever holds the thread up in between makes the round-trip time shorter than the path's, which as
/// its smallest stays.
pub fn seen(now: Instant) -> Instant {
    now.max(Instant::now())
}

/// The controller of one path: tells its flow of every ACK and loss, and obeys it.
#[derive(Debug)]
pub struct PathController<F> {
    control: InForce,
    flow: F,
    packets: Packets,
    /// What has been told since the last sample.
    pending: AckSample,
    newest_sent: Option<Instant>,
    rates: RateSample,
    min_rtt: Duration,
    app_limited: bool,
    mtu: u16,
    init_cwnd: u32,
}

impl<F: PathFlow> PathController<F> {
    /// For a flow that was opened with [`initial_window`] of `mtu`.
    pub fn new(flow: F, now: Instant, mtu: u16) -> PathController<F> {
        PathController {
            control: flow.control(),
            flow,
            packets: Packets::new(now),
            pending: AckSample::default(),
            newest_sent: None,
            rates: RateSample::default(),
            min_rtt: Duration::ZERO,
            app_limited: true,
            mtu,
            init_cwnd: initial_window(mtu),
        }
    }

    /// Hands what is pending to the flow and obeys its answer.
    fn tell(&mut self, now: Instant, bytes_in_flight: u64) {
        let now = seen(now);
        let mut sample = std::mem::take(&mut self.pending);
        sample.rtt_us = self
            .newest_sent
            .take()
            .map_or(0, |sent| now.saturating_duration_since(sent).as_micros().try_into().unwrap_or(u64::MAX));
        sample.rate_outgoing = self.rates.outgoing;
        sample.rate_incoming = self.rates.incoming;
        sample.bytes_in_flight = Some(u32::try_from(bytes_in_flight).unwrap_or(u32::MAX));
        sample.app_limited = self.app_limited;
        sample.packets_in_flight = self.packets.packets_in_flight();
        sample.bytes_pending = if self.app_limited { 0 } else { u32::from(self.mtu) };
        self.control = self.flow.on_ack(now, &sample);
    }
}

impl<F: PathFlow> Controller for PathController<F> {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        if bytes <= self.mtu {
            self.packets.on_sent(now, pn, bytes);
        }
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.packets.on_acked(now, pn, sent, bytes);
        self.pending.bytes_acked =
            self.pending.bytes_acked.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        self.pending.packets_acked += 1;
        self.newest_sent = self.newest_sent.max(Some(sent));
        self.min_rtt = rtt.min();
        self.app_limited = app_limited;
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _largest: Option<u64>) {
        if self.pending.packets_acked == 0 {
            return;
        }
        self.app_limited = app_limited;
        if let Some(rates) = self.packets.sample(now, self.min_rtt) {
            self.rates = rates;
        }
        if in_flight == 0 {
            self.packets.clear();
        }
        self.tell(now, in_flight);
    }

    fn on_packet_lost(&mut self, _lost_bytes: u16, pn: u64, _now: Instant) {
        self.pending.lost_packets += u32::from(self.packets.on_lost(pn));
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        _sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        _lost_bytes: u64,
        _largest_lost_pn: u64,
    ) {
        self.pending.was_timeout |= is_persistent_congestion;
        if is_ecn {
            // QUIC reports a raised counter, not which packets were marked.
            self.pending.ecn_packets += 1;
            self.pending.ecn_bytes += u32::from(self.mtu);
        }
        self.tell(now, self.packets.bytes_in_flight());
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu;
        self.flow.set_mss(u32::from(new_mtu));
        self.control = self.flow.control();
    }

    fn window(&self) -> u64 {
        // Below one datagram noq would never send again.
        u64::from(self.control.cwnd.max(u32::from(self.mtu)))
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.pacing_rate = (self.control.rate != 0).then_some(u64::from(self.control.rate));
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let mut packets = self.packets.clone();
        packets.clear();
        let flow = self.flow.migrated();
        Box::new(PathController { control: flow.control(), flow, packets, ..*self })
    }

    fn initial_window(&self) -> u64 {
        u64::from(self.init_cwnd)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_datapath::wire::AlgorithmName;
    use anole_datapath_host::{FlowOptions, Host, HostFlow, HostOptions};

    const MTU: u16 = 1200;
    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_thread_held_up_makes_no_round_trip_shorter() {
        // The clock was read, then the thread held up, and meanwhile the ACK came.
        let read = Instant::now();
        let held = Duration::from_millis(3);
        std::thread::sleep(held);
        assert!(seen(read) >= read + held);
        let later = read + Duration::from_secs(3600);
        assert_eq!(seen(later), later);
    }

    impl PathFlow for HostFlow {
        fn on_ack(&mut self, now: Instant, sample: &AckSample) -> InForce {
            HostFlow::on_ack(self, now, sample)
        }
        fn set_mss(&mut self, mss: u32) {
            HostFlow::set_mss(self, mss);
        }
        fn control(&self) -> InForce {
            HostFlow::control(self)
        }
        fn migrated(&self) -> HostFlow {
            self.clone()
        }
    }

    fn controller(now: Instant) -> PathController<HostFlow> {
        let spec = FlowOptions {
            algorithm: AlgorithmName::NONE,
            mss: u32::from(MTU),
            init_cwnd: initial_window(MTU),
            local: None,
            remote: None,
        };
        let flow = Host::detached(HostOptions::default()).open(now, &spec);
        PathController::new(flow, now, MTU)
    }

    /// A packet is acknowledged, as noq tells of one; the stack counts `in_flight` bytes afterwards.
    fn acked(
        controller: &mut PathController<HostFlow>,
        now: Instant,
        sent: Instant,
        pn: u64,
        in_flight: u64,
    ) {
        controller.packets.on_acked(now, pn, sent, u64::from(MTU));
        controller.pending.packets_acked += 1;
        controller.on_end_acks(now, in_flight, false, Some(pn));
    }

    /// The stack says nothing of a probe that is lost.
    #[test]
    fn a_lost_mtu_probe_leaves_nothing_behind() {
        let start = Instant::now();
        let mut controller = controller(start);
        controller.on_packet_sent(start, 1336, 0);
        controller.on_packet_sent(start, MTU, 1);
        acked(&mut controller, start + 50 * MS, start, 1, 0);
        assert_eq!(controller.packets.packets_in_flight(), 0);
        // The first rate after an idle time is that of the flight alone: 1200 bytes in 50 ms.
        let later = start + 60_000 * MS;
        controller.on_packet_sent(later, MTU, 2);
        acked(&mut controller, later + 50 * MS, later, 2, 0);
        assert_eq!(controller.rates.incoming, 24_000);
    }

    /// Keys of a handshake are discarded with packets in flight, which the stack then no longer counts.
    #[test]
    fn packets_that_the_stack_forgets_are_forgotten() {
        let start = Instant::now();
        let mut controller = controller(start);
        for pn in 0..3 {
            controller.on_packet_sent(start, MTU, pn);
        }
        acked(&mut controller, start + 50 * MS, start, 2, 0);
        assert_eq!((controller.packets.packets_in_flight(), controller.packets.bytes_in_flight()), (0, 0));
    }

    #[test]
    fn lost_packets_that_held_acks_alone_are_no_congestion() {
        let start = Instant::now();
        let mut controller = controller(start);
        controller.on_packet_sent(start, MTU, 5);
        // The stack tells of packets 3 and 4, which asked for no acknowledgement, with the same call.
        for (bytes, pn) in [(0, 3), (0, 4), (MTU, 5)] {
            controller.on_packet_lost(bytes, pn, start + 50 * MS);
        }
        assert_eq!(controller.pending.lost_packets, 1);
    }

    #[test]
    fn a_larger_mtu_keeps_two_packets_flying() {
        let start = Instant::now();
        let mut controller = controller(start);
        controller.on_packet_sent(start, MTU, 0);
        controller.on_packet_lost(MTU, 0, start + 50 * MS);
        controller.on_congestion_event(start + 50 * MS, start, true, false, u64::from(MTU), 0);
        assert_eq!(controller.window(), 2 * u64::from(MTU));
        controller.on_mtu_update(1472);
        assert_eq!(controller.window(), 2 * 1472);
    }

    #[test]
    fn a_path_to_which_the_connection_migrates_begins_with_nothing_in_flight() {
        let start = Instant::now();
        let mut old = controller(start);
        old.on_packet_sent(start, MTU, 0);
        let mut new = old.clone_box().into_any().downcast::<PathController<HostFlow>>().unwrap();
        assert_eq!((old.packets.packets_in_flight(), new.packets.packets_in_flight()), (1, 0));
        // What was lost on the old path is told here.
        new.on_packet_lost(MTU, 0, start + 50 * MS);
        assert_eq!(new.pending.lost_packets, 0);
    }
}
