//! The moments of a run: when flows start and stop, and what is noted when. The same for every transport.

use anole_model::{Dur, Time};
use anole_quic::{GovernedBy, Reading};
use anole_sim::SERIES_STEP;
use anole_sim::scenario::{FlowSpec, Scenario};
use anyhow::{Context, Result};
use indicatif::ProgressBar;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

/// How often it is looked whether a receiver has everything.
const LOOK: Duration = Duration::from_millis(1);

/// A flow's counters at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Snapshot {
    /// Bytes on the wire handed to the receiver.
    pub wire_bytes: u64,
    /// Payload that the receiving application got.
    pub payload_bytes: u64,
    /// Packets that the sender sent.
    pub sent_packets: u64,
    /// Packets that the sender found lost, whose contents it sent again.
    pub lost_packets: u64,
    /// Who governs it: `agent`, `in-process` or `fallback`; none where none of them does, or nobody can say.
    pub governor: Option<&'static str>,
    /// The window in force, bytes; none where nobody can say.
    pub cwnd_bytes: Option<u32>,
    /// The pacing rate in force; none where there is none.
    pub pacing_mbps: Option<f64>,
}

impl Snapshot {
    /// What a sender in this process tells.
    pub fn of(reading: &Reading) -> Snapshot {
        Snapshot {
            sent_packets: reading.sent_packets,
            lost_packets: reading.lost_packets,
            governor: Some(reading.governor).filter(|by| *by != GovernedBy::Stack).map(GovernedBy::name),
            cwnd_bytes: u32::try_from(reading.cwnd_bytes).ok().filter(|&cwnd| cwnd > 0),
            pacing_mbps: reading.pacing_mbps(),
            ..Snapshot::default()
        }
    }
}

/// How a flow ended.
#[derive(Clone, Copy, Debug)]
pub struct FlowEnd {
    /// When.
    pub at: Instant,
    /// It had a size, and delivered it.
    pub complete: bool,
    /// Its counters then.
    pub snapshot: Snapshot,
}

/// What was noted at certain moments.
#[derive(Debug, Default)]
pub struct Notes {
    /// Every flow at the end of the warm-up.
    pub warm: Vec<Snapshot>,
    /// Every flow when all had started, and when the first was over.
    pub all_active: Option<Vec<Snapshot>>,
    pub one_over: Option<Vec<Snapshot>>,
    /// Every flow at the end of each step of the series.
    pub steps: Vec<Vec<Snapshot>>,
}

/// A scenario in real time.
pub struct Timeline {
    pub scenario: Scenario,
    pub epoch: Instant,
    notes: Mutex<Notes>,
}

impl Timeline {
    /// Time zero is `epoch`.
    pub fn new(scenario: &Scenario, epoch: Instant) -> Timeline {
        Timeline { scenario: scenario.clone(), epoch, notes: Mutex::default() }
    }

    /// When a flow has to start and to stop.
    pub fn span(&self, flow: usize) -> (Instant, Instant) {
        let spec = &self.scenario.flows[flow];
        (self.at(spec.start), self.at(spec.stop.min(self.scenario.end())))
    }

    fn at(&self, time: Time) -> Instant {
        self.epoch + Duration::from_nanos(time.as_nanos())
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A flow is over; tells every flow's counters if it is the first.
    pub fn note_over(&self, snapshots: impl FnOnce() -> Vec<Snapshot>) {
        self.notes().one_over.get_or_insert_with(snapshots);
    }

    /// What was noted.
    pub fn into_notes(self) -> Notes {
        self.notes.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs every flow that ever starts and takes every note, until the scenario's end.
    pub async fn drive<F>(
        &self,
        flow: impl Fn(usize) -> F,
        snapshots: impl Fn() -> Vec<Snapshot>,
        bar: &ProgressBar,
    ) -> Result<Vec<FlowEnd>>
    where
        F: Future<Output = Result<FlowEnd>> + Send + 'static,
    {
        let mut tasks = JoinSet::new();
        let never = |spec: &FlowSpec| FlowEnd {
            at: self.at(spec.start),
            complete: false,
            snapshot: Snapshot::default(),
        };
        let mut ends: Vec<FlowEnd> = self.scenario.flows.iter().map(never).collect();
        for (index, spec) in self.scenario.flows.iter().enumerate() {
            let running = flow(index);
            if !spec.runs() {
                continue;
            }
            tasks.spawn(async move {
                let end = running.await;
                end.map(|end| (index, end)).with_context(|| format!("flow {}", index + 1))
            });
        }
        let flows = async {
            while let Some(ended) = tasks.join_next().await {
                let (index, end) = ended.context("a flow's task failed")??;
                ends[index] = end;
            }
            anyhow::Ok(ends)
        };
        let notes = async {
            tokio::join!(self.take_notes(&snapshots), self.take_steps(&snapshots, bar));
            anyhow::Ok(())
        };
        tokio::try_join!(flows, notes).map(|(ends, ())| ends)
    }

    async fn take_notes(&self, snapshots: impl Fn() -> Vec<Snapshot>) {
        let warm = Time::ZERO + self.scenario.warmup;
        sleep_until(self.at(warm).into()).await;
        self.notes().warm = snapshots();
        sleep_until(self.at(self.scenario.all_started()).into()).await;
        self.notes().all_active = Some(snapshots());
    }

    async fn take_steps(&self, snapshots: impl Fn() -> Vec<Snapshot>, bar: &ProgressBar) {
        let mut at = Time::ZERO;
        while at < self.scenario.end() {
            let length = SERIES_STEP.min(self.scenario.end().since(at));
            at += length;
            sleep_until(self.at(at).into()).await;
            let step = snapshots();
            self.notes().steps.push(step);
            bar.inc(length.as_micros() / 1000);
        }
    }
}

/// Returns when the receiver of a flow with a size has all of it.
pub async fn arrived(size: Option<u64>, received: impl Fn() -> u64) {
    let Some(size) = size else { return std::future::pending().await };
    while received() < size {
        sleep(LOOK).await;
    }
}

/// How long after the epoch.
pub fn since_epoch(epoch: Instant, at: Instant) -> Dur {
    Dur::from_secs_f64(at.saturating_duration_since(epoch).as_secs_f64())
}
