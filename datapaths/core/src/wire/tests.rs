use super::*;
use proptest::prelude::*;

fn bytes_of(message: &Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    encode(message, &mut out).expect("within the limits");
    out
}

/// The bytes of each message as libccp (datapath's side) and portus (agent's side) write them.
#[test]
fn golden_bytes() {
    let create = CreateMessage {
        init_cwnd: 1,
        mss: 2,
        src_ip: 3,
        src_port: 4,
        dst_ip: 5,
        dst_port: 6,
        algorithm: AlgorithmName::new("reno").expect("short"),
    };
    let mut expected = vec![0, 0, 96, 0, 7, 0, 0, 0];
    for word in 1u32..=6 {
        expected.extend_from_slice(&word.to_le_bytes());
    }
    expected.extend_from_slice(b"reno");
    expected.resize(96, 0);
    assert_eq!(bytes_of(&Message::Create(7, create)), expected);

    assert_eq!(
        bytes_of(&Message::Measure { sid: 2, uid: 3, values: vec![9] }),
        [1, 0, 24, 0, 2, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(
        bytes_of(&Message::Update(1, vec![FieldUpdate { kind: 2, index: 4, value: 42 }])),
        [3, 0, 25, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 4, 0, 0, 0, 42, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(
        bytes_of(&Message::ChangeProgram { sid: 1, uid: 7, updates: vec![] }),
        [4, 0, 16, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(bytes_of(&Message::Ready(5)), [5, 0, 12, 0, 0, 0, 0, 0, 5, 0, 0, 0]);
    let install = Install { uid: 7, expressions: &[1; 16], instructions: &[2; 32] };
    let bytes = bytes_of(&Message::Install(install));
    assert_eq!(&bytes[..20], [2, 0, 68, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(decode(&bytes), Ok((Message::Install(install), 68)));
}

#[test]
fn a_create_without_algorithm_is_taken() {
    let mut bytes = vec![0, 0, 32, 0, 7, 0, 0, 0];
    for word in 1u32..=6 {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    let (message, length) = decode(&bytes).expect("an older datapath's CREATE");
    assert_eq!(length, 32);
    let Message::Create(7, create) = message else { panic!("{message:?}") };
    assert_eq!((create.init_cwnd, create.dst_port, create.algorithm), (1, 6, AlgorithmName::NONE));
}

#[test]
fn bad_messages_are_named() {
    assert_eq!(decode(&[0; 7]), Err(WireError::Truncated { have: 7, need: 8 }));
    assert_eq!(decode(&[1, 0, 7, 0, 0, 0, 0, 0]), Err(WireError::Length { header: 7, need: 8 }));
    assert_eq!(decode(&[1, 0, 24, 0, 0, 0, 0, 0]), Err(WireError::Truncated { have: 8, need: 24 }));
    // Type 0x0102 has INSTALL's number in its low byte.
    assert_eq!(decode(&[2, 1, 8, 0, 0, 0, 0, 0]), Err(WireError::UnknownType(0x0102)));
    let create = |name: &[u8; 64]| {
        let mut bytes = vec![0, 0, 96, 0, 1, 0, 0, 0];
        bytes.resize(32, 0);
        bytes.extend_from_slice(name);
        bytes
    };
    assert_eq!(decode(&create(&[b'a'; 64])), Err(WireError::AlgorithmName));
    let mut invalid = [0; 64];
    invalid[0] = 0xff;
    assert_eq!(decode(&create(&invalid)), Err(WireError::AlgorithmName));
    let update = |kind, index| bytes_of(&Message::Update(1, vec![FieldUpdate { kind, index, value: 0 }]));
    for (kind, index) in [(0, 110), (8, 110), (0, u32::MAX), (1, 0), (3, 0), (5, 0), (7, 0), (9, 0)] {
        assert_eq!(decode(&update(kind, index)), Err(WireError::Register { kind, index }));
    }
    for (kind, index) in [(0, 109), (8, 0), (2, 4), (2, 5), (2, 99)] {
        assert!(decode(&update(kind, index)).is_ok());
    }
    let mut out = vec![1];
    let long = Message::Measure { sid: 1, uid: 1, values: vec![0; 111] };
    assert_eq!(encode(&long, &mut out), Err(WireError::TooMany { what: "values", count: 111, limit: 110 }));
    assert_eq!(out, [1]);
}

fn any_update() -> impl Strategy<Value = FieldUpdate> {
    (prop_oneof![Just(0u8), Just(8), Just(2)], 0u32..110, any::<u64>())
        .prop_map(|(kind, index, value)| FieldUpdate { kind, index, value })
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        sid: u32, uid: u32, words: [u32; 6], name in "[a-z:]{0,63}",
        values in prop::collection::vec(any::<u64>(), 0..=110),
        updates in prop::collection::vec(any_update(), 0..=222),
        expressions in 0usize..=256, instructions in 0usize..=255, fill: u8,
    ) {
        let [init_cwnd, mss, src_ip, src_port, dst_ip, dst_port] = words;
        let algorithm = AlgorithmName::new(&name).expect("short");
        let code = vec![fill; 16 * 256];
        let messages = [
            Message::Create(sid, CreateMessage { init_cwnd, mss, src_ip, src_port, dst_ip, dst_port, algorithm }),
            Message::Measure { sid, uid, values },
            Message::Install(Install {
                uid, expressions: &code[..16 * expressions], instructions: &code[..16 * instructions],
            }),
            Message::Update(sid, updates.clone()),
            Message::ChangeProgram { sid, uid, updates },
            Message::Ready(uid),
        ];
        let mut all = Vec::new();
        for message in &messages {
            encode(message, &mut all).expect("within the limits");
        }
        let mut rest = &all[..];
        for message in &messages {
            let (read, length) = decode(rest).expect("what was written");
            prop_assert_eq!(&read, message);
            rest = &rest[length..];
        }
        prop_assert!(rest.is_empty());
    }
}
