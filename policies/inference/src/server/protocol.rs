//! The messages between agent and policy server: one per packet of a Unix SOCK_SEQPACKET socket,
//! little-endian, floats in IEEE 754 single precision.
//!
//! ```text
//! every message   u16 type, u16 version = 1, u32 model, u64 id
//! 1 OPEN          64 characters SHA-256 of the schema, then the model's name, UTF-8
//! 2 OPENED        u32 status, u32 inputs, u32 outputs, u32 state, then the error, UTF-8
//! 3 STEP          u32 budget in µs, u32 reserved, f32 input…, f32 state…
//! 4 RESULT        u32 status; with status 0 f32 outputs…, f32 state…
//! ```
//! An answer has the id of its question. OPENED carries in `model` the number that STEP has to name, on
//! this connection only. A STEP that has waited for its budget since it was received is not computed.
//! The server keeps nothing of a flow: its state travels with each STEP.

/// No packet is longer, bytes.
pub const MAX_PACKET: usize = 256 << 10;
const VERSION: u16 = 1;
const HEADER: usize = 16;
const OPEN: u16 = 1;
const OPENED: u16 = 2;
const STEP: u16 = 3;
const RESULT: u16 = 4;

/// What a RESULT says about a STEP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepStatus {
    /// It was computed.
    Done,
    /// Its budget was over before.
    Expired,
    /// Too many were waiting.
    Overloaded,
    /// It was not understood.
    BadRequest,
    /// The model is gone or has changed its shape; it has to be opened again.
    ModelGone,
    /// A status that this version does not know.
    Unknown(u32),
}

impl StepStatus {
    fn of(status: u32) -> StepStatus {
        match status {
            0 => StepStatus::Done,
            1 => StepStatus::Expired,
            2 => StepStatus::Overloaded,
            3 => StepStatus::BadRequest,
            4 => StepStatus::ModelGone,
            other => StepStatus::Unknown(other),
        }
    }

    /// What went wrong, in words.
    pub fn text(self) -> &'static str {
        match self {
            StepStatus::Done => "computed",
            StepStatus::Expired => "the server came to it too late",
            StepStatus::Overloaded => "the server is overloaded",
            StepStatus::BadRequest => "the server did not understand the request",
            StepStatus::ModelGone => "the server's model is gone or has changed",
            StepStatus::Unknown(_) => "the server answered with an unknown status",
        }
    }
}

/// A message of the server.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerMessage<'a> {
    /// To OPEN: the model's number and its widths, or why not.
    Opened(Result<Opened, String>),
    /// To STEP: status and, when it is [`StepStatus::Done`], outputs and state as bytes.
    Result(StepStatus, &'a [u8]),
}

/// A model at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its number on this connection.
    pub model: u32,
    /// Widths of inputs, outputs and state.
    pub widths: [usize; 3],
}

fn header(kind: u16, model: u32, id: u64, out: &mut Vec<u8>) {
    out.clear();
    out.extend(kind.to_le_bytes());
    out.extend(VERSION.to_le_bytes());
    out.extend(model.to_le_bytes());
    out.extend(id.to_le_bytes());
}

/// Writes OPEN.
pub fn open(id: u64, schema_sha256: &str, name: &str, out: &mut Vec<u8>) {
    header(OPEN, 0, id, out);
    out.extend(schema_sha256.bytes());
    out.extend(name.bytes());
}

/// Writes STEP.
pub fn step(model: u32, id: u64, budget_us: u32, input: &[f32], state: &[f32], out: &mut Vec<u8>) {
    header(STEP, model, id, out);
    out.extend(budget_us.to_le_bytes());
    out.extend(0_u32.to_le_bytes());
    out.extend(input.iter().chain(state).flat_map(|value| value.to_le_bytes()));
}

