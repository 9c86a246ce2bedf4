//! The structures of the header.
//!
//! No field has a type that C could fill with a value unknown to Rust: flags are bytes, enumerations only go to C.

use core::ffi::{c_char, c_int, c_void};

/// Version of this interface. It changes with every incompatible change of a structure or a function.
pub const ANOLE_ABI_VERSION: u32 = 1;

/// Bytes of an algorithm's name with its closing NUL.
pub const ANOLE_ALGORITHM_NAME_BYTES: usize = 64;

/// Largest segment that a connection may have, bytes: that of IP. An agent takes no larger one either.
pub const ANOLE_MAX_MSS: u32 = 65535;

/// Stands for a number that the transport does not know.
pub const ANOLE_UNKNOWN: u32 = u32::MAX;

/// What a call did.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnoleStatus {
    /// It did what it was asked.
    Ok = 0,
    /// A null pointer, a missing callback, or a value without meaning.
    Argument = -1,
    /// Program and library were made for different versions of the header.
    Version = -2,
    /// Another call is using the datapath: in another thread, or around the callback that made this one.
    Busy = -3,
    /// No connection has this number (any more).
    UnknownConnection = -4,
    /// `send_msg` did not take the message. The call is to be repeated.
    Send = -5,
    /// A datagram that is not what an agent may say. What was sound in it is in force.
    Message = -6,
    /// A program that could do harm or is not one. It was not installed.
    Program = -7,
    /// A message named a program that is not here. The library asks the agent to send its programs again.
    UnknownProgram = -8,
    /// There is no place for another program (256 are there).
    ProgramsFull = -9,
    /// The call is about an agent, and an algorithm in the process decides here.
    NoAgent = -11,
    /// No algorithm has the name that the configuration gives.
    Algorithm = -12,
    /// A fault of the library. The datapath is out of use; anole_free() releases it.
    Internal = -10,
}

/// Who decides over a connection.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnoleGovernor {
    /// CUBIC in the library, because no agent has answered (yet, or for too long).
    Fallback = 0,
    /// The program that the agent installed, or the algorithm in the process.
    Agent = 1,
}

/// How much a line of the log matters.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnoleLogLevel {
    /// For those who look for something.
    Debug = 0,
    /// Something that the transport's operator should know.
    Warn = 1,
    /// A fault of the library.
    Error = 2,
}

