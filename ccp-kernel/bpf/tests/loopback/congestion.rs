// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! What a flow under a program does about ECN marks and timeouts, in a network namespace of its own.

use super::idle::{alone, answer, connected, is_acknowledged, threshold, unacknowledged, window};
use super::support::{choose, fields, info, message, next, registered, settle, sums, word, words};
use anole_bpf::{BpfDatapath, Mode, top_cgroup};
use libbpf_rs::libbpf_sys::{
    BPF_CGROUP_INET_EGRESS, BPF_PROG_TYPE_CGROUP_SKB, bpf_insn, bpf_link_create, bpf_prog_load,
};
use std::fs::File;
use std::io::Write;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Packets.
pub const WINDOW: u32 = 100;
const PATIENCE: Duration = Duration::from_secs(20);
/// Places of primitives on the wire.
const ECN_PACKETS: u32 = 3;
pub const LOST_PACKETS: u32 = 4;
pub const WAS_TIMEOUT: u32 = 14;

/// Marks every packet of the host that is ECN-capable, as long as it is there: those of this namespace.
struct Marking {
    _link: OwnedFd,
}

impl Marking {
    fn begin() -> Option<Marking> {
        std::fs::write("/proc/sys/net/ipv4/tcp_ecn", "1").unwrap();
        let insn = |code, dst, imm| {
            let mut insn = bpf_insn { code, imm, ..bpf_insn::default() };
            insn.set_dst_reg(dst);
            insn
        };
        // call bpf_skb_ecn_set_ce; r0 = 1; exit
        let code = [insn(0x85, 0, 97), insn(0xb7, 0, 1), insn(0x95, 0, 0)];
        // SAFETY: strings and instructions that live through the call.
        let program = unsafe {
            let (name, licence) = (c"anole_mark".as_ptr(), c"GPL".as_ptr());
            bpf_prog_load(BPF_PROG_TYPE_CGROUP_SKB, name, licence, code.as_ptr(), 3, std::ptr::null_mut())
        };
        let Some(cgroup) = top_cgroup().and_then(|path| File::open(path).ok()) else {
            anole_testing::skip!("there is no cgroup2 file system");
            return None;
        };
        assert!(program >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: two descriptors that are open; the new ones are ours alone.
        let link = unsafe {
            let program = OwnedFd::from_raw_fd(program);
            let (at, kind) = (cgroup.as_raw_fd(), BPF_CGROUP_INET_EGRESS);
            bpf_link_create(program.as_raw_fd(), at, kind, std::ptr::null())
        };
        assert!(link >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: as above.
        Some(Marking { _link: unsafe { OwnedFd::from_raw_fd(link) } })
    }
}

/// Starts a connection's flow under the program with this id and a window of 100 packets; its id and packet size.
pub fn govern(datapath: &mut BpfDatapath, stream: &TcpStream, uid: u32) -> (u32, u64) {
    let port = u32::from(stream.local_addr().unwrap().port());
    // An earlier flow may have been announced again.
    let create = loop {
        let create = next(datapath, 0);
        if word(&create, 20) == port {
            break create;
        }
    };
    let (sid, mss) = (word(&create, 4), u64::from(word(&create, 12)));
    let change = [words(&[uid, 2]), fields(u64::from(WINDOW) * mss, 0)].concat();
    datapath.send(&message(4, sid, &change)).unwrap();
    (sid, mss)
}

/// The sums of the registers of every report of a flow while some data are sent.
pub fn sum_reports(stream: &mut TcpStream, datapath: &mut BpfDatapath, sid: u32) -> [u32; 2] {
    let (mut sum, mut buffer) = ([0; 2], [0; 1024]);
    for _ in 0..20 {
        stream.write_all(&vec![1; 20_000]).unwrap();
        while datapath.receive(&mut buffer, Duration::from_millis(10)).is_some() {
            if buffer[0] == 1 && word(&buffer, 4) == sid && word(&buffer, 12) > 0 {
                sum = [sum[0] + word(&buffer, 16), sum[1] + word(&buffer, 24)];
                datapath.send(&message(3, sid, &words(&[0]))).unwrap();
            }
        }
    }
    sum
}

#[test]
fn marks_are_losses_to_a_program_that_reads_no_ecn() {
    let Some((mut datapath, _guard)) = registered(Mode::Generated) else { return };
    alone(move || {
        let Some(_marking) = Marking::begin() else { return };
        next(&mut datapath, 5);
        let blind = sums(1, &[LOST_PACKETS, WAS_TIMEOUT], 0);
        let seeing = sums(2, &[LOST_PACKETS, ECN_PACKETS], 0);
        datapath.send(&[blind, seeing].concat()).unwrap();
        datapath.beat();
        for uid in [1, 2] {
            let (mut stream, _other) = connected("anole_ccp");
            let (sid, _mss) = govern(&mut datapath, &stream, uid);
            let [lost, marked] = sum_reports(&mut stream, &mut datapath, sid);
            // tcpi_total_retrans
            assert_eq!(word(&info(&stream), 100), 0, "nothing was lost");
            match uid {
                1 => assert!(lost > 0 && marked == 0, "no loss is told"),
                _ => assert!(lost == 0 && marked > 0, "{lost} losses and {marked} marks are told"),
            }
            drop(stream);
        }
    });
}

/// Has what arrives for a socket dropped.
pub fn drop_arrivals(stream: &TcpStream, yes: bool) {
    // BPF_RET 0 (linux/filter.h)
    let nothing = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 };
    let option = if yes { libc::SO_ATTACH_FILTER } else { libc::SO_DETACH_FILTER };
    filter_arrivals(stream, &[nothing], option);
}

/// Has what arrives for a socket dropped, but for small packets.
fn drop_full_arrivals(stream: &TcpStream) {
    let code = |code, jt, k| libc::sock_filter { code, jt, jf: 0, k };
    // ld len; jge 500, behind the next; ret all; ret 0
    let full = [code(0x80, 0, 0), code(0x35, 1, 500), code(0x06, 0, u32::MAX), code(0x06, 0, 0)];
    filter_arrivals(stream, &full, libc::SO_ATTACH_FILTER);
}

/// Has one in four packets that arrive for a socket dropped.
fn drop_some_arrivals(stream: &TcpStream) {
    let code = |code, jt, k| libc::sock_filter { code, jt, jf: 0, k };
    // ld rand; jge 3/4 of its range, behind the next; ret all; ret 0
    let some =
        [code(0x20, 0, 0xffff_f038), code(0x35, 1, 0xc000_0000), code(0x06, 0, u32::MAX), code(0x06, 0, 0)];
    filter_arrivals(stream, &some, libc::SO_ATTACH_FILTER);
}

fn filter_arrivals(stream: &TcpStream, code: &[libc::sock_filter], option: libc::c_int) {
    let filter = libc::sock_fprog { len: code.len() as u16, filter: code.as_ptr().cast_mut() };
    // SAFETY: the option's value, which lives through the call.
    let set = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const filter).cast(),
            size_of_val(&filter) as libc::socklen_t,
        )
    };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A governed flow, its other end, its id and its packet size, when its window is what was commanded.
