// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! The kernel's own algorithms, switched under connections of a cgroup.

use super::selection::{Cgroup, connect_with, control_name};
use super::support::choose;
use anole_bpf::switch::{FlowEvent, Switch, What, available};
use anole_bpf::top_cgroup;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// Places among the names: those of the host's default and of another algorithm; none has the one between them.
const OTHER: usize = 0;
const DEFAULT: usize = 2;
/// For what happens soon on a quiet host, and on a busy one some time.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection over loopback, both ends.
struct Flow {
    client: TcpStream,
    server: TcpStream,
}

impl Flow {
    fn open(host: &str) -> Flow {
        let listener = TcpListener::bind((host, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        Flow { client, server: listener.accept().unwrap().0 }
    }

    fn port(&self) -> u16 {
        self.client.local_addr().unwrap().port()
    }

    /// Sends until an event is the one that is wanted.
    fn until(&mut self, switch: &mut Switch, wanted: impl Fn(&FlowEvent) -> bool) -> FlowEvent {
        let end = Instant::now() + PATIENCE;
        let mut chunk = vec![7; 64 << 10];
        loop {
            self.client.write_all(&chunk).unwrap();
            self.server.read_exact(&mut chunk).unwrap();
            assert!(chunk.iter().all(|byte| *byte == 7));
            while let Some(event) = switch.receive(Duration::ZERO) {
                if wanted(&event) {
                    return event;
                }
            }
            assert!(Instant::now() < end, "within {PATIENCE:?}");
        }
    }
}

#[test]
#[ignore = "what the test below runs in a cgroup"]
fn in_a_cgroup() {
    // Nobody else's: this process was put into it.
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap();
    let cgroup = top_cgroup().unwrap().join(own);
    let default = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    let default = default.trim();
    let other = available().into_iter().find(|name| name != default).unwrap();
    let names = [other.as_str(), "", default];
    let mut switch = match Switch::open(&cgroup, &names, None) {
        Err(error) if error.is_out_of_reach() => return println!("\nout of reach: {error}"),
        opened => opened.unwrap(),
    };

    let mut flow = Flow::open("127.0.0.1");
    let port = flow.port();
    let of_client = |what| move |event: &FlowEvent| event.what == what && event.local_port == port;
    let begins = flow.until(&mut switch, of_client(What::Begins));
    assert_eq!((begins.arm, begins.remote), (DEFAULT, Some("127.0.0.1".parse().unwrap())));
    assert_eq!(begins.remote_port, flow.server.local_addr().unwrap().port());
    let stretch = flow.until(&mut switch, of_client(What::Stretch));
    assert_eq!((stretch.cookie, stretch.arm), (begins.cookie, DEFAULT));
    assert!(stretch.packets >= 20 && stretch.elapsed_us >= 1000, "{stretch:?}");
    assert!(stretch.acked > 0 && stretch.mean_rtt_us > 0 && stretch.min_rtt_us > 0, "{stretch:?}");

    switch.choose(begins.cookie, OTHER).unwrap();
    flow.until(&mut switch, |event| event.what == What::Stretch && event.arm == OTHER);
    assert_eq!(control_name(&flow.client), other);
    assert_eq!(control_name(&flow.server), default, "of the other end nothing was said");
    // A place that nothing has, and one that there is not.
    for arm in [1, 1 << 20] {
        switch.choose(begins.cookie, arm).unwrap();
        flow.until(&mut switch, of_client(What::Stretch));
        flow.until(&mut switch, of_client(What::Stretch));
    }
    assert_eq!(control_name(&flow.client), other);
    // What its program chooses stays, then and before it is established.
    choose(&flow.client, default);
    flow.until(&mut switch, of_client(What::Left));
    switch.choose(begins.cookie, OTHER).unwrap();
    let chosen = connect_with("127.0.0.1", default);

    // The one in force, too.
    let mut own = Flow::open("127.0.0.1");
    let own_port = own.port();
    let of_own = |what| move |event: &FlowEvent| event.what == what && event.local_port == own_port;
    let begins = own.until(&mut switch, of_own(What::Begins));
    choose(&own.client, default);
    own.until(&mut switch, of_own(What::Left));
    switch.choose(begins.cookie, OTHER).unwrap();

    let beginnings = switch.beginnings().unwrap();
    let peer = "127.88.1.7".parse().unwrap();
    beginnings.set(peer, OTHER).unwrap();
    let [near, far] = ["127.88.1.1", "127.88.2.1"].map(Flow::open);
    assert_eq!([&near, &far].map(|flow| control_name(&flow.client)), [&other, default]);
    // The second time there is nothing to remove.
    for _ in 0..2 {
        beginnings.remove(peer).unwrap();
    }
    assert_eq!(control_name(&Flow::open("127.88.1.2").client), default);
    let (ended, chooses) = (near.port(), chosen.0.local_addr().unwrap().port());
    drop(near);
    let end = Instant::now() + PATIENCE;
    loop {
        let event = switch.receive(Duration::from_millis(100));
        assert!(event.is_none_or(|event| event.local_port != chooses), "{event:?}");
        assert!(event.is_none_or(|event| event.local_port != port || event.what == What::Stretch));
        if event.is_some_and(|event| event.what == What::Ends && event.local_port == ended) {
            break;
        }
        assert!(Instant::now() < end, "the end within {PATIENCE:?}");
    }
    for chosen in [&flow, &own] {
        assert_eq!(control_name(&chosen.client), default, "who has chosen is left alone");
    }

    drop(switch);
    assert_eq!(control_name(&far.client), default);
    assert_eq!(control_name(&Flow::open("127.88.1.1").client), default, "it ends with its process");

    let switch = Switch::open(&cgroup, &names, Some(OTHER)).unwrap();
    assert_eq!(control_name(&Flow::open("127.0.0.1").client), other, "every flow begins with it");
    drop(switch);
    // An algorithm that is none of them is left alone.
    let mut switch = Switch::open(&cgroup, &names[..1], Some(OTHER)).unwrap();
    let flow = Flow::open("127.0.0.1");
    assert_eq!((control_name(&flow.client), switch.receive(Duration::ZERO)), (default.to_string(), None));
    println!("\nall is well");
}

#[test]
fn connections_of_a_cgroup_are_switched() {
    if !nix::unistd::geteuid().is_root() || !Path::new("/sys/kernel/btf/vmlinux").exists() {
        anole_testing::skip!("needs root and a kernel with BTF");
        return;
    }
    if available().len() < 2 {
        anole_testing::skip!("the kernel has one congestion control algorithm");
        return;
    }
    let Some(top) = top_cgroup() else {
        anole_testing::skip!("there is no cgroup2 file system");
        return;
    };
    let Some(cgroup) = Cgroup::new(&top, &format!("anole-switch-{}", std::process::id())) else { return };
    let output = cgroup.run("switch::in_a_cgroup");
    let said = String::from_utf8_lossy(&output.stdout);
    match said.lines().find_map(|line| line.strip_prefix("out of reach: ")) {
        Some(reason) => anole_testing::skip!("{reason}"),
        None => assert!(said.contains("all is well"), "{output:?}"),
    }
}
