//! Which congestion control a connection gets.

use crate::ccp::CcpFactory;
use crate::meter::{Meter, MeteredFactory};
use anole::{Governor, InProcess, InProcessFlow};
use anole_datapath::wire::AlgorithmName;
use anole_datapath_host::Host;
use anole_transfer::GovernedBy;
use noq_proto::congestion::{Bbr3Config, ControllerFactory, CubicConfig, NewRenoConfig};
use std::sync::Arc;

/// A congestion control.
#[derive(Clone, Debug)]
pub enum CongestionControl {
    /// Ours: the agent behind `host` with `algorithm`, or the fallback.
    AnoleCcp {
        /// The process's connection to the agent.
        host: Arc<Host>,
        /// The algorithm asked of the agent.
        algorithm: AlgorithmName,
    },
    /// Ours without an agent: algorithm and policies in this process.
    InProcess(InProcess),
    /// The stack's own CUBIC.
    Cubic,
    /// The stack's own BBRv3.
    Bbr,
    /// The stack's own NewReno.
    NewReno,
}

impl CongestionControl {
    /// A factory for one connection, counting into `meter`.
    pub(crate) fn factory(&self, meter: &Arc<Meter>) -> Arc<dyn ControllerFactory + Send + Sync> {
        Arc::new(MeteredFactory { inner: self.unmetered(meter), meter: meter.clone() })
    }

    /// The same, telling `meter` who governs and nothing else.
    pub(crate) fn unmetered(&self, meter: &Arc<Meter>) -> Arc<dyn ControllerFactory + Send + Sync> {
        match self {
            CongestionControl::AnoleCcp { host, algorithm } => {
                Arc::new(CcpFactory { host: host.clone(), algorithm: *algorithm, meter: meter.clone() })
            }
            CongestionControl::InProcess(governed_by) => {
                let meter = meter.clone();
                anole::noq::watched(governed_by.clone(), move |flow: &InProcessFlow| {
                    let governor = match flow.governor() {
                        Governor::Agent => GovernedBy::InProcess,
                        Governor::Fallback => GovernedBy::Fallback,
                    };
                    meter.note_flow(0, governor, &flow.stats());
                })
            }
            CongestionControl::Cubic => Arc::new(CubicConfig::default()),
            CongestionControl::Bbr => Arc::new(Bbr3Config::default()),
            CongestionControl::NewReno => Arc::new(NewRenoConfig::default()),
        }
    }
}
