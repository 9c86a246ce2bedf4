//! A path's flow that an agent governs, or the fallback, and that a meter watches.

use crate::meter::Meter;
use anole_datapath::wire::AlgorithmName;
use anole_datapath::{AckSample, InForce};
use anole_datapath_host::{FlowOptions, Host, HostFlow};
use anole_noq::{PathController, PathFlow, initial_window};
use noq_proto::congestion::{Controller, ControllerFactory};
use std::sync::Arc;
use std::time::Instant;

/// Builds the controller of one connection: a flow of `host` that asks the agent for `algorithm`.
#[derive(Debug)]
pub(crate) struct CcpFactory {
    pub(crate) host: Arc<Host>,
    pub(crate) algorithm: AlgorithmName,
    pub(crate) meter: Arc<Meter>,
}

impl ControllerFactory for CcpFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        // noq builds the controller before it tells anyone of the addresses.
        let spec = FlowOptions {
            algorithm: self.algorithm,
            mss: u32::from(current_mtu),
            init_cwnd: initial_window(current_mtu),
            local: None,
            remote: None,
        };
        let flow =
            CcpFlow { flow: self.host.open(now, &spec), _host: self.host.clone(), meter: self.meter.clone() };
        Box::new(PathController::new(flow, now, current_mtu))
    }
}

/// One path's flow. A clone is the same one for the agent: both get every command.
#[derive(Clone, Debug)]
struct CcpFlow {
    flow: HostFlow,
    // Keeps the receive thread running for as long as any connection lives.
    _host: Arc<Host>,
    meter: Arc<Meter>,
}

impl PathFlow for CcpFlow {
    fn on_ack(&mut self, now: Instant, sample: &AckSample) -> InForce {
        let control = self.flow.on_ack(now, sample);
        self.meter.note_flow(self.flow.sid(), self.flow.governor().into(), &self.flow.stats());
        control
    }

    fn set_mss(&mut self, mss: u32) {
        self.flow.set_mss(mss);
    }

    fn control(&self) -> InForce {
        self.flow.control()
    }

    fn migrated(&self) -> CcpFlow {
        self.clone()
    }
}
