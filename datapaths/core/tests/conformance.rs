//! Recorded conversations with third-party agents, played again (see `transcripts/README.md`).

use anole_datapath::wire::{AlgorithmName, CreateMessage};
use anole_datapath::{AckSample, Datapath, FlowId, Governor, InForce};
use anole_model::{Bounds, Dur, Time};

/// What a conversation led to.
struct Outcome {
    reports: u64,
    commands: u64,
    largest_rate: u32,
}

struct Replay {
    datapath: Datapath,
    flow: FlowId,
    now: Time,
    out: Vec<Vec<u8>>,
    outcome: Outcome,
}

fn replay(transcript: &str) -> Outcome {
    let mut replay = Replay {
        datapath: Datapath::new(Bounds::DEFAULT, Dur::from_millis(500)),
        flow: FlowId(1),
        now: Time::ZERO,
        out: Vec::new(),
        outcome: Outcome { reports: 0, commands: 0, largest_rate: 0 },
    };
    for (n, line) in transcript.lines().enumerate() {
        replay.line(line).unwrap_or_else(|problem| panic!("line {}: {problem}\n{line}", n + 1));
    }
    assert!(replay.out.is_empty(), "the runtime says more than it did: {:02x?}", replay.out);
    replay.outcome
}

impl Replay {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word != ">" && !self.out.is_empty() {
            return Err(format!("the runtime says more than it did: {:02x?}", self.out));
        }
        match word {
            "ready" => self.datapath.ready(number(rest)? as u32, &mut self.out),
            "open" => self.open(rest)?,
            ">" => {
                let expected = bytes(rest)?;
                let said = if self.out.is_empty() { None } else { Some(self.out.remove(0)) };
                if said.as_ref() != Some(&expected) {
                    return Err(format!("the runtime says {said:02x?}"));
                }
            }
            "<" => self.datapath.receive(self.now, &bytes(rest)?).map_err(|e| e.to_string())?,
            "ack" => self.ack(rest)?,
            "close" => {
                let flow = self.datapath.flow(self.flow).ok_or("the flow is not open")?;
                if flow.governor() != Governor::Agent || flow.stats().aborts > 0 {
                    return Err(format!("the agent did not keep the flow: {:?}", flow.stats()));
                }
                (self.outcome.reports, self.outcome.commands) = (flow.stats().reports, flow.stats().updates);
                self.datapath.close(self.flow, &mut self.out);
            }
            other => return Err(format!("{other} is no event")),
        }
        Ok(())
    }

    fn open(&mut self, rest: &str) -> Result<(), String> {
        let words: Vec<&str> = rest.split(' ').collect();
        let [now_us, init_cwnd, mss, algorithm] = words[..] else { return Err("four words".into()) };
        self.now = Time::from_micros(number(now_us)?);
        let create = CreateMessage {
            init_cwnd: number(init_cwnd)? as u32,
            mss: number(mss)? as u32,
            src_ip: 0x7f00_0001,
            src_port: 4242,
            dst_ip: 0x7f00_0001,
            dst_port: 4433,
            algorithm: AlgorithmName::new(algorithm).ok_or("a short name")?,
        };
        self.flow = self.datapath.open(self.now, create, &mut self.out);
        Ok(())
    }

    fn ack(&mut self, rest: &str) -> Result<(), String> {
        let (given, expected) = rest.split_once(" = ").ok_or("no outcome")?;
        let given = given.split(' ').map(number).collect::<Result<Vec<u64>, _>>()?;
        let expected = expected.split(' ').map(number).collect::<Result<Vec<u64>, _>>()?;
        let (
            &[now_us, bytes, packets, lost, timeout, rtt_us, sent, delivered, in_flight, in_flight_packets],
            &[cwnd, rate],
        ) = (&given[..], &expected[..])
        else {
            return Err("ten words and two".into());
        };
        self.now = Time::from_micros(now_us);
        let sample = AckSample {
            bytes_acked: bytes as u32,
            packets_acked: packets as u32,
            lost_packets: lost as u32,
            was_timeout: timeout == 1,
            rtt_us,
            rate_outgoing: sent,
            rate_incoming: delivered,
            bytes_in_flight: Some(in_flight as u32),
            packets_in_flight: in_flight_packets as u32,
            ..AckSample::default()
        };
        self.datapath.on_ack(self.now, self.flow, &sample, &mut self.out);
        let control = self.datapath.flow(self.flow).ok_or("the flow is not open")?.asked();
        self.outcome.largest_rate = self.outcome.largest_rate.max(control.rate);
        let expected = InForce { cwnd: cwnd as u32, rate: rate as u32 };
        if control == expected { Ok(()) } else { Err(format!("the runtime decides {control:?}")) }
    }
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|e| format!("{word}: {e}"))
}

fn bytes(hex: &str) -> Result<Vec<u8>, String> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()))
        .collect::<Option<Vec<u8>>>()
        .ok_or_else(|| "not hexadecimal".into())
}

#[test]
fn generic_cong_avoid_reno() {
    let outcome = replay(include_str!("transcripts/reno.txt"));
    assert!(outcome.reports >= 20 && outcome.commands >= 20);
}

#[test]
fn generic_cong_avoid_cubic_with_slow_start_in_the_datapath() {
    let outcome = replay(include_str!("transcripts/cubic.txt"));
    assert!(outcome.reports >= 20 && outcome.commands >= 20);
}

#[test]
fn nimbus_with_its_pulses() {
    let outcome = replay(include_str!("transcripts/nimbus.txt"));
    assert!(outcome.reports >= 20 && outcome.commands >= 20);
    assert!(outcome.largest_rate > 0);
}

#[test]
fn bbr_with_pacing() {
    let outcome = replay(include_str!("transcripts/bbr.txt"));
    assert!(outcome.commands >= 5);
    // The link carries 1.448 MB/s of payload, and BBR probes above it.
    assert!(outcome.largest_rate > 1_448_000);
}
