//! A datapath as C holds it: who may use it now, and what a panic does.

use crate::table::Table;
use crate::types::{AnoleLogLevel, AnoleStatus};
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const FREE: u8 = 0;
const IN_USE: u8 = 1;
/// A call has panicked, so that nothing is known of the table.
const BROKEN: u8 = 2;

/// A datapath: programs, connections, and the way to the agent. Made by anole_init().
pub struct AnoleDatapath {
    // Whoever changes it from `FREE` to `IN_USE` has the table to itself until it changes it back. A callback that calls
    // in again, or another thread, is refused before it touches the table.
    state: AtomicU8,
    table: UnsafeCell<Table>,
}

impl AnoleDatapath {
    pub(crate) fn new(table: Table) -> AnoleDatapath {
        AnoleDatapath { state: AtomicU8::new(FREE), table: UnsafeCell::new(table) }
    }

    /// Makes one call on the table.
    pub(crate) fn call(&self, call: impl FnOnce(&mut Table) -> Result<(), AnoleStatus>) -> AnoleStatus {
        match self.state.compare_exchange(FREE, IN_USE, Acquire, Relaxed) {
            Ok(_) => {}
            Err(BROKEN) => return AnoleStatus::Internal,
            Err(_) => return AnoleStatus::Busy,
        }
        let table = self.table.get();
        // SAFETY: the exchange above lets one caller in at a time, and the reference ends with the call.
        let outcome = catch_unwind(AssertUnwindSafe(|| call(unsafe { &mut *table })));
        if outcome.is_err() {
            // SAFETY: as above.
            unsafe { &*table }
                .log(AnoleLogLevel::Error, "a fault of the library: the datapath is out of use");
        }
        self.state.store(if outcome.is_ok() { FREE } else { BROKEN }, Release);
        match outcome {
            Ok(Ok(())) => AnoleStatus::Ok,
            Ok(Err(status)) => status,
            Err(_) => AnoleStatus::Internal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::callbacks::Callbacks;
    use crate::table::Options;
    use crate::types::AnoleConfig;
    use anole_model::{Bounds, Dur};
    use core::ffi::{c_int, c_void};

    extern "C" fn set_cwnd(_: *mut c_void, _: *mut c_void, _: u32) {}
    extern "C" fn now(_: *mut c_void) -> u64 {
        0
    }
    extern "C" fn send_msg(_: *mut c_void, _: *const u8, _: usize) -> c_int {
        0
    }

    fn datapath() -> AnoleDatapath {
        // SAFETY: every field may be zero.
        let zero: AnoleConfig = unsafe { std::mem::zeroed() };
        let config =
            AnoleConfig { set_cwnd: Some(set_cwnd), now: Some(now), send_msg: Some(send_msg), ..zero };
        let callbacks = Callbacks::of(&config).unwrap();
        let (bounds, agent_timeout) = (Bounds::DEFAULT, Dur::from_millis(500));
        let options = Options { id: 1, bounds, agent_timeout, in_process: None };
        AnoleDatapath::new(Table::new(callbacks, options))
    }

    #[test]
    fn a_panic_ends_at_the_border_and_the_datapath_with_it() {
        let datapath = datapath();
        assert_eq!(datapath.call(|_| Ok(())), AnoleStatus::Ok);
        assert_eq!(datapath.call(|_| panic!("a fault of the library, on purpose")), AnoleStatus::Internal);
        assert_eq!(datapath.call(|_| unreachable!("out of use")), AnoleStatus::Internal);
    }

    #[test]
    fn a_call_within_a_call_is_refused() {
        let datapath = datapath();
        let outer = datapath.call(|_| match datapath.call(|_| unreachable!("in use")) {
            AnoleStatus::Busy => Ok(()),
            other => Err(other),
        });
        assert_eq!(outer, AnoleStatus::Ok);
        assert_eq!(datapath.call(|_| Ok(())), AnoleStatus::Ok);
    }
}
