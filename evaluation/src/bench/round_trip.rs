//! Time from question to answer as an agent's flows see it: through the inference thread and, where one
//! is built, a policy server.

use super::{Policy, leave_out, loader, percentile, print};
use crate::options::usage;
use crate::output;
use anole_inference::{Backend, BackendSettings, Loader, Serving};
use anole_model::{Dur, Time};
use anole_policies::{InferenceSession, Policies};
use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The server's program.
const PROGRAM: &str = "anole-policy-server";
/// Flows that ask at the same time.
const FLOWS: [usize; 4] = [1, 10, 100, 1000];
/// Each asks ten times a second.
const PERIOD: Duration = Duration::from_millis(100);
/// Each measurement takes so many periods, of which the first few do not count.
const PERIODS: u32 = 30;
const WARM_UP: u32 = 5;
/// An answer that takes longer is absent: half of a decision interval of 100 ms.
const DEADLINE: Dur = Dur::from_millis(50);
/// Answers are looked for this often; the figures are too high by half of it, and by the scheduler's delay.
const LOOK: Duration = Duration::from_micros(50);
/// The server loads LibTorch before it listens.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Serialize)]
struct Figure<'a> {
    bench: &'static str,
    policy: &'a str,
    backend: &'static str,
    flows: usize,
    p50_us: f64,
    p99_us: f64,
    absent: usize,
}

/// Measures the embedded networks and, where its program is found, a server.
pub fn run(policy: &Policy, program: Option<&Path>, json: bool) -> Result<()> {
    if !json {
        output::print_line(
            "policy       backend   flows   p50 µs   p99 µs   absent | question to answer, 10 a second each",
        )?;
    }
    let embedded = loader(Backend::Embedded, Serving::Threaded, BackendSettings::default())?;
    measure_all(policy, Backend::Embedded, &embedded, json)?;
    let Some(program) = find(program)? else { return Ok(()) };
    let folder = policy.file.parent().context("the policy's file is in no folder")?;
    let socket = folder.join("policy.sock");
    let _server = Server::start(&program, &socket, folder)?;
    let settings = BackendSettings { policy_server: Some(socket), ..BackendSettings::default() };
    let server = loader(Backend::Server, Serving::Threaded, settings)?;
    measure_all(policy, Backend::Server, &server, json)
}

fn measure_all(policy: &Policy, backend: Backend, loader: &Loader, json: bool) -> Result<()> {
    let model = loader.find(&policy.file.to_string_lossy()).map_err(|error| anyhow!("{error}"))?;
    let input = vec![0.25; model.schema().inputs()];
    for flows in FLOWS {
        let sessions = (0..flows).map(|_| model.session()).collect();
        let (times, absent) = measure(sessions, &input);
        let figure = Figure {
            bench: "round-trip",
            policy: &policy.name,
            backend: backend.name(),
            flows,
            p50_us: percentile(&times, 0.5),
            p99_us: percentile(&times, 0.99),
            absent,
        };
        print(json, &figure, || {
            let Figure { policy, backend, flows, p50_us, p99_us, absent, .. } = &figure;
            format!("{policy:<12} {backend:<9} {flows:>5} {p50_us:>8.0} {p99_us:>8.0} {absent:>8} |")
        })?;
    }
    Ok(())
}

/// Sorted times to an answer, µs, and the number of questions that had none.
fn measure(mut sessions: Vec<Box<dyn InferenceSession>>, input: &[f32]) -> (Vec<f64>, usize) {
    let flows = u32::try_from(sessions.len()).unwrap_or(u32::MAX);
    let (mut times, mut absent) = (Vec::new(), 0);
    // Flow and time of each question that waits.
    let mut waiting: Vec<(usize, Duration)> = Vec::new();
    let at = |since: Duration| Time::from_nanos(since.as_nanos() as u64);
    let (began, mut asked) = (Instant::now(), 0);
    while asked < PERIODS * flows || !waiting.is_empty() {
        let mut now = began.elapsed();
        // Evenly spread over the period.
        while asked < PERIODS * flows && now >= PERIOD * asked / flows {
            let flow = (asked % flows) as usize;
            sessions[flow].ask(at(now), at(now) + DEADLINE, input);
            waiting.push((flow, now));
            asked += 1;
            now = began.elapsed();
        }
        waiting.retain(|&(flow, then)| {
            let counts = then >= PERIOD * WARM_UP;
            if sessions[flow].poll(at(now)).is_some() {
                times.extend(counts.then(|| (now - then).as_secs_f64() * 1e6));
                return false;
            }
            let over = at(now) > at(then) + DEADLINE;
            absent += usize::from(over && counts);
            !over
        });
        let next = PERIOD * asked / flows;
        let pause = if waiting.is_empty() { next.saturating_sub(now).min(PERIOD) } else { LOOK };
        std::thread::sleep(pause);
    }
    times.sort_by(f64::total_cmp);
    (times, absent)
}

/// The server's program: the one named, or one beside this program or in the build tree around it.
fn find(named: Option<&Path>) -> Result<Option<PathBuf>> {
    if let Some(path) = named {
        return match path.is_file() {
            true => Ok(Some(path.to_path_buf())),
            false => Err(usage(format!("--policy-server-binary {}: there is no such file", path.display()))),
        };
    }
    let own = std::env::current_exe().context("cannot find this program")?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    let built = folder.ancestors().take(4).map(|root| root.join("policy-server/build").join(PROGRAM));
    let found = std::iter::once(folder.join(PROGRAM)).chain(built).find(|path| path.is_file());
    if found.is_none() {
        leave_out(
            "the policy server",
            "it is not built (policy-server/README.md says how), or name it with --policy-server-binary",
        );
    }
    Ok(found)
}

/// A running server. Dropped, it is killed.
struct Server(Child);

impl Server {
    fn start(program: &Path, socket: &Path, models: &Path) -> Result<Server> {
        let mut command = Command::new(program);
        command.arg("--socket").arg(socket).arg("--models").arg(models);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let mut server = Server(child);
        let started = Instant::now();
        while !socket.exists() {
            if let Some(status) = server.0.try_wait()? {
                bail!("{} ended at once ({status})", program.display());
            }
            if started.elapsed() > PATIENCE {
                bail!("{} does not listen", program.display());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