/// Reads a packet of the server: the id, and what it says. Total: any bytes give a message or an error.
pub fn read(packet: &[u8]) -> Result<(u64, ServerMessage<'_>), &'static str> {
    let (head, body) = packet.split_at_checked(HEADER).ok_or("a packet shorter than its header")?;
    let word = |bytes: &[u8], at: usize| {
        let four: Option<[u8; 4]> = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
        four.map(u32::from_le_bytes)
    };
    let short = "a packet that ends too early";
    let kind_and_version = word(head, 0).ok_or(short)?;
    let (kind, version) = (kind_and_version as u16, (kind_and_version >> 16) as u16);
    if version != VERSION {
        return Err("a packet of another version of the protocol");
    }
    let model = word(head, 4).ok_or(short)?;
    let id = u64::from(word(head, 8).ok_or(short)?) | u64::from(word(head, 12).ok_or(short)?) << 32;
    let status = word(body, 0).ok_or(short)?;
    match kind {
        OPENED => {
            let width = |at| word(body, at).map(|width| width as usize).ok_or(short);
            let widths = [width(4)?, width(8)?, width(12)?];
            let error = String::from_utf8_lossy(&body[16..]);
            // It goes into one line of a log.
            let error = error.chars().filter(|c| !c.is_control()).take(500).collect();
            Ok((
                id,
                ServerMessage::Opened(if status == 0 { Ok(Opened { model, widths }) } else { Err(error) }),
            ))
        }
        RESULT => Ok((id, ServerMessage::Result(StepStatus::of(status), &body[4..]))),
        _ => Err("a packet of a type that servers do not send"),
    }
}

/// Splits the floats of a RESULT into outputs and state; `None` when there are not as many.
pub fn floats(bytes: &[u8], outputs: &mut [f32], state: &mut [f32]) -> Option<()> {
    if bytes.len() != 4 * (outputs.len() + state.len()) {
        return None;
    }
    let values = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    outputs.iter_mut().chain(state).zip(values).for_each(|(place, value)| *place = value);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(kind: u16, model: u32, id: u64, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        header(kind, model, id, &mut out);
        out.extend(body);
        out
    }

    #[test]
    fn messages_have_the_layout_that_the_header_of_this_file_says() {
        let mut out = Vec::new();
        step(7, 0x0102_0304_0506_0708, 500, &[1.0], &[-2.0], &mut out);
        let expected = [
            &[3, 0, 1, 0, 7, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1, 0xf4, 1, 0, 0, 0, 0, 0, 0][..],
            &1.0_f32.to_le_bytes(),
            &(-2.0_f32).to_le_bytes(),
        ];
        assert_eq!(out, expected.concat());
        open(9, &"a".repeat(64), "libra", &mut out);
        assert_eq!((out.len(), &out[80..]), (85, &b"libra"[..]));
    }

    #[test]
    fn answers_are_read_and_errors_kept_to_a_line() {
        let widths = [0, 4, 1, 2].map(u32::to_le_bytes).concat();
        let opened = Opened { model: 5, widths: [4, 1, 2] };
        assert_eq!(read(&packet(2, 5, 1, &widths)), Ok((1, ServerMessage::Opened(Ok(opened)))));
        let refused = [&3_u32.to_le_bytes()[..], &[0; 12], b"no\nsuch model"].concat();
        assert_eq!(
            read(&packet(2, 0, 2, &refused)),
            Ok((2, ServerMessage::Opened(Err("nosuch model".into()))))
        );
        let floats_of = |bytes: &[u8]| {
            let (mut outputs, mut state) = ([0.0; 1], [0.0; 2]);
            floats(bytes, &mut outputs, &mut state).map(|()| (outputs, state))
        };
        let values: Vec<u8> = [1.0_f32, 2.0, 3.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        let done = [&0_u32.to_le_bytes()[..], &values].concat();
        assert_eq!(read(&packet(4, 0, 3, &done)), Ok((3, ServerMessage::Result(StepStatus::Done, &values))));
        assert_eq!(floats_of(&values), Some(([1.0], [2.0, 3.0])));
        assert_eq!(floats_of(&values[1..]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..100),
                                               kind in 0_u16..6, framed: bool) {
            let bytes = if framed { packet(kind, 1, 2, &bytes) } else { bytes };
            let _ = read(&bytes);
        }
    }
}
