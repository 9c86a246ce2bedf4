//! How the agent names datapaths and their flows.

/// A datapath, as portus knows it. The default stands for the agent itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DatapathId(pub u32);

impl DatapathId {
    /// The agent itself: the first READY comes from it, so that it sees what portus would install.
    pub const SELF: DatapathId = DatapathId(0);
}

/// A flow of a datapath.
pub type FlowKey = (DatapathId, u32);
