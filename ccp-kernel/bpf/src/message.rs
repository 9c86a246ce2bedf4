// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! The agent's messages, read by the C code that the kernel module runs too (`../vm`).

use crate::layout::{FoldMessage, FoldProgram, Staged};
use std::ffi::{CStr, c_char, c_int};

/// A message that is refused, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("message refused: {0}")]
pub struct FoldRefusal(pub &'static str);

/// INSTALL.
pub const INSTALL: u32 = 2;
/// CHANGE_PROG.
pub const CHANGE_PROG: u32 = 4;

fn refusal(code: c_int) -> Result<(), FoldRefusal> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: returns a string constant for every number.
    let text = unsafe { CStr::from_ptr(anole_fold_refusal(code)) };
    Err(FoldRefusal(text.to_str().unwrap_or("unknown refusal")))
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// Reads the first message of a datagram, and says why it is refused. Its length is known then too, or 0.
pub fn read(bytes: &[u8]) -> (FoldMessage, Result<(), FoldRefusal>) {
    let mut message = FoldMessage::default();
    // SAFETY: reads `length` bytes, writes one Message.
    let refused = refusal(unsafe { anole_fold_read(bytes.as_ptr(), length(bytes), &mut message) });
    (message, refused)
}

/// Makes a program of an INSTALL message.
pub fn install(bytes: &[u8]) -> Result<Box<FoldProgram>, FoldRefusal> {
    let mut program = FoldProgram::empty();
    // SAFETY: reads `length` bytes, writes one Program.
    refusal(unsafe { anole_fold_install(bytes.as_ptr(), length(bytes), &mut *program) })?;
    Ok(program)
}

/// Adds the registers of an UPDATE or CHANGE_PROG message to those that wait.
pub fn stage(bytes: &[u8], staged: &mut Staged) -> Result<(), FoldRefusal> {
    // SAFETY: reads `length` bytes, changes one Staged.
    refusal(unsafe { anole_fold_stage(bytes.as_ptr(), length(bytes), staged) })
}

unsafe extern "C" {
    fn anole_fold_read(at: *const u8, bytes: u32, out: *mut FoldMessage) -> c_int;
    fn anole_fold_install(at: *const u8, bytes: u32, program: *mut FoldProgram) -> c_int;
    fn anole_fold_stage(at: *const u8, bytes: u32, staged: *mut Staged) -> c_int;
    fn anole_fold_refusal(refusal: c_int) -> *const c_char;
}
