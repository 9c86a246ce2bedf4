//! TCP in this host's kernel, over eBPF: no socket, but a ring buffer and mailboxes (`ccp-kernel/bpf`).

use super::guard::Refusal;
use super::{Received, Sent, Transport};
use anole_bpf::{Datapath, Error, Mode, Stats};
use anole_model::Dur;
use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

/// The datapath in the kernel.
#[derive(Debug)]
pub struct Bpf(RefCell<Datapath>);

impl Bpf {
    /// Registers the congestion control, or takes over what an earlier agent left in `directory`.
    pub fn open(directory: &Path) -> Result<Bpf, Error> {
        let datapath = Datapath::open(directory, Mode::Generated)?;
        let stats = datapath.stats();
        if datapath.is_adopted() {
            let Stats { opened, fallbacks, unsent, .. } = stats;
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
}

impl Transport for Bpf {
    type Addr = ();
    const NAME: &'static str = "bpf";

    fn receive(&self, buffer: &mut [u8], wait: Dur) -> Received<()> {
        let wait = Duration::from_micros(wait.as_micros());
        match self.0.borrow_mut().receive(buffer, wait) {
            None => Received::Nothing,
            Some(length) if length > buffer.len() => Received::Refused(Refusal::Oversized),
            Some(length) => Received::Datagram(length, ()),
        }
    }

    fn show((): &()) -> String {
        "kernel".to_string()
    }

    fn send(&self, message: &[u8], (): &()) -> Sent {
        match self.0.borrow_mut().send(message) {
            // The flow has ended meanwhile; its end is in the ring buffer.
            Ok(()) | Err(Error::UnknownFlow(_)) => Sent::Whole,
            Err(error) => {
                tracing::warn!(%error, "the kernel's datapath refuses a message");
                Sent::Failed
            }
        }
    }
}
