//! Runs the agent until a signal.

use crate::adapter::Adapter;
use crate::cli::{IpcKind, LogFormat, LogLevel, Options, SwitchKind};
use crate::control::{self, ControlSocket};
use crate::ipc::bpf::{Bpf, Selection};
use crate::ipc::netlink::{self, Netlink};
use crate::ipc::socket_path::{self, SocketError, default_socket};
use crate::ipc::unix::Unix;
use crate::ipc::{Endpoint, Transport};
use crate::lines::Lines;
use crate::logging;
use crate::plan::{Plan, Wish};
use crate::prior::{Priors, Told};
use crate::records::Records;
use crate::shared::{AgentClock, Shared};
use crate::switch::{self, Followed, Wanted};
use anole_cli::Failure;
use anole_inference::{BackendSettings, Loader, Serving};
use anyhow::{Context, anyhow};
use portus::ipc::BackendBuilder;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The algorithm when none is named.
const DEFAULT_ALGORITHM: &str = "anole";
/// The seed when none is given: any fixed number makes two runs equal.
const DEFAULT_SEED: u64 = 1;
/// Why a socket is refused.
const UNIX_SOCKET: &str = "--socket goes with --ipc unix only";
/// Exit code when a second signal ends the agent at once.
const HURRIED_EXIT: i32 = 1;
/// Signals within this time are one: timeout(1) sends its own twice.
const HURRY: Duration = Duration::from_millis(500);

/// Reads a settings file.
pub fn read_config(path: &Path) -> Result<Options, Failure> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("--config {}: cannot read it", path.display()))
        .map_err(Failure::Usage)?;
    toml::from_str(&text).map_err(|error: toml::de::Error| {
        let before = text.as_bytes().iter().take(error.span().map_or(0, |span| span.start));
        let line = 1 + before.filter(|&&b| b == b'\n').count();
        let message = error.message().trim().replace('\n', "; ");
        Failure::Usage(anyhow!("--config {}:{line}: {message}", path.display()))
    })
}

/// Where datapaths are.
enum Place {
    Unix(PathBuf),
    Netlink,
    /// The BPF file system where the datapath lives on, and which connections it takes.
    Bpf(PathBuf, Selection),
    /// No datapath: the kernel's own algorithms, under the connections of these cgroups.
    Switch(Vec<String>),
}

impl Place {
    /// Where these settings say; flags that go with another place are refused.
    fn of(options: &Options) -> anyhow::Result<Place> {
        let place = match (options.switch, options.ipc.unwrap_or(IpcKind::Unix), &options.socket) {
            (Some(SwitchKind::Linux), ..) => Place::Switch(options.cgroup.clone()),
            (None, IpcKind::Unix, path) => Place::Unix(path.clone().unwrap_or_else(default_socket)),
            (None, IpcKind::Netlink | IpcKind::Bpf, Some(_)) => {
                return Err(anyhow!(UNIX_SOCKET));
            }
            (None, IpcKind::Netlink, None) => Place::Netlink,
            (None, IpcKind::Bpf, None) => {
                let selection = Selection::parse(&options.cgroup, &options.prefix)?;
                Place::Bpf(options.bpf_fs.clone().unwrap_or_else(anole_bpf::default_directory), selection)
            }
        };
        let (bpf, switch) = (matches!(place, Place::Bpf(..)), matches!(place, Place::Switch(_)));
        let refused = |flag: &str, why: &str| Err(anyhow!("{flag} {why}"));
        let of_datapaths = [
            ("--ipc", options.ipc.is_some()),
            ("--socket", options.socket.is_some()),
            ("--bpf-fs", options.bpf_fs.is_some()),
            ("--prefix", !options.prefix.is_empty()),
            ("--force-alg", options.force_alg),
            ("--classic", options.classic.is_some()),
            ("--backend", options.backend.is_some()),
            ("--torch-library", options.torch_library.is_some()),
            ("--policy-server", options.policy_server.is_some()),
        ];
        if let Some((flag, _)) = of_datapaths.into_iter().find(|(_, given)| switch && *given) {
            return refused(flag, "does not go with --switch linux, which has no datapath of CCP");
        }
        if !options.cgroup.is_empty() && !bpf && !switch {
            return refused("--cgroup", "goes with --ipc bpf or --switch linux only");
        }
        let of_bpf = [("--bpf-fs", options.bpf_fs.is_some()), ("--prefix", !options.prefix.is_empty())];
        match of_bpf.into_iter().find(|(_, given)| *given && !bpf) {
            Some((flag, _)) => refused(flag, "goes with --ipc bpf only"),
            None => Ok(place),
        }
    }
}

