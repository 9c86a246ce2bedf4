//! The functions of the header: pointers are checked here, the rest is the table's.
//!
//! What each asks of its caller is that pointers are null or point to what their type says, and that a datapath is one of
//! anole_init() and was not freed.

#![allow(clippy::missing_safety_doc, reason = "the same for all, above")]

use crate::callbacks::Callbacks;
use crate::handle::AnoleDatapath;
use crate::table::{Options, Table};
use crate::types::{
    ANOLE_ABI_VERSION, ANOLE_MAX_MSS, ANOLE_UNKNOWN, AnoleConfig, AnoleConnectionInfo, AnoleFlowInfo,
    AnolePrimitives, AnoleStatus,
};
use anole::{InProcess, Settings};
use anole_datapath::AckSample;
use anole_datapath::wire::{AlgorithmName, CreateMessage};
use anole_model::{Bounds, Dur};
use core::ffi::{CStr, c_char, c_void};

/// As of the runtime's hosts: five heartbeats of the agent.
const AGENT_TIMEOUT_US: u64 = 500_000;

/// The library's ANOLE_ABI_VERSION.
#[unsafe(no_mangle)]
pub extern "C" fn anole_abi_version() -> u32 {
    ANOLE_ABI_VERSION
}

/// What a status means, in English. The text is never freed; a number that is no status has a text as well.
#[unsafe(no_mangle)]
pub extern "C" fn anole_status_text(status: i32) -> *const c_char {
    use AnoleStatus as S;
    let text = [
        (S::Ok, c"done"),
        (S::Argument, c"a null pointer, a missing callback, or a value without meaning"),
        (S::Version, c"the program was compiled with another version of anole_datapath.h than the library"),
        (S::Busy, c"the datapath is in use by another thread, or by the call that made this callback"),
        (S::UnknownConnection, c"no connection has this number"),
        (S::Send, c"send_msg did not take the message; try again when the agent is there"),
        (S::Message, c"the datagram is not what an agent may say"),
        (S::Program, c"the program was refused"),
        (S::UnknownProgram, c"the agent named a program that is not here; it is asked to send it again"),
        (S::ProgramsFull, c"there is no place for another program"),
        (S::NoAgent, c"an algorithm in the process decides here; there is no agent"),
        (S::Algorithm, c"no algorithm has this name; anole-ccp algs lists them"),
        (S::Internal, c"a fault of the library; the datapath is out of use"),
    ];
    let known = text.iter().find(|(known, _)| *known as i32 == status);
    known.map_or(c"no status of this library", |(_, text)| text).as_ptr()
}

/// Makes a datapath. The agent is not told of it: see anole_ready().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anole_init(
    config: *const AnoleConfig,
    datapath: *mut *mut AnoleDatapath,
) -> AnoleStatus {
    if config.is_null() || datapath.is_null() {
        return AnoleStatus::Argument;
    }
    // The two numbers that come first in every version say whether the rest may be read.
    // SAFETY: not null, and the caller's word that it is a configuration.
    let versions = unsafe { config.cast::<[u32; 2]>().read_unaligned() };
    if versions != [ANOLE_ABI_VERSION, size_of::<AnoleConfig>() as u32] {
        return AnoleStatus::Version;
    }
    // SAFETY: as above, and of this size.
    let config = unsafe { config.read_unaligned() };
    match table(&config) {
        Ok(table) => {
            // SAFETY: not null, and the caller's word that it may be written.
            unsafe { datapath.write(Box::into_raw(Box::new(AnoleDatapath::new(table)))) };
            AnoleStatus::Ok
        }
        Err(status) => status,
    }
}

/// Ends all connections of a datapath, tells the agent, and releases it. Null is let pass. From within a callback it does
/// nothing and returns ANOLE_STATUS_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anole_free(datapath: *mut AnoleDatapath) -> AnoleStatus {
    let status = match unsafe { datapath.as_ref() } {
        None => return AnoleStatus::Ok,
        Some(datapath) => datapath.call(|table| {
            table.close_all();
            Ok(())
        }),
    };
    if status != AnoleStatus::Busy {
        // SAFETY: it was made by anole_init(), and nobody uses it.
        drop(unsafe { Box::from_raw(datapath) });
    }
    status
}

