// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! The virtual machine without TCP: one flow that lies in a map, its ACKs through BPF_PROG_TEST_RUN. For
//! comparing the generator and the interpreter with other machines (`src/bpf/harness.bpf.c`).

use crate::generate::{Lookup, Place, generate};
use crate::layout::{
    FoldProgram, JUMP_FINISH, JUMP_INTERPRET, MAIL_EMPTY, MAIL_FULL, MAX_PROGRAMS, Mailbox, Staged, c_layout,
    offsets,
};
use crate::map::Mapping;
use crate::{Error, Mode, message, programs};
use libbpf_rs::libbpf_sys::{BPF_PROG_TYPE_SCHED_CLS, bpf_prog_load_opts};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ObjectBuilder, ProgramInput};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering::SeqCst;

static OBJECT: &[u8] = include_bytes!("bpf/prebuilt/harness.bpf.o");

const REPORT_BYTES: usize = 896;
const REGISTERS: usize = 512;

/// What an ACK tells, as `struct fold_sample`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs, reason = "the primitives' names")]
pub struct Sample {
    pub bytes_acked: u32,
    pub packets_acked: u32,
    pub bytes_misordered: u32,
    pub packets_misordered: u32,
    pub ecn_bytes: u32,
    pub ecn_packets: u32,
    pub lost_packets: u32,
    pub was_timeout: u32,
    pub rtt_us: u64,
    pub rate_outgoing: u64,
    pub rate_incoming: u64,
    pub bytes_in_flight: u32,
    pub packets_in_flight: u32,
    pub bytes_pending: u32,
    pub pad: u32,
}

#[repr(C)]
struct Machine {
    cwnd: u32,
    rate: u32,
    now_us: u64,
    mss: u32,
    program: u32,
    abort: u32,
    zero: u32,
    head: [u8; 16],
    registers: [u64; REGISTERS],
    micros_zero: u64,
    rtt_us: u64,
    mark_end_us: u64,
}

#[repr(C)]
struct Case {
    sample: Sample,
    outcome: u32,
    pad: u32,
    report: [u8; REPORT_BYTES],
    mail: Mailbox,
    machine: Machine,
}

/// What came of an ACK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AckOutcome {
    /// Window, bytes.
    pub cwnd: u32,
    /// Pacing rate, bytes/s.
    pub rate: u32,
    /// enum fold_abort.
    pub abort: u32,
    /// MEASURE, if it reported.
    pub report: Option<Vec<u8>>,
}

/// A program; the kernel gets its byte code when a flow first changes to it.
struct Installed {
    program: Box<FoldProgram>,
    compiled: bool,
}

/// One flow and its programs in the kernel.
pub struct Harness {
    object: Object,
    cases: MapHandle,
    programs: MapHandle,
    jumps: MapHandle,
    memory: Mapping,
    mode: Mode,
    installed: Vec<Installed>,
    /// Programs that the generator or the verifier refused.
    pub refused: u64,
}

impl Harness {
    /// Loads the machine; its programs run by `mode`.
    pub fn load(mode: Mode) -> Result<Harness, Error> {
        let object = ObjectBuilder::default().open_memory(OBJECT)?.load().map_err(Error::Load)?;
        let map = |name: &str| -> Result<MapHandle, Error> {
            let found = object.maps().find(|map| map.name() == name);
            Ok(MapHandle::try_from(&found.ok_or(Error::Object(name.to_string()))?)?)
        };
        let (cases, programs, jumps) = (map("cases")?, map("programs")?, map("jumps")?);
        for (place, name) in [(JUMP_FINISH, "finish"), (JUMP_INTERPRET, "interpret")] {
            let program = object.progs().find(|program| program.name() == name);
            let fd = program.ok_or(Error::Object(name.to_string()))?.as_fd().as_raw_fd();
            jumps.update(&place.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)?;
        }
        assert_eq!(size_of::<Case>(), cases.value_size() as usize, "the structures are the same");
        let memory = Mapping::new(cases.as_fd(), 0, size_of::<Case>(), true)?;
        Ok(Harness { object, cases, programs, jumps, memory, mode, installed: Vec::new(), refused: 0 })
    }

