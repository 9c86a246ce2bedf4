//! Links, routes and changes: the pure part of the emulator.

use anole_model::{Dur, Time};
use anole_sim::link::{Ecn, Link, LinkConfig, LinkStats, Packet, way_back};
use anole_sim::scenario::{Change, Scenario};
use anole_sim::{changes, link_configs};
use std::collections::VecDeque;

/// A link and the delay of its reverse direction.
#[derive(Clone, Debug)]
pub struct NetworkLink {
    /// The data direction.
    pub config: LinkConfig,
    /// Propagation delay of the other direction; `None` follows the data's, through every change.
    pub reverse_delay: Option<Dur>,
}

/// The way of one flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Indices of its links, in order.
    pub path: Vec<usize>,
    /// Propagation delay beside the links', each way.
    pub extra_delay: Dur,
}

/// What a data packet carries through the links.
#[derive(Clone, Debug)]
struct Carried<T> {
    hop: usize,
    entered: Time,
    data: T,
}

/// A packet that is due at the far end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due<T> {
    /// When.
    pub at: Time,
    /// Whose.
    pub flow: usize,
    /// When a data packet entered the network; `None` for the reverse direction.
    pub entered: Option<Time>,
    /// What.
    pub data: T,
}

/// A delay that keeps the order.
#[derive(Clone, Debug)]
struct Line<T> {
    waiting: VecDeque<Due<T>>,
    last: Time,
}

impl<T> Line<T> {
    fn new() -> Line<T> {
        Line { waiting: VecDeque::new(), last: Time::ZERO }
    }

    fn push(&mut self, mut due: Due<T>) {
        self.last = self.last.max(due.at);
        due.at = self.last;
        self.waiting.push_back(due);
    }

    fn next(&self) -> Option<Time> {
        self.waiting.front().map(|due| due.at)
    }
}

/// A network that carries payloads `T`.
#[derive(Clone, Debug)]
pub struct EmulatedNetwork<T> {
    links: Vec<Link<Carried<T>>>,
    reverse_delays: Vec<Option<Dur>>,
    routes: Vec<Route>,
    /// In order of time, the next one first.
    changes: VecDeque<Change>,
    /// Per flow: data behind its last link, and the reverse direction.
    lines: Vec<[Line<T>; 2]>,
}

impl<T> EmulatedNetwork<T> {
    /// An idle network. Routes and changes name links by index, and have to name existing ones;
    /// `changes` have to be in order of time, as a checked scenario gives them.
    pub fn new(links: Vec<NetworkLink>, routes: Vec<Route>, changes: Vec<Change>) -> EmulatedNetwork<T> {
        let exists = |index: usize| index < links.len();
        assert!(routes.iter().all(|route| !route.path.is_empty() && route.path.iter().all(|&i| exists(i))));
        assert!(changes.iter().all(|change| exists(change.link)));
        assert!(changes.is_sorted_by_key(|change| change.at));
        EmulatedNetwork {
            reverse_delays: links.iter().map(|link| link.reverse_delay).collect(),
            links: links.into_iter().map(|link| Link::new(link.config)).collect(),
            lines: routes.iter().map(|_| [Line::new(), Line::new()]).collect(),
            routes,
            changes: changes.into(),
        }
    }

    /// The links of a scenario, idle, with what is random in them drawn from `seed`.
    pub fn of(scenario: &Scenario, seed: u64) -> EmulatedNetwork<T> {
        let links = link_configs(scenario, seed).into_iter().zip(&scenario.links);
        let links = links.map(|(config, spec)| NetworkLink { config, reverse_delay: spec.reverse_delay });
        let flows = scenario.flows.iter();
        let routes = flows.map(|flow| Route { path: flow.path.clone(), extra_delay: flow.extra_delay });
        EmulatedNetwork::new(links.collect(), routes.collect(), changes(scenario, seed))
    }

    /// Number of flows.
    pub fn flows(&self) -> usize {
        self.routes.len()
    }

    /// A data packet of `size` bytes on the wire enters.
    pub fn offer(&mut self, now: Time, flow: usize, size: u32, data: T) {
        self.advance(now);
        let packet = Packet {
            size,
            flow: flow as u32,
            ecn: Ecn::NotCapable,
            data: Carried { hop: 0, entered: now, data },
        };
        // A refused packet is counted by its link.
        let _accepted = self.links[self.routes[flow].path[0]].offer(now, packet);
    }

