//! The sending end of a flow: window, pacing, loss detection, retransmission, rate samples.
//!
//! Modelled on today's Linux TCP and QUIC rather than on one of them:
//!
//! - Every transmission has a number of its own (as QUIC's packets; TCP reaches the same with SACK,
//!   timestamps and RACK), so that a lost retransmission is found like any other loss.
//! - A transmission is lost when one sent three or more after it has been acknowledged (RFC 9002 §6.1.1; RFC 6675's
//!   DupThresh, but those between need not have been), or a later one has and 9/8 RTT have passed since it was sent
//!   (RFC 9002 §6.1.2; RFC 8985 in spirit).
//! - Retransmission timeout: RFC 6298, with the variance term at least 200 ms as in Linux
//!   (TCP_RTO_MIN), doubled on each expiry up to 120 s; it declares everything in flight lost.
//! - Delivery rates: Cheng et al., draft-cheng-iccrg-delivery-rate-estimation.
//! - Pacing spaces single packets at the given rate, without credit for time in which nothing could be
//!   sent. Rate 0 sends whatever the window allows at once, as Linux does without pacing.
//!
//! All bytes here are payload; windows, rates and samples count payload alike.
//!
//! Not modelled: connection set-up, tail-loss probes, undo after a spurious timeout, receive windows,
//! proportional rate reduction (the window in force is obeyed at once).

mod supply;

pub(super) use supply::Supply;

use super::receiver::{Arrival, Data};
use super::segments::Segments;
use anole_datapath::{AckSample, InForce};
use anole_model::{Dur, Rate, Time, earliest};
use std::collections::VecDeque;
use std::num::NonZeroU32;

/// RFC 9002 §6.1.1: kPacketThreshold; RFC 6675 §2: DupThresh.
const DUP_THRESH: u64 = 3;
/// RFC 9002 §6.1.2: kTimeThreshold.
const TIME_THRESHOLD: f64 = 9.0 / 8.0;
/// RFC 6298 §2.1: before the first RTT sample.
const INITIAL_RTO: Dur = Dur::from_millis(1000);
/// Linux: TCP_RTO_MIN.
const MIN_RTO_VARIANCE: Dur = Dur::from_millis(200);
/// Linux: TCP_RTO_MAX.
const MAX_RTO: Dur = Dur::from_millis(120_000);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Flying,
    Settled,
}

/// A transmission, with the snapshot that a rate sample needs.
#[derive(Clone, Copy, Debug)]
struct Transmission {
    segment: u64,
    sent_at: Time,
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    bytes: u32,
    state: State,
}

#[derive(Clone, Debug)]
pub(super) struct Sender {
    mss: u32,
    /// Payload to send in all.
    total_bytes: Option<u64>,
    /// What the application has so far; `None` has everything.
    supply: Option<Supply>,
    control: InForce,
    // What is sent.
    next_segment: u64,
    retransmit: VecDeque<u64>,
    acked: Segments,
    /// Number of the first transmission in `flying`.
    base: u64,
    flying: VecDeque<Transmission>,
    in_flight_packets: u32,
    in_flight_bytes: u64,
    largest_acked: Option<u64>,
    // Timers.
    srtt: Dur,
    rttvar: Dur,
    latest_rtt: Dur,
    backoff: u32,
    rto_at: Option<Time>,
    loss_at: Option<Time>,
    send_at: Option<Time>,
    last_sent_at: Option<Time>,
    last_sent_bytes: u32,
    // Rate samples.
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    /// Transmissions so far, and how many of them were retransmissions.
    pub sent_packets: u64,
    pub retransmitted_packets: u64,
}

impl Sender {
    pub fn new(mss: u32, total_bytes: Option<u64>, supply: Option<Supply>) -> Sender {
        Sender {
            mss,
            total_bytes,
            supply,
            control: InForce::default(),
            next_segment: 0,
            retransmit: VecDeque::new(),
            acked: Segments::default(),
            base: 0,
            flying: VecDeque::new(),
            in_flight_packets: 0,
            in_flight_bytes: 0,
            largest_acked: None,
            srtt: Dur::ZERO,
            rttvar: Dur::ZERO,
            latest_rtt: Dur::ZERO,
            backoff: 0,
            rto_at: None,
            loss_at: None,
            send_at: None,
            last_sent_at: None,
            last_sent_bytes: 0,
            delivered: 0,
            delivered_at: Time::ZERO,
            first_sent_at: Time::ZERO,
            sent_packets: 0,
            retransmitted_packets: 0,
        }
    }

    /// Segments to send in all.
    pub fn total_segments(&self) -> Option<u64> {
        self.total_bytes.map(|bytes| bytes.div_ceil(u64::from(self.mss)))
    }

    /// When something is to be done without an ACK.
    pub fn next_timer(&self) -> Option<Time> {
        earliest([self.rto_at, self.loss_at, self.send_at])
    }

