//! A [`Device`] that shows a connection's packets to its [`Watch`] and lets the stack send only when that allows it.

use crate::segment::{self, Segment};
use crate::watch::Watch;
use smoltcp::phy::{self, Checksum, Device, DeviceCapabilities, Medium};
use smoltcp::time::Instant as StackTime;
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// The time that the stack counts from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epoch(pub Instant);

impl Epoch {
    /// A time in the stack's terms.
    pub fn stack_time(self, now: Instant) -> StackTime {
        StackTime::from_micros(now.saturating_duration_since(self.0).as_micros() as i64)
    }

    /// A time of the stack.
    pub fn instant(self, time: StackTime) -> Instant {
        self.0 + Duration::from_micros(time.total_micros().max(0) as u64)
    }
}

/// A device around which a connection is watched and paced.
pub(crate) struct Watched<D> {
    inner: D,
    medium: Medium,
    /// `None` where nothing is governed, as on a server.
    watch: Option<RefCell<Watch>>,
    /// What the clock says; a test's says what the test wants.
    clock: fn() -> Instant,
    /// The present, where there is no clock.
    manual: Option<Instant>,
    /// When to ask again, since the stack was last kept from sending.
    blocked: Option<Instant>,
}

impl<D: Device> Watched<D> {
    pub fn new(inner: D, watch: Option<Watch>) -> Watched<D> {
        let medium = inner.capabilities().medium;
        Watched {
            inner,
            medium,
            watch: watch.map(RefCell::new),
            clock: Instant::now,
            manual: None,
            blocked: None,
        }
    }

    /// From now on it is `now`, whatever the clock says.
    pub fn set_time(&mut self, now: Instant) {
        self.manual = Some(now);
    }

    /// When the stack may send again, if it was kept from sending since the last call.
    pub fn take_blocked(&mut self) -> Option<Instant> {
        self.blocked.take()
    }

    /// Does something with the watch.
    pub fn with<T>(&self, act: impl FnOnce(&mut Watch) -> T) -> Option<T> {
        self.watch.as_ref().map(|watch| act(&mut watch.borrow_mut()))
    }

    /// The device itself.
    pub fn inner(&self) -> &D {
        &self.inner
    }
}

/// What a token needs to show a packet.
struct View<'a> {
    watch: Option<&'a RefCell<Watch>>,
    medium: Medium,
    now: Instant,
}

impl View<'_> {
    fn show(&self, frame: &[u8], tell: fn(&mut Watch, Instant, &Segment)) {
        if let Some(watch) = self.watch
            && let Some(segment) = segment::parse(self.medium, frame)
        {
            tell(&mut watch.borrow_mut(), self.now, &segment);
        }
    }
}

/// A packet that came in.
pub(crate) struct RxToken<'a, T> {
    inner: T,
    view: View<'a>,
}

impl<T: phy::RxToken> phy::RxToken for RxToken<'_, T> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        self.inner.consume(|frame| {
            self.view.show(frame, Watch::on_received);
            take(frame)
        })
    }
}

/// Leave to send a packet.
pub(crate) struct TxToken<'a, T> {
    inner: T,
    view: View<'a>,
}

impl<T: phy::TxToken> phy::TxToken for TxToken<'_, T> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, fill: F) -> R {
        self.inner.consume(length, |frame| {
            let result = fill(frame);
            self.view.show(frame, Watch::on_sent);
            result
        })
    }
}

impl<D: Device> Device for Watched<D> {
    type RxToken<'a>
        = RxToken<'a, D::RxToken<'a>>
    where
        Self: 'a;
    type TxToken<'a>
        = TxToken<'a, D::TxToken<'a>>
    where
        Self: 'a;

    fn receive(&mut self, time: StackTime) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        let (rx, tx) = self.inner.receive(time)?;
        let now = self.manual.unwrap_or_else(self.clock);
        let view = || View { watch: self.watch.as_ref(), medium: self.medium, now };
        Some((RxToken { inner: rx, view: view() }, TxToken { inner: tx, view: view() }))
    }

    fn transmit(&mut self, time: StackTime) -> Option<Self::TxToken<'_>> {
        let now = self.manual.unwrap_or_else(self.clock);
        if let Some(watch) = &self.watch
            && let Err(again) = watch.borrow_mut().may_send(now)
        {
            self.blocked = again;
            return None;
        }
        let view = View { watch: self.watch.as_ref(), medium: self.medium, now };
        Some(TxToken { inner: self.inner.transmit(time)?, view })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = self.inner.capabilities();
        if self.medium == Medium::Ethernet {
            // What a host sends to itself or to a neighbour on one machine is handed over before its checksum is made.
            capabilities.checksum.tcp = Checksum::Tx;
        }
        capabilities
    }
}
