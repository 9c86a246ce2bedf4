// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! The C structures that user space shares with the BPF programs (`bpf/datapath.h`, `../vm/fold.h`).

use std::sync::atomic::{AtomicU32, AtomicU64};

/// Flows that may have a mailbox.
pub const MAX_FLOWS: u32 = 16_384;
/// Programs at once.
pub const MAX_PROGRAMS: usize = 64;
/// Where in `jumps` the interpreter is.
pub const JUMP_INTERPRET: u32 = MAX_PROGRAMS as u32;
/// Where in `jumps` a run ends.
pub const JUMP_FINISH: u32 = MAX_PROGRAMS as u32 + 1;
/// Steps of the histogram of waits.
pub const WAIT_STEPS: usize = 256;
/// Bytes of the ring buffer.
pub const EVENT_BYTES: usize = 4 << 20;

/// The first register that holds an immediate.
pub const CONSTANT: u16 = 257;
/// The event flag's register.
pub const EVENT_FLAG: u16 = 236;
/// The fall-through flag's register.
pub const FALLTHROUGH: u16 = 237;

const MAX_CODE: usize = 2048;
const MAX_SETS: usize = 512;
const FIELDS: usize = 112;

/// One instruction of a flattened program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Insn {
    pub op: u8,
    pub pad: u8,
    pub result: u16,
    pub left: u16,
    pub right: u16,
}

/// A register's value at a program's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Set {
    pub value: u32,
    pub slot: u16,
    pub pad: u16,
}

/// A validated program.
#[derive(Clone, PartialEq, Eq)]
#[repr(C)]
pub struct FoldProgram {
    pub uid: u32,
    pub n_code: u32,
    pub n_reports: u32,
    pub n_constants: u32,
    pub n_volatile: u32,
    pub n_sets: u32,
    pub reads_ecn: u32,
    pub set: [Set; MAX_SETS],
    pub code: [Insn; MAX_CODE],
}

impl FoldProgram {
    /// A program that does nothing.
    pub fn empty() -> Box<FoldProgram> {
        Box::new(FoldProgram {
            uid: 0,
            n_code: 0,
            n_reports: 0,
            n_constants: 0,
            n_volatile: 0,
            n_sets: 0,
            reads_ecn: 0,
            set: [Set::default(); MAX_SETS],
            code: [Insn::default(); MAX_CODE],
        })
    }

    /// Its instructions.
    pub fn code(&self) -> &[Insn] {
        self.code.get(..self.n_code as usize).unwrap_or(&[])
    }

    /// The bytes as the map takes them.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: plain integers without padding, alive as long as `self`.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<FoldProgram>()) }
    }
}

/// The agent's side of the datapath.
#[repr(C)]
pub struct AgentState {
    pub heartbeat_us: AtomicU64,
    pub epoch: AtomicU32,
    pub sleeps: AtomicU32,
    pub opened: AtomicU64,
    pub unslotted: AtomicU64,
    pub fallbacks: AtomicU64,
    pub adopted: AtomicU64,
    pub aborts: AtomicU64,
    pub unsent: AtomicU64,
    pub waits: [AtomicU64; WAIT_STEPS],
}

/// Bytes of the map with it: whole pages.
pub const AGENT_BYTES: usize = size_of::<AgentState>().next_multiple_of(4096);

/// Registers that wait.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Staged {
    pub present: [u64; 2],
    pub value: [u64; FIELDS],
}

/// What the agent told a flow since its latest ACK.
#[repr(C)]
pub struct Mailbox {
    pub state: AtomicU32,
    pub sid: AtomicU32,
    pub generation: u32,
    pub to: u32,
    pub epoch: u32,
    pub program: u32,
    pub staged: Staged,
}

/// States of a mailbox.
pub const MAIL_EMPTY: u32 = 0;
pub const MAIL_FULL: u32 = 1;
pub const MAIL_WRITING: u32 = 2;
pub const MAIL_READING: u32 = 3;

/// What [`crate::message`] learns of a message.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct FoldMessage {
    pub kind: u32,
    pub length: u32,
    pub sid: u32,
    pub uid: u32,
}

/// Sizes and offsets as the C compiler has them.
pub fn c_layout() -> [u32; 13] {
    // SAFETY: a constant of src/fold.c with this many words.
    unsafe { anole_layout }
}

/// Where things are in `struct machine`, bytes.
#[derive(Clone, Copy, Debug)]
pub struct Offsets {
    pub registers: i16,
    pub abort: i16,
}

/// Of a machine that lies `base` bytes into a map's value.
pub fn offsets(base: u32) -> Offsets {
    let layout = c_layout();
    Offsets { registers: (base + layout[4]) as i16, abort: (base + layout[5]) as i16 }
}

unsafe extern "C" {
    static anole_layout: [u32; 13];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_compilers_see_the_same_structures() {
        let [program, mailbox, agent, ..] = c_layout().map(|size| size as usize);
        assert_eq!(
            [program, mailbox, agent],
            [size_of::<FoldProgram>(), size_of::<Mailbox>(), size_of::<AgentState>()]
        );
    }
}
