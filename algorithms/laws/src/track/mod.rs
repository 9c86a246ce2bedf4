//! Track: a window that keeps a short queue, on paths of which nothing need be known for long.
//!
//! Once a round trip:
//!
//! ```text
//! queue below the target  the window grows: by half a packet, twice as much each round trip that stays below (below 100
//!                         packets a packet at most in the first eight), and by an eighth at once towards the window
//!                         that it had before
//! queue above the target  it is cut by the excess, an eighth at most, unless the delay may pass (`passing.rs`)
//! loss, an ECN mark       CUBIC decreases, and its window is the limit until 16 round trips went without another; beyond
//!                         what the path carried then it grows by half a packet a round trip while rounds go as forecast;
//!                         a report of more of the same losses leaves the window as it is
//! a timeout               CUBIC's, and its slow start
//! a cut without effect    the window from before it comes back, and CUBIC's governs for some round trips: 4, and twice
//!                         as many each time, half as many again after a cut that had its effect; not beyond 8 in a row
//!                         without a queue, nor once the base falls by a tenth. From the second time on CUBIC goes on as
//!                         if the cuts had not been
//! ```
//! The queue is what the round-trip time exceeds the base by; one that rose further in a round trip than the window can
//! have made it (the largest step) is a path that swings, and is judged when it stands. The base is a belief: where cuts
//! have not shortened the round-trip time as they should have, what was taken for a queue is none of this flow's, and
//! the base is raised (`base.rs`), unless as much is delivered as before: then a queue stands, which shows late. That is
//! what follows a path that has become longer, ACKs that are late, batches, and flows that fill the buffer whatever this
//! one does. A base in doubt, or one that a window which stays has not seen for so long, is proved every ten seconds, as
//! BBR's, by an all but empty window. Where round-trip times jump again and again, a longer one that comes again under
//! another window is the path's in another of its states, and CUBIC governs after each jump (`swings.rs`).
//!
//! Where the rate stays as it is while the round-trip time moves, the flow has the path for itself (`alone.rs`). The window
//! is then what the path holds without a queue, in whole packets; a loss leaves as much.
//!
//! The target grows as the rate shrinks: √n packets for the n sent in 50 ms, so that of flows which share a queue
//! the larger one finds it too long first, and they converge. It is two fifths of the base at most, and 7 % while rounds
//! go as forecast and nothing is lost: the window then stays where half a packet more would exceed it.
//!
//! A controller that hands over to Track until the path is simple again asks it whether rounds go as forecast, and for a
//! trial ([`Track::try_out`]).

mod alone;
mod base;
mod forecast;
mod passing;
mod swings;

use crate::{Control, Cubic, Episode, Feedback, Law, LawSpec, parameters};
use alone::Alone;
use anole_model::{Bounds, Dur, Time};
use base::{Base, Cuts};
use forecast::{Forecast, TRIAL, Told};
use passing::Passing;
use swings::Swings;

parameters! {
    /// What a user may change.
    pub struct Params {
        fill = 0.6, 0.0..=10.0, "Target queue, packets per root of the packets sent in 50 ms (chosen: the least that keeps recorded LTE links nearly as busy as BBR does).";
    }
}

/// Track in the registry.
pub const SPEC: LawSpec = LawSpec {
    name: "track",
    summary: "Keeps a short queue, and gives up what it believes of the path when a cut has no effect",
    source: "This project; growth as Copa's (NSDI 2018), limit CUBIC's (RFC 9438)",
    parameters: Params::PARAMETERS,
    build: |flow, given| Ok(Box::new(Track::new(flow.mss, flow.init_cwnd, Params::with(given)?))),
};

