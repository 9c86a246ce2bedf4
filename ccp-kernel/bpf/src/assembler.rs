// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! BPF byte code in the making: instructions, and jumps to places that are not known yet.

use libbpf_rs::libbpf_sys::bpf_insn;

// linux/bpf.h, bpf_common.h
pub const LD_IMM64: u8 = 0x18;
pub const LDX_DW: u8 = 0x79;
pub const STX_DW: u8 = 0x7b;
pub const ST_W: u8 = 0x62;
pub const ST_DW: u8 = 0x7a;
pub const MOV_X: u8 = 0xbf;
pub const MOV_K: u8 = 0xb7;
pub const MOV32_X: u8 = 0xbc;
pub const MOV32_K: u8 = 0xb4;
pub const ADD_X: u8 = 0x0f;
pub const SUB_X: u8 = 0x1f;
pub const MUL_X: u8 = 0x2f;
pub const DIV_X: u8 = 0x3f;
pub const DIV_K: u8 = 0x37;
pub const JA: u8 = 0x05;
pub const JEQ_K: u8 = 0x15;
pub const JNE_K: u8 = 0x55;
pub const JEQ_X: u8 = 0x1d;
pub const JGT_X: u8 = 0x2d;
pub const JGE_X: u8 = 0x3d;
pub const JLT_X: u8 = 0xad;
pub const JLE_X: u8 = 0xbd;
pub const CALL: u8 = 0x85;
pub const EXIT: u8 = 0x95;
pub const PSEUDO_MAP_FD: u8 = 1;
pub const HELPER_MAP_LOOKUP: i32 = 1;
pub const HELPER_TAIL_CALL: i32 = 12;
pub const HELPER_SK_STORAGE_GET: i32 = 107;

/// What a jump leads to that is not known yet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum JumpTarget {
    /// An instruction of the fold program.
    Fold(usize),
    /// The abort with this number.
    Abort(u8),
    /// The end of the run.
    End,
}

#[derive(Default)]
pub struct Assembler {
    /// So far.
    pub code: Vec<bpf_insn>,
    /// Jumps that lead nowhere yet, by place.
    pub jumps: Vec<(usize, JumpTarget)>,
}

impl Assembler {
    pub fn emit(&mut self, code: u8, dst: u8, src: u8, off: i16, imm: i32) {
        let mut insn = bpf_insn { code, off, imm, ..bpf_insn::default() };
        insn.set_dst_reg(dst);
        insn.set_src_reg(src);
        self.code.push(insn);
    }

    pub fn jump(&mut self, code: u8, dst: u8, src: u8, imm: i32, target: JumpTarget) {
        self.jumps.push((self.code.len(), target));
        self.emit(code, dst, src, 0, imm);
    }

    pub fn load_map(&mut self, dst: u8, fd: i32) {
        self.emit(LD_IMM64, dst, PSEUDO_MAP_FD, 0, fd);
        self.emit(0, 0, 0, 0, 0);
    }
}
