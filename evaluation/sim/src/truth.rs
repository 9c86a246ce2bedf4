//! What must hold of any run, whatever its algorithms do: a result that breaks it is the simulator's mistake.

use crate::result::{FlowResult, RunResult};
use crate::scenario::Scenario;
use anole_model::Dur;

/// Shares may be above 1 by this much: the time that a packet takes is in whole nanoseconds.
const SLACK: f64 = 0.01;

/// The first law that a run of this scenario breaks.
///
/// - No link carries more than it can.
/// - No flow gets more than its path can carry while it is active, where that is all its life.
/// - No packet is faster than propagation.
/// - Payload is no more than what was on the wire, and rates of loss and Jain's index are shares.
pub fn broken(scenario: &Scenario, run: &RunResult) -> Option<String> {
    let too_busy =
        |link: &&crate::result::LinkResult| link.utilization.is_some_and(|used| used > 1.0 + SLACK);
    if let Some(link) = run.links.iter().find(too_busy) {
        return Some(format!("link {} carried {:?} of what it can", link.name, link.utilization));
    }
    let warmup_s = scenario.warmup.as_secs_f64();
    let is_share = |value: Option<f64>| value.is_none_or(|value| (0.0..=1.0 + 1e-9).contains(&value));
    if !is_share(run.jain_index) {
        return Some(format!("Jain's index is {:?}", run.jain_index));
    }
    run.flows.iter().enumerate().find_map(|(number, flow)| {
        let least = propagation(scenario, number).as_millis_f64();
        let of_flow = |what: String| Some(format!("flow {}: {what}", number + 1));
        // A packet may be sent at the very moment of the start.
        let packet_mbps = f64::from(scenario.full_packet()) * 8.0 / 1e6 / flow.active_s;
        let rates = flow.throughput_mbps.zip(flow.optimal_mbps).filter(|_| flow.start_s >= warmup_s);
        if let Some((got, mbps)) = rates.filter(|(got, mbps)| *got > (1.0 + SLACK) * mbps + packet_mbps) {
            return of_flow(format!("got {got} Mbps of the {mbps} that its path can carry"));
        }
        match flow {
            FlowResult { owd_mean_ms: Some(ms), .. } if *ms < least => {
                of_flow(format!("a mean one-way delay of {ms} ms, where propagation takes {least} ms"))
            }
            FlowResult { goodput_mbps: Some(payload), throughput_mbps: Some(wire), .. } if payload > wire => {
                of_flow(format!("{payload} Mbps of payload in {wire} Mbps"))
            }
            FlowResult { loss_rate, retransmit_rate, .. }
                if !is_share(*loss_rate) || !is_share(*retransmit_rate) =>
            {
                of_flow(format!("lost {loss_rate:?}, sent again {retransmit_rate:?}"))
            }
            _ => None,
        }
    })
}

/// The shortest propagation delay that a flow's path has at any time.
fn propagation(scenario: &Scenario, flow: usize) -> Dur {
    let flow = &scenario.flows[flow];
    let of_link = |&link: &usize| {
        let fixed = scenario.changes.iter().filter(|change| change.link == link);
        let fixed = fixed.filter_map(|change| change.change.one_way_delay);
        let random = scenario.random_changes.iter().filter(|change| change.link == link);
        let random = random.filter_map(|change| Some(Dur::from_secs_f64(change.one_way_delay_ms?.0 / 1e3)));
        fixed.chain(random).fold(scenario.links[link].one_way_delay, Dur::min)
    };
    flow.path.iter().map(of_link).fold(flow.extra_delay, |sum, delay| sum + delay)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AgentScript;
    use crate::plan::{Choice, plan};
    use anole_algorithms::learned::{Policies, Shipped};
    use std::sync::Arc;

    #[test]
    fn a_run_keeps_them_and_a_changed_one_does_not() {
        let text = crate::scenario::shipped("responsiveness").unwrap();
        let set = ["duration_s=20".to_string()];
        let scenario = Scenario::parse(text, "x", &set, &mut |_| Err(String::new())).unwrap();
        let policies: Arc<dyn Policies> = Arc::new(Shipped);
        let choice = Choice { alg: Some("cubic".to_string()), ..Choice::default() };
        let plans = plan(&scenario, &choice, &policies, 1).unwrap();
        let run = crate::run(&scenario, plans, 1, AgentScript::default(), &mut |_| ());
        assert_eq!(broken(&scenario, &run), None);
        let changed = |change: fn(&mut RunResult)| {
            let mut run = run.clone();
            change(&mut run);
            broken(&scenario, &run).unwrap_or_default()
        };
        assert!(changed(|run| run.links[0].utilization = Some(1.2)).contains("carried"));
        assert!(changed(|run| run.flows[0].optimal_mbps = Some(1.0)).contains("that its path can carry"));
        assert!(changed(|run| run.flows[0].owd_mean_ms = Some(9.0)).contains("propagation takes 10"));
        assert!(changed(|run| run.flows[0].goodput_mbps = Some(1e6)).contains("of payload"));
        assert!(changed(|run| run.flows[0].loss_rate = Some(1.5)).contains("lost"));
        assert!(changed(|run| run.jain_index = Some(1.1)).contains("Jain"));
    }
}
