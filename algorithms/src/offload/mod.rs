//! Laws whose half per ACK is a fold program: the program grows the window or walks through the gain cycle in the
//! datapath, and the law answers its reports with what has to change.

pub(crate) mod bbr;
pub(crate) mod cubic;
pub(crate) mod reno;

use anole_model::Dur;

/// Reports before the first round-trip sample come this far apart.
const FIRST_INTERVAL: Dur = Dur::from_millis(100);
/// Reports of a window that does not grow exponentially come no faster than this: losses are reported at once, and
/// nothing else is of interest. With 500 flows the agent's reports cost more than all the rest of a congestion control.
const AVOIDANCE_INTERVAL_US: u64 = 200_000;