/// The time whose packets the target queue is measured by.
const REFERENCE: Dur = Dur::from_millis(50);
/// No target is shorter than this many packets.
const LEAST_TARGET: f64 = 0.7;
/// Nor longer than this share of the base; the second where the path is calm.
const MOST_TARGET: (f64, f64) = (0.4, 0.07);
/// Rounds in a row that went as forecast, from which on they are steady.
const STEADY: u32 = 4;
/// The first step of a growth, packets per round trip (CUBIC's where it is friendly to Reno, RFC 9438 §4.3).
const FIRST_STEP: f64 = 0.5;
/// The largest step, share of the window.
const LARGEST_STEP: f64 = 0.25;
/// Below so many packets a step is no more than one, where the flow is not known to be alone: flows that share a queue come
/// to equal shares by growing alike and giving way in proportion …
const ADDITIVE: (f64, f64) = (100.0, 1.0);
/// … for so many steps in a row: a queue that stays short for longer is nobody's.
const ADDITIVE_STEPS: u32 = 8;
/// The largest cut in a round trip and the step back towards the window before the cuts, share of the window: a path
/// whose capacity comes back finds most of it.
const LARGEST_CUT: f64 = 0.125;
/// What is left of the window to step back to after a round trip; the second where the path swings, for the state in which it
/// met no queue comes again.
const HELD: (f64, f64) = (0.95, 0.99);
/// Below this many packets CUBIC limits the window after a loss, as below what the path carried then: fewer tell no queue.
const FEW: f64 = 16.0;
/// Round trips without loss after which CUBIC's limit is lifted.
const CLEAN_ROUNDS: u32 = 16;
/// Round trips without loss after which a steady path is calm.
const CALM: u32 = 8;
/// Slow start ends in a queue of this share of the base, if CUBIC has not ended it.
const START_QUEUE: f64 = 0.5;
/// Round trips for which CUBIC governs after a cut without effect, at first and at most.
const COMPETES: (u32, u32) = (4, 256);
/// Round trips in a row without a queue, after which it does not govern any more: there is nobody who fills the buffer.
const NOBODY: u32 = 8;
/// A base that falls below this share of what it was is that of a path without a queue that was taken for it.
const GONE: f64 = 0.9;
/// Round trips at the smallest window under a long queue, after which the queue cannot be this flow's.
const AT_LEAST_ROUNDS: u32 = 3;
/// A base in doubt is proved when nothing has confirmed it for this long, by a window of [`LEAST`].1 for [`PROOF`].
const DOUBT: Dur = Dur::from_millis(10_000);
/// See [`DOUBT`] (BBR's ProbeRTT) …
const PROOF: Dur = Dur::from_millis(200);
/// … and for so many round trips: what comes back in the first was sent before.
const PROOF_ROUNDS: u64 = 2;
/// A queue stands where the round-trip time exceeds the base by more than this share.
const STANDS: f64 = 0.02;
/// A window alone is a packet larger from this part of a packet on: less would be a packet of queue all the time.
const PART: f64 = 0.1;
/// A window larger than it by this share and a packet makes a queue that stands, unless the path carries more.
const REFUTES_ALONE: f64 = 0.05;
/// Up to this many packets beyond it the path is taken to be full still, and the window grows by half packets.
const FULL: f64 = 2.0;
/// A loss is a surprise where the round-trip time exceeds the base by more than this share.
const EMPTY: f64 = 0.05;
/// A round shorter than this share of a round-trip time does not tell what the path carries.
const SPAN: f64 = 0.5;
/// A window that met congestion is remembered until one so many times as large has not.
const FAR: f64 = 1.25;
/// Share of the window that a decrease leaves at most.
const MOST_KEPT: f64 = 0.85;
/// The smallest window, and the smallest after slow start, packets.
const LEAST: (f64, f64) = (2.0, 4.0);

/// A base being proved: until when, what was before, whether packets of that have been lost, and the base, s, that a trial
/// went well with.
#[derive(Clone, Copy, Debug)]
struct Proof {
    until: Time,
    /// Bytes.
    cwnd: f64,
    rtt: Dur,
    lost: bool,
    tried: Option<f64>,
}

/// The window of one flow.
#[derive(Clone, Debug)]
pub struct Track {
    params: Params,
    mss: f64,
    cwnd: f64,
    starting: bool,
    base: Base,
    swings: Swings,
    alone: Alone,
    passing: Passing,
    forecast: Forecast,
    /// How the last trial ended, until asked.
    tried: Option<bool>,
    cubic: Cubic,
    episode: Episode,
    /// The round-trip time of the round before, s.
    last_rtt: Option<f64>,
    /// Packets by which it grew last; zero when it did not.
    step: f64,
    /// Steps since the last cut.
    steps: u32,
    /// The window that found no queue, to step back to, bytes.
    held: f64,
    /// What the path carried in a round trip when congestion was met last, bytes.
    limit: Option<f64>,
    clean_rounds: u32,
    /// Round trips for which CUBIC governs still, and for how many after the next cut without effect.
    competes: (u32, u32),
    /// Round trips in a row without a queue in which it governed.
    empty: u32,
    /// Round trips at the smallest window under a long queue.
    at_least: u32,
    /// A base in doubt is being proved.
    proof: Option<Proof>,
    /// One has ended, until asked.
    proved: bool,
}