    fn case(&mut self) -> &mut Case {
        // SAFETY: mapped whole, and the kernel touches it in `ack` alone.
        unsafe { self.memory.get::<Case>(0).expect("mapped whole").as_mut() }
    }

    /// A new flow, whose registers are 0.
    pub fn start(&mut self, cwnd: u32, mss: u32) {
        self.installed.clear();
        let case = self.case();
        // SAFETY: all fields are integers, for which 0 is a value.
        *case = unsafe { std::mem::zeroed() };
        case.machine.cwnd = cwnd;
        case.machine.mss = mss;
    }

    /// Takes a message of the agent.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let (read, refused) = message::read(bytes);
        refused?;
        if read.kind == message::INSTALL {
            return self.install(bytes);
        }
        let mut program = 0;
        if read.kind == message::CHANGE_PROG {
            let place = self.installed.iter().rposition(|known| known.program.uid == read.uid);
            let place = place.ok_or(Error::UnknownProgram(read.uid))?;
            self.compile(place)?;
            program = place as u32 + 1;
        }
        let mail = &mut self.case().mail;
        if mail.state.load(SeqCst) == MAIL_EMPTY {
            mail.program = 0;
            mail.staged.present = [0; 2];
        }
        if program != 0 {
            mail.program = program;
        }
        let staged: &mut Staged = &mut mail.staged;
        message::stage(bytes, staged)?;
        mail.state.store(MAIL_FULL, SeqCst);
        Ok(())
    }

    fn install(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let program = message::install(bytes)?;
        let slot = self.installed.len() as u32;
        if self.installed.len() >= MAX_PROGRAMS {
            return Err(Error::TableFull);
        }
        self.programs.update(&slot.to_ne_bytes(), program.bytes(), MapFlags::ANY)?;
        let _ = self.jumps.delete(&slot.to_ne_bytes());
        self.installed.push(Installed { program, compiled: self.mode == Mode::Interpreted });
        Ok(())
    }

    fn compile(&mut self, at: usize) -> Result<(), Error> {
        let slot = at as u32;
        let Installed { program, compiled } = &mut self.installed[at];
        if !std::mem::replace(compiled, true) {
            let place = Place {
                state_map: self.cases.as_fd().as_raw_fd(),
                lookup: Lookup::Array,
                offsets: offsets(self.cases.value_size() - c_layout()[3]),
                jumps: self.jumps.as_fd().as_raw_fd(),
            };
            let options = bpf_prog_load_opts {
                sz: size_of::<bpf_prog_load_opts>() as u64,
                ..bpf_prog_load_opts::default()
            };
            let code = generate(program, place).ok();
            match code.and_then(|code| programs::load_as(BPF_PROG_TYPE_SCHED_CLS, &code, options)) {
                Some(fd) => {
                    let fd = fd.as_raw_fd().to_ne_bytes();
                    self.jumps.update(&slot.to_ne_bytes(), &fd, MapFlags::ANY)?;
                }
                None => self.refused += 1,
            }
        }
        Ok(())
    }

    /// One ACK.
    pub fn ack(&mut self, now_us: u64, sample: &Sample) -> Result<AckOutcome, Error> {
        let case = self.case();
        case.machine.now_us = now_us;
        case.sample = *sample;
        case.outcome = 0;
        let packet = [0u8; 64];
        let mut input = ProgramInput { data_in: Some(&packet), ..ProgramInput::default() };
        input.repeat = 1;
        let program = self.object.progs_mut().find(|program| program.name() == "ack");
        program.ok_or(Error::Object("ack".to_string()))?.test_run(input)?;
        let case = self.case();
        let length = usize::from(u16::from_le_bytes([case.report[2], case.report[3]])).min(REPORT_BYTES);
        Ok(AckOutcome {
            cwnd: case.machine.cwnd,
            rate: case.machine.rate,
            abort: case.machine.abort,
            report: (case.outcome == 1).then(|| case.report[..length].to_vec()),
        })
    }

    /// The registers.
    pub fn registers(&mut self) -> &[u64] {
        &self.case().machine.registers
    }
}
