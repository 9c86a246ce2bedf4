//! The command line.

use anole_inference::Backend;
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The anole-ccp agent: congestion control for the flows of CCP datapaths.
#[derive(Debug, Parser)]
#[command(name = "anole-ccp", args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// What to do instead of running the agent.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// TOML file with the same settings (names with _ for -, parameters in a table named param); what is
    /// given on the command line comes first.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Stops when standard input ends: given a pipe, the agent does not outlive who started it, however that
    /// ends
    #[arg(long)]
    pub until_stdin_ends: bool,
    /// The settings.
    #[command(flatten)]
    pub options: Options,
}

/// What to do instead of running the agent.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Lists the algorithms: name, kind, fold programs, parameters, source.
    Algs {
        /// As one JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Shows the running agent's flows: peer, algorithm, who governs, rate, round-trip time, loss.
    Status {
        /// How its datapaths reach the agent that is asked [default: unix]
        #[arg(long, value_enum)]
        ipc: Option<IpcKind>,
        /// Its Unix socket [default: as for the agent]
        #[arg(long, value_name = "PATH")]
        socket: Option<PathBuf>,
        /// Asks the agent that runs with --switch
        #[arg(long, value_enum, conflicts_with_all = ["ipc", "socket"])]
        switch: Option<SwitchKind>,
        /// As one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Tells the running agent what a flow's application prefers from now on.
    Prefer {
        /// The flow's id, as `status` shows it.
        flow: u32,
        /// default, th-1 or th-2 (throughput), la-1 or la-2 (low delay).
        preference: anole_algorithms::Preference,
        /// Its datapath, as `status` shows it, where flows of several have this id.
        datapath: Option<String>,
        /// How its datapaths reach the agent that is told [default: unix]
        #[arg(long, value_enum)]
        ipc: Option<IpcKind>,
        /// Its Unix socket [default: as for the agent]
        #[arg(long, value_name = "PATH")]
        socket: Option<PathBuf>,
    },
    /// Lends the TCP of this host's kernel (eBPF, as --ipc bpf) to another agent at a Unix socket, such as
    /// an algorithm in Python (anole_ccp.serve): it sees one more datapath. Needs root; the agent does not.
    Relay(RelayOptions),
    /// Checks a fold program: compiles it, measures it against the limits, finds the pitfalls.
    Check {
        /// The program.
        #[arg(value_name = "FILE.ccp")]
        file: PathBuf,
    },
}

/// Settings of the relay.
#[derive(Clone, Debug, Default, Args)]
pub struct RelayOptions {
    /// The other agent's Unix socket, which has to be there [default: as for the agent]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// BPF file system where the datapath is kept [default: /sys/fs/bpf]
    #[arg(long, value_name = "DIR")]
    pub bpf_fs: Option<PathBuf>,
    /// Takes the connections of this cgroup (version 2) and of those below it; may be repeated [default with --prefix:
    /// all of the host]
    #[arg(long, value_name = "DIR")]
    pub cgroup: Vec<String>,
    /// Takes connections to these remote addresses, such as 10.0.0.0/8 or 2001:db8::/32; may be repeated
    #[arg(long, value_name = "PREFIX")]
    pub prefix: Vec<String>,
}

/// Settings of a run; the same in the file and on the command line.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// How datapaths are reached [default: unix]
    #[arg(long, value_enum)]
    pub ipc: Option<IpcKind>,
    /// Serves no datapath: new TCP connections of any program are switched among the operating system's own algorithms
    /// while they run, by --alg antelope or rein; needs root or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN
    #[arg(long, value_enum)]
    pub switch: Option<SwitchKind>,
    /// Algorithm of flows that ask for none, or for one that does not exist; of all with --force-alg [default: anole]
    #[arg(long, value_name = "NAME")]
    pub alg: Option<String>,
    /// Runs --alg for every flow, whatever its datapath asks for: the CCP project's kernel module asks for "reno"
    /// unless it is told otherwise
    #[arg(long)]
    pub force_alg: bool,
    /// Rule-based candidate of that algorithm, if it has one
    #[arg(long, value_name = "NAME")]
    pub classic: Option<String>,
    /// Policy of that algorithm, if it takes one: a NAME, a policy file (its name contains a / or ends in
    /// .safetensors; .json for the models of antelope), none, or fault:KIND (agent/README.md)
    #[arg(long, value_name = "NAME|FILE")]
    pub policy: Option<String>,
    /// What runs trained policies [default: embedded]
    #[arg(long, value_enum)]
    pub backend: Option<Backend>,
    /// libanole_policy_torch.so for --backend torch; otherwise $ANOLE_TORCH_LIBRARY, the folder of this
    /// program, policy-server/build in its tree, or a system folder
    #[arg(long, value_name = "FILE")]
    pub torch_library: Option<PathBuf>,
    /// Socket of anole-policy-server, for --backend server
    #[arg(long, value_name = "PATH")]
    pub policy_server: Option<PathBuf>,
    /// Path of the agent's Unix socket, mode 0600 [default: /run/anole-ccp/agent.sock for root,
    /// $XDG_RUNTIME_DIR/anole-ccp.sock for others, /tmp/anole-ccp-UID/agent.sock where that is not set]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// BPF file system where --ipc bpf keeps the datapath, so that it and its flows outlive the agent
    /// [default: /sys/fs/bpf]
    #[arg(long, value_name = "DIR")]
    pub bpf_fs: Option<PathBuf>,
    /// With --ipc bpf: takes the connections of this cgroup (version 2) and of those below it, by the agent's
    /// algorithm or the one given; may be repeated [default with --prefix: all of the host]. With --switch: the one
    /// DIR whose connections are switched [default: all of the host]
    #[arg(long, value_name = "DIR[=ALG]")]
    pub cgroup: Vec<String>,
    /// With --ipc bpf: takes connections to these remote addresses, such as 10.0.0.0/8 or 2001:db8::/32, the
    /// longest prefix first, by the cgroup's algorithm or the one given; may be repeated, 1024 times at most
    #[arg(long, value_name = "PREFIX[=ALG]")]
    pub prefix: Vec<String>,
    /// Changes a parameter of --alg (anole-ccp algs lists them); may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter)]
    #[serde(deserialize_with = "parameter_table")]
    pub param: Vec<(String, f64)>,
    /// Seed of all randomness in the algorithms [default: 1]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Form of the log on stderr [default: text]
    #[arg(long, value_enum)]
    pub log: Option<LogFormat>,
    /// Least severity that is logged [default: info]
    #[arg(long, value_enum)]
    pub log_level: Option<LogLevel>,
    /// Writes one JSON line per ended flow to this file, which is replaced
    #[arg(long, value_name = "FILE")]
    pub stats: Option<PathBuf>,
    /// Keeps, over restarts, which law served Antelope's flows to an address (/24): flows to it begin with that one. Without
    /// it the agent remembers for as long as it runs
    #[arg(long, value_name = "FILE")]
    pub antelope_prior: Option<PathBuf>,
    /// Writes one JSON line per data unit of Antelope to this file, which is replaced: training/antelope.py retrain learns
    /// from it
    #[arg(long, value_name = "FILE")]
    pub antelope_log: Option<PathBuf>,
}

