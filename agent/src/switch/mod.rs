//! `--switch linux`: Antelope over the kernel's own algorithms, as the paper has it on Linux. No datapath of CCP and no
//! portus: a BPF program tells what happens to each connection of a cgroup and sets the algorithm that is chosen
//! ([`anole_bpf::switch`]); the choice, the prior and the log are those of every other flow of Antelope.
//!
//! However the agent ends, the program is detached, and each connection keeps what it has.

mod flow;

use crate::flow_key::{DatapathId, FlowKey};
use crate::flow_table;
use crate::logging::{FlowNews, Tally};
use crate::plan::Plan;
use crate::records::Records;
use crate::shared::{AgentClock, Shared};
use anole_algorithms::{ARMS, Selector};
use anole_bpf::switch::{FlowEvent, Switch, What, available};
use anole_bpf::top_cgroup;
use anole_datapath::wire::{AlgorithmName, CreateMessage};
use anole_model::{Dur, Time};
use anyhow::{Context, anyhow};
use flow::Flow;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The name of its control socket, and of its place in a status.
pub const NAME: &str = "switch";
/// Of the laws that Antelope chooses among, the one that Linux does not have.
const NOT_IN_LINUX: &str = "c2tcp";
/// All connections, as one datapath.
const KERNEL: DatapathId = DatapathId(1);
/// The longest sleep: how soon a stop is noticed.
const WAIT: Duration = Duration::from_millis(100);
/// Connections that are followed at once; further ones keep what they have until others end.
const MOST_FLOWS: usize = 65_536;
/// One that has told nothing for so long has ended unheard, or has nothing to send; it is known again when it speaks.
const SILENCE: Dur = Dur::from_millis(5 * 60 * 1000);
/// How often that is looked for.
const SWEEP: Dur = Dur::from_millis(10_000);

/// What was asked for, checked against the plan and the kernel.
#[derive(Debug)]
pub struct Wanted {
    cgroup: PathBuf,
    /// The laws that are chosen among: places in [`ARMS`].
    arms: Vec<usize>,
    /// The one that every flow begins with.
    first: Option<usize>,
    /// What the choice goes by.
    by: &'static str,
}

impl Wanted {
    /// What `--cgroup`, `--alg`, `--policy` and `--param` come to here.
    pub fn of(plan: &Plan, cgroups: &[String]) -> anyhow::Result<Wanted> {
        let alg = plan.default_name();
        if !["antelope", "rein"].contains(&alg) {
            return Err(anyhow!(
                "--switch linux goes with --alg antelope or rein, which choose among laws; {alg} does not"
            ));
        }
        let cgroup = match cgroups {
            [] => {
                let top = top_cgroup();
                top.context("--switch linux: there is no cgroup2 file system (mount -t cgroup2 cgroup2 DIR)")?
            }
            [one] => PathBuf::from(one),
            _ => return Err(anyhow!("--cgroup: --switch linux takes one; those below it are taken with it")),
        };
        anole_bpf::check_cgroup(&cgroup).context("--cgroup")?;
        let selector = plan.selector(0, &[]).context("--switch linux")?;
        let arms = usable(&selector, &available()).with_context(|| format!("--switch linux --alg {alg}"))?;
        Ok(Wanted { cgroup, arms, first: selector.first(), by: selector.by() })
    }

    /// The kernel's names for the laws, at their places; none for what is not chosen among.
    fn names(&self) -> Vec<&'static str> {
        (0..ARMS.len()).map(|arm| if self.arms.contains(&arm) { ARMS[arm] } else { "" }).collect()
    }

    /// Attaches the program.
    pub fn open(&self) -> Result<Switch, anole_bpf::Error> {
        Switch::open(&self.cgroup, &self.names(), self.first)
    }

    /// Tells what was found here; `policy` names the models, if not the shipped ones are meant.
    pub fn log(&self, policy: Option<&str>) {
        let arms: Vec<&str> = self.arms.iter().map(|&arm| ARMS[arm]).collect();
        let host = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default();
        let (cgroup, arms, host) = (self.cgroup.display(), arms.join(", "), host.trim());
        let (first, by) = (self.first.map(|arm| ARMS[arm]), self.by);
        let models = (by == "models").then(|| policy.unwrap_or("shipped"));
        tracing::info!(%cgroup, arms, by, models, first, host, "new connections are switched among the kernel's algorithms");
        if !self.arms.iter().any(|&arm| ARMS[arm] == host) {
            tracing::warn!(
                host,
                "connections under net.ipv4.tcp_congestion_control are left alone: it is none of these"
            );
        }
    }
}

/// The laws that can be chosen among here.
fn usable(selector: &Selector, available: &[String]) -> anyhow::Result<Vec<usize>> {
    let known = selector.arms().into_iter().filter(|arm| ARMS[*arm] != NOT_IN_LINUX);
    let (there, missing): (Vec<usize>, Vec<usize>) =
        known.partition(|arm| available.iter().any(|name| name == ARMS[*arm]));
    let named = |arms: &[usize], before: &str| {
        let names: Vec<String> = arms.iter().map(|arm| format!("{before}{}", ARMS[*arm])).collect();
        if names.is_empty() { "none".to_string() } else { names.join(" ") }
    };
    let way_out = || match missing[..] {
        [] => "--policy has no models of others that Linux has".to_string(),
        _ => format!("for the others: modprobe -a {}", named(&missing, "tcp_")),
    };
    if there.len() < 2 {
        let there = named(&there, "");
        return Err(anyhow!(
            "two algorithms are the least to choose among, and here are: {there}; {}",
            way_out()
        ));
    }
    match selector.first().filter(|first| !there.contains(first)) {
        Some(first) => {
            Err(anyhow!("--param first={first}: {} is not available here; {}", ARMS[first], way_out()))
        }
        None => Ok(there),
    }
}

