//! TCP in this host's kernel, over eBPF: no socket, but a ring buffer and mailboxes (`ccp-kernel/bpf`).

use super::guard::Refusal;
use super::{Received, Sent, Transport};
use crate::plan::Plan;
use anole_bpf::{BpfDatapath, DatapathStats, Error, MAX_PREFIXES, Mode, Prefix, check_cgroup, top_cgroup};
use anole_model::Dur;
use anyhow::{Context, anyhow};
use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Which connections the datapath takes, beside those that ask for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    cgroups: Vec<(PathBuf, Option<String>)>,
    prefixes: Vec<(Prefix, Option<String>)>,
}

/// Why a second one is refused: only one of the two could be in force.
const TWICE: &str = " is given twice; give it once, with the algorithm that is meant";

impl Selection {
    /// Reads the values of --cgroup and --prefix.
    pub fn parse(cgroups: &[String], prefixes: &[String]) -> anyhow::Result<Selection> {
        let split = |flag: &str, text: &str| {
            let (what, name) = text.rsplit_once('=').map_or((text, None), |(what, name)| (what, Some(name)));
            if what.is_empty() || name == Some("") {
                return Err(anyhow!("{flag} {text}: expected a value, or VALUE=ALG"));
            }
            Ok((what.to_string(), name.map(str::to_string)))
        };
        let mut selection = Selection::default();
        for text in cgroups {
            let (path, name) = split("--cgroup", text)?;
            let path = PathBuf::from(path);
            if selection.cgroups.iter().any(|(other, _)| *other == path) {
                return Err(anyhow!("--cgroup {}{TWICE}", path.display()));
            }
            selection.cgroups.push((path, name));
        }
        if prefixes.len() > MAX_PREFIXES {
            return Err(anyhow!("--prefix: at most {MAX_PREFIXES}; these are {}", prefixes.len()));
        }
        for text in prefixes {
            let (prefix, name) = split("--prefix", text)?;
            let known = prefix.parse().context("--prefix")?;
            if selection.prefixes.iter().any(|(other, _)| *other == known) {
                return Err(anyhow!("--prefix {prefix}{TWICE}"));
            }
            selection.prefixes.push((known, name));
        }
        if selection.cgroups.is_empty() && !selection.prefixes.is_empty() {
            let top = top_cgroup();
            let top =
                top.context("--prefix: there is no cgroup2 file system (mount -t cgroup2 cgroup2 DIR)")?;
            selection.cgroups.push((top, None));
        }
        Ok(selection)
    }

    /// Whether there are such cgroups, and such algorithms for their flows, also in an agent's `plan`; before anything
    /// is registered.
    pub fn check(&self, plan: Option<&Plan>) -> anyhow::Result<()> {
        for (cgroup, _) in &self.cgroups {
            check_cgroup(cgroup).context("--cgroup")?;
        }
        let named = self.cgroups.iter().map(|(_, name)| ("--cgroup", name));
        let named = named.chain(self.prefixes.iter().map(|(_, name)| ("--prefix", name)));
        for (flag, name) in named.filter_map(|(flag, name)| Some((flag, name.as_deref()?))) {
            if let Some(plan) = plan {
                plan.choose(name).map_err(|(_, reason)| anyhow!("{flag}, algorithm {name}: {reason}"))?;
            }
            let names = anole_bpf::named(&algorithms());
            if !names.contains(&name) {
                return Err(Error::UnknownName(name.to_string(), names.join(", "))).context(flag);
            }
        }
        Ok(())
    }
}

/// All algorithms.
fn algorithms() -> Vec<&'static str> {
    anole_algorithms::all().iter().map(|spec| spec.name).collect()
}

/// The datapath in the kernel.
#[derive(Debug)]
pub struct Bpf(RefCell<BpfDatapath>);

impl Bpf {
    /// Registers the congestion control, or takes over what an earlier agent left in `directory`.
    pub fn open(directory: &Path) -> Result<Bpf, Error> {
        let datapath = BpfDatapath::open(directory, &algorithms(), Mode::Generated)?;
        let stats = datapath.stats();
        if datapath.is_adopted() {
            let DatapathStats { opened, fallbacks, unsent, .. } = stats;
            tracing::info!(opened, fallbacks, unsent, "anole_ccp was registered by an earlier agent");
        } else if datapath.is_pinned() {
            tracing::info!("anole_ccp is registered and stays so when the agent ends");
        } else {
            tracing::warn!(
                directory = %directory.display(),
                "no BPF file system there: anole_ccp is registered until the agent ends, and its flows will \
                 not come back to the next one; mount one (mount -t bpf bpf /sys/fs/bpf) or name it with --bpf-fs"
            );
        }
        Ok(Bpf(RefCell::new(datapath)))
    }

