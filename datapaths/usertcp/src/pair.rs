//! Two ends of a wire inside one process.

use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::time::Instant as StackTime;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Packets that wait at one end.
type Queue = Rc<RefCell<VecDeque<Vec<u8>>>>;

/// Packets that may wait at one end; a full end takes none.
const MAX_WAITING: usize = 1024;

/// One end: an IP device whose packets come from one queue and go to another.
#[derive(Clone, Debug)]
pub struct PairEnd {
    inbound: Queue,
    outbound: Queue,
    mtu: usize,
}

/// Both ends of a wire for IP packets of up to `mtu` bytes, in order and without delay or loss.
pub fn pair(mtu: usize) -> (PairEnd, PairEnd) {
    let (one, other) = (Queue::default(), Queue::default());
    let end = |inbound: &Queue, outbound: &Queue| PairEnd {
        inbound: inbound.clone(),
        outbound: outbound.clone(),
        mtu,
    };
    (end(&one, &other), end(&other, &one))
}

impl PairEnd {
    /// The next packet that the other end sent, past the stack: for whoever stands between.
    pub fn take(&self) -> Option<Vec<u8>> {
        self.inbound.borrow_mut().pop_front()
    }

    /// Has a packet arrive at the other end.
    pub fn give(&self, packet: Vec<u8>) {
        self.outbound.borrow_mut().push_back(packet);
    }
}

/// A packet that came.
#[derive(Debug)]
pub struct RxToken(Vec<u8>);

/// Leave to send a packet.
#[derive(Debug)]
pub struct TxToken(Queue);

impl phy::RxToken for RxToken {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(&self.0)
    }
}

impl phy::TxToken for TxToken {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, fill: F) -> R {
        let mut packet = vec![0; length];
        let result = fill(&mut packet);
        self.0.borrow_mut().push_back(packet);
        result
    }
}

impl Device for PairEnd {
    type RxToken<'a> = RxToken;
    type TxToken<'a> = TxToken;

    fn receive(&mut self, _: StackTime) -> Option<(RxToken, TxToken)> {
        let packet = self.inbound.borrow_mut().pop_front()?;
        Some((RxToken(packet), TxToken(self.outbound.clone())))
    }

    fn transmit(&mut self, _: StackTime) -> Option<TxToken> {
        (self.outbound.borrow().len() < MAX_WAITING).then(|| TxToken(self.outbound.clone()))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.max_transmission_unit = self.mtu;
        capabilities.medium = Medium::Ip;
        capabilities
    }
}
