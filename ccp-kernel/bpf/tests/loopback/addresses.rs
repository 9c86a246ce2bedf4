// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! What CREATE says of a connection's ends.

use super::support::{choose, next, registered, word};
use anole_bpf::Mode;
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};

#[test]
fn addresses_are_those_of_ipv4_or_none() {
    let Some((mut datapath, _guard)) = registered(Mode::Generated) else { return };
    next(&mut datapath, 5);
    datapath.beat();
    let loopback = u32::from_ne_bytes([127, 0, 0, 1]);
    let mapped = "::ffff:127.0.0.1".parse::<Ipv6Addr>().unwrap();
    for (host, expected) in
        [("127.0.0.1".parse().unwrap(), loopback), (mapped.into(), loopback), (Ipv6Addr::LOCALHOST.into(), 0)]
    {
        let listener = match TcpListener::bind(SocketAddr::new(host, 0)) {
            Ok(listener) => listener,
            Err(error) => {
                anole_testing::skip!("{host}: {error}");
                continue;
            }
        };
        // Sees the client's connection announce itself, then the server's.
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        for stream in [&client, &server] {
            choose(stream, "anole_ccp");
            let create = next(&mut datapath, 0);
            let (from, to) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
            let said = [16, 20, 24, 28].map(|at| word(&create, at));
            let ports = [from.port(), to.port()].map(u32::from);
            assert_eq!(said, [expected, ports[0], expected, ports[1]], "{host}");
        }
    }
}
