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
    use anole_datapath::wire::{self, AlgorithmName, CreateMessage, Message};
    use anole_model::{Bounds, Dur};
    use core::ffi::{c_char, c_int, c_void};
    use std::cell::Cell;

    extern "C" fn set_cwnd(_: *mut c_void, _: *mut c_void, _: u32) {}
    extern "C" fn now(_: *mut c_void) -> u64 {
        NOW.get()
    }
    extern "C" fn send_msg(_: *mut c_void, _: *const u8, bytes: usize) -> c_int {
        match ROOM.get().checked_sub(1) {
            Some(left) => {
                ROOM.set(left);
                ENDS.set(ENDS.get() + usize::from(bytes == wire::end(1).len()));
                0
            }
            None => -1,
        }
    }

    extern "C" fn log(_: *mut c_void, level: AnoleLogLevel, _: *const c_char) {
        WARNINGS.set(WARNINGS.get() + usize::from(level == AnoleLogLevel::Warn));
    }

    thread_local! {
        /// Messages that the agent's queue has room for.
        static ROOM: Cell<usize> = const { Cell::new(usize::MAX) };
        static NOW: Cell<u64> = const { Cell::new(0) };
        static ENDS: Cell<usize> = const { Cell::new(0) };
        static WARNINGS: Cell<usize> = const { Cell::new(0) };
    }

    fn datapath() -> AnoleDatapath {
        // SAFETY: every field may be zero.
        let zero: AnoleConfig = unsafe { std::mem::zeroed() };
        let config = AnoleConfig {
            set_cwnd: Some(set_cwnd),
            now: Some(now),
            send_msg: Some(send_msg),
            log: Some(log),
            ..zero
        };
        let callbacks = Callbacks::of(&config).unwrap();
        let (bounds, agent_timeout) = (Bounds::DEFAULT, Dur::from_millis(500));
        let options = Options { id: 1, bounds, agent_timeout, in_process: None };
        AnoleDatapath::new(Table::new(callbacks, options))
    }

    fn create() -> CreateMessage {
        CreateMessage::without_addresses(14_480, 1448, AlgorithmName::new("anole").unwrap())
    }

    #[test]
    fn what_comes_for_a_connection_that_has_ended_is_no_warning() {
        let datapath = datapath();
        assert_eq!(
            datapath
                .call(|table| table.start(std::ptr::null_mut(), create()).and_then(|sid| table.close(sid))),
            AnoleStatus::Ok
        );
        for (sid, warnings) in [(1, 0), (2, 1), (0, 1)] {
            let mut update = Vec::new();
            wire::encode(&Message::Update(sid, Vec::new()), &mut update).unwrap();
            assert_eq!(datapath.call(|table| table.read(&update)), AnoleStatus::UnknownConnection);
            assert_eq!(WARNINGS.get(), warnings, "{sid}");
        }
    }

    #[test]
    fn a_panic_ends_at_the_border_and_the_datapath_with_it() {
        let datapath = datapath();
        assert_eq!(datapath.call(|_| Ok(())), AnoleStatus::Ok);
        assert_eq!(datapath.call(|_| panic!("a fault of the library, on purpose")), AnoleStatus::Internal);
        assert_eq!(datapath.call(|_| unreachable!("out of use")), AnoleStatus::Internal);
    }

    #[test]
    fn an_end_that_is_refused_is_told_again() {
        const CONNECTIONS: usize = 5;
        let create = create();
        let datapath = datapath();
        let ends_told = |then: fn(&mut Table) -> Result<(), AnoleStatus>| {
            assert_eq!(datapath.call(then), AnoleStatus::Ok);
            ENDS.get()
        };
        for sid in 1..=CONNECTIONS as u32 {
            assert_eq!(
                datapath.call(|table| table.start(std::ptr::null_mut(), create.clone()).map(drop)),
                AnoleStatus::Ok
            );
            ROOM.set(usize::from(sid == 1));
            assert_eq!(datapath.call(|table| table.close(sid)), AnoleStatus::Ok);
        }
        assert_eq!(ENDS.get(), 1);
        NOW.set(10_000);
        ROOM.set(2);
        // Whether or not the datagram is refused.
        assert_eq!(ends_told(|table| table.read(&[9; 20]).or(Ok(()))), 3);
        ROOM.set(usize::MAX);
        // The clock stands still, and a refusal is not followed by another try at once.
        assert_eq!(ends_told(|table| table.read(&[9; 20]).or(Ok(()))), 3);
        let close_all = |table: &mut Table| {
            table.close_all();
            Ok(())
        };
        assert_eq!(ends_told(close_all), CONNECTIONS);
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