    /// Window in force, bytes.
    pub fn cwnd(&self) -> u32 {
        self.control.cwnd
    }

    /// Window and pacing rate in force.
    pub fn control(&self) -> InForce {
        self.control
    }

    /// Payload on its way, bytes.
    pub fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }

    pub fn set_control(&mut self, control: InForce) {
        self.control = control;
    }

    /// The next packet that window and pacing let out now. Call until `None`.
    pub fn next_packet(&mut self, now: Time) -> Option<Data> {
        self.send_at = None;
        let segment = self.retransmit.front().copied().unwrap_or(self.next_segment);
        let bytes = self.bytes_of(segment)?;
        let fits = self.in_flight_bytes + u64::from(bytes.get()) <= u64::from(self.control.cwnd);
        if !(fits || self.in_flight_packets == 0) {
            return None;
        }
        let send_at = self.paced_at().max(self.supplied_at(bytes.get()));
        if now < send_at {
            self.send_at = Some(send_at);
            return None;
        }
        Some(self.transmit(now, segment, bytes))
    }

    fn transmit(&mut self, now: Time, segment: u64, payload: NonZeroU32) -> Data {
        let bytes = payload.get();
        if self.retransmit.pop_front().is_some() {
            self.retransmitted_packets += 1;
        } else {
            self.next_segment += 1;
        }
        self.sent_packets += 1;
        if self.in_flight_packets == 0 {
            (self.first_sent_at, self.delivered_at) = (now, now);
        }
        let transmission = self.base + self.flying.len() as u64;
        self.flying.push_back(Transmission {
            segment,
            sent_at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            bytes,
            state: State::Flying,
        });
        self.in_flight_packets += 1;
        self.in_flight_bytes += u64::from(bytes);
        (self.last_sent_at, self.last_sent_bytes) = (Some(now), bytes);
        if self.rto_at.is_none() {
            self.rto_at = Some(now + self.rto());
        }
        Data { transmission, segment, sent_at: now, hop: 0, payload }
    }

    /// Takes the arrivals of one ACK and returns what they tell.
    pub fn on_ack(&mut self, now: Time, arrivals: impl Iterator<Item = Arrival>) -> AckSample {
        let mut sample = AckSample::default();
        for arrival in arrivals {
            sample.bytes_acked += arrival.new_bytes;
            sample.packets_acked += u32::from(arrival.new_bytes > 0);
            if arrival.misordered {
                sample.bytes_misordered += arrival.new_bytes;
                sample.packets_misordered += u32::from(arrival.new_bytes > 0);
            }
            if arrival.marked {
                sample.ecn_bytes += arrival.new_bytes;
                sample.ecn_packets += 1;
            }
            self.delivered += u64::from(arrival.new_bytes);
            self.delivered_at = now;
            self.latest_rtt = now.since(arrival.sent_at);
            self.settle(now, &arrival, &mut sample);
        }
        self.update_rtt();
        sample.rtt_us = self.latest_rtt.as_micros().max(1);
        sample.lost_packets = self.detect_losses(now);
        if sample.bytes_acked > 0 {
            self.backoff = 0;
        }
        self.rto_at = (self.in_flight_packets > 0).then(|| now + self.rto());
        self.complete(now, sample)
    }

    /// Does what the timers ask for; the sample is worth telling when something was lost.
    pub fn on_timer(&mut self, now: Time) -> Option<AckSample> {
        let mut sample = AckSample::default();
        if self.rto_at.is_some_and(|at| at <= now) {
            sample.was_timeout = true;
            sample.lost_packets = self.in_flight_packets;
            while let Some(transmission) = self.flying.pop_front() {
                self.base += 1;
                self.lose(transmission);
            }
            self.loss_at = None;
            self.backoff += 1;
            self.rto_at = None;
        } else if self.loss_at.is_some_and(|at| at <= now) {
            sample.lost_packets = self.detect_losses(now);
            // With nothing left to wait for, the next transmission starts the timer anew.
            self.rto_at = self.rto_at.filter(|_| self.in_flight_packets > 0);
        }
        (sample.lost_packets > 0).then(|| self.complete(now, sample))
    }

    /// When the application has the next packet, if it is not sent again.
    fn supplied_at(&self, bytes: u32) -> Time {
        match &self.supply {
            Some(supply) if self.retransmit.is_empty() => supply.has_at(self.new_bytes() + u64::from(bytes)),
            _ => Time::ZERO,
        }
    }

    /// When an application that has its data bit by bit had a segment.
    pub fn had_at(&self, segment: u64) -> Option<Time> {
        let end = (segment + 1).saturating_mul(u64::from(self.mss));
        self.supply.as_ref()?.had_at(end.min(self.total_bytes.unwrap_or(u64::MAX)))
    }

    /// Payload sent, each byte once.
    fn new_bytes(&self) -> u64 {
        self.next_segment.saturating_mul(u64::from(self.mss))
    }

    fn complete(&self, now: Time, mut sample: AckSample) -> AckSample {
        sample.packets_in_flight = self.in_flight_packets;
        sample.bytes_in_flight = Some(self.in_flight_bytes.min(u64::from(u32::MAX)) as u32);
        let whole = self.total_bytes.unwrap_or(u64::MAX);
        let there = match self.supply.as_ref().map(|supply| supply.has(now)) {
            // A part of a packet waits for the rest.
            Some(has) if has < whole => has - has % u64::from(self.mss),
            _ => whole,
        };
        let again = self.retransmit.len() as u64 * u64::from(self.mss);
        let unsent = there.saturating_sub(self.new_bytes()).saturating_add(again);
        sample.bytes_pending = unsent.min(u64::from(u32::MAX)) as u32;
        sample.app_limited = unsent == 0;
        sample
    }

    /// A transmission has arrived: it is no longer in flight, and gives a rate sample.
    fn settle(&mut self, now: Time, arrival: &Arrival, sample: &mut AckSample) {
        self.largest_acked = self.largest_acked.max(Some(arrival.transmission));
        self.acked.note(arrival.segment);
        let flying = arrival
            .transmission
            .checked_sub(self.base)
            .and_then(|index| self.flying.get_mut(index as usize))
            .filter(|transmission| transmission.state == State::Flying);
        let Some(transmission) = flying else {
            // It had been given up: its segment need not be sent again.
            self.retransmit.retain(|segment| *segment != arrival.segment);
            return;
        };
        transmission.state = State::Settled;
        let transmission = *transmission;
        self.in_flight_packets -= 1;
        self.in_flight_bytes -= u64::from(transmission.bytes);
        self.first_sent_at = transmission.sent_at;
        let delivered = self.delivered - transmission.delivered;
        let send_span = transmission.sent_at.since(transmission.first_sent_at);
        let ack_span = now.since(transmission.delivered_at);
        sample.rate_incoming = Rate::from_bytes_in(delivered, send_span.max(ack_span)).bytes_per_s() as u64;
        sample.rate_outgoing = match send_span {
            Dur::ZERO => sample.rate_incoming,
            span => Rate::from_bytes_in(delivered, span).bytes_per_s() as u64,
        };
    }

    fn detect_losses(&mut self, now: Time) -> u32 {
        self.loss_at = None;
        let Some(largest) = self.largest_acked else { return 0 };
        let threshold = self.srtt.max(self.latest_rtt).mul_f64(TIME_THRESHOLD);
        let mut lost = 0;
        while let Some(&oldest) = self.flying.front() {
            if oldest.state == State::Flying {
                let late_at = oldest.sent_at + threshold;
                if self.base >= largest {
                    break;
                }
                if self.base + DUP_THRESH > largest && now < late_at {
                    self.loss_at = Some(late_at);
                    break;
                }
                self.lose(oldest);
                lost += 1;
            }
            self.flying.pop_front();
            self.base += 1;
        }
        lost
    }

    fn lose(&mut self, transmission: Transmission) {
        if transmission.state == State::Flying {
            self.in_flight_packets -= 1;
            self.in_flight_bytes -= u64::from(transmission.bytes);
            // Another transmission of the segment may have arrived, which had been given up.
            if !self.acked.has(transmission.segment) {
                self.retransmit.push_back(transmission.segment);
            }
        }
    }

    /// RFC 6298 §2.2 and §2.3.
    fn update_rtt(&mut self) {
        let rtt = self.latest_rtt;
        if self.srtt.is_zero() {
            (self.srtt, self.rttvar) = (rtt, rtt / 2);
        } else {
            let error = if rtt > self.srtt { rtt - self.srtt } else { self.srtt - rtt };
            self.rttvar = (self.rttvar * 3 + error) / 4;
            self.srtt = (self.srtt * 7 + rtt) / 8;
        }
    }

    fn rto(&self) -> Dur {
        let base = if self.srtt.is_zero() {
            INITIAL_RTO
        } else {
            self.srtt + (self.rttvar * 4).max(MIN_RTO_VARIANCE)
        };
        (base * (1 << self.backoff.min(16))).min(MAX_RTO)
    }

    /// When pacing lets the next packet out; a change of the rate counts from the last packet.
    fn paced_at(&self) -> Time {
        match (self.last_sent_at, self.control.rate) {
            (None, _) | (_, 0) => Time::ZERO,
            (Some(last), rate) => {
                last + Dur::from_nanos(u64::from(self.last_sent_bytes) * 1_000_000_000 / u64::from(rate))
            }
        }
    }

    /// Payload of a segment; `None` beyond the end.
    fn bytes_of(&self, segment: u64) -> Option<NonZeroU32> {
        NonZeroU32::new(match self.total_bytes {
            None => self.mss,
            Some(total) => {
                let before = segment.saturating_mul(u64::from(self.mss));
                total.saturating_sub(before).min(u64::from(self.mss)) as u32
            }
        })
    }
}

#[cfg(test)]
mod tests;
