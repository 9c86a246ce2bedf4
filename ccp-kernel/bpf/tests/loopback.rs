//! Registers the datapath and sends over loopback.

use anole_bpf::{Datapath, Mode};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

fn choose(stream: &TcpStream, name: &str) -> std::io::Result<()> {
    let got = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as u32,
        )
    };
    if got == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

#[test]
fn spike() {
    let mut datapath = match Datapath::open(Path::new("/nonexistent"), Mode::Generated) {
        Ok(d) => d,
        Err(e) => panic!("{e}"),
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let reader = std::thread::spawn(move || {
        let (mut s, _) = listener.accept().unwrap();
        let mut b = vec![0; 1 << 16];
        let mut n = 0;
        while let Ok(k) = s.read(&mut b) {
            if k == 0 {
                break;
            }
            n += k
        }
        n
    });
    let mut s = TcpStream::connect(addr).unwrap();
    choose(&s, "anole_ccp").unwrap();
    let w = std::thread::spawn(move || {
        let b = vec![1; 1 << 16];
        for _ in 0..1600 {
            s.write_all(&b).unwrap();
        }
    });
    let mut buf = [0; 2048];
    for _ in 0..20 {
        if let Some(n) = datapath.receive(&mut buf, Duration::from_millis(100)) {
            println!("{:?}", &buf[..n.min(100)]);
        }
    }
    w.join().unwrap();
    println!("{} {:?}", reader.join().unwrap(), datapath.stats());
}
