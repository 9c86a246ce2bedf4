//! A congestion controller for the QUIC stack [noq](https://docs.rs/noq).

use crate::{InProcess, InProcessFlow, Settings};
use anole_datapath::{AckSample, InForce};
use anole_model::{Dur, Time};
use anole_noq::{PathController, PathFlow, initial_window};
use noq_proto::congestion::{Controller, ControllerFactory};
use std::sync::Arc;
use std::time::Instant;

/// Anole with its defaults, for `TransportConfig::congestion_controller_factory`.
pub fn anole() -> Arc<Factory> {
    with(InProcess::new(Settings::default()).expect("the default settings are valid"))
}

/// Any algorithm, as [`Settings`] say.
pub fn with(governed_by: InProcess) -> Arc<Factory> {
    Arc::new(Factory { governed_by })
}

/// Makes the controllers of connections.
#[derive(Clone, Debug)]
pub struct Factory {
    governed_by: InProcess,
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let (mss, init_cwnd) = (u32::from(current_mtu), initial_window(current_mtu));
        let flow = OnClock { flow: self.governed_by.start(Time::ZERO, mss, init_cwnd), epoch: now };
        Box::new(PathController::new(flow, now, current_mtu))
    }
}

/// A flow on the stack's clock.
#[derive(Debug)]
struct OnClock {
    flow: InProcessFlow,
    epoch: Instant,
}

impl PathFlow for OnClock {
    fn on_ack(&mut self, now: Instant, sample: &AckSample) -> InForce {
        let nanos = now.saturating_duration_since(self.epoch).as_nanos();
        let since = Dur::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.flow.on_ack(Time::ZERO + since, sample)
    }

    fn set_mss(&mut self, mss: u32) {
        self.flow.set_mss(mss);
    }

    fn control(&self) -> InForce {
        self.flow.control()
    }

    fn migrated(&self) -> OnClock {
        OnClock { flow: self.flow.successor(), epoch: self.epoch }
    }
}
