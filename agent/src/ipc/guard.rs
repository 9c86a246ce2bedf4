//! Looks at every byte of a datagram before portus does.
//!
//! portus 0.9 takes its peers at their word: a CREATE of 8 or 32 bytes, a name without NUL, a MEASURE
//! with a partial value, an INSTALL or UPDATE from a datapath, or anything above 1024 bytes ends its
//! loop or its process, and it reads only the low byte of the type. What passes here is decoded whole
//! and written again in the one form that portus expects, one message at a time.

use anole_datapath::wire::{self, MAX_MSS_BYTES, Message};

/// portus's receive buffer, bytes. No report comes near it: 110 registers are 896 bytes.
pub const MAX_DATAGRAM_BYTES: usize = 1024;

const HEADER_BYTES: usize = 8;
const CREATE: u16 = 0;
const MEASURE: u16 = 1;
const READY: u16 = 5;
/// CREATE as sent since algorithms have names.
const CREATE_BYTES: usize = 96;
/// Where the algorithm's name begins in it.
const CREATE_NAME_AT: usize = 32;

/// Why a datagram was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Shorter than a header.
    Short,
    /// Longer than portus's buffer.
    Oversized,
    /// The header's length does not fit the datagram.
    Length,
    /// No such message type.
    UnknownType,
    /// A message that only an agent sends.
    Direction,
    /// CREATE of a wrong size.
    Create,
    /// CREATE with a name that has no NUL or is not UTF-8.
    Name,
    /// CREATE with a segment size that no packet has.
    SegmentSize,
    /// MEASURE of a wrong size.
    Measure,
    /// READY of a wrong size.
    Ready,
    /// MEASURE with another number of values than its program reports.
    Values,
    /// MEASURE that ends a flow that is not known.
    UnknownFlow,
    /// More datapaths than the agent serves.
    TooManyPeers,
    /// More flows than the agent serves.
    TooManyFlows,
    /// The sender is another user (Unix), or a process instead of the kernel (netlink).
    Credentials,
    /// The sender's socket has no address to answer to.
    NoAddress,
    /// The transport's own framing is wrong.
    Framing,
    /// The socket failed.
    Socket,
    /// Messages came faster than they were read, and some are lost.
    Overrun,
}

impl Refusal {
    /// The kind in words, under which it is counted.
    pub fn text(self) -> &'static str {
        match self {
            Refusal::Short => "shorter than a header",
            Refusal::Oversized => "longer than 1024 bytes",
            Refusal::Length => "length field does not fit",
            Refusal::UnknownType => "unknown message type",
            Refusal::Direction => "a message that only agents send",
            Refusal::Create => "malformed CREATE",
            Refusal::Name => "algorithm name without NUL or not UTF-8",
            Refusal::SegmentSize => "segment size of 0 or above 65535 bytes",
            Refusal::Measure => "malformed MEASURE",
            Refusal::Ready => "malformed READY",
            Refusal::Values => "number of values differs from the program's",
            Refusal::UnknownFlow => "end of an unknown flow",
            Refusal::TooManyPeers => "too many datapaths",
            Refusal::TooManyFlows => "too many flows",
            Refusal::Credentials => "sender is not allowed",
            Refusal::NoAddress => "sender has no address to answer to",
            Refusal::Framing => "wrong framing of the transport",
            Refusal::Socket => "socket error",
            Refusal::Overrun => "receive buffer full",
        }
    }
}

/// Reads a datagram: one or several messages of a datapath, all of them good, or nothing.
pub fn check(datagram: &[u8]) -> Result<Vec<Message<'_>>, Refusal> {
    if datagram.len() > MAX_DATAGRAM_BYTES {
        return Err(Refusal::Oversized);
    }
    let mut rest = datagram;
    let mut messages = Vec::with_capacity(1);
    loop {
        let (message, used) = check_one(rest)?;
        messages.push(message);
        rest = &rest[used..];
        if rest.is_empty() {
            return Ok(messages);
        }
    }
}

