//! Counts what any congestion controller sees, so that every algorithm is measured alike.

use anole_datapath::FlowStats;
use anole_noq::seen;
use anole_transfer::{GovernedBy, Reading};
use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Counters of one connection's path, readable from any thread.
#[derive(Debug, Default)]
pub struct Meter {
    sent_packets: AtomicU64,
    sent_bytes: AtomicU64,
    acked_packets: AtomicU64,
    acked_bytes: AtomicU64,
    lost_packets: AtomicU64,
    rtt_us: AtomicU64,
    cwnd_bytes: AtomicU64,
    pacing_bytes_per_s: AtomicU64,
    rtt_samples: Option<Sender<RttSample>>,
    // Written by the CCP controller alone.
    flow_id: AtomicU32,
    governor: AtomicU8,
    reports: AtomicU64,
    updates: AtomicU64,
    fallbacks: AtomicU64,
}

// 0, the initial value, stands for the stack.
const GOVERNORS: [GovernedBy; 4] =
    [GovernedBy::Stack, GovernedBy::Agent, GovernedBy::InProcess, GovernedBy::Fallback];

/// The round trip of the newest packet that one ACK frame acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttSample {
    /// When the ACK came.
    pub at: Instant,
    /// From the packet's sending to then.
    pub rtt: Duration,
}

impl Meter {
    /// A meter at zero that also hands every round-trip sample to `rtt_samples`.
    pub(crate) fn new(rtt_samples: Option<Sender<RttSample>>) -> Meter {
        Meter { rtt_samples, ..Meter::default() }
    }

    /// The counters now.
    pub fn read(&self) -> Reading {
        let some = |value: u64| (value != 0).then_some(value);
        Reading {
            sent_packets: self.sent_packets.load(Relaxed),
            sent_bytes: self.sent_bytes.load(Relaxed),
            delivered_packets: self.acked_packets.load(Relaxed),
            delivered_bytes: self.acked_bytes.load(Relaxed),
            lost_packets: self.lost_packets.load(Relaxed),
            rtt_us: some(self.rtt_us.load(Relaxed)),
            cwnd_bytes: self.cwnd_bytes.load(Relaxed),
            pacing_bytes_per_s: some(self.pacing_bytes_per_s.load(Relaxed)),
            flow_id: Some(self.flow_id.load(Relaxed)).filter(|&id| id != 0),
            governor: GOVERNORS[usize::from(self.governor.load(Relaxed))],
            reports: self.reports.load(Relaxed),
            updates: self.updates.load(Relaxed),
            fallbacks: self.fallbacks.load(Relaxed),
        }
    }

    /// Takes over what the datapath's flow counts; `id` is 0 for a flow that no agent knows.
    pub(crate) fn note_flow(&self, id: u32, governor: GovernedBy, stats: &FlowStats) {
        let place = GOVERNORS.iter().position(|&known| known == governor).unwrap_or(0);
        self.flow_id.store(id, Relaxed);
        self.governor.store(place as u8, Relaxed);
        self.reports.store(stats.reports, Relaxed);
        self.updates.store(stats.updates, Relaxed);
        self.fallbacks.store(stats.fallbacks, Relaxed);
    }
}

/// Builds the inner factory's controllers with a meter around each. Made for one connection: every
/// controller it builds counts into the same meter.
pub(crate) struct MeteredFactory {
    pub(crate) inner: Arc<dyn ControllerFactory + Send + Sync>,
    pub(crate) meter: Arc<Meter>,
}

impl ControllerFactory for MeteredFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = self.inner.clone().build(now, current_mtu);
        let metered = Metered { inner, meter: self.meter.clone(), newest_sent: None };
        metered.publish();
        Box::new(metered)
    }
}

/// A controller that counts and passes everything on.
#[derive(Debug)]
pub(crate) struct Metered {
    inner: Box<dyn Controller>,
    meter: Arc<Meter>,
    /// When the newest packet of the present ACK frame was sent.
    newest_sent: Option<Instant>,
}

impl Metered {
    fn publish(&self) {
        let metrics = self.inner.metrics();
        self.meter.cwnd_bytes.store(metrics.congestion_window, Relaxed);
        self.meter.pacing_bytes_per_s.store(metrics.pacing_rate.unwrap_or(0), Relaxed);
    }
}

impl Controller for Metered {
    fn on_sent(&mut self, now: Instant, bytes: u64, largest_pn: u64) {
        self.inner.on_sent(now, bytes, largest_pn);
    }

    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.meter.sent_packets.fetch_add(1, Relaxed);
        self.meter.sent_bytes.fetch_add(u64::from(bytes), Relaxed);
        self.inner.on_packet_sent(now, bytes, pn);
    }

    fn on_cwnd_limited(&mut self) {
        self.inner.on_cwnd_limited();
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
        self.meter.acked_packets.fetch_add(1, Relaxed);
        self.meter.acked_bytes.fetch_add(bytes, Relaxed);
        self.newest_sent = self.newest_sent.max(Some(sent));
        self.inner.on_ack(now, sent, bytes, pn, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        self.inner.on_end_acks(now, in_flight, app_limited, largest);
        if let Some(sent) = self.newest_sent.take() {
            let at = seen(now);
            let rtt = at.saturating_duration_since(sent);
            self.meter.rtt_us.store(u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX), Relaxed);
            if let Some(samples) = &self.meter.rtt_samples {
                // Whoever no longer listens does not need them.
                let _ = samples.send(RttSample { at, rtt });
            }
        }
        self.publish();
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost_pn: u64,
    ) {
        self.inner.on_congestion_event(
            now,
            sent,
            is_persistent_congestion,
            is_ecn,
            lost_bytes,
            largest_lost_pn,
        );
        self.publish();
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        // Packets that hold ACKs alone are not in flight, and told with no bytes.
        self.meter.lost_packets.fetch_add(u64::from(lost_bytes > 0), Relaxed);
        self.inner.on_packet_lost(lost_bytes, pn, now);
    }

    fn on_spurious_congestion_event(&mut self) {
        self.inner.on_spurious_congestion_event();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn on_ack_frequency_update(&mut self, ack_eliciting_threshold: u64, requested_max_ack_delay: Duration) {
        self.inner.on_ack_frequency_update(ack_eliciting_threshold, requested_max_ack_delay);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Metered {
            inner: self.inner.clone_box(),
            meter: self.meter.clone(),
            newest_sent: self.newest_sent,
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.inner.into_any()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_held_acks_alone_are_not_counted_as_lost() {
        let meter = Arc::new(Meter::default());
        let factory = Arc::new(MeteredFactory {
            inner: Arc::new(noq_proto::congestion::CubicConfig::default()),
            meter: meter.clone(),
        });
        let now = Instant::now();
        let mut controller = factory.build(now, 1200);
        for bytes in [0, 1200, 0] {
            controller.on_packet_lost(bytes, 1, now);
        }
        assert_eq!(meter.read().lost_packets, 1);
    }
}