    /// As the transport's `receive`; the wait ends early once `other` can be read, too.
    pub fn receive_beside(
        &self,
        buffer: &mut [u8],
        wait: Dur,
        other: Option<BorrowedFd<'_>>,
    ) -> Received<()> {
        let wait = Duration::from_micros(wait.as_micros());
        match self.0.borrow_mut().receive_beside(buffer, wait, other) {
            None => Received::Nothing,
            Some(length) if length > buffer.len() => Received::Refused(Refusal::Oversized),
            Some(length) => Received::Datagram(length, ()),
        }
    }

    /// Hands a datagram of an agent to the kernel; for a flow that has ended meanwhile it is too late.
    pub fn take(&self, datagram: &[u8]) -> Result<(), Error> {
        match self.0.borrow_mut().send(datagram) {
            // Its end is in the ring buffer.
            Err(Error::UnknownFlow(_)) => Ok(()),
            taken => taken,
        }
    }

    /// The agent has gone, and the next one will be told READY.
    pub fn change_agent(&self) {
        self.0.borrow_mut().change_agent();
    }

    /// Takes the connections of a selection until the agent ends.
    pub fn select(&self, selection: &Selection) -> anyhow::Result<()> {
        let prefixes: Vec<_> =
            selection.prefixes.iter().map(|(prefix, name)| (*prefix, name.as_deref())).collect();
        for (cgroup, name) in &selection.cgroups {
            let selected = self.0.borrow_mut().select(cgroup, name.as_deref(), &prefixes);
            selected.context("--cgroup, --prefix")?;
            let (cgroup, algorithm) = (cgroup.display(), name.as_deref());
            tracing::info!(%cgroup, algorithm, prefixes = prefixes.len(), "new connections are taken");
        }
        Ok(())
    }
}

impl Transport for Bpf {
    type Addr = ();
    const NAME: &'static str = "bpf";
    const NETWORK_ORDER: bool = true;

    fn receive(&self, buffer: &mut [u8], wait: Dur) -> Received<()> {
        self.receive_beside(buffer, wait, None)
    }

    fn show((): &()) -> String {
        "kernel".to_string()
    }

    fn send(&self, message: &[u8], (): &()) -> Sent {
        match self.take(message) {
            Ok(()) => Sent::Whole,
            Err(error) => {
                tracing::warn!(%error, "the kernel's datapath refuses a message");
                Sent::Failed
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(cgroups: &[&str], prefixes: &[&str]) -> Result<Selection, String> {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        Selection::parse(&owned(cgroups), &owned(prefixes)).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn the_kernel_has_room_for_every_algorithms_name() {
        assert!(anole_algorithms::all().len() <= anole_bpf::MAX_NAMES);
    }

    #[test]
    fn a_selection_is_read() {
        let selection = parse(&["/a", "/b=cubic"], &["10.0.0.0/8=bbr", "::1"]).unwrap();
        assert_eq!(
            selection.cgroups,
            [("/a".into(), None), ("/b".into(), Some("cubic".to_string()))] as [(PathBuf, _); 2]
        );
        assert_eq!(selection.prefixes[0], ("10.0.0.0/8".parse().unwrap(), Some("bbr".to_string())));
        assert_eq!(selection.prefixes[1], ("::1/128".parse().unwrap(), None));
        assert_eq!(parse(&[], &[]), Ok(Selection::default()));
    }

    #[test]
    fn an_algorithm_without_a_name_in_the_kernel_is_refused_before_anything_is_registered() {
        let check = |name: &str| {
            let prefixes = vec![("::1".parse().unwrap(), Some(name.to_string()))];
            Selection { cgroups: Vec::new(), prefixes }.check(None).map_err(|error| format!("{error:#}"))
        };
        assert_eq!(check("cubic"), Ok(()));
        let refused = check("spine-cubic").unwrap_err();
        assert!(
            refused.starts_with("--prefix: \"spine-cubic\" has no name in the kernel; there are"),
            "{refused}"
        );
    }

    #[test]
    fn a_bad_one_is_refused_by_its_flag() {
        for (cgroups, prefixes, said) in [
            (&["=cubic"] as &[_], &[] as &[_], "--cgroup =cubic: expected"),
            (&["/a="], &[], "--cgroup /a=: expected"),
            (&[], &["10.0.0.0/8="], "--prefix 10.0.0.0/8=: expected"),
            (&["/a=bbr", "/a/"], &[], "--cgroup /a/ is given twice"),
            (&[], &["::1", "::1/128=bbr"], "--prefix ::1/128 is given twice"),
            (&[], &["ten/8"], "--prefix: \"ten/8\" is no prefix"),
            (&[], &["10.1.0.0/8=bbr"], "--prefix: \"10.1.0.0/8\" has bits set beyond its length"),
            (&[], &["::1"; MAX_PREFIXES + 6], "--prefix: at most 1024; these are 1030"),
        ] {
            let error = parse(cgroups, prefixes).unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
    }
}
