// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! The programs that the agent installed, in the kernel.

use crate::Error;
use crate::generate::{Lookup, Place, generate};
use crate::layout::{FoldProgram, MAX_PROGRAMS};
use crate::object::Registered;
use libbpf_rs::libbpf_sys::{
    BPF_PROG_TYPE_STRUCT_OPS, bpf_insn, bpf_prog_load, bpf_prog_load_opts, bpf_prog_type,
};
use libbpf_rs::{MapCore, MapFlags};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// How a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As byte code of its own.
    Generated,
    /// By the interpreter.
    Interpreted,
}

struct Entry {
    uid: u32,
    mode: Mode,
    program: Box<FoldProgram>,
}

/// The table. A program stays until the agent ends, since flows may run it: another one of the same id
/// gets a place of its own.
#[derive(Default)]
pub struct Programs {
    entries: Vec<Entry>,
}

impl Programs {
    /// The place of the newest program with this id, from 1.
    pub fn place(&self, uid: u32) -> Option<u32> {
        self.entries.iter().rposition(|entry| entry.uid == uid).map(|at| at as u32 + 1)
    }

    /// How many programs run like this.
    pub fn count(&self, mode: Mode) -> usize {
        self.entries.iter().filter(|entry| entry.mode == mode).count()
    }

    /// Adds a program to the kernel's table.
    pub fn install(
        &mut self,
        kernel: &Registered,
        program: Box<FoldProgram>,
        mode: Mode,
    ) -> Result<Mode, Error> {
        let uid = program.uid;
        if let Some(place) = self.place(uid)
            && self.entries.get(place as usize - 1).is_some_and(|entry| entry.program == program)
        {
            return Ok(mode);
        }
        let slot = self.entries.len() as u32;
        if self.entries.len() >= MAX_PROGRAMS {
            return Err(Error::TableFull);
        }
        kernel.maps.programs.update(&slot.to_ne_bytes(), program.bytes(), MapFlags::ANY)?;
        // What an earlier agent left there.
        let _ = kernel.maps.jumps.delete(&slot.to_ne_bytes());
        let mode = match mode {
            Mode::Generated => jump_to_generated(kernel, &program, slot),
            Mode::Interpreted => Mode::Interpreted,
        };
        self.entries.push(Entry { uid, mode, program });
        Ok(mode)
    }
}

fn jump_to_generated(kernel: &Registered, program: &FoldProgram, slot: u32) -> Mode {
    let place = Place {
        state_map: kernel.maps.flows.as_fd().as_raw_fd(),
        lookup: Lookup::Socket,
        offsets: kernel.offsets,
        jumps: kernel.maps.jumps.as_fd().as_raw_fd(),
    };
    let loaded = generate(program, place).ok().and_then(|code| load(kernel, &code));
    let entered = loaded.is_some_and(|fd| {
        let value = fd.as_raw_fd().to_ne_bytes();
        kernel.maps.jumps.update(&slot.to_ne_bytes(), &value, MapFlags::ANY).is_ok()
    });
    if entered { Mode::Generated } else { Mode::Interpreted }
}

/// Loads byte code as a program for cong_control; `None` where the verifier refuses it.
fn load(kernel: &Registered, code: &[bpf_insn]) -> Option<OwnedFd> {
    let options = bpf_prog_load_opts {
        sz: size_of::<bpf_prog_load_opts>() as u64,
        attach_btf_id: kernel.kernel.ops_id,
        expected_attach_type: kernel.kernel.cong_control,
        ..bpf_prog_load_opts::default()
    };
    load_as(BPF_PROG_TYPE_STRUCT_OPS, code, options)
}

/// Loads byte code; `None` where the verifier refuses it.
pub(crate) fn load_as(
    kind: bpf_prog_type,
    code: &[bpf_insn],
    options: bpf_prog_load_opts,
) -> Option<OwnedFd> {
    // SAFETY: the strings, the instructions and the options live through the call.
    let fd = unsafe {
        bpf_prog_load(
            kind,
            c"anole_fold".as_ptr(),
            c"GPL".as_ptr(),
            code.as_ptr(),
            code.len() as u64,
            std::ptr::from_ref(&options).cast_mut(),
        )
    };
    // SAFETY: a descriptor that is ours alone.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}