/// The flows, and what their choices need.
pub struct Followed {
    plan: Plan,
    arms: Vec<usize>,
    clock: AgentClock,
    shared: Shared,
    records: Records,
    flows: HashMap<u64, Flow>,
    /// Flows so far.
    number: u64,
    swept: Time,
    news: FlowNews,
    tally: Tally,
}

impl Followed {
    /// None yet.
    pub fn new(plan: Plan, wanted: Wanted, shared: Shared, records: Records) -> Followed {
        Followed {
            plan,
            arms: wanted.arms,
            clock: AgentClock::start(),
            shared,
            records,
            flows: HashMap::new(),
            number: 0,
            swept: Time::ZERO,
            news: FlowNews::default(),
            tally: Tally::default(),
        }
    }

    /// Follows the kernel's connections until `stop` is set; the records are what is left.
    pub fn serve(mut self, kernel: &mut Switch, stop: &AtomicBool) -> Records {
        while !stop.load(Ordering::SeqCst) {
            let event = kernel.receive(WAIT);
            let now = self.clock.now();
            if let Some((event, arm)) = event.and_then(|event| Some((event, self.take(now, &event)?)))
                && let Err(error) = kernel.choose(event.cookie, arm)
                && let Some(due) = self.tally.count(now, "choice not told")
            {
                tracing::warn!(%error, total = due.total, "the kernel does not take a choice");
            }
            self.shared.answer_askers(now, NAME, |_| "kernel".to_string());
            self.sweep(now);
        }
        let now = self.clock.now();
        self.end_all(now, "dropped", |_| true);
        self.tally.summary();
        self.records
    }

    /// What happened to a connection; the law that it is to have instead of the one it has.
    fn take(&mut self, now: Time, event: &FlowEvent) -> Option<usize> {
        match event.what {
            What::Ends | What::Left => {
                let how = if event.what == What::Left { "left" } else { "closed" };
                // One that falls silent, or outlives the agent, may go on, and counts once.
                if let Some(flow) = self.flows.get(&event.cookie) {
                    flow.note_prior(&self.records);
                }
                self.end(now, how, event.cookie);
                return None;
            }
            // Places are those that the kernel was told.
            What::Begins | What::Stretch if event.arm >= ARMS.len() => return None,
            What::Begins | What::Stretch => {}
        }
        if !self.flows.contains_key(&event.cookie) {
            self.begin(now, event);
        }
        let flow = self.flows.get_mut(&event.cookie)?;
        flow.heard = now;
        if event.what == What::Begins {
            return None;
        }
        self.shared.told(now, flow.key, ARMS[event.arm], (event.acked, event.lost, event.srtt_us));
        flow.take(now, event, &mut self.records)
    }

    fn begin(&mut self, now: Time, event: &FlowEvent) {
        if self.flows.len() >= MOST_FLOWS {
            if let Some(due) = self.tally.count(now, "too many flows") {
                tracing::warn!(total = due.total, most = MOST_FLOWS, "a flow is left as it is");
            }
            return;
        }
        let selector = match self.plan.selector(self.number, &self.arms) {
            Ok(selector) => selector,
            Err(error) => {
                if let Some(due) = self.tally.count(now, "choice refused") {
                    tracing::warn!(%error, total = due.total, "a flow is left as it is");
                }
                return;
            }
        };
        let key: FlowKey = (KERNEL, self.number as u32);
        let create = CreateMessage {
            src_port: event.local_port.into(),
            dst_ip: event.remote.map_or(0, |address| address.to_bits()),
            dst_port: event.remote_port.into(),
            ..CreateMessage::without_addresses(0, event.mss, AlgorithmName::NONE)
        };
        let flow = Flow::new(now, key, self.number, self.plan.default_name(), selector, event);
        self.number += 1;
        self.news.begins(now, &flow.line, flow_table::peer(&create), false);
        self.shared.begin(now, key, ARMS[event.arm], create);
        self.shared.prefers_nothing(key);
        self.flows.insert(event.cookie, flow);
    }

    fn sweep(&mut self, now: Time) {
        if now.since(self.swept) < SWEEP {
            return;
        }
        self.swept = now;
        self.end_all(now, "closed", |flow| now.since(flow.heard) >= SILENCE);
    }

    fn end_all(&mut self, now: Time, how: &'static str, which: impl Fn(&Flow) -> bool) {
        let which = self.flows.iter().filter(|(_, flow)| which(flow)).map(|(cookie, _)| *cookie);
        which.collect::<Vec<_>>().into_iter().for_each(|cookie| self.end(now, how, cookie));
    }

    fn end(&mut self, now: Time, how: &'static str, cookie: u64) {
        let Some(flow) = self.flows.remove(&cookie) else { return };
        self.shared.forget(flow.key);
        let line = flow.over(now, how, &mut self.records);
        self.news.ends(now, &line);
    }
}

#[cfg(test)]
mod tests;
