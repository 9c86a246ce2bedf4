//! The governed flow of one connection: what its packets tell the datapath runtime, and what that allows.
//!
//! | on the wire | the flow hears |
//! |---|---|
//! | the peer's SYN | the flow begins: CREATE with the addresses, the smaller MSS and the window of RFC 6928 |
//! | an ACK | one sample: bytes and packets that arrived, in order or not, losses, RTT, rates, in flight |
//! | a segment sent again because the retransmission timer fired | `was_timeout` with what was in flight, at once |
//!
//! A rate of 0 leaves pacing to this datapath, which then spreads 1.25 windows over a smoothed RTT, as the QUIC stack
//! does. Window and rate count bytes of data.

use crate::pacer::Pacer;
use crate::scoreboard::{Acked, STACK_TIMER, Scoreboard, Sent};
use crate::segment::Segment;
use anole_datapath::wire::AlgorithmName;
use anole_datapath::{AckSample, InForce};
use anole_datapath_host::{FlowOptions, Host, HostFlow, RateSample};
use anole_transfer::{GovernedBy, Reading};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// RFC 6928 §2: ten segments, at most 14 600 bytes unless two are larger.
const INITIAL_WINDOW_PACKETS: u32 = 10;
const INITIAL_WINDOW_BYTES: u32 = 14_600;
/// Windows per smoothed RTT that go where no rate is set.
const PACING_GAIN: f64 = 1.25;
/// RFC 6298 §2.3.
const SRTT_GAIN: f64 = 1.0 / 8.0;
/// RFC 7323 §2.3.
const MAX_WINDOW_SCALE: u8 = 14;
/// MSS of a peer that tells none (RFC 9293 §3.7.1).
const DEFAULT_MSS: u16 = 536;

/// Whom the flow asks, and for what.
#[derive(Clone, Debug)]
pub struct Governance {
    /// The process's connection to the agent.
    pub host: Arc<Host>,
    /// The algorithm asked of the agent.
    pub algorithm: AlgorithmName,
}

/// A connection's flow once the peer has answered.
#[derive(Debug)]
struct Governed {
    flow: HostFlow,
    control: InForce,
    board: Scoreboard,
    pacer: Pacer,
    rates: RateSample,
    mss: u32,
    /// The window that the peer tells is times 2 to this power (RFC 7323 §2.2).
    window_scale: u8,
    srtt: Duration,
    /// The handshake, which is all that is known, may have taken longer than a round trip.
    handshake_is_long: bool,
    min_rtt: Duration,
    rtt: Option<Duration>,
}

/// The SYN that was sent. One that is sent again counts from the first time, whichever was answered: no round trip is
/// taken too short.
#[derive(Clone, Copy, Debug)]
struct Syn {
    first: Instant,
    sequence: u32,
    again: bool,
}

/// The watcher of one connection.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Dropped before the host: without it nobody would tell the agent that the flow has ended.
    governed: Option<Governed>,
    governance: Governance,
    local: SocketAddr,
    remote: SocketAddr,
    own_mss: u32,
    syn: Option<Syn>,
    /// The peer's last segment was a RST.
    pub reset: bool,
    /// The application had too little to send when it was asked last.
    pub app_limited: bool,
    /// Bytes that the stack and the application hold and that have not been sent.
    pub pending: u64,
}

impl Watch {
    pub fn new(governance: Governance, local: SocketAddr, remote: SocketAddr, own_mss: u32) -> Watch {
        Watch {
            governed: None,
            governance,
            local,
            remote,
            own_mss,
            syn: None,
            reset: false,
            app_limited: true,
            pending: 0,
        }
    }

    /// A segment goes out.
    pub fn on_sent(&mut self, now: Instant, segment: &Segment) {
        if segment.ports != (self.local.port(), self.remote.port()) {
            return;
        }
        if segment.syn {
            match &mut self.syn {
                Some(syn) if syn.sequence == segment.sequence => syn.again = true,
                syn => *syn = Some(Syn { first: now, sequence: segment.sequence, again: false }),
            }
        }
        let Some(governed) = self.governed.as_mut().filter(|_| segment.bytes > 0) else { return };
        governed.pacer.spend(segment.bytes);
        if let Sent::Timeout(lost) = governed.board.on_sent(now, segment.sequence, segment.bytes) {
            let sample = governed.timeout(lost);
            self.tell(now, sample);
        }
    }