/// Tells the agent that a datapath is there, which has it send its programs; each connection is announced again with its
/// next ACK. To be called when the way to the agent is open, and whenever a new agent has taken the old one's place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anole_ready(datapath: *mut AnoleDatapath) -> AnoleStatus {
    with(datapath, Table::ready)
}

/// Starts a connection and announces it to the agent; CUBIC in the library governs it until the agent answers. `impl` is
/// handed to the callbacks; `set_cwnd` is called before this returns. The connection's number is never 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anole_connection_start(
    datapath: *mut AnoleDatapath,
    r#impl: *mut c_void,
    info: *const AnoleFlowInfo,
    connection: *mut u32,
) -> AnoleStatus {
    if info.is_null() || connection.is_null() {
        return AnoleStatus::Argument;
    }
    // SAFETY: not null, and the caller's word.
    let info = unsafe { info.read_unaligned() };
    let Some(create) = create(&info) else { return AnoleStatus::Argument };
    with(datapath, |table| {
        let id = table.start(r#impl, create)?;
        // SAFETY: not null, and the caller's word.
        unsafe { connection.write(id) };
        Ok(())
    })
}

/// Ends a connection and tells the agent. Where `send_msg` does not take that, it is given it again in later calls of
/// anole_invoke(), anole_read_msg() and anole_connection_start().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anole_connection_free(datapath: *mut AnoleDatapath, connection: u32) -> AnoleStatus {
    with(datapath, |table| table.close(connection))
}

/// Takes what one ACK, loss detection or timeout tells. `governor`, `set_cwnd` and `set_rate` are called for what has
/// changed, `send_msg` for a report, all before this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anole_invoke(
    datapath: *mut AnoleDatapath,
    connection: u32,
    primitives: *const AnolePrimitives,
) -> AnoleStatus {
    if primitives.is_null() {
        return AnoleStatus::Argument;
    }
    // SAFETY: not null, and the caller's word.
    let sample = sample(unsafe { &*primitives });
    with(datapath, |table| table.invoke(connection, &sample))
}

/// Takes one datagram of the agent, which may hold several messages. What it asks for takes effect at the next
/// anole_invoke() of the connection. Any bytes may be handed in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anole_read_msg(
    datapath: *mut AnoleDatapath,
    datagram: *const u8,
    bytes: usize,
) -> AnoleStatus {
    if datagram.is_null() || isize::try_from(bytes).is_err() {
        return AnoleStatus::Argument;
    }
    // SAFETY: not null, not too long, and the caller's word.
    let datagram = unsafe { std::slice::from_raw_parts(datagram, bytes) };
    with(datapath, |table| table.read(datagram))
}

/// The largest segment of a connection has changed (path-MTU discovery); `set_cwnd` is called if the smallest window is
/// now larger than the window. `mss` is 1 to ANOLE_MAX_MSS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anole_set_mss(
    datapath: *mut AnoleDatapath,
    connection: u32,
    mss: u32,
) -> AnoleStatus {
    if !is_segment(mss) {
        return AnoleStatus::Argument;
    }
    with(datapath, |table| table.set_mss(connection, mss))
}

/// The state of a connection: window, rate, who decides, counters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anole_connection_info(
    datapath: *mut AnoleDatapath,
    connection: u32,
    info: *mut AnoleConnectionInfo,
) -> AnoleStatus {
    if info.is_null() {
        return AnoleStatus::Argument;
    }
    with(datapath, |table| {
        let state = table.info(connection)?;
        // SAFETY: not null, and the caller's word.
        unsafe { info.write(state) };
        Ok(())
    })
}

fn with(
    datapath: *mut AnoleDatapath,
    call: impl FnOnce(&mut Table) -> Result<(), AnoleStatus>,
) -> AnoleStatus {
    // SAFETY: null, or the caller's word that it was made by anole_init() and not freed.
    match unsafe { datapath.as_ref() } {
        Some(datapath) => datapath.call(call),
        None => AnoleStatus::Argument,
    }
}

