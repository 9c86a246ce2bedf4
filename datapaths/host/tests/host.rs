//! The host with a scripted agent on a real socket.
#![allow(clippy::disallowed_methods, reason = "the tests run in real time on real sockets")]

mod common;

use anole_datapath::wire::{self, AlgorithmName, Install, Message};
use anole_datapath::{AckSample, Governor};
use anole_datapath_host::{FlowOptions, Host, HostFlow, HostOptions};
use common::{ScriptedAgent, eventually};
use std::collections::HashSet;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

const CWND: u32 = 200_000;
const RATE: u32 = 3_000_000;

fn spec() -> FlowOptions {
    FlowOptions {
        algorithm: AlgorithmName::new("anole").unwrap(),
        mss: 1448,
        init_cwnd: 14_480,
        local: Some(([127, 0, 0, 1], 1000).into()),
        remote: Some(([127, 0, 0, 1], 2000).into()),
    }
}

fn sample() -> AckSample {
    AckSample { bytes_acked: 1448, packets_acked: 1, rtt_us: 20_000, ..AckSample::default() }
}

/// Feeds ACKs until `condition` holds.
fn acks_until(flow: &mut HostFlow, mut condition: impl FnMut(&HostFlow) -> bool) -> bool {
    eventually(|| {
        flow.on_ack(Instant::now(), &sample());
        condition(flow)
    })
}

#[test]
fn without_an_agent_the_fallback_governs() {
    let host = Host::detached(HostOptions::default());
    let mut flow = host.open(Instant::now(), &spec());
    let before = flow.control().cwnd;
    for _ in 0..50 {
        flow.on_ack(Instant::now(), &sample());
    }
    assert_eq!(flow.governor(), Governor::Fallback);
    assert!(flow.control().cwnd > before);
    assert_eq!(host.stats().flows, 1);
    drop(flow);
    assert_eq!(host.stats().flows, 0);
}

#[test]
fn the_agent_gets_the_flow_and_hears_of_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sock");
    let agent = ScriptedAgent::start(&path, CWND, RATE);
    let host = Host::connect(&path, HostOptions::default()).unwrap();
    let mut flow = host.open(Instant::now(), &spec());
    assert!(acks_until(&mut flow, |flow| flow.governor() == Governor::Agent));
    assert!(acks_until(&mut flow, |flow| (flow.control().cwnd, flow.control().rate) == (CWND, RATE)));
    assert!(acks_until(&mut flow, |_| agent.seen.reports.load(Relaxed) >= 2));
    assert_eq!(*agent.seen.algorithm.lock().unwrap(), "anole");
    // A copy is the same flow: only the last one ends it.
    let copy = flow.clone();
    drop(flow);
    assert_eq!((host.stats().flows, agent.seen.closed.load(Relaxed)), (1, 0));
    drop(copy);
    assert!(eventually(|| agent.seen.closed.load(Relaxed) == 1));
    drop(host);
    // The agent's own socket file is all that is left.
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn an_agent_that_is_late_dies_and_returns_gets_its_flows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sock");
    let host = Host::connect(&path, HostOptions::default()).unwrap();
    let mut flow = host.open(Instant::now(), &spec());
    flow.on_ack(Instant::now(), &sample());
    assert_eq!(flow.governor(), Governor::Fallback);

    let late = ScriptedAgent::start(&path, CWND, RATE);
    assert!(acks_until(&mut flow, |flow| flow.governor() == Governor::Agent));
    assert!(late.seen.ready.load(Relaxed) >= 1);

    drop(late);
    assert!(acks_until(&mut flow, |flow| flow.governor() == Governor::Fallback));
    assert!(flow.stats().fallbacks >= 1);

    let next = ScriptedAgent::start(&path, CWND / 2, RATE);
    assert!(acks_until(&mut flow, |flow| flow.governor() == Governor::Agent));
    assert!(acks_until(&mut flow, |flow| flow.control().cwnd == CWND / 2));
    assert!(next.seen.ready.load(Relaxed) >= 1);
    assert!(host.stats().announcements >= 2);
}

