//! Timers that keep up with pacing.
//!
//! tokio's timers tick in whole milliseconds, in which a 48 Mbps flow owes four packets, and noq's token
//! bucket forgets what it could not spend within a few milliseconds. These timers are the kernel's own
//! (timerfd), which fire within tens of microseconds, and everything else is tokio's.

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use noq::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};
use std::future::Future;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::net::unix::pipe::Receiver;

/// Shortest sleep. A wake-up costs about 20 µs of CPU, so that one per packet would cost a third of a
/// core at 200 Mbps; four packets per wake-up there, and one at 48 Mbps, are still finely paced.
const MIN_SLEEP: Duration = Duration::from_micros(250);

/// tokio with fine timers.
#[derive(Debug)]
pub(crate) struct PreciseRuntime;

impl Runtime for PreciseRuntime {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        match PreciseTimer::new(deadline) {
            Ok(timer) => Box::pin(timer),
            // Out of descriptors: coarse pacing is better than none.
            Err(_) => TokioRuntime.new_timer(deadline),
        }
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        TokioRuntime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: std::net::UdpSocket) -> io::Result<Box<dyn AsyncUdpSocket>> {
        TokioRuntime.wrap_udp_socket(socket)
    }
}

#[derive(Debug)]
struct PreciseTimer {
    timer: TimerFd,
    /// The same descriptor as tokio watches it. A pipe's end is read like any other descriptor, and the
    /// type that tokio has for them is the one that takes a foreign descriptor without `unsafe`.
    watched: Receiver,
    deadline: Instant,
}

impl PreciseTimer {
    fn new(deadline: Instant) -> io::Result<PreciseTimer> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        let watched = Receiver::from_owned_fd_unchecked(timer.as_fd().try_clone_to_owned()?)?;
        let timer = PreciseTimer { timer, watched, deadline };
        timer.arm();
        Ok(timer)
    }

    fn arm(&self) {
        let sleep = self.deadline.saturating_duration_since(Instant::now()).max(MIN_SLEEP);
        let once = Expiration::OneShot(TimeSpec::from_duration(sleep));
        // Fails only for a descriptor that is no timer, or a time that is none.
        let armed = self.timer.set(once, TimerSetTimeFlags::empty());
        debug_assert!(armed.is_ok());
    }
}

impl AsyncTimer for PreciseTimer {
    fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        self.deadline = deadline;
        self.arm();
    }

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if Instant::now() >= self.deadline {
                return Poll::Ready(());
            }
            if ready!(self.watched.poll_read_ready(context)).is_err() {
                // The runtime is shutting down.
                return Poll::Ready(());
            }
            // Readiness may be that of a deadline that was moved meanwhile: reading consumes it (or finds
            // nothing and tells tokio so), and the next round decides.
            let mut expirations = [0; 8];
            if self.watched.try_read(&mut expirations).is_ok() {
                self.arm();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    async fn fire(timer: &mut Pin<Box<dyn AsyncTimer>>) {
        poll_fn(|context| timer.as_mut().poll(context)).await;
    }

    #[tokio::test]
    async fn never_early_and_reusable() {
        let start = Instant::now();
        let mut timer = PreciseRuntime.new_timer(start + Duration::from_millis(3));
        fire(&mut timer).await;
        assert!(start.elapsed() >= Duration::from_millis(3));
        // Later than first asked for, then earlier.
        for (first, then) in [(1, 4), (60_000, 2)] {
            let start = Instant::now();
            timer.as_mut().reset(start + Duration::from_millis(first));
            timer.as_mut().reset(start + Duration::from_millis(then));
            fire(&mut timer).await;
            assert!(start.elapsed() >= Duration::from_millis(then));
            assert!(start.elapsed() < Duration::from_secs(5));
        }
        timer.as_mut().reset(Instant::now());
        fire(&mut timer).await;
    }
}