/// Runs the agent with these settings.
pub fn run(options: Options) -> Result<(), Failure> {
    let level = options.log_level.unwrap_or(LogLevel::Info);
    logging::start(options.log.unwrap_or(LogFormat::Text), level.into());
    let place = Place::of(&options).map_err(Failure::Usage)?;
    let wish = Wish {
        alg: options.alg.unwrap_or_else(|| DEFAULT_ALGORITHM.to_string()),
        force_alg: options.force_alg,
        classic: options.classic,
        policy: options.policy,
        params: options.param.into_iter().collect(),
        seed: options.seed.unwrap_or(DEFAULT_SEED),
    };
    let settings = BackendSettings {
        backend: options.backend,
        torch_library: options.torch_library,
        policy_server: options.policy_server,
    };
    let backend = settings.backend.unwrap_or_default();
    let loader = Loader::new(settings, Serving::Threaded).map_err(|error| Failure::Usage(error.into()))?;
    let plan = || Plan::new(anole_algorithms::all(), wish.clone(), Arc::new(loader));
    // A server is connected to, and a file of models read again, after privileges are dropped.
    let plan = match place {
        Place::Bpf(..) | Place::Switch(_) => {
            anole_bpf::with_privileges_kept(plan).context("privileges").map_err(Failure::Run)?
        }
        Place::Unix(_) | Place::Netlink => plan(),
    };
    let plan = plan.map_err(|error| Failure::Usage(error.into()))?;
    let begin = |place: &str, told: Told| {
        tracing::info!(
            version = anole_cli::VERSION,
            place,
            alg = wish.alg,
            force_alg = wish.force_alg,
            classic = wish.classic,
            policy = wish.policy,
            backend = backend.name(),
            params = ?wish.params,
            seed = wish.seed,
            "agent starts"
        );
        // After the socket, so that an agent that is refused leaves the files of the running one alone.
        open_records(&options.stats, &options.antelope_log, &options.antelope_prior, told)
    };
    let nobody: Told = Box::new(|_, _| ());
    let stop = stop_at_signals()?;
    match place {
        Place::Unix(path) => {
            let transport = Unix::bind(&path).map_err(|error| Failure::Usage(error.into()))?;
            let control =
                ControlSocket::beside(transport.place()).map_err(|error| Failure::Usage(error.into()))?;
            let records = begin(&path.display().to_string(), nobody)?;
            serve_until(transport, Some(&control), plan, records, stop)
        }
        Place::Netlink => {
            let control = host_control(Netlink::NAME)?;
            let transport = Netlink::open(control.is_some()).map_err(|error| Failure::Usage(error.into()))?;
            let records = begin(Netlink::NAME, nobody)?;
            netlink::warn_without_module();
            serve_until(transport, control.as_ref(), plan, records, stop)
        }
        Place::Bpf(directory, selection) => {
            selection.check(Some(&plan)).map_err(Failure::Usage)?;
            let control = host_control(Bpf::NAME)?;
            let transport = Bpf::open(&directory).context("--ipc bpf").map_err(Failure::Usage)?;
            transport.select(&selection).map_err(Failure::Usage)?;
            let records = begin(Bpf::NAME, nobody)?;
            anole_bpf::drop_privileges().context("privileges cannot be dropped").map_err(Failure::Run)?;
            serve_until(transport, control.as_ref(), plan, records, stop)
        }
        Place::Switch(cgroups) => {
            let wanted = Wanted::of(&plan, &cgroups).map_err(Failure::Usage)?;
            let control = host_control(switch::NAME)?;
            let usage = |error: anole_bpf::Error| Failure::Usage(anyhow!(error).context("--switch linux"));
            let mut kernel = wanted.open().map_err(usage)?;
            let beginnings = kernel.beginnings().map_err(usage)?;
            let told: Told = Box::new(move |peer, arm| {
                let told = match arm {
                    Some(arm) => beginnings.set(peer, arm),
                    None => beginnings.remove(peer),
                };
                if let Err(error) = told {
                    tracing::warn!(%error, "new connections do not begin with what is known of their peers");
                }
            });
            let records = begin(&control::flag(switch::NAME), told)?;
            wanted.log(wish.policy.as_deref());
            anole_bpf::drop_privileges().context("privileges cannot be dropped").map_err(Failure::Run)?;
            let shared = answering(control.as_ref())?;
            let records = begun(records)?;
            let records = Followed::new(plan, wanted, shared, records).serve(&mut kernel, &stop);
            ended(&records)
        }
    }
}

