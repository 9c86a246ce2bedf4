//! Messages between datapath and agent, byte-compatible with libccp and portus.
//!
//! Little-endian; a header of u16 type, u16 length (header included) and u32 flow id, then:
//!
//! | type | message | direction | body |
//! |---|---|---|---|
//! | 0 | CREATE | to agent | u32 init_cwnd, mss, src_ip, src_port, dst_ip, dst_port; char\[64\] algorithm (absent in older datapaths) |
//! | 1 | MEASURE | to agent | u32 program, n; u64\[n\] values (none: the flow has ended) |
//! | 2 | INSTALL | to datapath | u32 program, n_expr, n_instr; 16 bytes each expression, then each instruction |
//! | 3 | UPDATE | to datapath | u32 n; n × (u8 kind, u32 index, u64 value) |
//! | 4 | CHANGE_PROG | to datapath | u32 program, n; n × (u8 kind, u32 index, u64 value) |
//! | 5 | READY | to agent | u32 datapath id |
//!
//! Decoding is total: any bytes give a message or a [`WireError`]. It is stricter than libccp, which
//! trusts counts and lengths: a body must have exactly the length that its counts ask for.
//! Where libccp reads wrongly, this module does not follow it:
//! - UPDATE's count is read there from one signed byte, so 128 to 222 registers are refused; here they
//!   are taken, as in CHANGE_PROG.
//! - A control register beyond the last is written out of bounds there; here the message is refused.
//! - INSTALL's counts are checked there before they are read, that is, not at all; here they are.
//! - A message with a register that no agent may set is applied there up to that register; here it is
//!   refused whole.

mod message;

pub use message::{AlgorithmName, CreateMessage, FieldUpdate, Install, MAX_MSS_BYTES, Message};

use crate::register::{MAX_REPORT_REGISTERS, RegisterKind, Slot};

/// Bytes of a message's header.
pub const HEADER_BYTES: usize = 8;
/// Registers that one UPDATE or CHANGE_PROG message sets at most (libccp `MAX_MUTABLE_REG`).
pub const MAX_UPDATES: u32 = 222;
/// Expressions that one program has at most (libccp `MAX_EXPRESSIONS`).
pub const MAX_EXPRESSIONS: u32 = 256;
/// Instructions that one program has at most: with 256, libccp's 8-bit loop counter never ends.
pub const MAX_INSTRUCTIONS: u32 = 255;
/// Bytes of the longest message to the agent, MEASURE with all report registers.
pub const MAX_MEASURE_BYTES: usize = END_BYTES + 8 * MAX_REPORT_REGISTERS as usize;
/// Size of a MEASURE message without fields, which ends a flow.
const END_BYTES: usize = HEADER_BYTES + 8;

const EXPRESSION_BYTES: usize = 16;
const INSTRUCTION_BYTES: usize = 16;
const UPDATE_BYTES: usize = 13;
const ALGORITHM_BYTES: usize = 64;
const OLD_CREATE_BYTES: usize = HEADER_BYTES + 24;
const CREATE_BYTES: usize = OLD_CREATE_BYTES + ALGORITHM_BYTES;

/// Why bytes are not a message, or a message has no bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Fewer bytes than the message needs.
    #[error("{have} bytes where the message needs {need}")]
    Truncated {
        /// Bytes there.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// The header's type is none of the six.
    #[error("{0} is no message type; CREATE to READY are 0 to 5")]
    UnknownType(u16),
    /// The header's length is not what the message's counts ask for.
    #[error("the header gives {header} bytes where the message has {need}")]
    Length {
        /// Length in the header.
        header: usize,
        /// Length that the body's counts ask for.
        need: usize,
    },
    /// More values, registers, expressions or instructions than a message may carry.
    #[error("{count} {what}; a message has at most {limit}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many there are.
        count: u32,
        /// How many there may be.
        limit: u32,
    },
    /// The algorithm's name has no NUL at its end or is not UTF-8.
    #[error("the algorithm's name is not UTF-8 that ends in NUL")]
    AlgorithmName,
    /// A register that no agent may set.
    #[error("an agent may not set register {index} of kind {kind}")]
    Register {
        /// The register's kind on the wire.
        kind: u8,
        /// The register's index on the wire.
        index: u32,
    },
}

/// Splits the first message off a datagram by the length in its header: (message, rest).
pub fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), WireError> {
    let mut reader = Reader { bytes };
    let (_, length, _) = reader.header()?;
    if length < HEADER_BYTES {
        return Err(WireError::Length { header: length, need: HEADER_BYTES });
    }
    bytes.split_at_checked(length).ok_or(WireError::Truncated { have: bytes.len(), need: length })
}

