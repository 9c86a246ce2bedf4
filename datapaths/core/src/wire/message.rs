//! The six messages as values.

/// The largest maximum segment size: the largest IPv4 packet bounds a segment.
pub const MAX_MSS_BYTES: u32 = 65_535;

/// What CREATE tells of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateMessage {
    /// Initial congestion window, bytes.
    pub init_cwnd: u32,
    /// Maximum segment size, bytes.
    pub mss: u32,
    /// Source address.
    pub src_ip: u32,
    /// Source port.
    pub src_port: u32,
    /// Destination address.
    pub dst_ip: u32,
    /// Destination port.
    pub dst_port: u32,
    /// The algorithm that the datapath asks for; empty leaves the choice to the agent.
    pub algorithm: AlgorithmName,
}

impl CreateMessage {
    /// A flow whose transport does not tell its addresses: they are 0.
    pub fn without_addresses(init_cwnd: u32, mss: u32, algorithm: AlgorithmName) -> CreateMessage {
        CreateMessage { init_cwnd, mss, src_ip: 0, src_port: 0, dst_ip: 0, dst_port: 0, algorithm }
    }
}

/// An algorithm's name as it travels: at most 63 bytes of UTF-8 without NUL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlgorithmName {
    bytes: [u8; 64],
}

impl AlgorithmName {
    /// No name: the agent chooses.
    pub const NONE: AlgorithmName = AlgorithmName { bytes: [0; 64] };

    /// A name, if it is short enough and holds no NUL.
    pub fn new(name: &str) -> Option<AlgorithmName> {
        let mut bytes = [0; 64];
        (name.len() < 64 && !name.contains('\0'))
            .then(|| bytes[..name.len()].copy_from_slice(name.as_bytes()))?;
        Some(AlgorithmName { bytes })
    }

    /// The name in bytes that arrived. What follows the first NUL may be anything: older datapaths do
    /// not clear it.
    pub(crate) fn from_bytes(bytes: [u8; 64]) -> Option<AlgorithmName> {
        let end = bytes.iter().position(|&b| b == 0)?;
        AlgorithmName::new(std::str::from_utf8(&bytes[..end]).ok()?)
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 64] {
        &self.bytes
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        let end = self.bytes.iter().position(|&b| b == 0).unwrap_or(64);
        std::str::from_utf8(&self.bytes[..end]).unwrap_or("")
    }
}

/// One register that the agent sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldUpdate {
    /// Register type on the wire.
    pub kind: u8,
    /// Register index on the wire.
    pub index: u32,
    /// The value.
    pub value: u64,
}

/// An INSTALL message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Install<'a> {
    /// The program's id.
    pub uid: u32,
    /// Expressions, 16 bytes each.
    pub expressions: &'a [u8],
    /// Instructions, 16 bytes each.
    pub instructions: &'a [u8],
}

impl<'a> Install<'a> {
    /// The program whose byte code begins with this number of expressions. Code that is shorter than its
    /// expressions has no instructions.
    pub fn of_code(uid: u32, expressions: u32, code: &'a [u8]) -> Install<'a> {
        let end = code.len().min(super::EXPRESSION_BYTES.saturating_mul(expressions as usize));
        let (expressions, instructions) = code.split_at(end);
        Install { uid, expressions, instructions }
    }
}

/// Any message, as read from bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Datapath → agent: a flow.
    Create(u32, CreateMessage),
    /// Datapath → agent: a report; without values, the flow's end.
    Measure {
        /// Flow.
        sid: u32,
        /// Program that reported.
        uid: u32,
        /// Report registers in wire order.
        values: Vec<u64>,
    },
    /// Agent → datapath: a program.
    Install(Install<'a>),
    /// Agent → datapath: registers to set.
    Update(u32, Vec<FieldUpdate>),
    /// Agent → datapath: program to run and registers to set.
    ChangeProgram {
        /// Flow.
        sid: u32,
        /// Program.
        uid: u32,
        /// Registers to set.
        updates: Vec<FieldUpdate>,
    },
    /// Datapath → agent: a datapath is there.
    Ready(u32),
}
