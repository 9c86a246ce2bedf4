//! A machine in C in its process: commands in, answers out (the format is in `pipe.h`).

use anole_datapath::AckSample;
use anole_model::seed::INCREMENT;
use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The digest of all registers in an answer, as `pipe.h` computes it.
pub fn digest(registers: impl Iterator<Item = u64>) -> u64 {
    registers.fold(0, |digest, value| {
        let mixed = (digest ^ value).wrapping_mul(INCREMENT);
        mixed ^ (mixed >> 29)
    })
}

/// One thing that happens to a flow.
#[derive(Clone, Debug)]
pub enum Step {
    /// The flow starts.
    Start {
        /// The clock, µs.
        now_us: u64,
        /// Initial window, bytes.
        init_cwnd: u32,
        /// Packet size, bytes.
        mss: u32,
    },
    /// A datagram of the agent.
    Message(Vec<u8>),
    /// An ACK.
    Ack {
        /// The clock, µs.
        now_us: u64,
        /// What the transport tells.
        sample: AckSample,
    },
    /// List every register.
    Dump,
}

impl Step {
    /// Appends the command to a batch.
    pub fn write(&self, batch: &mut Vec<u8>) {
        match self {
            Step::Start { now_us, init_cwnd, mss } => {
                batch.push(b'S');
                batch.extend_from_slice(&now_us.to_le_bytes());
                batch.extend_from_slice(&init_cwnd.to_le_bytes());
                batch.extend_from_slice(&mss.to_le_bytes());
            }
            Step::Message(bytes) => {
                batch.push(b'M');
                batch.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                batch.extend_from_slice(bytes);
            }
            Step::Ack { now_us, sample } => {
                batch.push(b'A');
                batch.extend_from_slice(&now_us.to_le_bytes());
                write_sample(sample, batch);
            }
            Step::Dump => batch.push(b'D'),
        }
    }
}

fn write_sample(sample: &AckSample, batch: &mut Vec<u8>) {
    for word in [
        sample.bytes_acked,
        sample.packets_acked,
        sample.bytes_misordered,
        sample.packets_misordered,
        sample.ecn_bytes,
        sample.ecn_packets,
        sample.lost_packets,
        u32::from(sample.was_timeout),
    ] {
        batch.extend_from_slice(&word.to_le_bytes());
    }
    for word in [sample.rtt_us, sample.rate_outgoing, sample.rate_incoming] {
        batch.extend_from_slice(&word.to_le_bytes());
    }
    for word in [sample.bytes_in_flight.unwrap_or(0), sample.packets_in_flight, sample.bytes_pending] {
        batch.extend_from_slice(&word.to_le_bytes());
    }
}

/// A machine in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// libccp.
    Libccp,
    /// The machine of the kernel datapaths, `ccp-kernel/vm`.
    Kernel,
    /// The window of the netlink module's fallback, `ccp-kernel/module/cubic.c`.
    Cubic,
}

impl Machine {
    fn program(self) -> &'static str {
        match self {
            Machine::Libccp => env!("LIBCCP_ORACLE"),
            Machine::Kernel => env!("KERNEL_VM"),
            Machine::Cubic => env!("KERNEL_CUBIC"),
        }
    }
}

/// The process that contains a machine.
pub struct Oracle {
    machine: Machine,
    child: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
}

impl Oracle {
    /// Starts the process.
    pub fn start(machine: Machine) -> Result<Oracle> {
        let program = machine.program();
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {program}, which this package's build makes"))?;
        let stdin = child.stdin.take().context("the process has no stdin")?;
        let stdout = child.stdout.take().context("the process has no stdout")?;
        Ok(Oracle { machine, child, stdin, stdout })
    }

    /// Which one it is.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// Runs one batch of commands.
    pub fn run(&mut self, batch: &[u8]) -> Result<Vec<u8>> {
        self.exchange(batch)
            .with_context(|| format!("{}: it crashed or refused a command", self.machine.program()))
    }

    /// Runs `n` equal ACKs from `first_us` on, `step_us` apart; returns the nanoseconds that they took.
    pub fn bench(&mut self, first_us: u64, step_us: u64, n: u32, sample: &AckSample) -> Result<u64> {
        let mut batch = vec![b'B'];
        batch.extend_from_slice(&first_us.to_le_bytes());
        batch.extend_from_slice(&step_us.to_le_bytes());
        batch.extend_from_slice(&n.to_le_bytes());
        write_sample(sample, &mut batch);
        let answer = self.run(&batch)?;
        Ok(u64::from_le_bytes(answer.as_slice().try_into().context("an answer of 8 bytes")?))
    }

    fn exchange(&mut self, batch: &[u8]) -> Result<Vec<u8>> {
        self.stdin.write_all(&(batch.len() as u32).to_le_bytes())?;
        self.stdin.write_all(batch)?;
        self.stdin.flush()?;
        let mut length = [0; 4];
        self.stdout.read_exact(&mut length)?;
        let mut answer = vec![0; u32::from_le_bytes(length) as usize];
        self.stdout.read_exact(&mut answer)?;
        Ok(answer)
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
