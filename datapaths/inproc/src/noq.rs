//! A congestion controller for the QUIC stack [noq](https://docs.rs/noq).

use crate::{InProcess, InProcessFlow, Settings};
use anole_datapath::{AckSample, InForce};
use anole_model::{Dur, Time};
use anole_noq::{PathController, PathFlow, initial_window};
use noq_proto::congestion::{Controller, ControllerFactory};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// Anole with its defaults, for `TransportConfig::congestion_controller_factory`.
pub fn anole() -> Arc<Factory> {
    with(InProcess::new(Settings::default()).expect("the default settings are valid"))
}

/// Any algorithm, as [`Settings`] say.
pub fn with(governed_by: InProcess) -> Arc<Factory> {
    watched(governed_by, |_| ())
}

/// The same; `watch` sees the flow after each ACK, loss and timeout, for traces and metrics. It runs on the connection's
/// task.
pub fn watched(
    governed_by: InProcess,
    watch: impl Fn(&InProcessFlow) + Send + Sync + 'static,
) -> Arc<Factory> {
    Arc::new(Factory { governed_by, watch: Watch(Arc::new(watch)) })
}

/// Who is told of a flow.
#[derive(Clone)]
struct Watch(Arc<dyn Fn(&InProcessFlow) + Send + Sync>);

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

/// Makes the controllers of connections.
#[derive(Clone, Debug)]
pub struct Factory {
    governed_by: InProcess,
    watch: Watch,
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let (mss, init_cwnd) = (u32::from(current_mtu), initial_window(current_mtu));
        let flow = self.governed_by.start(Time::ZERO, mss, init_cwnd);
        let flow = OnClock { flow, epoch: now, watch: self.watch.clone() };
        Box::new(PathController::new(flow, now, current_mtu))
    }
}

/// A flow on the stack's clock.
#[derive(Debug)]
struct OnClock {
    flow: InProcessFlow,
    epoch: Instant,
    watch: Watch,
}

impl PathFlow for OnClock {
    fn on_ack(&mut self, now: Instant, sample: &AckSample) -> InForce {
        let nanos = now.saturating_duration_since(self.epoch).as_nanos();
        let since = Dur::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let control = self.flow.on_ack(Time::ZERO + since, sample);
        (self.watch.0)(&self.flow);
        control
    }

    fn set_mss(&mut self, mss: u32) {
        self.flow.set_mss(mss);
    }

    fn control(&self) -> InForce {
        self.flow.control()
    }

    fn migrated(&self) -> OnClock {
        OnClock { flow: self.flow.successor(), epoch: self.epoch, watch: self.watch.clone() }
    }
}
