// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! Which connections use the datapath, beside those that ask for it: all of a cgroup, or those of it to some
//! prefixes. A BPF program, attached to the cgroup as long as this process lives, sets the congestion control of
//! each connection when it is established (`src/bpf/select.bpf.c`).

use crate::Error;
use libbpf_rs::{Link, MapCore, MapFlags, ObjectBuilder};
use std::fs::File;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;

static OBJECT: &[u8] = include_bytes!("bpf/prebuilt/select.bpf.o");

/// Magic number of a cgroup2 file system (linux/magic.h).
const CGROUP2_MAGIC: i64 = 0x6367_7270;
/// Prefixes that there is room for (`src/bpf/select.h`).
pub const MAX_PREFIXES: usize = 1024;
const NAME_BYTES: usize = 16;
/// Of the 128 bits of an IPv4 address in IPv6 (::ffff:0:0/96), those before it.
const MAPPED_BITS: u8 = 96;

/// A prefix of remote addresses, IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// IPv4 as ::ffff:a.b.c.d.
    address: Ipv6Addr,
    /// Of the 128.
    bits: u8,
}

/// A text that is no prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// Something else.
    #[error("\"{0}\" is no prefix, such as 10.0.0.0/8 or 2001:db8::/32")]
    Form(String),
    /// A length beyond the address's.
    #[error("\"{text}\": the length is at most {most}")]
    Length {
        /// As given.
        text: String,
        /// Of an address of this family, bits.
        most: u8,
    },
    /// The address goes on behind the prefix.
    #[error("\"{text}\" has bits set beyond its length; the prefix is {meant}")]
    Host {
        /// As given.
        text: String,
        /// Without these bits.
        meant: String,
    },
}

impl Prefix {
    /// Every address.
    pub const ALL: Prefix = Prefix { address: Ipv6Addr::UNSPECIFIED, bits: 0 };

    fn key(&self) -> [u8; 20] {
        let mut key = [0; 20];
        key[..4].copy_from_slice(&u32::from(self.bits).to_ne_bytes());
        key[4..].copy_from_slice(&self.address.octets());
        key
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    /// `ADDRESS/LENGTH`, or an address alone.
    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        let form = || PrefixError::Form(text.to_string());
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| form())?;
        let most: u8 = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => most,
            // A sign would be taken for part of a number.
            Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => digits
                .parse()
                .ok()
                .filter(|&length| length <= most)
                .ok_or(PrefixError::Length { text: text.to_string(), most })?,
            Some(_) => return Err(form()),
        };
        let (wide, bits) = match address {
            IpAddr::V4(address) => (address.to_ipv6_mapped(), MAPPED_BITS + length),
            IpAddr::V6(address) => (address, length),
        };
        let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
        let kept = Ipv6Addr::from(u128::from(wide) & mask);
        if kept != wide {
            let kept = if address.is_ipv4() { kept.to_canonical() } else { kept.into() };
            return Err(PrefixError::Host { text: text.to_string(), meant: format!("{kept}/{length}") });
        }
        Ok(Prefix { address: wide, bits })
    }
}

/// The top of the host's cgroup2 hierarchy, if there is one.
pub fn top_cgroup() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    mounts.find(|fields| fields.get(2) == Some(&"cgroup2")).map(|fields| PathBuf::from(fields[1]))
}

/// Opens a cgroup of version 2.
pub(crate) fn open(cgroup: &Path) -> Result<File, Error> {
    let folder = File::open(cgroup).map_err(|error| failed(cgroup, "open it", error.to_string()))?;
    if nix::sys::statfs::fstatfs(&folder).is_ok_and(|fs| fs.filesystem_type().0 != CGROUP2_MAGIC) {
        return Err(Error::NoCgroup { path: cgroup.to_path_buf(), top: top_cgroup() });
    }
    Ok(folder)
}

pub(crate) fn failed(cgroup: &Path, what: &'static str, reason: String) -> Error {
    Error::Cgroup { path: cgroup.to_path_buf(), what, reason }
}

/// Whether a folder is a cgroup of version 2.
pub fn check_cgroup(cgroup: &Path) -> Result<(), Error> {
    open(cgroup).map(|_| ())
}

/// Attaches the choice to a cgroup: for each prefix, the name of a congestion control.
pub(crate) fn attach(cgroup: &Path, choices: &[(Prefix, String)]) -> Result<Link, Error> {
    let folder = open(cgroup)?;
    let object =
        ObjectBuilder::default().name("anole_select")?.open_memory(OBJECT)?.load().map_err(Error::Load)?;
    let map = object.maps().find(|map| map.name() == "prefixes");
    let map = map.ok_or(Error::Object("prefixes".to_string()))?;
    for (prefix, name) in choices {
        let mut value = [0; NAME_BYTES];
        value.iter_mut().zip(name.bytes().take(NAME_BYTES - 1)).for_each(|(to, from)| *to = from);
        map.update(&prefix.key(), &value, MapFlags::ANY)?;
    }
    let program = object.progs_mut().find(|program| program.name() == "anole_select");
    let program = program.ok_or(Error::Object("anole_select".to_string()))?;
    program
        .attach_cgroup(folder.as_raw_fd())
        .map_err(|error| failed(cgroup, "attach to it", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read() {
        let read =
            |text: &str| text.parse::<Prefix>().map(|prefix| (prefix.address.to_string(), prefix.bits));
        assert_eq!(read("10.0.0.0/8"), Ok(("::ffff:10.0.0.0".to_string(), 104)));
        assert_eq!(read("0.0.0.0/0"), Ok(("::ffff:0.0.0.0".to_string(), 96)));
        assert_eq!(read("192.0.2.1"), Ok(("::ffff:192.0.2.1".to_string(), 128)));
        assert_eq!(read("2001:db8::/32"), Ok(("2001:db8::".to_string(), 32)));
        assert_eq!("::/0".parse(), Ok(Prefix::ALL));
    }

    #[test]
    fn what_is_none_is_refused_with_the_way_out() {
        let refusal = |text: &str| text.parse::<Prefix>().unwrap_err().to_string();
        for text in ["", "/8", "10/8", "host/8", "10.0.0.0/", "10.0.0.0/+8", "10.0.0.0/8/8", "::/-1"] {
            assert!(refusal(text).contains("is no prefix"), "{text}: {}", refusal(text));
        }
        assert!(refusal("10.0.0.0/33").ends_with("at most 32"));
        assert!(refusal("::/129").ends_with("at most 128"));
        assert!(refusal("::/99999999999").ends_with("at most 128"));
        assert!(refusal("10.1.2.3/8").ends_with("the prefix is 10.0.0.0/8"));
        assert!(refusal("2001:db8::1/32").ends_with("the prefix is 2001:db8::/32"));
    }
}