fn table(config: &AnoleConfig) -> Result<Table, AnoleStatus> {
    let sizes = [config.flow_info_size, config.primitives_size, config.connection_info_size];
    let ours = [size_of::<AnoleFlowInfo>(), size_of::<AnolePrimitives>(), size_of::<AnoleConnectionInfo>()];
    if sizes != ours.map(|size| size as u32) {
        return Err(AnoleStatus::Version);
    }
    let callbacks = Callbacks::of(config).ok_or(AnoleStatus::Argument)?;
    let or = |value: u32, default| if value == 0 { default } else { value };
    let bounds = Bounds {
        min_cwnd_packets: or(config.min_cwnd_packets, Bounds::DEFAULT.min_cwnd_packets),
        max_cwnd_bytes: or(config.max_cwnd_bytes, Bounds::DEFAULT.max_cwnd_bytes),
        min_rate_bytes_per_s: or(config.min_rate_bytes_per_s, Bounds::DEFAULT.min_rate_bytes_per_s),
        max_rate_bytes_per_s: or(config.max_rate_bytes_per_s, Bounds::DEFAULT.max_rate_bytes_per_s),
    };
    if bounds.min_rate_bytes_per_s > bounds.max_rate_bytes_per_s {
        return Err(AnoleStatus::Argument);
    }
    let in_process = match unsafe { config.algorithm.as_ref() } {
        None => None,
        // SAFETY: not null, and the caller's word that it ends in NUL.
        Some(name) => Some(in_process(unsafe { CStr::from_ptr(name) }, bounds)?),
    };
    let timeout_us = if config.agent_timeout_us == 0 { AGENT_TIMEOUT_US } else { config.agent_timeout_us };
    let agent_timeout = Dur::from_micros(timeout_us);
    Ok(Table::new(callbacks, Options { id: config.id, bounds, agent_timeout, in_process }))
}

fn in_process(name: &CStr, bounds: Bounds) -> Result<InProcess, AnoleStatus> {
    let algorithm = name.to_str().map_err(|_| AnoleStatus::Algorithm)?.to_string();
    InProcess::new(Settings { algorithm, bounds, ..Settings::default() }).map_err(|_| AnoleStatus::Algorithm)
}

fn is_segment(mss: u32) -> bool {
    (1..=ANOLE_MAX_MSS).contains(&mss)
}

fn create(info: &AnoleFlowInfo) -> Option<CreateMessage> {
    let name = info.alg.map(|byte| byte as u8);
    let name = CStr::from_bytes_until_nul(&name).ok()?.to_str().ok()?;
    is_segment(info.mss).then_some(CreateMessage {
        init_cwnd: info.init_cwnd,
        mss: info.mss,
        src_ip: info.src_ip,
        src_port: info.src_port,
        dst_ip: info.dst_ip,
        dst_port: info.dst_port,
        algorithm: AlgorithmName::new(name)?,
    })
}

fn sample(primitives: &AnolePrimitives) -> AckSample {
    AckSample {
        bytes_acked: primitives.bytes_acked,
        packets_acked: primitives.packets_acked,
        bytes_misordered: primitives.bytes_misordered,
        packets_misordered: primitives.packets_misordered,
        ecn_bytes: primitives.ecn_bytes,
        ecn_packets: primitives.ecn_packets,
        lost_packets: primitives.lost_pkts_sample,
        was_timeout: primitives.was_timeout != 0,
        rtt_us: primitives.rtt_sample_us,
        rate_outgoing: primitives.rate_outgoing,
        rate_incoming: primitives.rate_incoming,
        bytes_in_flight: Some(primitives.bytes_in_flight).filter(|&bytes| bytes != ANOLE_UNKNOWN),
        packets_in_flight: primitives.packets_in_flight,
        bytes_pending: primitives.bytes_pending,
        app_limited: primitives.app_limited != 0,
    }
}