/// Reads one message; returns it and the bytes that it took.
pub fn decode(bytes: &[u8]) -> Result<(Message<'_>, usize), WireError> {
    let (message, _) = split(bytes)?;
    let mut reader = Reader { bytes: message };
    let (kind, length, sid) = reader.header()?;
    let decoded = match kind {
        0 => Message::Create(sid, reader.create(length)?),
        1 => reader.measure(sid, length)?,
        2 => Message::Install(reader.install(length)?),
        3 => {
            let count = reader.u32()?;
            Message::Update(sid, reader.updates(length, HEADER_BYTES + 4, count)?)
        }
        4 => {
            let (uid, count) = (reader.u32()?, reader.u32()?);
            Message::ChangeProgram { sid, uid, updates: reader.updates(length, HEADER_BYTES + 8, count)? }
        }
        5 => {
            expect_length(length, HEADER_BYTES + 4)?;
            Message::Ready(reader.u32()?)
        }
        other => return Err(WireError::UnknownType(other)),
    };
    Ok((decoded, length))
}

/// Appends a message to `out`; on an error `out` is as before.
pub fn encode(message: &Message<'_>, out: &mut Vec<u8>) -> Result<(), WireError> {
    match message {
        Message::Create(sid, create) => {
            out.extend_from_slice(&self::create(*sid, create));
        }
        Message::Measure { sid, uid, values } => {
            check_count("values", values.len(), MAX_REPORT_REGISTERS)?;
            let mut buffer = [0; MAX_MEASURE_BYTES];
            out.extend_from_slice(measure(&mut buffer, *sid, *uid, values));
        }
        Message::Install(install) => {
            let expressions = install.expressions.len() / EXPRESSION_BYTES;
            let instructions = install.instructions.len() / INSTRUCTION_BYTES;
            check_count("expressions", expressions, MAX_EXPRESSIONS)?;
            check_count("instructions", instructions, MAX_INSTRUCTIONS)?;
            let code = (expressions + instructions) * INSTRUCTION_BYTES;
            header(2, HEADER_BYTES + 12 + code, 0, out);
            for word in [install.uid, expressions as u32, instructions as u32] {
                out.extend_from_slice(&word.to_le_bytes());
            }
            out.extend_from_slice(&install.expressions[..expressions * EXPRESSION_BYTES]);
            out.extend_from_slice(&install.instructions[..instructions * INSTRUCTION_BYTES]);
        }
        Message::Update(sid, updates) => {
            check_count("registers", updates.len(), MAX_UPDATES)?;
            header(3, HEADER_BYTES + 4 + updates.len() * UPDATE_BYTES, *sid, out);
            out.extend_from_slice(&(updates.len() as u32).to_le_bytes());
            write_updates(updates, out);
        }
        Message::ChangeProgram { sid, uid, updates } => {
            check_count("registers", updates.len(), MAX_UPDATES)?;
            header(4, HEADER_BYTES + 8 + updates.len() * UPDATE_BYTES, *sid, out);
            out.extend_from_slice(&uid.to_le_bytes());
            out.extend_from_slice(&(updates.len() as u32).to_le_bytes());
            write_updates(updates, out);
        }
        Message::Ready(id) => {
            header(5, HEADER_BYTES + 4, 0, out);
            out.extend_from_slice(&id.to_le_bytes());
        }
    }
    Ok(())
}

/// Writes a CREATE message without allocating.
pub(crate) fn create(sid: u32, create: &CreateMessage) -> [u8; CREATE_BYTES] {
    let mut bytes = [0; CREATE_BYTES];
    bytes[2..4].copy_from_slice(&(CREATE_BYTES as u16).to_le_bytes());
    let words =
        [sid, create.init_cwnd, create.mss, create.src_ip, create.src_port, create.dst_ip, create.dst_port];
    for (place, word) in bytes[4..].chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes[CREATE_BYTES - ALGORITHM_BYTES..].copy_from_slice(create.algorithm.as_bytes());
    bytes
}

/// What tells the agent that a flow has ended: MEASURE without fields; which program it names does not matter then.
pub fn end(sid: u32) -> [u8; END_BYTES] {
    let (mut buffer, mut bytes) = ([0; MAX_MEASURE_BYTES], [0; END_BYTES]);
    bytes.copy_from_slice(measure(&mut buffer, sid, 0, &[]));
    bytes
}

/// Writes a MEASURE message without allocating. Values beyond the last report register do not exist in
/// a validated program and are left out.
pub(crate) fn measure<'a>(
    buffer: &'a mut [u8; MAX_MEASURE_BYTES],
    sid: u32,
    uid: u32,
    values: &[u64],
) -> &'a [u8] {
    let values = &values[..values.len().min(MAX_REPORT_REGISTERS as usize)];
    let length = HEADER_BYTES + 8 + 8 * values.len();
    buffer[0..2].copy_from_slice(&1u16.to_le_bytes());
    buffer[2..4].copy_from_slice(&(length as u16).to_le_bytes());
    buffer[4..8].copy_from_slice(&sid.to_le_bytes());
    buffer[8..12].copy_from_slice(&uid.to_le_bytes());
    buffer[12..16].copy_from_slice(&(values.len() as u32).to_le_bytes());
    for (place, value) in buffer[16..].chunks_exact_mut(8).zip(values) {
        place.copy_from_slice(&value.to_le_bytes());
    }
    &buffer[..length]
}