impl Track {
    /// Slow start, which is CUBIC's, from `init_cwnd` bytes.
    pub fn new(mss: u32, init_cwnd: u32, params: Params) -> Track {
        Track {
            params,
            mss: f64::from(mss.max(1)),
            cwnd: f64::from(init_cwnd.max(mss)),
            starting: true,
            base: Base::default(),
            swings: Swings::default(),
            alone: Alone::default(),
            passing: Passing::default(),
            forecast: Forecast::default(),
            tried: None,
            cubic: Cubic::new(mss, init_cwnd),
            episode: Episode::default(),
            last_rtt: None,
            step: 0.0,
            steps: 0,
            held: 0.0,
            limit: None,
            clean_rounds: 0,
            competes: (0, COMPETES.0),
            empty: 0,
            at_least: 0,
            proof: None,
            proved: false,
        }
    }

    /// Goes on from another controller's window, bytes, and what it took for the path's round-trip time, last seen then.
    pub fn take_over(&mut self, now: Time, cwnd: u64, base: Dur, seen: Time) {
        self.resume(now, Control::window(cwnd));
        self.base = Base::believed(base, seen);
    }

    /// The round-trip time that the path is believed to have without a queue.
    pub fn base(&self) -> Option<Dur> {
        self.base.rtt()
    }

    /// Round trips in a row in which the round-trip time was what the window led one to expect, nothing was lost in a
    /// queue, and the base needed no raising.
    pub fn steady_rounds(&self) -> u32 {
        self.forecast.steady_rounds()
    }

    /// Begins a trial of the forecast, two round trips long, unless one is under way.
    pub fn try_out(&mut self) {
        if !self.forecast.is_in_trial() && self.proof.is_none() {
            self.forecast.try_out(self.cwnd);
            self.cwnd *= TRIAL;
        }
    }

    /// How a trial that has just ended went. One that went well with a base in doubt has ended when that is proved.
    pub fn tried(&mut self) -> Option<bool> {
        self.tried.take()
    }

    /// A round of a trial.
    fn on_trial(&mut self, now: Time, rtt: Dur, seen: &Feedback) {
        self.last_rtt = None;
        self.swings.saw_window(self.cwnd);
        match self.forecast.judge(rtt.as_secs_f64(), self.base.secs(), seen.congested()) {
            Told::Nothing => {}
            Told::Back(cwnd) => self.cwnd = cwnd,
            Told::Over(cwnd, well) => {
                self.cwnd = cwnd;
                self.base.forget_cuts();
                self.end_trial(now, rtt, well);
            }
        }
        if seen.congested() && !self.episode.covers(now) {
            self.lost(now, rtt, seen);
        }
        self.keep_bounds();
    }

    /// A trial is over. Beside others that fill the buffer one may go well by chance, over a base that is their queue.
    fn end_trial(&mut self, now: Time, rtt: Dur, well: bool) {
        if well && self.base.is_doubtful() {
            self.begin_proof(now, rtt, Some(self.base.secs()));
        } else {
            self.tried = Some(well);
        }
    }

    /// A loss: where the flow is alone the window is what the path holds, else CUBIC decreases.
    fn lost(&mut self, now: Time, rtt: Dur, seen: &Feedback) {
        let before = self.cwnd;
        self.clean_rounds = 0;
        match self.alone_window().filter(|_| seen.marked == 0 && !self.starting) {
            Some(window) => {
                (self.cwnd, self.step) = (self.cwnd.min(window), 0.0);
                self.tell_cubic();
                self.base.forget_cuts();
            }
            None => self.congested(now, seen),
        }
        self.episode.begin(now, seen.rtt.unwrap_or(rtt), self.cwnd / before, before as u64);
    }

    /// A transport may tell of a loss by itself, between two ACKs: with the last round-trip time, and none sampled since.
    fn lost_between(&mut self, now: Time, seen: &Feedback) {
        let Some(rtt) = seen.rtt.filter(|rtt| seen.congested() && !rtt.is_zero()) else { return };
        if self.forecast.is_in_trial() {
            return self.on_trial(now, rtt, seen);
        }
        self.clean_rounds = 0;
        let covered = self.episode.covers(now);
        match &mut self.proof {
            Some(proof) => proof.lost |= !covered,
            None if covered => {}
            None => self.lost(now, rtt, seen),
        }
        self.keep_bounds();
    }