    /// A packet of `size` bytes of the reverse direction enters: delay, and whatever the links do to it.
    pub fn offer_reverse(&mut self, now: Time, flow: usize, size: u32, data: T) {
        self.advance(now);
        let route = &self.routes[flow];
        if let Some(way) = way_back(&mut self.links, &self.reverse_delays, &route.path, now, size) {
            let at = now + route.extra_delay + way;
            self.lines[flow][1].push(Due { at, flow, entered: None, data });
        }
    }

    /// A packet that is due, each at its own time; to be called until `None`.
    pub fn pop(&mut self, now: Time) -> Option<Due<T>> {
        self.advance(now);
        let line = self
            .lines
            .iter_mut()
            .flatten()
            .filter(|line| line.next().is_some_and(|at| at <= now))
            .min_by_key(|line| line.next())?;
        line.waiting.pop_front()
    }

    /// When something happens next, if anything does.
    pub fn next_event(&self) -> Option<Time> {
        let links = self.links.iter().filter_map(Link::next_event);
        let lines = self.lines.iter().flatten().filter_map(Line::next);
        links.chain(lines).chain(self.changes.front().map(|change| change.at)).min()
    }

    /// Data packets inside.
    pub fn data_inside(&self) -> u64 {
        let links: u64 = self.links.iter().map(Link::packets_inside).sum();
        links + self.lines.iter().map(|lines| lines[0].waiting.len() as u64).sum::<u64>()
    }

    /// Packets of a flow that were lost on its way.
    pub fn lost_of(&self, flow: usize) -> u64 {
        self.links.iter().map(|link| link.lost_of(flow as u32)).sum()
    }

    /// What happened on each link since the last reset.
    pub fn link_stats(&mut self, now: Time) -> Vec<LinkStats> {
        self.advance(now);
        self.links.iter_mut().map(|link| link.stats(now)).collect()
    }

    /// Bytes that each link could have carried since the last reset.
    pub fn possible_bytes(&mut self, now: Time) -> Vec<f64> {
        self.advance(now);
        self.links.iter().map(|link| link.offered_bytes(now)).collect()
    }

    /// Forgets what happened on the links so far.
    pub fn reset_stats(&mut self, now: Time) {
        self.advance(now);
        for link in &mut self.links {
            link.reset_stats(now);
        }
    }

    /// Lets everything that is due on the links happen, in order of time, so that a link sees the
    /// packets of others in the order in which they come.
    fn advance(&mut self, now: Time) {
        loop {
            let next =
                self.links.iter().enumerate().filter_map(|(i, link)| Some((link.next_event()?, i))).min();
            let change = self.changes.front().map(|change| change.at);
            match next {
                Some((at, index)) if at <= now && change.is_none_or(|change| at <= change) => {
                    while let Some((at, packet)) = self.links[index].pop(at) {
                        self.forward(at, packet);
                    }
                }
                _ if change.is_some_and(|at| at <= now) => {
                    if let Some(change) = self.changes.pop_front() {
                        change.change.apply(&mut self.links[change.link], change.at);
                    }
                }
                _ => return,
            }
        }
    }

