//! The shells as processes, and the two hosts at their ends.
//!
//! They run as the user `nobody`, because they refuse root, and are root by their installation (setuid). Each starts a
//! command in its namespace: here a `/bin/sh` that tells its process and waits, so that this process can enter the
//! namespace and let it forward packets (its own value of `net.ipv4.ip_forward`, which the next shell asks for) before
//! the next shell begins. The innermost one waits for the end of its input: whatever ends this process ends the shells.

use super::log::Log;
use super::plan::Plan;
use crate::hosts::{self, Hosts};
use crate::measure::{FlowRecord, Record};
use crate::{EmulatorError, Namespace, tun};
use anole_model::Dur;
use anole_sim::link::LinkStats;
use anole_sim::scenario::Scenario;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Who the shells are run by: `nobody` on Debian.
const NOBODY: u32 = 65_534;
/// Tells its process, waits for a line, and becomes its arguments.
const STEP: &str = "echo $$; read -r go && exec \"$@\"";
/// Tells its process and stays until the input ends.
const STAY: &str = "echo $$; read -r go";
/// ACKs pass at this many opportunities a ms: 144 Mbps, so that they wait for the clock alone.
const DOWNLINK_PER_MS: usize = 12;
/// How long a shell may take to begin, and all of them to end.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);
/// Nothing is on its way any more when nothing has arrived for the delay and so long.
const QUIET: Duration = Duration::from_millis(100);

/// Running shells; dropped, they end.
#[derive(Debug)]
pub struct Shells {
    child: Child,
    /// What the innermost one waits for; closed, it ends.
    input: Option<ChildStdin>,
    folder: PathBuf,
    plan: Plan,
    full_packet: u32,
    flows: usize,
}

