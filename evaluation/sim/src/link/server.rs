//! The link's transmitter: takes packets from the queue and says when each has been sent.

use super::Trace;
use super::queue::Queued;
use super::trace::OPPORTUNITY_BYTES;
use anole_model::{Dur, Rate, Time};
use std::sync::Arc;

/// What limits a link.
#[derive(Clone, Debug, PartialEq)]
pub enum Capacity {
    /// A rate, which may be changed while packets pass.
    Fixed(Rate),
    /// Delivery opportunities of a Mahimahi trace.
    Trace(Arc<Trace>),
}

impl Capacity {
    /// The rate, averaged over one repetition for a trace.
    pub fn mean_rate(&self) -> Rate {
        match self {
            Capacity::Fixed(rate) => *rate,
            Capacity::Trace(trace) => trace.mean_rate(),
        }
    }
}

/// A packet on the wire.
#[derive(Clone, Debug)]
struct Sending<T> {
    queued: Queued<T>,
    /// Fixed capacity: when its last bit leaves.
    done: Time,
    /// Trace: bytes that still wait for an opportunity.
    bytes_left: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Server<T> {
    capacity: Capacity,
    sending: Option<Sending<T>>,
    /// Trace: the next opportunity that has not been used or missed.
    opportunity: u64,
    /// Trace: bytes left of the opportunity at `granted_at`.
    granted_bytes: u32,
    granted_at: Time,
    /// Bytes that could have been sent up to `counted_to`.
    offered_bytes: f64,
    counted_to: Time,
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
        }
    }

    pub fn is_idle(&self) -> bool {
        self.sending.is_none()
    }

    /// Begins to send a packet at `now`.
    pub fn start(&mut self, now: Time, queued: Queued<T>) {
        let size = queued.packet.size;
        let done = match &self.capacity {
            Capacity::Fixed(rate) => now + time_to_send(size, *rate),
            Capacity::Trace(trace) => {
                if self.granted_at != now {
                    self.granted_bytes = 0;
                    self.opportunity = self.opportunity.max(trace.count_before(now));
                }
                Time::MAX
            }
        };
        self.sending = Some(Sending { queued, done, bytes_left: size });
    }

    /// When the transmitter has something to do next.
    pub fn next_event(&self) -> Option<Time> {
        let sending = self.sending.as_ref()?;
        Some(match &self.capacity {
            Capacity::Fixed(_) => sending.done,
            Capacity::Trace(_) if self.granted_bytes > 0 => self.granted_at,
            Capacity::Trace(trace) => trace.time_of(self.opportunity),
        })
    }

    /// Does what is due at or before `now`, and returns the packet that was sent, if one was, and when.
    pub fn poll(&mut self, now: Time) -> Option<(Time, Queued<T>)> {
        loop {
            let at = self.next_event().filter(|&at| at <= now)?;
            let sending = self.sending.as_mut()?;
            if let Capacity::Trace(_) = self.capacity {
                if self.granted_bytes == 0 {
                    self.granted_bytes = OPPORTUNITY_BYTES;
                    self.granted_at = at;
                    self.opportunity += 1;
                }
                let used = sending.bytes_left.min(self.granted_bytes);
                sending.bytes_left -= used;
                self.granted_bytes -= used;
                if sending.bytes_left > 0 {
                    continue;
                }
            }
            return self.sending.take().map(|sent| (at, sent.queued));
        }
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

    /// Bytes that could have been sent since the last [`Server::reset`].
    pub fn offered_bytes(&mut self, now: Time) -> f64 {
        self.count_to(now);
        self.offered_bytes
    }

    /// Counts from now on.
    pub fn reset(&mut self, now: Time) {
        self.count_to(now);
        self.offered_bytes = 0.0;
    }

    fn count_to(&mut self, now: Time) {
        let span = now.since(self.counted_to);
        self.offered_bytes += match &self.capacity {
            Capacity::Fixed(rate) => rate.bytes_in(span),
            Capacity::Trace(trace) => {
                let opportunities =
                    trace.count_before(now).saturating_sub(trace.count_before(self.counted_to));
                opportunities as f64 * f64::from(OPPORTUNITY_BYTES)
            }
        };
        self.counted_to = self.counted_to.max(now);
    }
}

fn time_to_send(bytes: u32, rate: Rate) -> Dur {
    Dur::from_secs_f64(f64::from(bytes) / rate.bytes_per_s())
}
