//! The link's transmitter: takes packets from the queue and says when each has been sent.

use super::Capacity;
use super::queue::Queued;
use super::trace::{OPPORTUNITY_BYTES, OPPORTUNITY_PACKET_BYTES, TUN_HEADER_BYTES};
use anole_model::{Dur, Rate, Time};

/// A packet on the wire, and when its last bit leaves.
#[derive(Clone, Debug)]
struct Sending<T> {
    queued: Queued<T>,
    done: Time,
}

#[derive(Clone, Debug)]
pub(super) struct Server<T> {
    capacity: Capacity,
    sending: Option<Sending<T>>,
    /// Trace: the next opportunity that has not been used.
    opportunity: u64,
    /// Trace: bytes left of the opportunity at `granted_at`.
    granted_bytes: u32,
    granted_at: Time,
    /// Fixed: bytes that could have been sent up to `counted_to`.
    offered_bytes: f64,
    counted_to: Time,
    /// Trace: opportunities before those that count.
    counted: u64,
}

impl<T> Server<T> {
    pub fn new(capacity: Capacity) -> Server<T> {
        Server {
            capacity,
            sending: None,
            opportunity: 0,
            granted_bytes: 0,
            granted_at: Time::ZERO,
            offered_bytes: 0.0,
            counted_to: Time::ZERO,
            counted: 0,
        }
    }

    pub fn is_idle(&self) -> bool {
        self.sending.is_none()
    }

    /// When the packet on the wire has been sent.
    pub fn done(&self) -> Option<Time> {
        self.sending.as_ref().map(|sending| sending.done)
    }

    /// When the next packet begins to be sent, if one has waited for an idle transmitter since `since`: at once, or at an
    /// opportunity of the trace. A packet leaves the queue then and not before.
    pub fn begins(&self, since: Time) -> Time {
        match &self.capacity {
            Capacity::Fixed(_) => since,
            Capacity::Trace(_) if self.granted_bytes > 0 && self.granted_at >= since => self.granted_at,
            Capacity::Trace(trace) => trace.time_of(self.opportunity.max(trace.count_before(since))),
        }
    }

    /// Begins to send a packet at `now`, which is what [`Server::begins`] said.
    pub fn start(&mut self, now: Time, queued: Queued<T>) {
        let size = queued.packet.size;
        let done = match &self.capacity {
            Capacity::Fixed(rate) => now + time_to_send(size, *rate),
            Capacity::Trace(trace) => {
                if self.granted_at != now {
                    self.granted_bytes = 0;
                    self.opportunity = self.opportunity.max(trace.count_before(now));
                }
                // What is left of the present opportunity, and as many more as it takes.
                let needed = size + TUN_HEADER_BYTES;
                let more = needed.saturating_sub(self.granted_bytes).div_ceil(OPPORTUNITY_BYTES);
                self.granted_bytes += more * OPPORTUNITY_BYTES;
                self.granted_bytes -= needed;
                self.opportunity += u64::from(more);
                if more > 0 {
                    self.granted_at = trace.time_of(self.opportunity - 1);
                }
                self.granted_at
            }
        };
        self.sending = Some(Sending { queued, done });
    }

    /// Takes the packet on the wire if it has been sent by `now`, and when.
    pub fn finish(&mut self, now: Time) -> Option<(Time, Queued<T>)> {
        self.sending.take_if(|sending| sending.done <= now).map(|sent| (sent.done, sent.queued))
    }

    /// Changes a fixed rate; what is left of the packet on the wire goes at the new one. False when the
    /// capacity is a trace.
    pub fn set_rate(&mut self, now: Time, rate: Rate) -> bool {
        let Capacity::Fixed(old) = self.capacity else { return false };
        self.count_to(now);
        self.capacity = Capacity::Fixed(rate);
        if let Some(sending) = &mut self.sending {
            let scale = old.bytes_per_s() / rate.bytes_per_s();
            sending.done = now + sending.done.since(now).mul_f64(scale);
        }
        true
    }

    /// Bytes that could have been sent since the last [`Server::reset`], now included.
    pub fn offered_bytes(&self, now: Time) -> f64 {
        match &self.capacity {
            Capacity::Fixed(rate) => self.offered_bytes + rate.bytes_in(now.since(self.counted_to)),
            Capacity::Trace(trace) => of_opportunities(trace.count_up_to(now), self.counted),
        }
    }

    /// Bytes of the packet on the wire that have been sent by now.
    pub fn sent_in_part(&self, now: Time) -> f64 {
        let Some(sending) = &self.sending else { return 0.0 };
        let left = match &self.capacity {
            Capacity::Fixed(rate) => rate.bytes_in(sending.done.since(now)),
            Capacity::Trace(trace) => of_opportunities(self.opportunity, trace.count_before(now)),
        };
        (f64::from(sending.queued.packet.size) - left).max(0.0)
    }

    /// Counts from now on, now included; what could have been sent before.
    pub fn reset(&mut self, now: Time) -> f64 {
        if let Capacity::Trace(trace) = &self.capacity {
            let before = trace.count_before(now);
            return of_opportunities(before, std::mem::replace(&mut self.counted, before));
        }
        self.count_to(now);
        std::mem::take(&mut self.offered_bytes)
    }

    fn count_to(&mut self, now: Time) {
        self.offered_bytes = self.offered_bytes(now);
        self.counted_to = self.counted_to.max(now);
    }
}

/// Bytes of full packets that opportunities deliver, those before `to` without those before `from`.
fn of_opportunities(to: u64, from: u64) -> f64 {
    to.saturating_sub(from) as f64 * f64::from(OPPORTUNITY_PACKET_BYTES)
}

fn time_to_send(bytes: u32, rate: Rate) -> Dur {
    Dur::from_secs_f64(f64::from(bytes) / rate.bytes_per_s())
}