impl Shells {
    /// Starts them for a scenario, with files in `folder`, which has to be empty.
    pub fn start(scenario: &Scenario, folder: &Path) -> Result<(Hosts, Shells), EmulatorError> {
        let plan = Plan::new(scenario).map_err(EmulatorError::Mahimahi)?;
        let failed =
            |error: io::Error| EmulatorError::Mahimahi(format!("cannot write for its shells: {error}"));
        std::fs::write(folder.join("uplink"), &plan.trace).map_err(failed)?;
        std::fs::write(folder.join("downlink"), "1\n".repeat(DOWNLINK_PER_MS)).map_err(failed)?;
        // `nobody` writes its log there.
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).map_err(failed)?;
        let receiver = Namespace::new()?;
        receiver.run(|| {
            hosts::prepare()?;
            forward()?;
            tun::ip(&format!("link set lo up\naddress add {}/32 dev lo\n", Hosts::destination().ip()))
        })?;
        let (arguments, steps) = arguments(&plan, folder);
        let mut child = receiver.run(|| spawn(&arguments, folder))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = (input, output) else {
            return Err(EmulatorError::Mahimahi("its shells have no pipes".to_string()));
        };
        let mut shells = Shells {
            child,
            input: Some(input),
            folder: folder.to_path_buf(),
            plan,
            full_packet: scenario.full_packet(),
            flows: scenario.flows.len(),
        };
        let pids = tell_lines(output);
        let mut outside = receiver.again()?;
        for step in 0..steps {
            let inside = shells.enter(&pids)?;
            outside.run(route_to_sender)?;
            let last = step + 1 == steps;
            inside.run(|| {
                hosts::prepare()?;
                match last {
                    true => sender(),
                    false => forward(),
                }
            })?;
            if !last {
                let go = shells.input.as_mut().map_or(Ok(()), |input| input.write_all(b"\n"));
                go.map_err(|error| EmulatorError::Mahimahi(format!("its shells do not listen: {error}")))?;
            }
            outside = inside;
        }
        Ok((Hosts { sender: outside, receiver }, shells))
    }

    /// The namespace of the next shell's command.
    fn enter(&mut self, pids: &mpsc::Receiver<String>) -> Result<Namespace, EmulatorError> {
        let line = pids.recv_timeout(PATIENCE).map_err(|_| EmulatorError::Mahimahi(self.last_words()))?;
        let pid = line.trim().parse::<u32>();
        let pid = pid.map_err(|_| EmulatorError::Mahimahi(format!("its shells said {line:?}")))?;
        Namespace::of(pid)
    }

    /// Ends the shells after a run, when nobody sends any more; what was measured. `epoch` is when the run began.
    pub fn finish(
        mut self,
        hosts: &Hosts,
        epoch: Instant,
        warmup: Dur,
        duration: Dur,
    ) -> Result<Record, EmulatorError> {
        let arrived = self.drain(hosts)?;
        self.end();
        let told = File::open(self.folder.join("log"));
        let told = told.map_err(|error| EmulatorError::Mahimahi(format!("mm-link left no log: {error}")))?;
        let log =
            Log::read(BufReader::new(told)).map_err(|error| EmulatorError::Mahimahi(error.to_string()))?;
        let at = |time: Dur| real_ms(epoch + Duration::from_nanos(time.as_nanos()));
        // Nothing is inside any more, so that what left the link and did not arrive was lost behind it. When, no log says:
        // it has the same share of any time.
        let left = log.departed(0..u64::MAX);
        let lost = match self.plan.loss > 0.0 && left > 0 {
            true => left.saturating_sub(arrived) as f64 / left as f64,
            false => 0.0,
        };
        let measured = duration - warmup;
        Ok(Record { measured, ..self.record(&log, at(warmup)..at(duration), lost) })
    }

    /// Waits until nothing arrives any more; packets that have arrived in all.
    fn drain(&self, hosts: &Hosts) -> Result<u64, EmulatorError> {
        let deadline = Instant::now() + PATIENCE;
        let mut arrived = received(&hosts.receiver)?;
        loop {
            std::thread::sleep(Duration::from_millis(self.plan.delay_ms) + QUIET);
            let now = received(&hosts.receiver)?;
            if now == arrived || Instant::now() > deadline {
                return Ok(now);
            }
            arrived = now;
        }
    }

    /// All flows share one queue, whose log does not tell them apart: only a lone flow has figures of its own.
    fn record(&self, log: &Log, span: Range<u64>, lost_behind: f64) -> Record {
        let (settled, lost) = log.settled_and_lost(span.clone());
        let departed = log.departed(span.clone());
        let lost_behind = (departed as f64 * lost_behind).round() as u64;
        let lost = lost + lost_behind;
        let waits = log.waits(span.clone(), Dur::ZERO);
        let stats = LinkStats {
            utilization: log.utilization(span.clone()),
            loss_rate: (settled > 0).then(|| lost as f64 / settled as f64),
            queue_delay_mean: waits.mean(),
            queue_delay_p95: waits.quantile(0.95),
        };
        let mut flows = vec![FlowRecord::default(); self.flows];
        if let [flow] = &mut flows[..] {
            *flow = FlowRecord {
                entered_packets: settled,
                delivered_packets: departed.saturating_sub(lost_behind),
                delivered_bytes: log.departed_bytes(span.clone()),
                lost_packets: lost,
                one_way_delay: log.waits(span.clone(), Dur::from_millis(self.plan.delay_ms)),
            };
        }
        let possible_bytes = vec![log.possible_bytes(span, self.full_packet)];
        Record { flows, links: vec![stats], possible_bytes, ..Record::default() }
    }

    /// Closes the innermost one's input and waits for the outermost to end.
    fn end(&mut self) {
        self.input = None;
        let deadline = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(LOOK);
        }
        // It fails only on a child that was reaped before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Why it did not begin.
    fn last_words(&mut self) -> String {
        self.end();
        let said = std::fs::read_to_string(self.folder.join("errors")).unwrap_or_default();
        let line = said.lines().find(|line| !line.trim().is_empty());
        format!("its shells did not start: {}", line.unwrap_or("they said nothing"))
    }
}

impl Drop for Shells {
    fn drop(&mut self) {
        self.end();
    }
}