    fn forward(&mut self, at: Time, mut packet: Packet<Carried<T>>) {
        let flow = packet.flow as usize;
        let route = &self.routes[flow];
        packet.data.hop += 1;
        match route.path.get(packet.data.hop) {
            Some(&link) => {
                let _accepted = self.links[link].offer(at, packet);
            }
            None => {
                let Carried { entered, data, .. } = packet.data;
                let due = Due { at: at + route.extra_delay, flow, entered: Some(entered), data };
                self.lines[flow][0].push(due);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_model::Rate;
    use anole_sim::link::{Aggregation, Capacity, Impairments, QueueKind};
    use anole_sim::scenario::LinkChange;
    use proptest::prelude::*;

    fn link(mbps: f64, delay_ms: u64, buffer_bytes: u64, random_loss: f64) -> NetworkLink {
        NetworkLink {
            config: LinkConfig {
                capacity: Capacity::Fixed(Rate::from_mbps(mbps)),
                delay: Dur::from_millis(delay_ms),
                buffer_bytes,
                random_loss,
                queue: QueueKind::DropTail,
                aggregation: Aggregation::default(),
                impairments: Impairments::default(),
                cross: Vec::new(),
                full_packet: 1500,
                seed: 1,
            },
            reverse_delay: None,
        }
    }

    #[test]
    fn times_add_up() {
        let route = Route { path: vec![0, 1], extra_delay: Dur::from_millis(3) };
        let mut network: EmulatedNetwork<u8> = EmulatedNetwork::new(
            vec![link(12.0, 10, 9000, 0.0), link(12.0, 5, 9000, 0.0)],
            vec![route],
            vec![],
        );
        network.offer(Time::ZERO, 0, 1500, 7);
        network.offer_reverse(Time::ZERO, 0, 52, 9);
        // 1500 bytes at 12 Mbps take 1 ms on each link.
        let end = Time::from_secs_f64(1.0);
        let back = network.pop(end).unwrap();
        assert_eq!((back.at, back.data, back.entered), (Time::from_micros(18_000), 9, None));
        let there = network.pop(end).unwrap();
        assert_eq!((there.at, there.data, there.entered), (Time::from_micros(20_000), 7, Some(Time::ZERO)));
        assert_eq!(network.pop(end), None);
        assert_eq!(network.next_event(), None);
    }

    #[test]
    fn both_directions_aggregate() {
        let burst = Some((Dur::from_millis(4), Dur::from_millis(4)));
        let mut link = link(12.0, 10, 9000, 0.0);
        link.config.aggregation = Aggregation { data: burst, acks: burst };
        let route = Route { path: vec![0], extra_delay: Dur::ZERO };
        let mut network: EmulatedNetwork<u8> = EmulatedNetwork::new(vec![link], vec![route], vec![]);
        for id in 0..2 {
            network.offer(Time::ZERO, 0, 1500, id);
            network.offer_reverse(Time::from_micros(1 + 100 * u64::from(id)), 0, 52, 10 + id);
        }
        let due = std::iter::from_fn(|| network.pop(Time::from_secs_f64(1.0)));
        let due: Vec<(u64, u8)> = due.map(|due| (due.at.as_micros(), due.data)).collect();
        assert_eq!(due, [(14_001, 10), (14_001, 11), (15_000, 0), (15_000, 1)]);
    }

    #[test]
    fn changes_take_effect_at_their_time() {
        let change = Change {
            at: Time::from_micros(1500),
            link: 0,
            change: LinkChange { one_way_delay: Some(Dur::from_millis(20)), ..LinkChange::default() },
        };
        let route = Route { path: vec![0], extra_delay: Dur::ZERO };
        let mut network: EmulatedNetwork<u8> =
            EmulatedNetwork::new(vec![link(12.0, 10, 9000, 0.0)], vec![route], vec![change]);
        for id in 0..2 {
            network.offer(Time::ZERO, 0, 1500, id);
        }
        let end = Time::from_secs_f64(1.0);
        assert_eq!(network.pop(end).unwrap().at, Time::from_micros(11_000));
        assert_eq!(network.pop(end).unwrap().at, Time::from_micros(22_000));
        network.offer_reverse(end, 0, 52, 3);
        assert_eq!(network.next_event(), Some(end + Dur::from_millis(20)));
    }

    #[test]
    fn a_change_that_is_due_takes_effect_before_an_ack_sets_out() {
        let change = LinkChange { one_way_delay: Some(Dur::from_millis(20)), ..LinkChange::default() };
        let change = Change { at: Time::from_micros(1500), link: 0, change };
        let route = Route { path: vec![0], extra_delay: Dur::ZERO };
        let mut network: EmulatedNetwork<u8> =
            EmulatedNetwork::new(vec![link(12.0, 10, 9000, 0.0)], vec![route], vec![change]);
        let now = Time::from_micros(5000);
        network.offer_reverse(now, 0, 52, 3);
        assert_eq!(network.next_event(), Some(now + Dur::from_millis(20)));
    }

    proptest! {
        // Offered = delivered + lost + inside, in order per flow, however late the pops.
        #[test]
        fn nothing_is_made_or_forgotten(
            gaps_us in proptest::collection::vec((0u64..2000, 0usize..2), 1..300), loss in 0.0f64..0.2
        ) {
            let routes = vec![
                Route { path: vec![0, 1], extra_delay: Dur::ZERO },
                Route { path: vec![1], extra_delay: Dur::from_millis(1) },
            ];
            let mut network: EmulatedNetwork<usize> =
                EmulatedNetwork::new(vec![link(12.0, 2, 6000, loss), link(10.0, 1, 6000, 0.0)], routes, vec![]);
            let mut now = Time::ZERO;
            let mut last = [None, None];
            let mut delivered = 0;
            for (id, &(gap, flow)) in gaps_us.iter().enumerate() {
                now += Dur::from_micros(gap);
                while let Some(due) = network.pop(now) {
                    prop_assert!(due.at <= now && due.entered.unwrap() < due.at);
                    prop_assert!(last[due.flow] < Some(due.data));
                    last[due.flow] = Some(due.data);
                    delivered += 1;
                }
                network.offer(now, flow, 1500, id);
                let lost = network.lost_of(0) + network.lost_of(1);
                prop_assert_eq!(id as u64 + 1, delivered + lost + network.data_inside());
            }
        }
    }
}