/// How datapaths are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IpcKind {
    /// Unix datagrams, from other processes.
    Unix,
    /// Netlink, from a kernel module; needs root.
    Netlink,
    /// eBPF in the kernel; needs root or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN.
    Bpf,
}

/// Whose congestion control algorithms are switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SwitchKind {
    /// Linux's: those of net.ipv4.tcp_available_congestion_control.
    Linux,
}

/// Form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl From<LogLevel> for tracing::Level {
    fn from(level: LogLevel) -> tracing::Level {
        match level {
            LogLevel::Error => tracing::Level::ERROR,
            LogLevel::Warn => tracing::Level::WARN,
            LogLevel::Info => tracing::Level::INFO,
            LogLevel::Debug => tracing::Level::DEBUG,
            LogLevel::Trace => tracing::Level::TRACE,
        }
    }
}

fn parameter(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let value: f64 = value.trim().parse().map_err(|_| format!("\"{value}\" is not a number"))?;
    Ok((name.trim().to_string(), value))
}

fn parameter_table<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, f64)>, D::Error> {
    BTreeMap::<String, f64>::deserialize(deserializer).map(|table| table.into_iter().collect())
}

impl Options {
    /// These settings, and those of `other` where these say nothing.
    pub fn or(self, other: Options) -> Options {
        Options {
            ipc: self.ipc.or(other.ipc),
            switch: self.switch.or(other.switch),
            alg: self.alg.or(other.alg),
            force_alg: self.force_alg || other.force_alg,
            classic: self.classic.or(other.classic),
            policy: self.policy.or(other.policy),
            backend: self.backend.or(other.backend),
            torch_library: self.torch_library.or(other.torch_library),
            policy_server: self.policy_server.or(other.policy_server),
            socket: self.socket.or(other.socket),
            bpf_fs: self.bpf_fs.or(other.bpf_fs),
            cgroup: if self.cgroup.is_empty() { other.cgroup } else { self.cgroup },
            prefix: if self.prefix.is_empty() { other.prefix } else { self.prefix },
            // The last of two values for one name counts.
            param: other.param.into_iter().chain(self.param).collect(),
            seed: self.seed.or(other.seed),
            log: self.log.or(other.log),
            log_level: self.log_level.or(other.log_level),
            stats: self.stats.or(other.stats),
            antelope_prior: self.antelope_prior.or(other.antelope_prior),
            antelope_log: self.antelope_log.or(other.antelope_log),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_command_line_comes_before_the_file() {
        let file: Options =
            toml::from_str("alg = \"cubic\"\nseed = 4\nipc = \"unix\"\n[param]\na = 1\nb = 2.5\n").unwrap();
        let cli = Cli::parse_from(["anole-ccp", "--alg", "reno", "--param", "b=3"]);
        let both = cli.options.or(file);
        assert_eq!((both.alg.as_deref(), both.seed, both.ipc), (Some("reno"), Some(4), Some(IpcKind::Unix)));
        let params: BTreeMap<_, _> = both.param.into_iter().collect();
        assert_eq!(params, BTreeMap::from([("a".to_string(), 1.0), ("b".to_string(), 3.0)]));
    }

    #[test]
    fn the_example_file_is_good() {
        let example: Options = toml::from_str(include_str!("../example.toml")).unwrap();
        assert_eq!((example.alg.as_deref(), example.param.len()), (Some("cubic"), 1));
    }

    #[test]
    fn unknown_keys_are_refused_by_name() {
        let error = toml::from_str::<Options>("algo = \"cubic\"").unwrap_err().to_string();
        assert!(error.contains("algo") && error.contains("line 1"), "{error}");
    }
}