fn header(kind: u16, length: usize, sid: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&kind.to_le_bytes());
    // Every count was checked, so the longest message (INSTALL, 8196 bytes) fits.
    out.extend_from_slice(&(length as u16).to_le_bytes());
    out.extend_from_slice(&sid.to_le_bytes());
}

fn write_updates(updates: &[FieldUpdate], out: &mut Vec<u8>) {
    for update in updates {
        out.push(update.kind);
        out.extend_from_slice(&update.index.to_le_bytes());
        out.extend_from_slice(&update.value.to_le_bytes());
    }
}

fn check_count(what: &'static str, count: usize, limit: u32) -> Result<(), WireError> {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    if count > limit { Err(WireError::TooMany { what, count, limit }) } else { Ok(()) }
}

fn expect_length(header: usize, need: usize) -> Result<(), WireError> {
    if header == need { Ok(()) } else { Err(WireError::Length { header, need }) }
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) =
            self.bytes.split_at_checked(n).ok_or(WireError::Truncated { have: self.bytes.len(), need: n })?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (taken, rest) = self
            .bytes
            .split_first_chunk::<N>()
            .ok_or(WireError::Truncated { have: self.bytes.len(), need: N })?;
        self.bytes = rest;
        Ok(*taken)
    }

    fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn header(&mut self) -> Result<(u16, usize, u32), WireError> {
        if self.bytes.len() < HEADER_BYTES {
            return Err(WireError::Truncated { have: self.bytes.len(), need: HEADER_BYTES });
        }
        Ok((self.u16()?, usize::from(self.u16()?), self.u32()?))
    }

    fn create(&mut self, length: usize) -> Result<CreateMessage, WireError> {
        if length != OLD_CREATE_BYTES {
            expect_length(length, CREATE_BYTES)?;
        }
        Ok(CreateMessage {
            init_cwnd: self.u32()?,
            mss: self.u32()?,
            src_ip: self.u32()?,
            src_port: self.u32()?,
            dst_ip: self.u32()?,
            dst_port: self.u32()?,
            algorithm: if length == OLD_CREATE_BYTES {
                AlgorithmName::NONE
            } else {
                AlgorithmName::from_bytes(self.array()?).ok_or(WireError::AlgorithmName)?
            },
        })
    }

    fn measure(&mut self, sid: u32, length: usize) -> Result<Message<'a>, WireError> {
        let (uid, count) = (self.u32()?, self.u32()?);
        check_count("values", count as usize, MAX_REPORT_REGISTERS)?;
        expect_length(length, HEADER_BYTES + 8 + 8 * count as usize)?;
        let values = (0..count).map(|_| self.u64()).collect::<Result<_, _>>()?;
        Ok(Message::Measure { sid, uid, values })
    }

    fn install(&mut self, length: usize) -> Result<Install<'a>, WireError> {
        let (uid, expressions, instructions) = (self.u32()?, self.u32()?, self.u32()?);
        check_count("expressions", expressions as usize, MAX_EXPRESSIONS)?;
        check_count("instructions", instructions as usize, MAX_INSTRUCTIONS)?;
        let expressions = expressions as usize * EXPRESSION_BYTES;
        let instructions = instructions as usize * INSTRUCTION_BYTES;
        expect_length(length, HEADER_BYTES + 12 + expressions + instructions)?;
        Ok(Install { uid, expressions: self.take(expressions)?, instructions: self.take(instructions)? })
    }

    fn updates(&mut self, length: usize, before: usize, count: u32) -> Result<Vec<FieldUpdate>, WireError> {
        check_count("registers", count as usize, MAX_UPDATES)?;
        expect_length(length, before + count as usize * UPDATE_BYTES)?;
        (0..count).map(|_| self.update()).collect()
    }

    fn update(&mut self) -> Result<FieldUpdate, WireError> {
        let [kind] = self.array()?;
        let update = FieldUpdate { kind, index: self.u32()?, value: self.u64()? };
        match RegisterKind::from_wire(kind) {
            // libccp takes and ignores the implicit registers other than Cwnd and Rate.
            Some(RegisterKind::Implicit) => Ok(update),
            Some(kind @ (RegisterKind::Control | RegisterKind::VolatileControl))
                if Slot::of(kind, update.index).is_some() =>
            {
                Ok(update)
            }
            _ => Err(WireError::Register { kind, index: update.index }),
        }
    }
}

#[cfg(test)]
mod tests;
