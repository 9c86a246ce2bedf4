//! Check: the rate decided on is applied until the last packet of a drain has told whether it helped.
//!
//! A queue that is still long is drained again; drains without effect cost the model its trust ([`super::trust`]).

use super::drain::{Drain, Reason};
use super::{Anole, MonitorInterval};
use anole_model::Time;
use anole_programs::Commands;

/// Drains in a row before the rate is probed all the same.
const MAX_REPEATS: u32 = 5;

impl Anole {
    /// The last packet of a drain has told what came of it.
    pub(super) fn on_checked(
        &mut self,
        now: Time,
        drain: Drain,
        window: &MonitorInterval,
        out: &mut Commands,
    ) {
        let after = window.rtt.map_or(window.late_rtt, |(_, min)| min.min(window.late_rtt));
        if drain.reason == Reason::Confirm {
            // Nobody else's queue is left by a tenth of the rate.
            match self.path.share.is_alone() {
                true => self.path.reset_min_rtt(now, after),
                false => self.path.confirm_min_rtt(now, after),
            }
            self.path.own_loss.prove(now, self.rate);
        }
        match self.drain_due(now, after) {
            Some((Reason::Queue, share)) if drain.repeated < MAX_REPEATS => {
                // Where an overload goes on, its drain tells the rate once more.
                let reason = if drain.reason == Reason::Overload { Reason::Overload } else { Reason::Queue };
                let in_vain = self.effect(&drain, after).is_some_and(|effect| effect < 1.0);
                let again =
                    Drain { reason, before: after, repeated: drain.repeated + 1, in_vain, from: drain.from };
                self.drain(again, share, out);
            }
            _ => self.enter_probing(out),
        }
    }
}
