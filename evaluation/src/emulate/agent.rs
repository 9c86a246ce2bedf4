//! The agent as a child process: started, watched, stopped and reaped.

use super::DatapathKind;
use super::bpf_fs::BpfFs;
use super::govern::AgentSpec;
use crate::options::usage;
use anole_algorithms::Shares;
use anole_inference::BackendSettings;
use anyhow::{Context, Result, anyhow, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The agent's program.
const PROGRAM: &str = "anole-ccp";
/// Where else to look for it.
const VARIABLE: &str = "ANOLE_CCP";
/// The name by which the kernel knows an agent's algorithms.
pub const CONGESTION_CONTROL: &str = "anole_ccp";
/// Congestion controls that the kernel has.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
/// How long an agent may take to open its socket, and to stop.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(5);

/// What the agent tells of a flow that ended; other keys are of no interest here.
#[derive(Clone, Debug, Deserialize)]
pub struct ReportedFlow {
    pub flow: u32,
    pub src_port: u32,
    pub reports: u64,
    pub updates: u64,
    pub decisions: u64,
    pub inferences: u64,
    pub applied: Option<Shares>,
}

/// The names of the congestion controls that this machine's kernel has.
pub fn available() -> impl Iterator<Item = String> {
    let text = std::fs::read_to_string(AVAILABLE).unwrap_or_default();
    text.split_whitespace().map(str::to_string).collect::<Vec<_>>().into_iter()
}

/// Finds the agent's program.
pub fn find(asked: Option<&Path>) -> Result<PathBuf> {
    let candidates: Vec<(String, PathBuf)> = match (asked, std::env::var_os(VARIABLE)) {
        (Some(path), _) => vec![("--agent-binary".to_string(), path.to_path_buf())],
        (None, Some(path)) => vec![(format!("${VARIABLE}"), path.into())],
        (None, None) => std::env::current_exe()
            .ok()
            .and_then(|own| Some(("beside this program".to_string(), own.parent()?.join(PROGRAM))))
            .into_iter()
            .collect(),
    };
    for (place, path) in &candidates {
        if !path.is_file() {
            return Err(usage(format!(
                "no agent at {} ({place}); build it with `cargo build --bin {PROGRAM}`, or name it with --agent-binary or ${VARIABLE}",
                path.display()
            )));
        }
    }
    candidates
        .into_iter()
        .next()
        .map(|(_, path)| path)
        .ok_or_else(|| usage(format!("name the agent with --agent-binary or ${VARIABLE}")))
}

/// A running agent. Dropped, it is killed and reaped.
#[derive(Debug)]
pub struct AgentProcess {
    child: Child,
    datapath: DatapathKind,
    socket: PathBuf,
    stats: PathBuf,
    log: PathBuf,
}

impl AgentProcess {
    /// Starts an agent whose files lie in `folder`, and waits until it is ready for flows.
    pub fn start(
        binary: &Path,
        folder: &Path,
        bpf_fs: Option<&BpfFs>,
        index: usize,
        spec: &AgentSpec,
        seed: u64,
    ) -> Result<AgentProcess> {
        let file = |kind: &str| folder.join(format!("agent{index}.{kind}"));
        let (socket, stats, log) = (AgentProcess::socket(folder, index), file("stats"), file("log"));
        // What a killed agent left; the new one's has to be told from it.
        for left in [&socket, &stats] {
            let _ = std::fs::remove_file(left);
        }
        let mut command = Command::new(binary);
        match bpf_fs {
            None => command.args(["--ipc", "unix"]).arg("--socket").arg(&socket),
            Some(bpf_fs) => command.args(["--ipc", "bpf"]).arg("--bpf-fs").arg(bpf_fs.folder()),
        };
        command.args(["--log-level", "warn", "--alg", &spec.alg]).arg("--stats").arg(&stats);
        command.args(["--seed", &seed.to_string()]);
        for (flag, value) in [("--classic", &spec.classic), ("--policy", &spec.policy)] {
            if let Some(value) = value {
                command.args([flag, value]);
            }
        }
        let BackendSettings { backend, torch_library, policy_server } = &spec.policies;
        if let Some(backend) = backend {
            command.args(["--backend", backend.name()]);
        }
        for (flag, path) in [("--torch-library", torch_library), ("--policy-server", policy_server)] {
            if let Some(path) = path {
                command.arg(flag).arg(path);
            }
        }
        for (name, value) in &spec.params {
            command.args(["--param", &format!("{name}={value}")]);
        }
        // The pipe ends with this process, however it ends, and the agent with the pipe.
        command.arg("--until-stdin-ends").stdin(Stdio::piped()).stdout(Stdio::null());
        command.stderr(File::create(&log).context("cannot write the agent's log")?);
        let child = match bpf_fs {
            None => command.spawn().map_err(anyhow::Error::from),
            Some(bpf_fs) => bpf_fs.spawn(&mut command),
        };
        let child = child.with_context(|| format!("cannot start the agent {}", binary.display()))?;
        let mut agent = AgentProcess { child, datapath: spec.datapath, socket, stats, log };
        agent.await_ready()?;
        Ok(agent)
    }

    /// The socket of the agent with this number in `folder`.
    pub fn socket(folder: &Path, index: usize) -> PathBuf {
        folder.join(format!("agent{index}.sock"))
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Flows can reach it.
    fn is_ready(&self) -> bool {
        match self.datapath {
            // It opens its statistics when the datapath is loaded.
            DatapathKind::Kernel => self.stats.exists() && available().any(|name| name == CONGESTION_CONTROL),
            _ => self.socket.exists(),
        }
    }

    fn await_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.is_ready() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the agent ended at once ({status}): {}", self.last_words());
            }
            if Instant::now() > deadline {
                let what = match self.datapath {
                    DatapathKind::Kernel => "load the kernel's datapath",
                    _ => "open its socket",
                };
                bail!("the agent did not {what} within {} s: {}", PATIENCE.as_secs(), self.last_words());
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Stops the agent and reads what it tells of its flows.
    pub fn finish(mut self) -> Result<Vec<ReportedFlow>> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the agent ended during the run ({status}): {}", self.last_words());
        }
        let pid = i32::try_from(self.child.id()).map_err(|_| anyhow!("the agent has no process id"))?;
        kill(Pid::from_raw(pid), Signal::SIGTERM).context("cannot stop the agent")?;
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                bail!("the agent did not stop within {} s: {}", PATIENCE.as_secs(), self.last_words());
            }
            std::thread::sleep(LOOK);
        }
        let text = std::fs::read_to_string(&self.stats).context("cannot read the agent's statistics")?;
        let lines = text.lines().map(serde_json::from_str::<ReportedFlow>);
        lines.collect::<Result<_, _>>().context("the agent's statistics are not what was expected")
    }

    /// The end of its log, for an error.
    fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let tail = &lines[lines.len().saturating_sub(5)..];
        if tail.is_empty() { "it logged nothing".to_string() } else { tail.join("\n") }
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        // It fails only on a child that was reaped before.
        let _ = self.child.kill();
        // One that the kernel keeps is left to it.
        let deadline = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(LOOK);
        }
    }
}