    /// CUBIC decreases, from the window in force.
    fn congested(&mut self, now: Time, seen: &Feedback) {
        if seen.min_rtt.is_none_or(|rtt| rtt.as_secs_f64() > self.base.secs() * (1.0 + EMPTY)) {
            self.forecast.surprised();
        }
        self.limit = Some(self.carried(seen).unwrap_or(self.cwnd).min(self.cwnd));
        if !self.starting {
            self.tell_cubic();
        }
        self.cubic.on_feedback(now, seen);
        self.cwnd = (self.cubic.cwnd() as f64).min(self.cwnd * MOST_KEPT);
        (self.starting, self.step, self.clean_rounds) = (seen.timeout, 0.0, 0);
        self.base.forget_cuts();
    }

    /// What was delivered in a round, bytes/s; `None` where it is shorter than most of a round trip of `rtt`, s.
    fn delivered(rtt: f64, seen: &Feedback) -> Option<f64> {
        let span = seen.elapsed.as_secs_f64();
        (span > 0.0 && span >= SPAN * rtt).then(|| seen.acked as f64 / span)
    }

    /// What the path has carried in a round trip, bytes; `None` where this round does not tell.
    fn carried(&self, seen: &Feedback) -> Option<f64> {
        let rtt = seen.min_rtt?.as_secs_f64();
        Some(Self::delivered(rtt, seen).filter(|_| seen.uses(self.cwnd as u64))? * rtt)
    }

    /// CUBIC goes on from the window in force.
    fn tell_cubic(&mut self) {
        if self.cubic.cwnd() as f64 != self.cwnd {
            self.cubic.resume_at(self.cwnd as u64);
        }
    }

    /// Slow start is CUBIC's; where it ends, what the path holds without the queue is kept.
    fn start(&mut self, rtt: f64) {
        let base = self.base.secs();
        self.cwnd = self.cubic.cwnd() as f64;
        if !self.cubic.in_slow_start() || rtt - base > self.target(rtt).max(START_QUEUE * base) {
            self.starting = false;
            self.cwnd = (self.cwnd * base / rtt).max(LEAST.1 * self.mss);
        }
    }

    /// True where the path has been as forecast for some rounds: no queue is needed against what it may do next.
    fn is_steady(&self) -> bool {
        self.forecast.steady_rounds() >= STEADY
    }

    /// True where the queue may be short and the window stay: where many flows lose, they would keep their shares.
    fn is_calm(&self) -> bool {
        self.is_steady() && self.clean_rounds >= CALM
    }

    /// True where this round-trip time, s, tells of a queue.
    fn queue_stands(&self, rtt: f64) -> bool {
        rtt > self.base.secs() * (1.0 + STANDS)
    }

    /// What the path holds without a queue, bytes, where it is this flow's alone and does not swing.
    fn alone_window(&self) -> Option<f64> {
        let rate = self.alone.rate().filter(|_| !self.swings.is_swinging())?;
        Some((rate * self.base.secs() / self.mss - PART).ceil() * self.mss)
    }

    /// Takes what a round tells of the rate, under a standing queue or without one.
    fn watch_rate(&mut self, rtt: f64, seen: &Feedback) {
        let span = seen.elapsed.as_secs_f64();
        if !seen.uses(self.cwnd as u64) || span <= 0.0 {
            return;
        }
        if self.queue_stands(rtt) {
            let lost = seen.lost as f64 * self.mss / span;
            self.alone.saw(rtt, seen.acked as f64 / span, lost, self.competes.0 > 0);
        } else if let Some(window) = self.alone_window() {
            self.alone.saw_empty(self.cwnd > window * (1.0 + REFUTES_ALONE) + self.mss);
        }
    }

    /// The round-trip time without a queue of the path in the state that has this one, s.
    fn base_under(&self, rtt: f64) -> f64 {
        self.swings.base(rtt).unwrap_or(self.base.secs())
    }

    /// The time that each packet of the window takes in a round trip of `rtt`, s.
    fn packet_s(&self, rtt: f64) -> f64 {
        self.mss * rtt / self.cwnd
    }

    /// The queue aimed at, s.
    fn target(&self, rtt: f64) -> f64 {
        let packet_s = self.packet_s(rtt);
        let wanted = packet_s * self.params.fill * (REFERENCE.as_secs_f64() / packet_s).sqrt();
        let most = if self.is_calm() { MOST_TARGET.1 } else { MOST_TARGET.0 };
        wanted.min(most * self.base_under(rtt)).max(LEAST_TARGET * packet_s)
    }