    /// A segment comes in.
    pub fn on_received(&mut self, now: Instant, segment: &Segment) {
        if segment.ports != (self.remote.port(), self.local.port()) {
            return;
        }
        self.reset = segment.reset;
        let Some(ack) = segment.acknowledges else { return };
        let Some(governed) = &mut self.governed else {
            if segment.syn {
                self.begin(now, ack, segment);
            }
            return;
        };
        let window = u32::from(segment.window) << if segment.syn { 0 } else { governed.window_scale };
        governed.board.on_window(now, ack, window, segment.bytes > 0);
        let acked = governed.board.on_ack(now, ack, &segment.selective);
        if acked != Acked::default() {
            let sample = governed.sample(now, &acked);
            self.tell(now, sample);
        }
    }

    /// The peer has answered the SYN, whose sequence number was the one before `first`.
    fn begin(&mut self, now: Instant, first: u32, answer: &Segment) {
        let Some(syn) = self.syn.filter(|syn| syn.sequence.wrapping_add(1) == first) else { return };
        let mss = self.own_mss.min(u32::from(answer.mss.unwrap_or(DEFAULT_MSS))).max(1);
        let init_cwnd = (INITIAL_WINDOW_PACKETS * mss).min(INITIAL_WINDOW_BYTES.max(2 * mss));
        let spec = FlowOptions {
            algorithm: self.governance.algorithm,
            mss,
            init_cwnd,
            local: Some(self.local),
            remote: Some(self.remote),
        };
        let flow = self.governance.host.open(now, &spec);
        let rtt = now.saturating_duration_since(syn.first);
        let mut board = Scoreboard::new(now, first);
        board.on_window(now, first, u32::from(answer.window), false);
        let mut governed = Governed {
            control: flow.control(),
            flow,
            board,
            pacer: Pacer::new(now, mss),
            rates: RateSample::default(),
            mss,
            window_scale: answer.window_scale.unwrap_or(0).min(MAX_WINDOW_SCALE),
            srtt: rtt,
            handshake_is_long: syn.again,
            min_rtt: rtt,
            rtt: None,
        };
        governed.pace(now);
        self.governed = Some(governed);
    }

    fn tell(&mut self, now: Instant, sample: AckSample) {
        let Some(governed) = &mut self.governed else { return };
        let pending = if self.app_limited {
            0
        } else {
            u32::try_from(self.pending).unwrap_or(u32::MAX).max(governed.mss)
        };
        let sample = AckSample { app_limited: self.app_limited, bytes_pending: pending, ..sample };
        governed.control = governed.flow.on_ack(now, &sample);
        governed.pace(now);
    }

    /// Whether the stack may send a packet now; else when to ask again, where only time will tell.
    pub fn may_send(&mut self, now: Instant) -> Result<(), Option<Instant>> {
        let Some(governed) = &mut self.governed else { return Ok(()) };
        let allowed = governed.allow(now);
        if allowed.is_err() {
            // The stack forgets what three duplicate ACKs asked for.
            governed.board.duplicates.take();
        }
        allowed
    }

    /// Bytes that may enter the send buffer, which holds `queued`: whole segments up to the window.
    pub fn room(&self, queued: u64) -> u64 {
        let Some(governed) = &self.governed else { return 0 };
        let used = governed.board.packets.bytes_in_flight() + governed.board.unsent(queued);
        let mss = u64::from(governed.mss);
        u64::from(governed.control.cwnd).max(mss).saturating_sub(used) / mss * mss
    }

    /// The send buffer holds so many bytes.
    pub fn hold(&mut self, queued: u64) {
        if let Some(governed) = &mut self.governed {
            governed.board.hold(queued);
        }
    }

    /// Bytes in the send buffer that the stack has yet to send.
    pub fn unsent(&self, queued: u64) -> u64 {
        self.governed.as_ref().map_or(queued, |governed| governed.board.unsent(queued))
    }

    /// Everything has arrived and nothing more will be sent.
    pub fn settle(&mut self) {
        if let Some(governed) = &mut self.governed {
            governed.board.settle();
        }
    }

    /// The counters now.
    pub fn read(&self) -> Reading {
        let Some(governed) = &self.governed else {
            return Reading { governor: GovernedBy::Fallback, ..Reading::default() };
        };
        let (board, control, stats) = (&governed.board, governed.control, governed.flow.stats());
        Reading {
            sent_packets: board.sent_packets,
            sent_bytes: board.sent_bytes,
            delivered_packets: board.arrived_packets,
            delivered_bytes: board.delivered_bytes(),
            lost_packets: board.lost_packets(),
            rtt_us: governed.rtt.map(|rtt| rtt.as_micros() as u64),
            cwnd_bytes: u64::from(control.cwnd),
            pacing_bytes_per_s: (control.rate != 0).then_some(u64::from(control.rate)),
            flow_id: Some(governed.flow.sid()),
            governor: governed.flow.governor().into(),
            reports: stats.reports,
            updates: stats.updates,
            fallbacks: stats.fallbacks,
        }
    }