/// An agent that says nothing of its own: the path of its socket, that, a datapath that has announced itself and from then on
/// hears this agent alone, and the datapath's socket.
fn mute_agent(folder: &Path) -> (PathBuf, UnixDatagram, Host, PathBuf) {
    let path = folder.join("agent.sock");
    let agent = UnixDatagram::bind(&path).unwrap();
    let host = Host::connect(&path, HostOptions::default()).unwrap();
    let (_, from) = agent.recv_from(&mut [0; 64]).unwrap();
    let own = from.as_pathname().unwrap().to_path_buf();
    (path, agent, host, own)
}

#[test]
fn strangers_and_garbage_are_refused_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (path, agent, host, own) = mute_agent(dir.path());
    let stranger = UnixDatagram::bind(dir.path().join("stranger")).unwrap();
    let update = [3, 0, 12, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(stranger.send_to(&update, &own).unwrap_err().kind(), ErrorKind::PermissionDenied);
    agent.send_to(&[9; 20], &own).unwrap();
    agent.send_to(&[], &own).unwrap();
    // An update for a flow that does not exist.
    agent.send_to(&[3, 0, 12, 0, 77, 0, 0, 0, 0, 0, 0, 0], &own).unwrap();
    assert!(eventually(|| host.stats().refused == 3), "{:?}", host.stats());
    // The thread still serves.
    let agent = ScriptedAgent::start(&path, CWND, RATE);
    let mut flow = host.open(Instant::now(), &spec());
    assert!(acks_until(&mut flow, |flow| flow.governor() == Governor::Agent));
    drop(agent);
}

#[test]
fn what_comes_for_a_flow_that_has_ended_is_not_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (_, agent, host, own) = mute_agent(dir.path());
    let flow = host.open(Instant::now(), &spec());
    let sid = flow.sid();
    drop(flow);
    for sid in [sid, 0, sid + 1] {
        agent.send_to(&wire_bytes(&Message::Update(sid, Vec::new())), &own).unwrap();
    }
    assert!(eventually(|| host.stats().refused == 2), "{:?}", host.stats());
    assert_eq!(host.stats().datagrams, 1);
}

#[test]
fn the_agent_may_know_its_path_by_another_name() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("real")).unwrap();
    std::os::unix::fs::symlink(dir.path().join("real"), dir.path().join("link")).unwrap();
    let agent = ScriptedAgent::start(&dir.path().join("real/agent.sock"), CWND, RATE);
    let host = Host::connect(&dir.path().join("link/agent.sock"), HostOptions::default()).unwrap();
    let mut flow = host.open(Instant::now(), &spec());
    assert!(acks_until(&mut flow, |flow| flow.governor() == Governor::Agent));
    drop(agent);
}

#[test]
fn flows_on_many_threads_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sock");
    let agent = ScriptedAgent::start(&path, CWND, RATE);
    let host = Host::connect(&path, HostOptions::default()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut flows: Vec<HostFlow> = (0..25).map(|_| host.open(Instant::now(), &spec())).collect();
                for flow in &mut flows {
                    assert!(acks_until(flow, |flow| flow.control().rate == RATE));
                }
            });
        }
    });
    assert!(agent.seen.created.load(Relaxed) >= 100);
    assert_eq!(host.stats().flows, 0);
}

/// A transport that probes a new path and goes back: what the agent said meanwhile holds for the old path's copy too.
#[test]
fn every_copy_of_a_flow_gets_the_agent_s_commands() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sock");
    let agent = ScriptedAgent::start(&path, CWND, RATE);
    let host = Host::connect(&path, HostOptions::default()).unwrap();
    let mut old = host.open(Instant::now(), &spec());
    let mut new = old.clone();
    assert!(acks_until(&mut new, |flow| flow.control().cwnd == CWND));
    assert!(acks_until(&mut new, |flow| flow.stats().updates >= 5));
    // What waits for the old copy waits for a copy of it as well.
    let mut third = old.clone();
    for flow in [&mut old, &mut third] {
        flow.on_ack(Instant::now(), &sample());
        assert_eq!((flow.control().cwnd, flow.governor()), (CWND, Governor::Agent));
    }
    drop(agent);
}