    /// The whole packets of the window, bytes: what a cut cuts.
    fn whole(&self) -> f64 {
        (self.cwnd / self.mss).floor() * self.mss
    }

    /// A window that the flow uses is judged by the queue.
    fn round(&mut self, now: Time, rtt: Dur, seen: &Feedback) {
        let (rtt_s, used) = (rtt.as_secs_f64(), seen.uses(self.cwnd as u64));
        if let Some(window) = self.alone_window().filter(|_| used && self.queue_stands(rtt_s)) {
            (self.cwnd, self.step, self.competes.0) = (window, 0.0, 0);
            // What CUBIC grew to beside others is of the past.
            self.tell_cubic();
            return self.base.forget_cuts();
        }
        let delivered = Self::delivered(rtt_s, seen).filter(|_| !self.swings.is_swinging());
        match self.base.judge(now, rtt, self.whole(), delivered) {
            Cuts::Refuted(cwnd) => {
                (self.cwnd, self.step) = (cwnd, 0.0);
                self.forecast.surprised();
                return self.compete();
            }
            Cuts::HadEffect => self.competes.1 = (self.competes.1 / 2).max(COMPETES.0),
            Cuts::Pending => {}
        }
        if !used {
            return;
        }
        self.empty = if self.competes.0 == 0 || self.queue_stands(rtt_s) { 0 } else { self.empty + 1 };
        if self.competes.0 == 0 || self.empty >= NOBODY {
            self.competes.0 = 0;
            return self.adjust(now, rtt_s);
        }
        self.competes.0 -= 1;
        if rtt_s - self.base.secs() <= self.target(rtt_s) {
            self.adjust(now, rtt_s);
        }
        self.cwnd = self.cwnd.max(self.cubic.cwnd() as f64);
    }

    /// Where the path swings its longer round-trip time is no queue, and CUBIC governs after a jump.
    fn swing(&mut self, now: Time, rtt: Dur) {
        let rtt_s = rtt.as_secs_f64();
        let packet_s = self.packet_s(rtt_s);
        let jumped = match self.last_rtt {
            Some(last) => self.swings.jumped(last, rtt_s, packet_s, self.cwnd),
            None => {
                self.swings.saw_window(self.cwnd);
                false
            }
        };
        if self.starting {
            return;
        }
        let long = rtt_s - self.base.secs() > self.target(rtt_s);
        if let Some(cwnd) = long.then(|| self.swings.saw_long(now, rtt_s, self.cwnd)).flatten() {
            self.cwnd = cwnd;
            self.base.forget_cuts();
            if self.base.is_unseen(now, rtt) {
                self.base.raise(now, rtt);
                self.swings.forget_level();
                self.forecast.surprised();
            }
        }
        if jumped && self.swings.is_known() && self.competes.0 == 0 {
            self.compete();
        }
    }

    /// The queue is others': CUBIC governs for a while. From the second time on it has grown on under the cuts, as if they had
    /// not been.
    pub fn compete(&mut self) {
        if self.competes.1 > COMPETES.0 {
            self.cwnd = self.cwnd.max(self.cubic.cwnd() as f64);
        }
        self.tell_cubic();
        self.competes = (self.competes.1, (2 * self.competes.1).min(COMPETES.1));
    }

    /// What was taken for the path was others' queue, and it has gone: the congestion met under it, the competition, and
    /// the jumps that its end made are of the past. Where the path swings that happens with every swing.
    fn queue_has_gone(&mut self) {
        (self.limit, self.competes.0) = (None, 0);
        if !self.swings.is_swinging() {
            (self.swings, self.last_rtt) = (Swings::default(), None);
        }
    }