/// The whole command, and how many shells it makes.
fn arguments(plan: &Plan, folder: &Path) -> (Vec<String>, usize) {
    let file = |name: &str| folder.join(name).display().to_string();
    let mut shells = vec![vec!["mm-delay".to_string(), plan.delay_ms.to_string()]];
    if plan.loss > 0.0 {
        shells.push(vec!["mm-loss".to_string(), "uplink".to_string(), plan.loss.to_string()]);
    }
    shells.push(vec![
        "mm-link".to_string(),
        file("uplink"),
        file("downlink"),
        format!("--uplink-queue={}", plan.queue),
        format!("--uplink-queue-args={}", plan.queue_args),
        format!("--uplink-log={}", file("log")),
        "--".to_string(),
    ]);
    let steps = shells.len();
    let step = |last: bool| {
        let words: &[&str] = if last { &["sh", "-c", STAY] } else { &["sh", "-c", STEP, "sh"] };
        words.iter().map(|word| (*word).to_string())
    };
    let numbered = shells.into_iter().enumerate();
    (numbered.flat_map(|(number, shell)| shell.into_iter().chain(step(number + 1 == steps))).collect(), steps)
}

fn spawn(arguments: &[String], folder: &Path) -> Result<Child, EmulatorError> {
    let errors = File::create(folder.join("errors"));
    let errors = errors.map_err(|error| EmulatorError::Mahimahi(format!("cannot write a log: {error}")))?;
    let mut command = Command::new(&arguments[0]);
    command.args(&arguments[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
    command.uid(NOBODY).gid(NOBODY).current_dir("/").spawn().map_err(|error| match error.kind() {
        // The latter where `nobody` may not look into a folder of the PATH.
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => EmulatorError::Mahimahi(
            "there is no program mm-delay that `nobody` can start; install Mahimahi (docs/mahimahi.md), or use \
             --emulator own"
                .to_string(),
        ),
        _ => EmulatorError::Mahimahi(format!("cannot start mm-delay: {error}")),
    })
}

/// Lines of a pipe, read on a thread so that they can be waited for.
fn tell_lines(pipe: impl io::Read + Send + 'static) -> mpsc::Receiver<String> {
    let (tell, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// The namespace of the calling thread forwards packets.
fn forward() -> Result<(), EmulatorError> {
    const FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";
    std::fs::write(FORWARD, "1").map_err(|error| EmulatorError::Parameter(FORWARD, error))
}

/// The namespace of the calling thread is the senders': they have their address, and send from it.
fn sender() -> Result<(), EmulatorError> {
    let own = *Hosts::source(0).ip();
    tun::ip(&format!(
        "address add {own}/32 dev lo\nroute replace {} dev ingress src {own}\n",
        Hosts::destination().ip()
    ))
}

/// The way to the senders leads into the next shell, whose device has its name and process.
fn route_to_sender() -> Result<(), EmulatorError> {
    let devices = std::fs::read_to_string("/proc/thread-self/net/dev").map_err(EmulatorError::Namespace)?;
    let names = devices.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim());
    let shell = |name: &&str| ["delay-", "loss-", "link-"].iter().any(|prefix| name.starts_with(prefix));
    let missing = || EmulatorError::Mahimahi("a shell made no device".to_string());
    let device = names.into_iter().find(shell).ok_or_else(missing)?;
    tun::ip(&format!("route replace {}/32 dev {device}\n", Hosts::source(0).ip()))
}

/// Packets that the outermost device received: behind its name, bytes and packets.
fn received(outermost: &Namespace) -> Result<u64, EmulatorError> {
    outermost.run(|| {
        let devices =
            std::fs::read_to_string("/proc/thread-self/net/dev").map_err(EmulatorError::Namespace)?;
        let columns = devices.lines().find_map(|line| line.trim_start().strip_prefix("delay-"));
        let packets = columns.and_then(|columns| columns.split_once(':')?.1.split_whitespace().nth(1));
        let missing = || EmulatorError::Mahimahi("mm-delay has gone".to_string());
        packets.and_then(|packets| packets.parse().ok()).ok_or_else(missing)
    })
}

/// A moment in ms of CLOCK_REALTIME, which the shells' log counts in.
fn real_ms(at: Instant) -> u64 {
    let (now, real) = (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
    let time = (real + at.saturating_duration_since(now)).saturating_sub(now.saturating_duration_since(at));
    time.as_millis() as u64
}