    /// Bytes in flight, for tests and figures.
    pub fn bytes_in_flight(&self) -> u64 {
        self.governed.as_ref().map_or(0, |governed| governed.board.packets.bytes_in_flight())
    }
}

impl Governed {
    fn allow(&mut self, now: Instant) -> Result<(), Option<Instant>> {
        let board = &self.board;
        if board.duplicates.are_enough() {
            // Refused, it leaves the stack's timer off until something else goes, which there has to be.
            let refuse = board.sendable() > 0 && self.is_slow_to_mend();
            return if refuse { Err(Some(self.pacer.ready_at())) } else { Ok(()) };
        }
        let next = board.sendable().min(u64::from(self.mss));
        let full = board.packets.bytes_in_flight() + next > u64::from(self.control.cwnd);
        let timer = board.last_activity() + STACK_TIMER;
        // What entered the send buffer under a larger window, or goes again after a time-out, waits for this one; the stack's
        // own timer passes. Where no data waits, what goes is an ACK, a FIN or a probe.
        if next > 0 && full && board.packets.packets_in_flight() > 0 && now < timer {
            return Err(Some(timer));
        }
        if self.pacer.is_ready(now) { Ok(()) } else { Err(Some(self.pacer.ready_at())) }
    }

    /// The stack mends one hole a round trip. Its timer, which sends everything again, is through sooner.
    fn is_slow_to_mend(&self) -> bool {
        let others = (self.board.missing_bytes() / u64::from(self.mss)).saturating_sub(1);
        self.srtt.as_secs_f64() * others as f64 > STACK_TIMER.as_secs_f64()
    }

    fn sample(&mut self, now: Instant, acked: &Acked) -> AckSample {
        if let Some(rtt) = acked.rtt {
            let gain = if std::mem::take(&mut self.handshake_is_long) { 1.0 } else { SRTT_GAIN };
            self.rtt = Some(rtt);
            self.min_rtt = self.min_rtt.min(rtt);
            self.srtt = self.srtt.mul_f64(1.0 - gain) + rtt.mul_f64(gain);
        }
        if let Some(rates) = self.board.rates(now, self.min_rtt) {
            self.rates = rates;
        }
        let in_flight = self.board.packets.bytes_in_flight();
        AckSample {
            bytes_acked: acked.bytes,
            packets_acked: acked.packets,
            bytes_misordered: acked.misordered_bytes,
            packets_misordered: acked.misordered_packets,
            lost_packets: acked.lost,
            rtt_us: acked.rtt.map_or(0, |rtt| (rtt.as_micros() as u64).max(1)),
            rate_outgoing: self.rates.outgoing,
            rate_incoming: self.rates.incoming,
            bytes_in_flight: Some(u32::try_from(in_flight).unwrap_or(u32::MAX)),
            packets_in_flight: self.board.packets.packets_in_flight(),
            ..AckSample::default()
        }
    }

    /// What was sent just now is not in flight as the timer fires, and the rates are those of the last arrival.
    fn timeout(&self, lost: u32) -> AckSample {
        AckSample {
            lost_packets: lost,
            was_timeout: true,
            rate_outgoing: self.rates.outgoing,
            rate_incoming: self.rates.incoming,
            bytes_in_flight: Some(0),
            ..AckSample::default()
        }
    }

