//! The transport's functions, as an outbox, a clock and a log.

use crate::types::{AnoleConfig, AnoleGovernor, AnoleLogLevel};
use anole_datapath::{InForce, Outbox, SendError};
use anole_model::Time;
use core::ffi::{c_char, c_int, c_void};
use std::ffi::CString;

/// The callbacks of a datapath; those that must be there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Callbacks {
    context: *mut c_void,
    set_cwnd: extern "C" fn(*mut c_void, *mut c_void, u32),
    set_rate: Option<extern "C" fn(*mut c_void, *mut c_void, u32)>,
    now: extern "C" fn(*mut c_void) -> u64,
    send_msg: Option<extern "C" fn(*mut c_void, *const u8, usize) -> c_int>,
    governor: Option<extern "C" fn(*mut c_void, *mut c_void, AnoleGovernor)>,
    log: Option<extern "C" fn(*mut c_void, AnoleLogLevel, *const c_char)>,
}

impl Callbacks {
    /// `None` where one is missing that must be there.
    pub(crate) fn of(config: &AnoleConfig) -> Option<Callbacks> {
        if config.algorithm.is_null() {
            config.send_msg?;
        }
        Some(Callbacks {
            context: config.context,
            set_cwnd: config.set_cwnd?,
            set_rate: config.set_rate,
            now: config.now?,
            send_msg: config.send_msg,
            governor: config.governor,
            log: config.log,
        })
    }

    pub(crate) fn now(&self) -> Time {
        Time::from_micros((self.now)(self.context))
    }

    /// Tells a transport what differs from what it was `told`.
    pub(crate) fn obey(&self, implementation: *mut c_void, told: InForce, control: InForce) {
        if control.cwnd != told.cwnd {
            (self.set_cwnd)(self.context, implementation, control.cwnd);
        }
        if let Some(set_rate) = self.set_rate
            && control.rate != told.rate
        {
            set_rate(self.context, implementation, control.rate);
        }
    }

    pub(crate) fn governor(&self, implementation: *mut c_void, governor: AnoleGovernor) {
        if let Some(tell) = self.governor {
            tell(self.context, implementation, governor);
        }
    }

    pub(crate) fn log(&self, level: AnoleLogLevel, line: &str) {
        // Our own texts hold no NUL.
        if let (Some(log), Ok(line)) = (self.log, CString::new(line)) {
            log(self.context, level, line.as_ptr());
        }
    }
}

impl Outbox for Callbacks {
    fn send(&mut self, message: &[u8]) -> Result<(), SendError> {
        let send_msg = self.send_msg.ok_or(SendError)?;
        match send_msg(self.context, message.as_ptr(), message.len()) {
            0 => Ok(()),
            _ => Err(SendError),
        }
    }
}