fn governed(datapath: &mut BpfDatapath) -> (TcpStream, TcpStream, u32, u64) {
    datapath.send(&sums(1, &[WAS_TIMEOUT], 0)).unwrap();
    datapath.beat();
    let (mut stream, other) = connected("anole_ccp");
    let (sid, mss) = govern(datapath, &stream, 1);
    stream.write_all(&[1; 100]).unwrap();
    settle(datapath, sid);
    answer(datapath, Duration::from_millis(200));
    assert_eq!(window(&stream), WINDOW);
    (stream, other, sid, mss)
}

/// A governed flow with a small packet and 40 others in flight, or what the receiver's window holds, none of which arrive,
/// after its first timeout.
fn after_a_timeout(datapath: &mut BpfDatapath) -> (TcpStream, TcpStream, u32, u64) {
    let (mut stream, other, sid, mss) = governed(datapath);
    drop_arrivals(&other, true);
    stream.write_all(&[1; 100]).unwrap();
    stream.write_all(&vec![1; 40 * mss as usize]).unwrap();
    until("a timeout takes the window", || window(&stream) == 1);
    (stream, other, sid, mss)
}

#[test]
fn after_a_timeout_the_window_is_small_until_the_agent_commands() {
    let Some((mut datapath, _guard)) = registered(Mode::Generated) else { return };
    alone(move || {
        next(&mut datapath, 5);
        let (mut stream, other, sid, mss) = after_a_timeout(&mut datapath);
        drop_arrivals(&other, false);
        let mut timeouts = 0;
        let end = Instant::now() + PATIENCE;
        while !is_acknowledged(&stream) {
            assert!(Instant::now() < end, "what was lost is sent again");
            let report = next(&mut datapath, 1);
            timeouts += word(&report, 16);
            datapath.send(&message(3, sid, &words(&[0]))).unwrap();
        }
        assert!(timeouts > 0, "the program is told");
        let grown = window(&stream);
        assert!((2..WINDOW).contains(&grown), "{grown} packets: slow start, since nothing was commanded");
        let command = [words(&[2]), fields(u64::from(WINDOW) * mss, 0)].concat();
        datapath.send(&message(3, sid, &command)).unwrap();
        stream.write_all(&[1; 100]).unwrap();
        settle(&mut datapath, sid);
        until("the window is the agent's", || window(&stream) == WINDOW);
    });
}