fn check_one(bytes: &[u8]) -> Result<(Message<'_>, usize), Refusal> {
    let Some(([type_low, type_high, length_low, length_high, ..], _)) =
        bytes.split_first_chunk::<HEADER_BYTES>()
    else {
        return Err(Refusal::Short);
    };
    let kind = u16::from_le_bytes([*type_low, *type_high]);
    let length = usize::from(u16::from_le_bytes([*length_low, *length_high]));
    if length < HEADER_BYTES || length > bytes.len() {
        return Err(Refusal::Length);
    }
    let bytes = &bytes[..length];
    let malformed = match kind {
        CREATE => Refusal::Create,
        MEASURE => Refusal::Measure,
        READY => Refusal::Ready,
        2..=4 => return Err(Refusal::Direction),
        _ => return Err(Refusal::UnknownType),
    };
    if kind == CREATE && length == CREATE_BYTES {
        check_name(&bytes[CREATE_NAME_AT..])?;
    }
    let (message, used) = wire::decode(bytes).map_err(|_| malformed)?;
    match &message {
        // portus would read what follows as a part of this message.
        _ if used != length => Err(malformed),
        Message::Create(_, create) if create.mss == 0 || create.mss > MAX_MSS_BYTES => {
            Err(Refusal::SegmentSize)
        }
        Message::Create(..) | Message::Measure { .. } | Message::Ready(_) => Ok((message, used)),
        Message::Install(_) | Message::Update(..) | Message::ChangeProgram { .. } => Err(Refusal::Direction),
    }
}

