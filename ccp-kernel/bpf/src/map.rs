// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! Maps in this process's memory.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A mapped piece of a map.
#[derive(Debug)]
pub struct Mapping {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: memory shared with the kernel; what lies there is reached through atomics, or by whoever holds
// the mailbox.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `bytes` from `offset` on.
    pub fn new(map: BorrowedFd<'_>, offset: usize, bytes: usize, writable: bool) -> io::Result<Mapping> {
        let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(at.cast()).map(|at| Mapping { at, bytes }).ok_or(io::ErrorKind::InvalidData.into())
    }

    /// The `n`th value of type `T`.
    pub fn get<T>(&self, n: usize) -> Option<NonNull<T>> {
        let end = n.checked_add(1)?.checked_mul(size_of::<T>())?;
        // SAFETY: within the mapping.
        (end <= self.bytes).then(|| unsafe { self.at.cast::<T>().add(n) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: what `new` mapped, once.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}

/// The reader of a BPF ring buffer (Documentation/bpf/ringbuf.rst in the kernel tree).
#[derive(Debug)]
pub struct Ring {
    consumer: Mapping,
    /// The producer's page, then the data twice in a row, so that no record is ever split.
    producer: Mapping,
    page: usize,
    bytes: usize,
}

const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEADER_BYTES: usize = 8;

impl Ring {
    /// Maps a ring buffer of `bytes` bytes.
    pub fn new(map: BorrowedFd<'_>, bytes: usize) -> io::Result<Ring> {
        // SAFETY: asks for a constant.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        Ok(Ring {
            consumer: Mapping::new(map, 0, page, true)?,
            producer: Mapping::new(map, page, page + 2 * bytes, false)?,
            page,
            bytes,
        })
    }

    /// Copies the next record to `buffer` and returns its length, which may be more than there is room.
    pub fn read(&mut self, buffer: &mut [u8]) -> Option<usize> {
        loop {
            // SAFETY: the first word of each page is a position, written by one side each.
            let (consumer, producer) = unsafe {
                (self.consumer.get::<AtomicU64>(0)?.as_ref(), self.producer.get::<AtomicU64>(0)?.as_ref())
            };
            let position = consumer.load(Ordering::Relaxed);
            if position >= producer.load(Ordering::Acquire) {
                return None;
            }
            let at = self.page + (position as usize & (self.bytes - 1));
            // SAFETY: records start at multiples of 8 with a word that holds length and state.
            let word =
                unsafe { self.producer.get::<u8>(at)?.cast::<AtomicU32>().as_ref() }.load(Ordering::Acquire);
            if word & BUSY != 0 {
                return None;
            }
            let length = (word & !DISCARDED) as usize;
            let whole = (length + HEADER_BYTES).next_multiple_of(8);
            let taken = length.min(buffer.len());
            if word & DISCARDED == 0 {
                let last = self.producer.get::<u8>(at + HEADER_BYTES + taken.max(1) - 1)?;
                // SAFETY: `taken` bytes that end at `last`, within the mapping; nobody writes them before
                // the position moves.
                unsafe {
                    let first = last.as_ptr().sub(taken.max(1) - 1);
                    std::ptr::copy_nonoverlapping(first, buffer.as_mut_ptr(), taken);
                }
            }
            consumer.store(position + whole as u64, Ordering::Release);
            if word & DISCARDED == 0 {
                return Some(length);
            }
        }
    }
}