#[test]
fn a_timeout_that_lost_nothing_is_undone_without_a_command() {
    let Some((mut datapath, _guard)) = registered(Mode::Generated) else { return };
    alone(move || {
        next(&mut datapath, 5);
        let (mut stream, _other, _sid, mss) = governed(&mut datapath);
        // ACKs do not arrive; data do.
        drop_arrivals(&stream, true);
        stream.write_all(&vec![1; 20 * mss as usize]).unwrap();
        until("a timeout takes the window", || {
            datapath.beat();
            window(&stream) == 1
        });
        drop_arrivals(&stream, false);
        // The ACK of what is sent again acknowledges what was not: F-RTO (RFC 5682) finds the timeout spurious.
        until("data are acknowledged", || {
            datapath.beat();
            is_acknowledged(&stream)
        });
        stream.write_all(&[1; 100]).unwrap();
        until("one more packet is", || {
            datapath.beat();
            is_acknowledged(&stream)
        });
        assert_eq!((window(&stream), datapath.stats().fallbacks), (WINDOW, 0));
    });
}

#[test]
fn an_algorithm_chosen_in_mid_connection_takes_over_the_threshold() {
    let Some((_datapath, _guard)) = registered(Mode::Generated) else { return };
    alone(|| {
        let (mut stream, other) = connected("reno");
        assert!(threshold(&stream) > 1 << 30, "slow start");
        drop_some_arrivals(&other);
        until("a loss ends slow start", || {
            let _ = stream.write(&[1; 1 << 14]);
            threshold(&stream) < 1 << 30
        });
        drop_arrivals(&other, false);
        until("what was lost is sent again", || is_acknowledged(&stream));
        let before = threshold(&stream);
        choose(&stream, "anole_ccp");
        stream.write_all(&[1; 100]).unwrap();
        until("an ACK comes", || is_acknowledged(&stream));
        assert_eq!(threshold(&stream), before);
    });
}

#[test]
fn an_agent_lost_after_a_timeout_leaves_the_threshold_of_the_flight() {
    let Some((mut datapath, _guard)) = registered(Mode::Generated) else { return };
    alone(move || {
        next(&mut datapath, 5);
        let (stream, other, _sid, _mss) = after_a_timeout(&mut datapath);
        let flight = unacknowledged(&stream);
        // Its heartbeat grows old.
        std::thread::sleep(Duration::from_millis(600));
        // One ACK comes. Those of the others would have CUBIC leave slow start early (HyStart).
        drop_full_arrivals(&other);
        until("slow start to 0.7 of what was in flight", || threshold(&stream) == flight * 7 / 10);
        assert_eq!(datapath.stats().fallbacks, 1);
    });
}

/// tcpi_ca_state while losses are repaired (TCP_CA_Recovery).
const RECOVERY: u8 = 3;
/// Where tcp_info has tcpi_segs_in.
const SEGMENTS_IN: usize = 140;

#[test]
fn while_the_agent_is_late_a_recovery_sends_what_arrives() {
    let Some((mut datapath, _guard)) = registered(Mode::Generated) else { return };
    alone(move || {
        next(&mut datapath, 5);
        datapath.send(&sums(1, &[LOST_PACKETS], 0)).unwrap();
        // Readings with a window that shrank and with a whole one.
        let (mut shrunk, mut whole, end) = (0, 0, Instant::now() + PATIENCE);
        while shrunk < 20 {
            assert!(Instant::now() < end, "in recoveries {shrunk} windows shrank and {whole} did not");
            datapath.beat();
            let (stream, other) = connected("anole_ccp");
            govern(&mut datapath, &stream, 1);
            drop_some_arrivals(&other);
            stream.set_nonblocking(true).unwrap();
            // Before it is given up.
            let late = Instant::now() + Duration::from_millis(300);
            // ACKs before the recovery: a timer may have begun it, and the window follows the next ACK.
            let mut before = None;
            while Instant::now() < late {
                datapath.beat();
                let _ = (&stream).write(&[1; 1 << 16]);
                let info = info(&stream);
                if info[1] != RECOVERY {
                    before = None;
                } else if *before.get_or_insert(word(&info, SEGMENTS_IN)) < word(&info, SEGMENTS_IN)
                    && Instant::now() < late
                {
                    // Between two readings one recovery may end and a timer begin the next.
                    if word(&info, 80) < WINDOW { shrunk += 1 } else { whole += 1 }
                }
            }
        }
        assert!(whole * 4 <= shrunk, "{whole} of {} windows did not shrink", whole + shrunk);
    });
}
