//! From the network's output to what a flow does.

use crate::observation::Observation;
use crate::schema::Action;

/// A decision about a flow.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Send at this rate, bytes/s.
    Rate(f64),
    /// Use this window, bytes.
    Cwnd(f64),
    /// Give these values to the parameters of the fold program, in the schema's order.
    Parameters(Vec<f64>),
}

impl Action {
    /// What `outputs` mean for a flow that measured `seen`, and the outputs as applied (within their
    /// bounds). `None` when an output is not a number, or there are too few.
    pub fn decode(&self, outputs: &[f32], seen: &Observation) -> Option<(Decision, Vec<f64>)> {
        let first = f64::from(*outputs.first()?);
        if outputs.iter().any(|output| output.is_nan()) {
            return None;
        }
        let (rate, cwnd) = (seen.rate.bytes_per_s(), seen.cwnd as f64);
        let step = |step: f64, a: f64| if a >= 0.0 { 1.0 + step * a } else { 1.0 / (1.0 - step * a) };
        Some(match *self {
            Action::RateExp { base, low, high } => {
                let a = first.clamp(low, high);
                (Decision::Rate(rate * base.powf(a)), vec![a])
            }
            Action::RateStep { step: size, low, high } => {
                let a = first.clamp(low, high);
                (Decision::Rate(rate * step(size, a)), vec![a])
            }
            Action::CwndExp { base, low, high } | Action::CubicCwndExp { base, low, high } => {
                let a = first.clamp(low, high);
                (Decision::Cwnd(cwnd * base.powf(a)), vec![a])
            }
            Action::CwndStep { step: size, low, high, whole_packets } => {
                let a = first.clamp(low, high);
                let next = cwnd * step(size, a);
                (Decision::Cwnd(if whole_packets { outward(next, a, seen.mss) } else { next }), vec![a])
            }
            Action::CwndTable { ref table } => {
                // A float that is no index saturates to one, and the last entry bounds it.
                let index = (first as usize).min(table.len().checked_sub(1)?);
                let entry = table[index];
                let cwnd = cwnd * entry.factor + entry.packets * f64::from(seen.mss);
                (Decision::Cwnd(cwnd), vec![index as f64])
            }
            Action::Parameters { ref parameter, .. } => {
                let outputs = outputs.get(..parameter.len())?;
                let applied: Vec<f64> = outputs.iter().map(|&a| f64::from(a).clamp(-1.0, 1.0)).collect();
                let values = applied.iter().zip(parameter);
                let values = values.map(|(a, range)| range.low + (range.high - range.low) * (a + 1.0) / 2.0);
                (Decision::Parameters(values.collect()), applied)
            }
        })
    }
}

/// A window in whole packets: one that grows is rounded up, one that shrinks down.
fn outward(bytes: f64, a: f64, mss: u32) -> f64 {
    let packets = bytes / f64::from(mss.max(1));
    // A window of whole packets that does not change stays, whatever the division leaves.
    let near = packets.round();
    let whole = match () {
        () if (packets - near).abs() < 1e-9 => near,
        () if a > 0.0 => packets.ceil(),
        () => packets.floor(),
    };
    whole * f64::from(mss)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_model::Rate;

    #[test]
    fn a_step_in_whole_packets_goes_at_least_one_packet_away() {
        let action = Action::CwndStep { step: 0.025, low: -1.0, high: 1.0, whole_packets: true };
        let after = |packets: u64, a: f32| {
            let seen = Observation { cwnd: packets * 1000, mss: 1000, ..Observation::quiet(Rate::ZERO) };
            match action.decode(&[a], &seen).unwrap().0 {
                Decision::Cwnd(bytes) => bytes / 1000.0,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!([after(10, 1.0), after(10, -1.0), after(10, 0.0)], [11.0, 9.0, 10.0]);
        assert_eq!([after(100, 1.0), after(100, -1.0), after(100, 0.01)], [103.0, 97.0, 101.0]);
    }
}