    fn pace(&mut self, now: Instant) {
        let by_window = PACING_GAIN * f64::from(self.control.cwnd) / self.srtt.as_secs_f64().max(1e-6);
        let rate = if self.control.rate == 0 { by_window } else { f64::from(self.control.rate) };
        self.pacer.set_rate(now, Some(rate.max(1.0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_datapath_host::HostOptions;

    const MS: Duration = Duration::from_millis(1);
    const OUT: (u16, u16) = (1, 2);
    const BACK: (u16, u16) = (2, 1);

    fn segment(ports: (u16, u16), sequence: u32, bytes: u32, acknowledges: Option<u32>) -> Segment {
        Segment {
            ports,
            sequence,
            bytes,
            syn: acknowledges == Some(0) || sequence == u32::MAX,
            reset: false,
            mss: Some(1000),
            window_scale: None,
            acknowledges,
            window: 60_000,
            selective: [None; 3],
        }
    }

    /// A connection that has sent its SYN, and when.
    fn unanswered() -> (Watch, Instant) {
        let host = Arc::new(Host::detached(HostOptions::default()));
        let (local, remote) = (SocketAddr::from(([192, 0, 2, 1], 1)), SocketAddr::from(([192, 0, 2, 2], 2)));
        let governance = Governance { host, algorithm: AlgorithmName::NONE };
        let (mut watch, start) = (Watch::new(governance, local, remote, 1000), Instant::now());
        watch.on_sent(start, &segment(OUT, u32::MAX, 0, None));
        (watch, start)
    }

    /// A connection whose peer has answered after a round trip, and when.
    fn connected(round_trip: Duration) -> (Watch, Instant) {
        let (mut watch, start) = unanswered();
        watch.on_received(start + round_trip, &segment(BACK, 0, 0, Some(0)));
        (watch, start + round_trip)
    }

    #[test]
    fn a_syn_that_was_sent_twice_makes_no_round_trip_shorter() {
        let (mut watch, start) = unanswered();
        watch.on_sent(start + 1000 * MS, &segment(OUT, u32::MAX, 0, None));
        watch.on_received(start + 1500 * MS, &segment(BACK, 0, 0, Some(0)));
        let governed = watch.governed.as_ref().unwrap();
        assert_eq!((governed.min_rtt, governed.srtt), (1500 * MS, 1500 * MS));
        // It was the second one that was answered.
        watch.on_sent(start + 1500 * MS, &segment(OUT, 0, 1000, Some(1)));
        let answer = segment(BACK, 1, 0, Some(1000));
        watch.on_received(start + 2000 * MS, &answer);
        let governed = watch.governed.as_ref().unwrap();
        assert_eq!((governed.min_rtt, governed.srtt), (500 * MS, 500 * MS));
    }

    #[test]
    fn the_fallback_governs_before_the_peer_answers() {
        let (watch, _) = unanswered();
        assert_eq!(watch.read().governor, GovernedBy::Fallback);
    }

    #[test]
    fn a_full_window_holds_data_back_and_nothing_else() {
        let (mut watch, start) = connected(20 * MS);
        let window = watch.read().cwnd_bytes;
        for i in 0..10 {
            watch.on_sent(start, &segment(OUT, 1000 * i, 1000, Some(1)));
        }
        assert_eq!(watch.bytes_in_flight(), window);
        let later = start + 100 * MS;
        // An ACK or a FIN.
        watch.hold(10_000);
        assert_eq!(watch.may_send(later), Ok(()));
        watch.hold(11_000);
        assert_eq!(watch.may_send(later), Err(Some(start + STACK_TIMER)));
        assert_eq!(watch.may_send(start + STACK_TIMER), Ok(()), "the stack's timer");
        watch.on_received(later, &segment(BACK, 1, 0, Some(1000)));
        assert_eq!(watch.may_send(later), Ok(()));
    }

    #[test]
    fn a_timeout_tells_the_rates_of_the_last_arrival() {
        let (mut watch, start) = connected(20 * MS);
        for i in 0..5 {
            watch.on_sent(start + MS * i, &segment(OUT, 1000 * i, 1000, Some(1)));
        }
        for i in 1..5 {
            watch.on_received(start + MS * (20 + i), &segment(BACK, 1, 0, Some(1000 * i)));
        }
        let governed = watch.governed.as_ref().unwrap();
        assert!(governed.rates.outgoing > 0 && governed.rates.incoming > 0, "{:?}", governed.rates);
        let told = governed.timeout(1);
        assert_eq!(
            (told.rate_outgoing, told.rate_incoming),
            (governed.rates.outgoing, governed.rates.incoming)
        );
        watch.on_sent(start + MS * 2000, &segment(OUT, 4000, 1000, Some(1)));
        let read = watch.read();
        // The fallback: the bounds keep two packets.
        assert_eq!((read.lost_packets, read.cwnd_bytes), (1, 2000));
    }

    /// Ten segments fill the window that the peer tells first, and the last three of them arrive.
    #[test]
    fn a_fast_retransmission_waits_for_the_timer_only_where_other_data_starts_it() {
        for (window, goes) in [(10_000, true), (20_000, false)] {
            let (mut watch, start) = connected(200 * MS);
            for i in 0..10 {
                watch.on_sent(start, &segment(OUT, 1000 * i, 1000, Some(1)));
            }
            for i in 6..10 {
                let selective = [(i > 6).then_some((7000, 1000 * (i + 1))), None, None];
                let answer = Segment { window, selective, ..segment(BACK, 1, 0, Some(0)) };
                watch.on_received(start + 200 * MS, &Segment { syn: false, ..answer });
            }
            // The application has more, and the send buffer has taken some of it.
            watch.pending = 100_000;
            watch.hold(15_000);
            assert_eq!(watch.may_send(start + 200 * MS).is_ok(), goes, "{window}");
        }
    }
}
