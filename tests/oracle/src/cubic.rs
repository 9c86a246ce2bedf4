//! CUBIC of the netlink module's fallback, integers in C, beside [`anole_laws::Cubic`], floating point.
//!
//! A stream is a flow's life in congestion avoidance: a path of constant RTT, ACKs of one packet up to a quarter
//! of the window, losses and timeouts. Both sides leave some of TCP to their callers, so a stream keeps to what
//! both take: no ACK within an RTT after a loss (the window does not grow during recovery), and the next loss
//! or timeout no earlier than three RTTs after it (it is another congestion event).

use crate::generate::Random;
use crate::oracle::{Machine, Oracle};
use anole_laws::{Cubic, Feedback, Law};
use anole_model::{Dur, Time};
use anyhow::{Context, Result, ensure};

const MSS: u32 = 1448;
/// No time between two events is idle.
const FOREVER: Dur = Dur::from_millis(3_600_000);
/// Whole packets beside fractions: a loss drops up to a packet, of which the next leaves 0.7, so that up to
/// 1 / (1 - 0.7) are behind, and one that is still growing.
pub const TOLERANCE_PACKETS: f64 = 4.5;
/// Beyond that: whether a loss came below the last plateau may be a matter of a fraction, and decides whether
/// the next plateau is lowered by (1 - 0.7) / 2 (fast convergence); twice at most before they meet:
/// 1 - 0.85^2.
pub const TOLERANCE_SHARE: f64 = 0.28;
/// Events of a stream.
const EVENTS: u64 = 300;

/// What a run covered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Coverage {
    /// ACKs, losses and timeouts.
    pub acks: u64,
    /// See `acks`.
    pub losses: u64,
    /// See `acks`.
    pub timeouts: u64,
    /// Windows that differ by more than [`TOLERANCE_PACKETS`], and by how much more as a share of the larger.
    pub beyond: u64,
    /// See `beyond`.
    pub largest_share: f64,
    /// Mean difference, packets.
    pub mean_packets: f64,
}

/// Runs `streams` streams from `seed` on both sides; fails at the first window that differs by more than the
/// tolerance, naming the stream.
pub fn compare(seed: u64, streams: u64) -> Result<Coverage> {
    let mut oracle = Oracle::start(Machine::Cubic)?;
    let mut coverage = Coverage::default();
    let mut sum = 0.0;
    for stream in 0..streams {
        let (commands, ours) = one(Random::new(seed ^ stream.rotate_left(32)), &mut coverage);
        let theirs = windows(&oracle.run(&commands)?)?;
        ensure!(theirs.len() == ours.len(), "{} answers to {} commands", theirs.len(), ours.len());
        for (n, (theirs, (ours, event))) in theirs.into_iter().zip(ours).enumerate() {
            let difference = (f64::from(theirs) - ours).abs();
            let share = (difference - TOLERANCE_PACKETS) / ours.max(f64::from(theirs));
            ensure!(
                share <= TOLERANCE_SHARE,
                "stream {stream} of seed {seed}, event {n} ({event}): {theirs} packets where {ours:.2} are expected"
            );
            coverage.beyond += u64::from(share > 0.0);
            coverage.largest_share = coverage.largest_share.max(share);
            sum += difference;
        }
    }
    coverage.mean_packets = sum / (coverage.acks + coverage.losses + coverage.timeouts) as f64;
    Ok(coverage)
}

/// The module's windows from the answers.
fn windows(answer: &[u8]) -> Result<Vec<u32>> {
    let (answers, rest) = answer.as_chunks::<8>();
    ensure!(rest.is_empty(), "an answer is cut off");
    Ok(answers.iter().map(|[a, b, c, d, ..]| u32::from_le_bytes([*a, *b, *c, *d])).collect())
}

