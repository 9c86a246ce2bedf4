//! An indexed binary heap: every event source has one entry, whose time moves.
//!
//! The simulation has few sources (links, flows, the agent, the timetable) and many events, so keys are
//! changed in place instead of pushing one entry per packet. Ties go to the source with the smaller
//! number, which makes the order of events a function of the scenario alone.

use anole_model::Time;

/// Sources ordered by the time of their next event.
#[derive(Clone, Debug)]
pub(super) struct Heap {
    /// Heap order: (time, source).
    entries: Vec<(Time, u32)>,
    /// Where each source stands in `entries`.
    place: Vec<u32>,
}

impl Heap {
    /// `sources` sources, none of which has an event.
    pub fn new(sources: usize) -> Heap {
        let numbers = 0..sources as u32;
        Heap { entries: numbers.clone().map(|s| (Time::MAX, s)).collect(), place: numbers.collect() }
    }

    /// The earliest event; at [`Time::MAX`] when there is none.
    pub fn first(&self) -> (Time, usize) {
        self.entries.first().map_or((Time::MAX, 0), |&(at, source)| (at, source as usize))
    }

    /// Sets when a source has its next event.
    pub fn set(&mut self, source: usize, at: Option<Time>) {
        let place = self.place[source] as usize;
        let (old, new) = (self.entries[place].0, at.unwrap_or(Time::MAX));
        self.entries[place].0 = new;
        if new < old {
            self.up(place);
        } else if new > old {
            self.down(place);
        }
    }

    fn up(&mut self, mut place: usize) {
        let entry = self.entries[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.entries[parent] <= entry {
                break;
            }
            self.put(place, self.entries[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    fn down(&mut self, mut place: usize) {
        let entry = self.entries[place];
        loop {
            let children = self.entries.iter().enumerate().skip(2 * place + 1).take(2);
            let Some((child, &least)) = children.min_by_key(|&(_, entry)| entry) else { break };
            if entry <= least {
                break;
            }
            self.put(place, least);
            place = child;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: (Time, u32)) {
        self.entries[place] = entry;
        self.place[entry.1 as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_is_the_least(sets in proptest::collection::vec((0usize..20, any::<u64>()), 1..200)) {
            let mut heap = Heap::new(20);
            let mut plain = [Time::MAX; 20];
            for (source, at) in sets {
                let at = (at % 3 > 0).then(|| Time::from_nanos(at % 1000));
                heap.set(source, at);
                plain[source] = at.unwrap_or(Time::MAX);
                let least = (0..20).map(|s| (plain[s], s)).min().unwrap();
                prop_assert_eq!(heap.first(), least);
            }
        }
    }
}
