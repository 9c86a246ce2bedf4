//! What the datapath reads of a packet: the TCP header and how much data it carries.

use smoltcp::phy::Medium;
use smoltcp::wire::{EthernetFrame, IpProtocol, Ipv4Packet, Ipv6Packet, TcpPacket};

/// A TCP segment on its way in or out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Source and destination port.
    pub ports: (u16, u16),
    /// Sequence number of the first byte.
    pub sequence: u32,
    /// Bytes of data.
    pub bytes: u32,
    /// The SYN flag.
    pub syn: bool,
    /// The RST flag.
    pub reset: bool,
    /// The MSS option.
    pub mss: Option<u16>,
    /// The window scale option (RFC 7323).
    pub window_scale: Option<u8>,
    /// The next byte expected of the other side.
    pub acknowledges: Option<u32>,
    /// What the sender of this may be sent, in its own scale; 0 is nothing in every scale.
    pub window: u16,
    /// SACK blocks in the option's order (RFC 2018), each from its first byte to the one behind its last.
    pub selective: [Option<(u32, u32)>; 3],
}

/// The segment in a frame; `None` for what is not TCP over IP, or not whole.
pub(crate) fn parse(medium: Medium, frame: &[u8]) -> Option<Segment> {
    match medium {
        Medium::Ip => parse_ip(frame),
        Medium::Ethernet => parse_ip(EthernetFrame::new_checked(frame).ok()?.payload()),
    }
}

fn parse_ip(packet: &[u8]) -> Option<Segment> {
    match packet.first()? >> 4 {
        4 => {
            let packet = Ipv4Packet::new_checked(packet).ok()?;
            (packet.next_header() == IpProtocol::Tcp).then(|| parse_tcp(packet.payload()))?
        }
        6 => {
            let packet = Ipv6Packet::new_checked(packet).ok()?;
            (packet.next_header() == IpProtocol::Tcp).then(|| parse_tcp(packet.payload()))?
        }
        _ => None,
    }
}

fn parse_tcp(bytes: &[u8]) -> Option<Segment> {
    let packet = TcpPacket::new_checked(bytes).ok()?;
    let options = packet.options_summary().ok()?;
    Some(Segment {
        ports: (packet.src_port(), packet.dst_port()),
        // The type is a signed number without access to its bits but this.
        sequence: packet.seq_number().0 as u32,
        bytes: packet.payload().len() as u32,
        syn: packet.syn(),
        reset: packet.rst(),
        mss: options.max_segment_size,
        window_scale: options.window_scale,
        acknowledges: packet.ack().then(|| packet.ack_number().0 as u32),
        window: packet.window_len(),
        selective: options.sack_ranges,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120), version in prop_oneof![Just(0x45u8), Just(0x60)]) {
            let _ = parse(Medium::Ethernet, &bytes);
            let mut packet = vec![version, 0, 0, bytes.len() as u8 + 20, 0, 0, 0, 0, 64, 6];
            packet.resize(20, 0);
            packet.extend(bytes);
            let _ = parse(Medium::Ip, &packet);
        }
    }
}
