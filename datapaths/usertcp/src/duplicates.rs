//! When smoltcp sends the first missing segment again without its timer.
//!
//! It does so at the third duplicate ACK, with the next packet with data. Counted here as there: how late the packet goes does not
//! tell it from one of the timer, since a round trip may be longer than the timer.

/// RFC 5681 §3.2.
const THRESHOLD: u8 = 3;

/// Duplicate ACKs since the last other one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Duplicates {
    count: u8,
    window: Option<u32>,
    are_enough: bool,
}

impl Duplicates {
    /// A segment with an ACK that is not an old one, and the peer's window, bytes. `repeats`: it acknowledges nothing new while
    /// something is under way, and carries no data.
    pub fn on_ack(&mut self, repeats: bool, window: u32) {
        let same_window = self.window.replace(window) == Some(window);
        if repeats && same_window {
            self.count = self.count.saturating_add(1);
            self.are_enough |= self.count == THRESHOLD;
        } else {
            self.count = 0;
        }
    }

    /// Whether the next packet is the first missing segment.
    pub fn are_enough(&self) -> bool {
        self.are_enough
    }

    /// The same; from now on it is not: it goes, may not go, or is no longer missing.
    pub fn take(&mut self) -> bool {
        std::mem::take(&mut self.are_enough)
    }
}
