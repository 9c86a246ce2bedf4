//! One connection under the kernel's own algorithms.

use crate::flow_key::FlowKey;
use crate::records::{Records, Served};
use crate::stats::{FlowLine, seconds};
use anole_algorithms::{ARMS, Governed, Metrics, Selector, Stretch};
use anole_bpf::switch::FlowEvent;
use anole_model::{Dur, Rate, Time};
use std::net::Ipv4Addr;

/// What the agent knows of it.
pub struct Flow {
    pub key: FlowKey,
    pub line: FlowLine,
    /// When it was last heard of.
    pub heard: Time,
    /// Flows of the agent before it.
    number: u64,
    peer: Option<Ipv4Addr>,
    selector: Selector,
    /// The law that governs, of [`ARMS`].
    arm: usize,
    served: Served,
    metrics: Metrics,
}

impl Flow {
    /// One that this event is the first of.
    pub fn new(
        now: Time,
        key: FlowKey,
        number: u64,
        algorithm: &'static str,
        selector: Selector,
        event: &FlowEvent,
    ) -> Flow {
        let ports = (event.local_port.into(), event.remote_port.into());
        Flow {
            key,
            line: FlowLine { algorithm, ..FlowLine::new(key.1, ports, now) },
            heard: now,
            number,
            peer: event.remote,
            selector,
            arm: event.arm,
            served: Served::default(),
            metrics: Metrics::default(),
        }
    }

    /// Some round trips are over; the law that is to govern instead.
    pub fn take(&mut self, now: Time, event: &FlowEvent, records: &mut Records) -> Option<usize> {
        let FlowEvent { arm, starting, elapsed_us, acked, packets, lost, .. } = *event;
        let (elapsed, srtt) = (Dur::from_micros(elapsed_us), Dur::from_micros(event.srtt_us));
        if arm != self.arm {
            // At the beginning of what is told now.
            self.selector.switched(now - elapsed, srtt);
            tracing::debug!(flow = self.line.flow, from = ARMS[self.arm], to = ARMS[arm], "flow is switched");
            self.arm = arm;
            self.metrics.updates += 1;
        }
        let stretch = Stretch {
            elapsed,
            acked,
            packets,
            lost,
            rtt: Dur::from_micros(event.mean_rtt_us),
            min_rtt: Dur::from_micros(event.min_rtt_us),
            pacing: Rate::from_bytes_per_s(event.pacing as f64),
        };
        self.metrics.reports += 1;
        let decision = self.selector.take(now, &stretch, &Governed { arm, starting, srtt })?;
        self.metrics.telemetry.decisions += 1;
        self.metrics.telemetry.inferences += u64::from(decision.judgement.judged);
        self.served.note(&decision.judgement);
        records.unit(self.number, &decision.judgement);
        decision.switch_to
    }

    /// It has ended: the law that governed it longest counts for later ones to its peer.
    pub fn note_prior(&self, records: &Records) {
        if let (Some(peer), Some(arm)) = (self.peer, self.served.longest()) {
            records.served(peer, arm);
        }
    }

    /// It is over, in this way.
    pub fn over(mut self, now: Time, how: &'static str, records: &mut Records) -> FlowLine {
        self.line.note(&self.metrics);
        (self.line.end, self.line.end_s) = (how, seconds(now));
        records.flow(&self.line);
        self.line
    }
}
