// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! Connections that are chosen by cgroup and by prefix.

use super::support::{choose, next, registered};
use anole_bpf::{BpfDatapath, Error, Mode, Prefix, top_cgroup};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The congestion control of a connection.
pub fn control_name(stream: &TcpStream) -> String {
    let mut name = [0u8; 16];
    let mut length = name.len() as libc::socklen_t;
    // SAFETY: writes at most `length` bytes.
    let got = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_mut_ptr().cast(),
            &mut length,
        )
    };
    assert_eq!(got, 0);
    String::from_utf8(name.into_iter().take_while(|&byte| byte != 0).collect()).unwrap()
}

/// What a connection to `host` uses, and what the one at its other end does.
fn controls(host: &str) -> Option<[String; 2]> {
    let listener = TcpListener::bind(SocketAddr::new(host.parse().unwrap(), 0)).ok()?;
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    Some([control_name(&client), control_name(&server)])
}

fn client(host: &str) -> Option<String> {
    controls(host).map(|[client, _]| client)
}

/// What a connection uses that asks for Reno before it is established.
fn own_choice(host: &str) -> String {
    control_name(&connect_with(host, "reno").0)
}

/// One that asks for this, and its other end.
pub fn connect_with(host: &str, control: &str) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(SocketAddr::new(host.parse().unwrap(), 0)).unwrap();
    let SocketAddr::V4(to) = listener.local_addr().unwrap() else { panic!("IPv4 only") };
    // SAFETY: a new descriptor, ours alone.
    let stream = unsafe {
        TcpStream::from_raw_fd(libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0))
    };
    choose(&stream, control);
    // SAFETY: all fields are integers.
    let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    address.sin_family = libc::AF_INET as libc::sa_family_t;
    address.sin_port = to.port().to_be();
    address.sin_addr.s_addr = u32::from_ne_bytes(to.ip().octets());
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: an address and its length.
    assert_eq!(unsafe { libc::connect(stream.as_raw_fd(), (&raw const address).cast(), length) }, 0);
    (stream, listener.accept().unwrap().0)
}

/// The datapath and the host's cgroups; `None`, with the reason printed, where there are none.
fn prepared() -> Option<(BpfDatapath, std::sync::MutexGuard<'static, ()>, PathBuf)> {
    let Some(top) = top_cgroup() else {
        anole_testing::skip!("there is no cgroup2 file system");
        return None;
    };
    let (mut datapath, guard) = registered(Mode::Generated)?;
    next(&mut datapath, 5);
    Some((datapath, guard, top))
}

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

/// Addresses of loopback that no other test uses.
#[test]
fn prefixes_choose_connections() {
    let Some((mut datapath, _guard, top)) = prepared() else { return };
    let before = client("127.0.0.1").unwrap();
    let chosen = [(prefix("127.77.0.0/16"), None), (prefix("127.77.2.0/24"), Some("libra-rl"))];
    datapath.select(&top, None, &chosen).unwrap();
    assert_eq!(client("127.0.0.1").unwrap(), before, "other destinations");
    assert_eq!(client("127.77.1.1").unwrap(), "anole_ccp");
    assert_eq!(client("127.77.2.1").unwrap(), "anole_libra_rl", "the longest prefix");
    if let Some(mapped) = client("::ffff:127.77.1.1") {
        assert_eq!(mapped, "anole_ccp", "IPv4 over an IPv6 socket");
    }
    assert_eq!(own_choice("127.77.1.1"), "reno", "what a program chose stays");
    drop(datapath);
    assert_eq!(client("127.77.1.1").unwrap(), before, "it ends with the datapath");
}

#[test]
fn prefixes_of_ipv6_choose_connections() {
    let Some((mut datapath, _guard, top)) = prepared() else { return };
    let Some(before) = client("::1") else {
        anole_testing::skip!("there is no IPv6");
        return;
    };
    datapath.select(&top, None, &[(prefix("2001:db8::/32"), None)]).unwrap();
    assert_eq!(client("::1").unwrap(), before);
    datapath.select(&top, None, &[(prefix("::1/128"), Some("libra-rl"))]).unwrap();
    let [client, server] = controls("::1").unwrap();
    assert_eq!([client.as_str(), server.as_str()], ["anole_libra_rl"; 2], "on both ends");
}

/// A cgroup that is gone when this is dropped.
pub struct Cgroup(pub PathBuf);

impl Cgroup {
    pub fn new(above: &Path, name: &str) -> Option<Cgroup> {
        let path = above.join(name);
        match std::fs::create_dir(&path) {
            Ok(()) => Some(Cgroup(path)),
            Err(error) => {
                anole_testing::skip!("{}: {error}", path.display());
                None
            }
        }
    }

    /// Runs one of the tests that are ignored, in it.
    pub fn run(&self, test: &str) -> std::process::Output {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "--nocapture", test]);
        let procs = self.0.join("cgroup.procs");
        // SAFETY: writes a file, without more.
        unsafe { command.pre_exec(move || std::fs::write(&procs, "0")) };
        command.output().unwrap()
    }

    /// What a connection of a process in it uses.
    fn control(&self) -> String {
        let output = self.run("selection::one_connection");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = said.lines().find_map(|line| line.split("uses ").nth(1));
        line.unwrap_or_else(|| panic!("{output:?}")).to_string()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
#[ignore = "what Cgroup::control() runs"]
fn one_connection() {
    println!("\nuses {}", client("127.0.0.1").unwrap());
}

#[test]
fn cgroups_choose_connections() {
    let Some((mut datapath, _guard, top)) = prepared() else { return };
    let Some(outer) = Cgroup::new(&top, &format!("anole-test-{}", std::process::id())) else { return };
    let Some(inner) = Cgroup::new(&outer.0, "inner") else { return };
    let before = client("127.0.0.1").unwrap();
    assert_eq!(inner.control(), before);
    datapath.select(&outer.0, None, &[]).unwrap();
    assert_eq!((outer.control(), inner.control()), ("anole_ccp".to_string(), "anole_ccp".to_string()));
    assert_eq!(client("127.0.0.1").unwrap(), before, "a process outside");
    datapath.select(&inner.0, Some("libra-rl"), &[]).unwrap();
    assert_eq!((outer.control(), inner.control()), ("anole_ccp".to_string(), "anole_libra_rl".to_string()));

    let missing = datapath.select(&outer.0.join("none"), None, &[]).unwrap_err();
    assert!(matches!(missing, Error::Cgroup { .. }), "{missing}");
    let elsewhere = datapath.select(Path::new("/proc"), None, &[]).unwrap_err();
    assert!(elsewhere.to_string().contains(&*top.to_string_lossy()), "{elsewhere}");
    let unknown = datapath.select(&outer.0, Some("nonesuch"), &[]).unwrap_err();
    assert!(unknown.to_string().contains("libra-rl"), "{unknown}");
}