/// What a datapath is made with. Begin with anole_config_of_header().
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AnoleConfig {
    /// ANOLE_ABI_VERSION.
    pub abi_version: u32,
    /// sizeof(struct anole_config).
    pub config_size: u32,
    /// sizeof(struct anole_flow_info).
    pub flow_info_size: u32,
    /// sizeof(struct anole_primitives).
    pub primitives_size: u32,
    /// sizeof(struct anole_connection_info).
    pub connection_info_size: u32,
    /// Names the datapath in READY, for the agent's log: a process id, for instance.
    pub id: u32,
    /// Who decides. Null: an agent. Otherwise the name of an algorithm of `anole-ccp algs`, which decides in this process,
    /// on the calling thread; there is no agent then, and `send_msg` may be null. Read by anole_init() alone.
    pub algorithm: *const c_char,
    /// Handed to every callback.
    pub context: *mut c_void,
    /// The connection's window is `cwnd_bytes` from now on. Called by anole_connection_start(), and by calls on the
    /// connection when the window has changed. Not null.
    pub set_cwnd: Option<extern "C" fn(context: *mut c_void, r#impl: *mut c_void, cwnd_bytes: u32)>,
    /// The connection is paced at `bytes_per_s` from now on; 0: pacing is the transport's affair again. Called when the
    /// rate has changed; before the first call the rate is 0. Null where a transport cannot pace.
    pub set_rate: Option<extern "C" fn(context: *mut c_void, r#impl: *mut c_void, bytes_per_s: u32)>,
    /// The time in microseconds from an epoch of the transport's choice. It is never set back. Not null.
    pub now: Option<extern "C" fn(context: *mut c_void) -> u64>,
    /// Hands one message to the agent, whole, and without waiting. Returns 0, or another number if the message was
    /// not taken: no agent, or its queue is full. Not null where an agent decides.
    pub send_msg: Option<extern "C" fn(context: *mut c_void, message: *const u8, bytes: usize) -> c_int>,
    /// The connection is governed by somebody else from now on. At its start it is CUBIC in the library, which is not
    /// told. May be null.
    pub governor: Option<extern "C" fn(context: *mut c_void, r#impl: *mut c_void, governor: AnoleGovernor)>,
    /// One line for the log, without a newline; the text is the library's and gone after the call. May be null.
    pub log: Option<extern "C" fn(context: *mut c_void, level: AnoleLogLevel, line: *const c_char)>,
    /// The agent is taken for lost when nothing could be handed to it for this long, in microseconds, or for four round trips,
    /// whichever is longer, or, where it answers every report (it has sent an UPDATE without commands, or the host has announced
    /// a new one), when a message has waited for an answer for that long; any other after 32 times as long. 0: 500 ms.
    pub agent_timeout_us: u64,
    /// Smallest window, packets. 0: 2.
    pub min_cwnd_packets: u32,
    /// Largest window, bytes. 0: 1 GiB.
    pub max_cwnd_bytes: u32,
    /// Smallest pacing rate, bytes/s. 0: 1500.
    pub min_rate_bytes_per_s: u32,
    /// Largest pacing rate, bytes/s. 0: 4e9.
    pub max_rate_bytes_per_s: u32,
}

/// What a connection is started with: the agent is told of it. Addresses that are not known are 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AnoleFlowInfo {
    /// Initial window, bytes.
    pub init_cwnd: u32,
    /// Largest segment, bytes: 1 to ANOLE_MAX_MSS.
    pub mss: u32,
    /// IPv4 address of the sender.
    pub src_ip: u32,
    /// Its port.
    pub src_port: u32,
    /// IPv4 address of the receiver.
    pub dst_ip: u32,
    /// Its port.
    pub dst_port: u32,
    /// The algorithm asked for, ending in NUL; empty leaves the choice to the agent.
    pub alg: [c_char; ANOLE_ALGORITHM_NAME_BYTES],
}

/// What one ACK, loss detection or timeout tells. Counts are of this call alone, not totals.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AnolePrimitives {
    /// Bytes newly acknowledged, in order or not, each counted once.
    pub bytes_acked: u32,
    /// Packets newly acknowledged, in order or not.
    pub packets_acked: u32,
    /// Those of the newly acknowledged bytes that arrived out of order.
    pub bytes_misordered: u32,
    /// Those of the newly acknowledged packets that arrived out of order.
    pub packets_misordered: u32,
    /// Bytes acknowledged with an ECN mark.
    pub ecn_bytes: u32,
    /// Packets acknowledged with an ECN mark.
    pub ecn_packets: u32,
    /// Packets newly found lost.
    pub lost_pkts_sample: u32,
    /// Bytes in flight; ANOLE_UNKNOWN where the transport does not tell, which counts as what the window and the pacing rate
    /// in force let into flight.
    pub bytes_in_flight: u32,
    /// Packets in flight.
    pub packets_in_flight: u32,
    /// Bytes that wait to be sent; 0: the application has nothing more, and programs take the flow for limited by it. The
    /// built-in CUBIC goes by app_limited.
    pub bytes_pending: u32,
    /// Sample of the round-trip time, microseconds; 0: none.
    pub rtt_sample_us: u64,
    /// Sending rate, bytes/s; 0: not known.
    pub rate_outgoing: u64,
    /// Delivery rate, bytes/s; 0: not known.
    pub rate_incoming: u64,
    /// Not 0: a retransmission timeout has fired.
    pub was_timeout: u8,
    /// Not 0: the application had too little to send, so that what was in flight says nothing about the path, and the
    /// built-in CUBIC's window does not grow.
    pub app_limited: u8,
}

/// The state of a connection.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnoleConnectionInfo {
    /// Window, bytes.
    pub cwnd: u32,
    /// Pacing rate, bytes/s; 0: the transport's affair.
    pub rate: u32,
    /// Who decides.
    pub governor: AnoleGovernor,
    /// Calls of anole_invoke().
    pub invocations: u64,
    /// Reports sent.
    pub reports: u64,
    /// Messages of the agent taken.
    pub updates: u64,
    /// ACKs on which the program was aborted: overflow, underflow, division by zero.
    pub aborts: u64,
    /// Times that the agent was taken for lost.
    pub fallbacks: u64,
    /// Messages that `send_msg` did not take.
    pub send_failures: u64,
}