/// The control socket of the host's one agent of this kind. Without a folder for it the agent runs all the same.
pub fn host_control(ipc: &str) -> Result<Option<ControlSocket>, Failure> {
    let flag = control::flag(ipc);
    match ControlSocket::of_host(ipc) {
        Ok(control) => Ok(Some(control)),
        Err(SocketError::Taken { holder, .. }) => Err(Failure::Usage(anyhow!(
            "{flag}: another agent ({holder}) serves this host's kernel; stop it (anole-ccp status {flag} shows its flows)"
        ))),
        Err(error) => {
            tracing::warn!(%error, "there is no control socket: anole-ccp status cannot ask this agent");
            Ok(None)
        }
    }
}

/// Where the agent with these settings is asked.
pub fn control_path(ipc: Option<IpcKind>, socket: Option<PathBuf>) -> Result<PathBuf, Failure> {
    match (ipc.unwrap_or(IpcKind::Unix), socket) {
        (IpcKind::Unix, socket) => Ok(socket_path::control_of(&socket.unwrap_or_else(default_socket))),
        (IpcKind::Netlink, None) => Ok(socket_path::host_control(Netlink::NAME)),
        (IpcKind::Bpf, None) => Ok(socket_path::host_control(Bpf::NAME)),
        (IpcKind::Netlink | IpcKind::Bpf, Some(_)) => Err(Failure::Usage(anyhow!(UNIX_SOCKET))),
    }
}

/// The files of `--stats`, `--antelope-log` and `--antelope-prior`, with what is in them.
fn open_records(
    stats: &Option<PathBuf>,
    log: &Option<PathBuf>,
    prior: &Option<PathBuf>,
    told: Told,
) -> Result<Records, Failure> {
    let lines = |flag: &'static str, path: &Option<PathBuf>| match path {
        None => Ok(Lines::default()),
        Some(path) => Lines::open(flag, path)
            .with_context(|| format!("{flag} {}: cannot create it", path.display()))
            .map_err(Failure::Usage),
    };
    // First, for what lies there is kept, and locked: no other flag has it.
    let priors = Priors::open(prior.as_deref(), told).map_err(Failure::Usage)?;
    Ok(Records { flows: lines("--stats", stats)?, units: lines("--antelope-log", log)?, priors })
}

/// The agent serves from now on: the files that are replaced are empty.
fn begun(mut records: Records) -> Result<Records, Failure> {
    records.begin().map_err(Failure::Run)?;
    Ok(records)
}

/// True from the first signal on; one that comes [`HURRY`] later ends the agent at once. Before anybody can see that the
/// agent runs.
pub fn stop_at_signals() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let failed = |error: std::io::Error| {
        Failure::Run(anyhow!(error).context("the signal handlers cannot be installed"))
    };
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(failed)?;
    }
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let told = move || {
        let mut first = None;
        for _ in signals.forever() {
            if first.get_or_insert_with(Instant::now).elapsed() >= HURRY {
                signal_hook::low_level::exit(HURRIED_EXIT);
            }
        }
    };
    std::thread::Builder::new().name("signals".to_string()).spawn(told).map_err(failed)?;
    Ok(stop)
}

/// Runs portus over a transport until `stop` is set.
pub fn serve_until<T: Transport>(
    transport: T,
    control: Option<&ControlSocket>,
    plan: Plan,
    records: Records,
    stop: Arc<AtomicBool>,
) -> Result<(), Failure> {
    let running = Arc::new(AtomicBool::new(true));
    let (clock, shared) = (AgentClock::start(), answering(control)?);
    let records = Rc::new(RefCell::new(begun(records)?));
    let programs = plan.programs();
    let endpoint = Endpoint::new(transport, &programs, clock, shared.clone(), stop, Arc::clone(&running));
    let adapter = Adapter::new(plan, clock, shared.clone(), Rc::clone(&records));
    let served = portus::RunBuilder::new(BackendBuilder { sock: endpoint })
        .default_alg(adapter)
        .with_stop_handle(running)
        .run();
    if let Some(why) = shared.refusal() {
        return Err(Failure::Run(anyhow!(why)));
    }
    served.map_err(|error| Failure::Run(anyhow!("portus: {}", error.0)))?;
    ended(&records.borrow())
}

/// What a control socket's thread answers from.
fn answering(control: Option<&ControlSocket>) -> Result<Shared, Failure> {
    let shared = Shared::default();
    if let Some(control) = control {
        control.answer(&shared).context("the control socket's thread").map_err(Failure::Run)?;
    }
    Ok(shared)
}

/// The agent stops; what could not be written is a failure.
fn ended(records: &Records) -> Result<(), Failure> {
    match records.error() {
        Some(error) => Err(Failure::Run(anyhow!("{error}"))),
        None => {
            tracing::info!("agent stops");
            Ok(())
        }
    }
}