#[test]
fn a_flow_that_was_silent_is_announced_to_a_new_agent_with_its_first_ack() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sock");
    let agent = ScriptedAgent::start(&path, CWND, RATE);
    let host = Host::connect(&path, HostOptions::default()).unwrap();
    let mut flow = host.open(Instant::now(), &spec());
    assert!(acks_until(&mut flow, |flow| flow.governor() == Governor::Agent));
    drop(agent);
    let next = ScriptedAgent::start(&path, CWND / 2, RATE);
    assert!(eventually(|| host.stats().announcements == 2));
    flow.on_ack(Instant::now(), &sample());
    assert!(eventually(|| next.seen.created.load(Relaxed) >= 1), "announced with one ACK");
    assert!(acks_until(&mut flow, |flow| flow.control().cwnd == CWND / 2));
}

/// What the agent's queue has no room for is told when it has; dropping the host waits for that as well.
#[test]
fn an_agent_that_is_busy_hears_of_every_end() {
    const FLOWS: usize = 50;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sock");
    for host_is_dropped in [false, true] {
        let _ = std::fs::remove_file(&path);
        let agent = UnixDatagram::bind(&path).unwrap();
        agent.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let host = Host::connect(&path, HostOptions::default()).unwrap();
        let flows: Vec<_> = (0..FLOWS).map(|_| host.open(Instant::now(), &spec())).collect();
        let mut open: HashSet<u32> = flows.iter().map(HostFlow::sid).collect();
        drop(flows);
        let mut host = Some(host);
        let dropped = host_is_dropped.then(|| {
            let host = host.take();
            std::thread::spawn(move || drop(host))
        });
        let mut buffer = [0; 256];
        while !open.is_empty() {
            let (length, _) = agent.recv_from(&mut buffer).expect("every flow's end comes");
            let (message, _) = wire::decode(&buffer[..length]).unwrap();
            if let Message::Measure { sid, values, .. } = message {
                assert!(values.is_empty() && open.remove(&sid), "{sid}");
            }
        }
        dropped.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// An agent whose INSTALL did not arrive names a program that the host does not have.
#[test]
fn an_agent_is_asked_for_a_program_that_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sock");
    let agent = UnixDatagram::bind(&path).unwrap();
    agent.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let host = Host::connect(&path, HostOptions::default()).unwrap();
    let mut buffer = [0; 256];
    let mut next = || {
        let (length, from) = agent.recv_from(&mut buffer).unwrap();
        let kind = buffer[..length][0];
        (kind, from.as_pathname().unwrap().to_path_buf())
    };
    const READY: u8 = 5;
    const CREATE: u8 = 0;
    assert_eq!(next().0, READY);
    let mut flow = host.open(Instant::now(), &spec());
    let (kind, own) = next();
    assert_eq!(kind, CREATE);
    let change = wire_bytes(&Message::ChangeProgram { sid: flow.sid(), uid: 7, updates: Vec::new() });
    agent.send_to(&change, &own).unwrap();
    assert_eq!(next().0, READY);
    assert!(eventually(|| host.stats().announcements == 2));
    flow.on_ack(Instant::now(), &sample());
    assert_eq!(next().0, CREATE);
    let install = Message::Install(Install { uid: 7, expressions: &[], instructions: &[] });
    agent.send_to(&[wire_bytes(&install), change].concat(), &own).unwrap();
    assert!(acks_until(&mut flow, |flow| flow.governor() == Governor::Agent));
}

fn wire_bytes(message: &Message<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::encode(message, &mut bytes).unwrap();
    bytes
}