    /// A step towards the target queue.
    fn adjust(&mut self, now: Time, rtt: f64) {
        // The window cannot have lengthened it by more.
        let standing = match self.last_rtt {
            Some(last) if rtt > last * (1.0 + LARGEST_STEP) => last,
            _ => rtt,
        };
        let excess = standing - self.base_under(standing) - self.target(standing);
        self.held *= if self.swings.is_swinging() { HELD.1 } else { HELD.0 };
        if excess > 0.0 {
            self.steps = 0;
            if self.passing.may_pass() {
                self.step = 0.0;
                return;
            }
            return self.cut(now, standing, excess);
        }
        self.held = self.held.max(self.cwnd);
        // Half a packet more would be too many.
        if self.is_calm() && excess > -FIRST_STEP * self.mss * standing / self.cwnd {
            self.step = 0.0;
            if self.whole() <= LEAST.0 * self.mss && self.queue_stands(standing) && self.stays_at_least() {
                self.base.raise(now, Dur::from_secs_f64(standing));
            } else if self.base.is_old(now, DOUBT) {
                // The queue aimed at may be a path that has become longer by as much.
                self.seek_proof(now, Dur::from_secs_f64(standing));
            }
            return;
        }
        self.at_least = 0;
        let alone = self.alone_window();
        let few = self.cwnd < FEW * self.mss && alone.is_none();
        let back = (LARGEST_CUT * self.cwnd).min(self.held - self.cwnd) / self.mss;
        self.steps = self.steps.saturating_add(1);
        let shared = self.steps <= ADDITIVE_STEPS
            && alone.is_none()
            && !self.swings.is_swinging()
            && self.cwnd < ADDITIVE.0 * self.mss;
        let largest = match (shared, few) {
            (true, _) => ADDITIVE.1,
            (false, true) => FIRST_STEP,
            (false, false) => (LARGEST_STEP * self.cwnd / self.mss).max(FIRST_STEP),
        };
        self.step = (2.0 * self.step).clamp(FIRST_STEP, largest).max(back);
        if let Some(window) = alone.filter(|window| self.cwnd < window + FULL * self.mss) {
            self.step = self.step.min(((window - self.cwnd) / self.mss).max(FIRST_STEP));
        }
        let grown = self.cwnd + self.step * self.mss;
        let below = self.limit.is_some_and(|met| grown < met);
        if (few || below) && self.clean_rounds < CLEAN_ROUNDS {
            self.step = 0.0;
            self.cwnd = grown.min(self.cwnd.max(self.cubic.cwnd() as f64));
        } else if below || !self.is_steady() || self.limit.is_none_or(|met| grown > FAR * met) {
            self.limit = self.limit.filter(|_| below);
            self.cwnd = grown;
        } else {
            // A short buffer overflows before a queue is seen.
            self.cwnd += FIRST_STEP * self.mss;
            self.step = 0.0;
        }
    }

    /// The queue is too long by `excess`, s.
    fn cut(&mut self, now: Time, rtt: f64, excess: f64) {
        self.step = 0.0;
        if self.cwnd > LEAST.0 * self.mss {
            self.base.cut(self.whole(), rtt);
            self.cwnd -= (self.cwnd * (excess / rtt).min(LARGEST_CUT)).max(FIRST_STEP * self.mss);
            return;
        }
        if self.stays_at_least() {
            self.base.raise(now, Dur::from_secs_f64(rtt));
            self.compete();
        }
    }

    /// One more round trip at the smallest window; true where what is left of a queue cannot be this flow's.
    fn stays_at_least(&mut self) -> bool {
        self.at_least = (self.at_least + 1) % AT_LEAST_ROUNDS;
        self.at_least == 0
    }

    /// An all but empty window, until it has proved the base. True while it lasts. It tells whose the losses meanwhile were,
    /// too: where the round-trip time has fallen a queue stood.
    fn proves(&mut self, now: Time, rtt: Dur, seen: &Feedback) -> bool {
        let lost = seen.congested() && !self.episode.covers(now);
        if let Some(proof) = &mut self.proof {
            // What the window does to the round-trip time meanwhile is no swing of the path's.
            self.last_rtt = None;
            self.swings.saw_window(self.cwnd);
            proof.lost |= lost;
            if now < proof.until {
                return true;
            }
            let Proof { cwnd, rtt: before, lost, tried, .. } = *proof;
            (self.cwnd, self.proof, self.proved) = (cwnd, None, true);
            self.base.prove(now);
            self.tried = tried.map(|base| self.base.secs() > base * (1.0 - EMPTY));
            if lost && before.as_secs_f64() > self.base.secs() * (1.0 + EMPTY) {
                self.lost(now, rtt, &Feedback { lost: 1, ..*seen });
            }
            return true;
        }
        if self.starting || lost || !self.base.needs_proof(now, DOUBT) {
            return false;
        }
        self.seek_proof(now, rtt);
        true
    }

