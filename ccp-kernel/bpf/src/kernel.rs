// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! What the running kernel has, from its BTF.

use crate::Error;
use libbpf_rs::btf::types::{Func, FuncProto, Ptr, Struct, StructMember};
use libbpf_rs::btf::{Btf, ReferencesType};

/// The kernel's functions that the fallback calls; where one is missing, it is Reno.
const CUBIC: [&str; 5] =
    ["cubictcp_init", "cubictcp_recalc_ssthresh", "cubictcp_cong_avoid", "cubictcp_state", "cubictcp_acked"];
/// And those for restart after idle, of which a kernel has one: the second since 7.1. In the order of the values
/// of `have_cubic` (`bpf/fallback.bpf.h`), from 1.
const CUBIC_RESTART: [&str; 2] = ["cubictcp_cwnd_event", "cubictcp_cwnd_event_tx_start"];
/// The oldest release that the object is for.
const OLDEST: [u32; 2] = [6, 1];

/// What the running kernel has.
#[derive(Clone, Copy, Debug)]
pub struct KernelFacts {
    /// BTF id of `struct tcp_congestion_ops`.
    pub ops_id: u32,
    /// Place of `cong_control` among its members.
    pub cong_control: u32,
    /// It takes four arguments (since 6.10), not two.
    pub four_arguments: bool,
    /// Which of CUBIC's functions may be called: the value of `have_cubic`.
    pub cubic: u8,
    /// Registration with a link (since 6.4).
    pub links: bool,
    /// Restart after idle has a callback of its own (since 7.1).
    pub transmit_start: bool,
}

impl KernelFacts {
    /// Reads its BTF.
    pub fn read() -> Result<KernelFacts, Error> {
        let no_btf = || Error::Kernel("it has no BTF (CONFIG_DEBUG_INFO_BTF)".to_string());
        let btf = Btf::from_vmlinux().map_err(|_| no_btf())?;
        let ops: Struct<'_> = btf.type_by_name("tcp_congestion_ops").ok_or_else(no_btf)?;
        let is = |member: &StructMember<'_>, name: &str| member.name.is_some_and(|known| known == name);
        let (place, member) =
            ops.iter().enumerate().find(|(_, member)| is(member, "cong_control")).ok_or_else(no_btf)?;
        let pointer: Ptr<'_> = btf.type_by_id(member.ty).ok_or_else(no_btf)?;
        let function: FuncProto<'_> = pointer.referenced_type().try_into().map_err(|_| no_btf())?;
        let has = |name: &str| btf.type_by_name::<Func<'_>>(name).is_some();
        let restart = CUBIC_RESTART.iter().position(|name| has(name)).map_or(0, |n| n as u8 + 1);
        let cubic = if CUBIC.iter().all(|name| has(name)) { restart } else { 0 };
        Ok(KernelFacts {
            ops_id: ops.type_id().into(),
            cong_control: place as u32,
            four_arguments: function.iter().count() == 4,
            cubic,
            links: has("bpf_struct_ops_link_create"),
            transmit_start: ops.iter().any(|member| is(&member, "cwnd_event_tx_start")),
        })
    }
}

/// Why the kernel refuses the object. An older one has other reasons than who asks.
pub fn not_loaded(error: libbpf_rs::Error) -> Error {
    let release = nix::sys::utsname::uname().map(|name| name.release().to_string_lossy().into_owned());
    let release = release.unwrap_or_default();
    let numbers: Vec<u32> = release.split('.').map_while(|part| part.parse().ok()).take(2).collect();
    match numbers.len() == 2 && numbers[..] < OLDEST[..] {
        true => Error::Kernel(format!("it is Linux {release} ({error})")),
        false => Error::Load(error),
    }
}
