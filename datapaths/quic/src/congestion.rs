//! Which congestion control a connection gets.

use crate::ccp::CcpFactory;
use crate::meter::{Meter, MeteredFactory};
use anole_datapath::wire::AlgorithmName;
use anole_datapath_host::Host;
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
        let inner: Arc<dyn ControllerFactory + Send + Sync> = match self {
            CongestionControl::AnoleCcp { host, algorithm } => {
                Arc::new(CcpFactory { host: host.clone(), algorithm: *algorithm, meter: meter.clone() })
            }
            CongestionControl::Cubic => Arc::new(CubicConfig::default()),
            CongestionControl::Bbr => Arc::new(Bbr3Config::default()),
            CongestionControl::NewReno => Arc::new(NewRenoConfig::default()),
        };
        Arc::new(MeteredFactory { inner, meter: meter.clone() })
    }
}