    /// Begins a proof of the base, unless one or a trial is under way.
    pub fn seek_proof(&mut self, now: Time, rtt: Dur) {
        if self.proof.is_none() && !self.forecast.is_in_trial() {
            self.begin_proof(now, rtt, None);
        }
    }

    /// A proof, of the base with which a trial went well where it follows one.
    fn begin_proof(&mut self, now: Time, rtt: Dur, tried: Option<f64>) {
        self.proof = Some(Proof {
            until: now + PROOF.max(rtt * PROOF_ROUNDS),
            cwnd: self.cwnd,
            rtt,
            lost: false,
            tried,
        });
        self.cwnd = self.cwnd.min(LEAST.1 * self.mss);
        self.base.seek_proof();
        self.forecast.forget();
    }

    /// True when nothing as short as the base has been seen for ten seconds.
    pub fn base_is_old(&self, now: Time) -> bool {
        self.base.is_old(now, DOUBT)
    }

    /// Whether a proof is under way: what is delivered tells nothing of the path.
    pub fn is_proving(&self) -> bool {
        self.proof.is_some()
    }

    /// Whether a proof has just ended.
    pub fn proved(&mut self) -> bool {
        std::mem::take(&mut self.proved)
    }

    fn keep_bounds(&mut self) {
        self.cwnd = self.cwnd.clamp(LEAST.0 * self.mss, f64::from(u32::MAX));
    }
}

impl Law for Track {
    fn on_feedback(&mut self, now: Time, seen: &Feedback) {
        if seen.timeout {
            // It is the timeout of the window from before a proof or a trial.
            let before = self.proof.map(|proof| proof.cwnd).or(self.forecast.before_trial());
            self.cwnd = before.unwrap_or(self.cwnd);
            (self.proof, self.forecast) = (None, Forecast::default());
            self.congested(now, seen);
            return self.keep_bounds();
        }
        let Some(rtt) = seen.min_rtt.filter(|rtt| !rtt.is_zero()) else {
            return self.lost_between(now, seen);
        };
        if self.forecast.is_in_trial() {
            self.base.watch_floor(now, rtt);
            return self.on_trial(now, rtt, seen);
        }
        let before = self.base.secs();
        self.base.saw(now, rtt);
        if self.base.secs() < GONE * before {
            self.queue_has_gone();
        }
        if self.proves(now, rtt, seen) {
            return self.keep_bounds();
        }
        self.clean_rounds = if seen.congested() { 0 } else { self.clean_rounds.saturating_add(1) };
        let rtt_s = rtt.as_secs_f64();
        self.watch_rate(rtt_s, seen);
        let span = seen.elapsed.as_secs_f64();
        if span > 0.0 {
            let empty = rtt_s - self.base_under(rtt_s) <= self.target(rtt_s);
            self.passing.saw(empty, seen.acked as f64 / span);
        }
        self.swing(now, rtt);
        self.forecast.saw(
            self.whole(),
            rtt_s,
            self.base.secs(),
            self.packet_s(rtt_s),
            !self.base.is_raised(),
        );
        if seen.congested() && !self.episode.covers(now) {
            self.lost(now, rtt, seen);
            return self.keep_bounds();
        }
        if seen.congested() {
            // More of the event that the window was decreased for: it stays meanwhile (RFC 6675 §5).
            return self.keep_bounds();
        }
        self.cubic.on_feedback(now, &Feedback { lost: 0, marked: 0, ..*seen });
        if self.starting {
            self.start(rtt_s);
        } else {
            self.round(now, rtt, seen);
        }
        self.last_rtt = Some(rtt_s);
        self.keep_bounds();
    }

    fn control(&self) -> Control {
        Control::window(u64::from(Bounds::DEFAULT.cwnd(self.cwnd as u64, self.mss as u32)))
    }

    fn resume(&mut self, now: Time, from: Control) {
        self.cubic.resume(now, from);
        let (cubic, base) = (self.cubic.clone(), self.base.clone());
        let fresh = Track::new(self.mss as u32, 0, self.params);
        *self = Track { cwnd: from.cwnd as f64, starting: false, base, cubic, ..fresh };
        self.base.forget_cuts();
        self.keep_bounds();
    }

    fn in_slow_start(&self) -> bool {
        self.starting
    }

    /// Where the path swings a loss is judged when the round trip is over.
    fn wants_loss_at_once(&self) -> bool {
        !self.swings.is_swinging()
    }
}

#[cfg(test)]
mod tests;
