//! Agents that come late, die and come back while the flows run.

use super::DatapathKind;
use super::agent::{AgentProcess, ReportedFlow};
use super::bpf_fs::BpfFs;
use super::govern::AgentSpec;
use anole_datapath_host::{Host, HostOptions};
use anyhow::{Result, anyhow};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A time without agents, from the start of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outage {
    from: Duration,
    to: Duration,
}

impl Outage {
    /// Between two seconds of the run.
    pub fn new(from_s: f64, to_s: f64) -> Outage {
        Outage { from: Duration::from_secs_f64(from_s), to: Duration::from_secs_f64(to_s) }
    }

    /// Agents come late.
    pub fn is_at_start(&self) -> bool {
        self.from.is_zero()
    }
}

/// No run lasts longer.
const LONGEST: Duration = Duration::from_secs(86_400);

/// Reads `FROM:TO` in seconds.
pub fn parse(text: &str) -> Result<Outage, String> {
    let seconds = |part: &str| {
        let seconds: f64 = part.trim().parse().ok()?;
        Duration::try_from_secs_f64(seconds).ok().filter(|span| *span <= LONGEST)
    };
    let (from, to) = text.split_once(':').ok_or("give FROM:TO in seconds, such as 8:12")?;
    match (seconds(from), seconds(to)) {
        (Some(from), Some(to)) if from < to => Ok(Outage { from, to }),
        (Some(_), Some(_)) => Err("ends before it begins; give FROM:TO in seconds, such as 8:12".to_string()),
        _ => Err("is no time within a day; give FROM:TO in seconds, such as 8:12".to_string()),
    }
}

/// Outages must follow one another, and begin within the run.
pub fn check(outages: &[Outage], run: Duration) -> Result<(), String> {
    if !outages.is_sorted_by(|a, b| a.to < b.from) {
        return Err("--agent-outage: give outages in order of time, without overlap".to_string());
    }
    match outages.iter().find(|outage| outage.from >= run) {
        None => Ok(()),
        Some(Outage { from, to }) => Err(format!(
            "--agent-outage {}:{} begins after the run of {} s; give an earlier one, or lengthen the run",
            from.as_secs_f64(),
            to.as_secs_f64(),
            run.as_secs_f64()
        )),
    }
}

/// How agents are started.
#[derive(Debug)]
struct Recipe {
    binary: PathBuf,
    folder: PathBuf,
    /// What the datapath in the kernel lives in; none for datapaths in processes.
    bpf_fs: Option<BpfFs>,
    specs: Vec<AgentSpec>,
    seed: u64,
}

impl Recipe {
    fn start(&self) -> Result<Vec<AgentProcess>> {
        let start = |(index, spec)| {
            AgentProcess::start(&self.binary, &self.folder, self.bpf_fs.as_ref(), index, spec, self.seed)
        };
        self.specs.iter().enumerate().map(start).collect()
    }
}

/// The agents of a run, before it begins.
pub struct Agents {
    recipe: Recipe,
    running: Vec<AgentProcess>,
    outages: Vec<Outage>,
}

impl Agents {
    /// Starts them, unless the run begins without.
    pub fn start(
        binary: Option<&Path>,
        folder: &Path,
        specs: &[AgentSpec],
        seed: u64,
        outages: &[Outage],
    ) -> Result<Agents> {
        let binary = match binary {
            Some(binary) => binary.to_path_buf(),
            None if specs.is_empty() => PathBuf::new(),
            None => return Err(anyhow!("no agent's program was named")),
        };
        let in_kernel = specs.iter().any(|spec| spec.datapath == DatapathKind::Kernel);
        let bpf_fs = in_kernel.then(|| BpfFs::mount_in(folder)).transpose()?;
        let recipe = Recipe { binary, folder: folder.to_path_buf(), bpf_fs, specs: specs.to_vec(), seed };
        let late = outages.first().is_some_and(Outage::is_at_start);
        let running = if late { Vec::new() } else { recipe.start()? };
        Ok(Agents { recipe, running, outages: outages.to_vec() })
    }

    /// The socket of each, whether it runs or not.
    pub fn sockets(&self) -> impl Iterator<Item = PathBuf> {
        (0..self.recipe.specs.len()).map(|index| AgentProcess::socket(&self.recipe.folder, index))
    }

    /// A datapath host in this process for each, connected to its socket.
    pub fn hosts(&self) -> Result<Vec<Arc<Host>>> {
        let host = |socket: PathBuf| Ok(Arc::new(Host::connect(&socket, HostOptions::default())?));
        self.sockets().map(host).collect()
    }

    /// Plays the outages from `epoch` on, on a thread of its own: starting a process takes a while.
    pub fn play(self, epoch: Instant) -> Result<Playing> {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("agent-outages".to_string())
            .spawn(move || self.run(epoch, &stopped))?;
        Ok(Playing { stop: Some(stop), thread: Some(thread) })
    }

    fn run(self, epoch: Instant, stopped: &mpsc::Receiver<()>) -> Result<Vec<AgentProcess>> {
        let Agents { recipe, mut running, outages } = self;
        let stops_before = |at: Duration| {
            let wait = (epoch + at).saturating_duration_since(Instant::now());
            stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout)
        };
        for outage in outages {
            if stops_before(outage.from) {
                break;
            }
            // Dropping an agent is SIGKILL.
            running.clear();
            if stops_before(outage.to) {
                break;
            }
            running = recipe.start()?;
        }
        // Either way the other end is dropped or speaks when the run is over.
        let _ = stopped.recv();
        Ok(running)
    }
}

/// Agents in a run; dropped, they are killed.
pub struct Playing {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<Result<Vec<AgentProcess>>>>,
}

impl Playing {
    /// Stops the agents; what each told of its flows (nothing, if it did not run at the end).
    pub fn finish(mut self) -> Result<Vec<Vec<ReportedFlow>>> {
        self.stop = None;
        let thread = self.thread.take().ok_or_else(|| anyhow!("the agents were stopped before"))?;
        let agents = thread.join().map_err(|_| anyhow!("the agents' thread failed"))??;
        agents.into_iter().map(AgentProcess::finish).collect()
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_an_outage() {
        let second = Duration::from_secs;
        assert_eq!(parse("0:2"), Ok(Outage { from: second(0), to: second(2) }));
        for bad in ["", "3", "3:2", "2:2", "-1:2", "nan:2", "1:inf", "a:b"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        let outages = |texts: &[&str]| texts.iter().map(|text| parse(text).unwrap()).collect::<Vec<_>>();
        assert!(check(&outages(&["0:2", "8:12"]), second(10)).is_ok());
        assert!(check(&outages(&["8:12", "0:2"]), second(10)).is_err());
        assert!(check(&outages(&["1:4", "3:5"]), second(10)).is_err());
        let late = check(&outages(&["0:2", "10:12"]), second(10)).unwrap_err();
        assert!(late.starts_with("--agent-outage 10:12 begins after the run of 10 s"), "{late}");
    }
}