fn check_name(field: &[u8]) -> Result<(), Refusal> {
    let end = field.iter().position(|&byte| byte == 0).ok_or(Refusal::Name)?;
    std::str::from_utf8(&field[..end]).map(|_| ()).map_err(|_| Refusal::Name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anole_datapath::wire::{AlgorithmName, CreateMessage};
    use proptest::prelude::*;

    fn bytes(message: &Message<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        wire::encode(message, &mut out).unwrap();
        out
    }

    fn create(name: &str) -> Message<'static> {
        let algorithm = AlgorithmName::new(name).unwrap();
        Message::Create(
            7,
            CreateMessage {
                init_cwnd: 14480,
                mss: 1448,
                src_ip: 1,
                src_port: 2,
                dst_ip: 3,
                dst_port: 4,
                algorithm,
            },
        )
    }

    fn raw(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut out = kind.to_le_bytes().to_vec();
        out.extend((8 + body.len() as u16).to_le_bytes());
        out.extend(9u32.to_le_bytes());
        out.extend(body);
        out
    }

    #[test]
    fn good_messages_pass_unchanged() {
        for message in [create("anole"), create(""), Message::Ready(3)] {
            assert_eq!(check(&bytes(&message)), Ok(vec![message]));
        }
        for n in [0usize, 1, 14, 110] {
            let message = Message::Measure { sid: 7, uid: 1, values: vec![5; n] };
            assert_eq!(check(&bytes(&message)), Ok(vec![message]));
        }
    }

    #[test]
    fn several_messages_in_one_datagram_come_apart() {
        let (a, b) = (create("cubic"), Message::Measure { sid: 7, uid: 1, values: vec![1, 2] });
        let mut datagram = bytes(&a);
        datagram.extend(bytes(&b));
        assert_eq!(check(&datagram), Ok(vec![a, b]));
        datagram.push(0);
        assert_eq!(check(&datagram), Err(Refusal::Short));
    }

    #[test]
    fn an_old_create_is_read_and_has_no_name() {
        let mut old = bytes(&create(""));
        old.truncate(32);
        old[2] = 32;
        assert_eq!(check(&old), Ok(vec![create("")]));
    }

    #[test]
    fn every_known_killer_is_refused() {
        let mut name_without_nul = bytes(&create(""));
        name_without_nul[32..96].fill(b'x');
        let mut name_not_utf8 = bytes(&create("ab"));
        name_not_utf8[33] = 0xff;
        let mut no_mss = bytes(&create("ab"));
        no_mss[12..16].fill(0);
        let mut length_beyond = raw(1, &[0; 8]);
        length_beyond[2] = 200;
        let mut length_below = raw(1, &[0; 8]);
        length_below[2] = 7;
        let cases: [(Vec<u8>, Refusal); 19] = [
            (vec![], Refusal::Short),
            (vec![0; 7], Refusal::Short),
            (raw(0, &[]), Refusal::Create),
            (raw(0, &[0; 20]), Refusal::Create),
            (raw(0, &[1; 60]), Refusal::Create),
            (name_without_nul, Refusal::Name),
            (name_not_utf8, Refusal::Name),
            (no_mss, Refusal::SegmentSize),
            (raw(1, &[]), Refusal::Measure),
            (raw(1, &[1, 0, 0, 0, 1, 0, 0, 0, 1, 2, 3]), Refusal::Measure),
            (raw(1, &[1, 0, 0, 0, 9, 0, 0, 0]), Refusal::Measure),
            (raw(2, &[0; 12]), Refusal::Direction),
            (raw(3, &[0; 4]), Refusal::Direction),
            (raw(4, &[0; 8]), Refusal::Direction),
            (raw(0x0102, &[0; 12]), Refusal::UnknownType),
            (raw(5, &[]), Refusal::Ready),
            (vec![1; 1025], Refusal::Oversized),
            (length_beyond, Refusal::Length),
            (length_below, Refusal::Length),
        ];
        for (datagram, refusal) in cases {
            assert_eq!(check(&datagram), Err(refusal), "{datagram:02x?}");
        }
    }

    /// What passes, written again and alone, is exactly what portus's own parser takes as a message of
    /// the same kind.
    fn portus_takes(datagram: &[u8]) {
        let Ok(messages) = check(datagram) else { return };
        for message in messages {
            let again = bytes(&message);
            assert!(again.len() <= MAX_DATAGRAM_BYTES);
            let (parsed, used) = portus::serialize::Msg::from_buf(&again).expect("portus parses what passed");
            assert_eq!(used, again.len());
            match (message, parsed) {
                (Message::Create(sid, ours), portus::serialize::Msg::Cr(theirs)) => {
                    assert_eq!((sid, ours.mss, ours.init_cwnd), (theirs.sid, theirs.mss, theirs.init_cwnd));
                    assert_eq!(ours.algorithm.as_str(), theirs.cong_alg.as_deref().unwrap_or(""));
                }
                (Message::Measure { sid, uid, values }, portus::serialize::Msg::Ms(theirs)) => {
                    assert_eq!((sid, uid, values), (theirs.sid, theirs.program_uid, theirs.fields));
                }
                (Message::Ready(id), portus::serialize::Msg::Rdy(theirs)) => assert_eq!(id, theirs.id),
                (ours, theirs) => panic!("{ours:?} became {theirs:?}"),
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        #[test]
        fn no_bytes_that_pass_hurt_portus(
            kind in 0u16..7, length in 0u16..140, sid in any::<u32>(),
            body in proptest::collection::vec(any::<u8>(), 0..132), fit in any::<bool>(),
        ) {
            let length = if fit { 8 + body.len() as u16 } else { length };
            let mut datagram = kind.to_le_bytes().to_vec();
            datagram.extend(length.to_le_bytes());
            datagram.extend(sid.to_le_bytes());
            datagram.extend(body);
            portus_takes(&datagram);
        }

        #[test]
        fn no_damage_to_good_messages_hurts_portus(
            flips in proptest::collection::vec((0usize..300, any::<u8>()), 0..4), cut in 0usize..300, which in 0usize..4,
        ) {
            let mut datagram = match which {
                0 => bytes(&create("anole")),
                1 => bytes(&Message::Measure { sid: 1, uid: 2, values: vec![3; 9] }),
                2 => bytes(&Message::Ready(1)),
                _ => [bytes(&create("")), bytes(&Message::Measure { sid: 1, uid: 2, values: vec![] })].concat(),
            };
            datagram.truncate(cut.max(1));
            for (at, value) in flips {
                let at = at % datagram.len();
                datagram[at] = value;
            }
            portus_takes(&datagram);
        }
    }
}