/// A stream as commands, and our window after each, packets.
fn one(mut random: Random, coverage: &mut Coverage) -> (Vec<u8>, Vec<(f64, String)>) {
    // Logarithmically from 2 to 4096 packets, 1 to 400 ms.
    let (window_bits, rtt_halvings) = (random.below(13), random.below(9));
    let window = 2 + random.below(1 << window_bits) as u32;
    let rtt = Dur::from_micros(1000 + random.below(400_000 >> rtt_halvings));
    // Losses from every few round trips to none.
    let rarity = 1 << random.below(10);
    let mut now = Time::from_micros(1 + random.below(1 << 40));
    let mut quiet_until = now;
    let mut cubic = Cubic::resumed(MSS, window * MSS, rtt);
    let mut commands = vec![b'S'];
    commands.extend([window, u32::MAX].iter().flat_map(|word| word.to_le_bytes()));
    let packets = |cubic: &Cubic| cubic.cwnd() as f64 / f64::from(MSS);
    let mut windows = vec![(packets(&cubic), format!("start, RTT {rtt}"))];
    for _ in 0..EVENTS {
        let may_lose = now >= quiet_until;
        let event = if may_lose && random.one_in(rarity) {
            let timeout = random.one_in(8);
            let wait = if timeout { Dur::ZERO } else { rtt };
            let lost = u64::from(!timeout);
            cubic.on_feedback(now, &Feedback { timeout, lost, elapsed: FOREVER, ..Feedback::default() });
            *(if timeout { &mut coverage.timeouts } else { &mut coverage.losses }) += 1;
            commands.push(if timeout { b'T' } else { b'L' });
            // What was in flight is repaired by then: a timeout before belongs to the loss, which TCP knows and tells nobody.
            quiet_until = now + rtt * 3;
            now += wait;
            if timeout { "timeout".to_string() } else { "loss".to_string() }
        } else {
            let window = packets(&cubic);
            let acked = 1 + random.below((window / 4.0) as u64 + 1) as u32;
            now += rtt.mul_f64(f64::from(acked) / window);
            let now_us = now.as_nanos() / 1000;
            now = Time::from_micros(now_us);
            let seen = Feedback {
                acked: u64::from(acked * MSS),
                rtt: Some(rtt),
                samples: 1,
                elapsed: FOREVER,
                ..Feedback::default()
            };
            cubic.on_feedback(now, &seen);
            coverage.acks += 1;
            commands.push(b'A');
            commands.extend(now_us.to_le_bytes());
            commands.extend((rtt.as_micros() as u32).to_le_bytes());
            commands.extend(acked.to_le_bytes());
            format!("{acked} acked at {now_us} us")
        };
        windows.push((packets(&cubic), event));
    }
    (commands, windows)
}

/// The module's windows over 2 s of congestion avoidance after a loss, with a pause of `pause_ms` in their middle.
pub fn windows_over_a_pause(pause_ms: u32) -> Result<Vec<u32>> {
    const RTT_US: u32 = 50_000;
    let mut commands = vec![b'S'];
    commands.extend([100u32, u32::MAX].iter().flat_map(|word| word.to_le_bytes()));
    commands.push(b'L');
    let mut now_us = 1_000_000u64;
    for round in 0..40 {
        now_us += u64::from(RTT_US);
        if round == 20 {
            now_us += u64::from(pause_ms) * 1000;
            commands.push(b'I');
            commands.extend(now_us.to_le_bytes());
            commands.extend(pause_ms.to_le_bytes());
        }
        commands.push(b'A');
        commands.extend(now_us.to_le_bytes());
        commands.extend(RTT_US.to_le_bytes());
        commands.extend(70u32.to_le_bytes());
    }
    let mut windows = windows(&Oracle::start(Machine::Cubic)?.run(&commands)?)?;
    // The answer to the pause; without one there is none of it to leave out.
    windows.remove(2 + 20);
    Ok(windows)
}

/// Runs `streams` streams of anything that the commands can say, sensible or not: the module's window stays
/// within 1 and its clamp, its threshold at 2 or more, and the C stays defined.
pub fn stays_in_bounds(seed: u64, streams: u64) -> Result<()> {
    let mut oracle = Oracle::start(Machine::Cubic)?;
    for stream in 0..streams {
        let mut random = Random::new(seed ^ stream.rotate_left(32));
        let clamp = (random.word() >> random.below(32)).max(2);
        let start = (random.word() % clamp).max(2);
        let mut commands = vec![b'S'];
        commands.extend([start, clamp].iter().flat_map(|word| word.to_le_bytes()));
        for _ in 0..EVENTS {
            match random.below(8) {
                0 => commands.push(b'L'),
                1 => commands.push(b'T'),
                2 => {
                    commands.push(b'I');
                    commands.extend(random.long().to_le_bytes());
                    commands.extend(random.word().to_le_bytes());
                }
                _ => {
                    commands.push(b'A');
                    commands.extend(random.long().to_le_bytes());
                    commands.extend(random.word().to_le_bytes());
                    commands.extend(random.word().to_le_bytes());
                }
            }
        }
        let answer = oracle.run(&commands).with_context(|| format!("stream {stream} of seed {seed}"))?;
        for (n, answer) in answer.as_chunks::<8>().0.iter().enumerate() {
            let word =
                |at: usize| u32::from_le_bytes([answer[at], answer[at + 1], answer[at + 2], answer[at + 3]]);
            let (cwnd, ssthresh) = (word(0), word(4));
            ensure!(
                (1..=clamp).contains(&cwnd) && ssthresh >= 2,
                "stream {stream} of seed {seed}, event {n}: window {cwnd} of {clamp}, threshold {ssthresh}"
            );
        }
    }
    Ok(())
}
