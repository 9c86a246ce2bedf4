//! Where Antelope begins: which law served most flows to an address, kept over restarts (Antelope §IV-C).
//!
//! A count for each /24 and law. A flow that ends adds one to the law that governed it longest, after all counts of its prefix
//! have been multiplied by α, so that old flows are forgotten. Prefixes that are not heard of for a month count no more, and no
//! more of them are kept than [`MOST_PREFIXES`], the latest.
//!
//! Writes happen on a thread of its own: a commit waits for the disk, which flows must not. What the thread is too slow for is left
//! out: a prior is a guess.

use crate::own_file;
use anole_algorithms::ARMS;
use anyhow::{Context, Result};
use redb::backends::{FileBackend, InMemoryBackend};
use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

/// What an ended flow leaves of the counts before it (the paper's α; it gives no value).
const KEEPS: f64 = 0.9;
/// Prefixes that are kept, and what is left when there are more.
const MOST_PREFIXES: u64 = 65_536;
const LEFT_PREFIXES: u64 = 49_152;
/// Counts older than this are those of another network, s.
const OLDEST_S: u64 = 30 * 24 * 3600;
/// Ended flows that may wait for the disk.
const WAITING: usize = 1024;
/// Memory that the database may take for its pages.
const CACHE_BYTES: usize = 4 << 20;

/// Prefix (the upper 24 bits of an IPv4 address) to the time of its last flow, s since 1970, and a count for each law.
const COUNTS: TableDefinition<u32, (u64, [f64; ARMS.len()])> = TableDefinition::new("antelope-counts-1");

/// The counts: in a file, in memory, or none.
#[derive(Default)]
pub struct Priors(Option<Open>);

struct Open {
    database: Arc<Database>,
    /// `None` once it is to end.
    ended: Option<SyncSender<(u32, usize)>>,
    writer: Option<JoinHandle<()>>,
}

/// Hears of the law for a prefix, on any thread.
pub type Told = Box<dyn Fn(Ipv4Addr, usize) + Send>;

impl Priors {
    /// Opens or makes the file at `path`; in memory, for as long as the agent runs, without one. `told` hears of every
    /// prefix that is known, and then of each when its counts change.
    pub fn open(path: Option<&Path>, told: Told) -> Result<Priors> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        let database = match path {
            None => builder.create_with_backend(InMemoryBackend::new()).context("counts in memory")?,
            Some(path) => {
                let way_out = || {
                    format!(
                        "--antelope-prior {}: move it away, and counts begin anew, or give another path",
                        path.display()
                    )
                };
                let file = own_file::open(path, 0o600).with_context(way_out)?;
                let backend = FileBackend::new(file).with_context(way_out)?;
                builder.create_with_backend(backend).with_context(way_out)?
            }
        };
        let database = Arc::new(database);
        let begun = database.begin_write()?;
        begun.open_table(COUNTS).context("--antelope-prior: it holds other tables")?;
        begun.commit()?;
        let (ended, waiting) = sync_channel(WAITING);
        let written = Arc::clone(&database);
        let writer = thread::Builder::new().name("antelope-prior".into());
        let writer = writer.spawn(move || write_all(&written, &waiting, &told))?;
        Ok(Priors(Some(Open { database, ended: Some(ended), writer: Some(writer) })))
    }

    /// The law that served most flows to this address's prefix.
    pub fn first(&self, peer: Ipv4Addr) -> Option<usize> {
        self.first_at(peer, now_s())
    }

    fn first_at(&self, peer: Ipv4Addr, now_s: u64) -> Option<usize> {
        let table = self.0.as_ref()?.database.begin_read().ok()?.open_table(COUNTS).ok()?;
        most(table.get(prefix(peer)).ok()??.value(), now_s)
    }

    /// A flow to this address is over, which this law governed longest.
    pub fn note(&self, peer: Ipv4Addr, arm: usize) {
        if let Some(ended) = self.0.as_ref().and_then(|open| open.ended.as_ref()) {
            // Full: the disk is behind.
            let _ = ended.try_send((prefix(peer), arm));
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.ended = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

fn prefix(peer: Ipv4Addr) -> u32 {
    peer.to_bits() >> 8
}

/// The law that has most.
fn most((at, counts): (u64, [f64; ARMS.len()]), now_s: u64) -> Option<usize> {
    let known = now_s.saturating_sub(at) <= OLDEST_S;
    let best = counts.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    best.filter(|(_, count)| known && **count > 0.0).map(|(arm, _)| arm)
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Commits what comes, all that waits at once, until there is nobody to tell anything.
fn write_all(database: &Database, waiting: &Receiver<(u32, usize)>, told: &Told) {
    // What cannot be read is as good as unknown.
    let _ = tell(database, None, told);
    while let Ok(first) = waiting.recv() {
        let ended: Vec<(u32, usize)> = std::iter::once(first).chain(waiting.try_iter()).collect();
        if let Err(error) = write(database, &ended, now_s(), MOST_PREFIXES, LEFT_PREFIXES) {
            tracing::warn!(%error, "--antelope-prior: what these flows say is not kept");
        }
        let _ = tell(database, Some(ended.iter().map(|(prefix, _)| *prefix).collect()), told);
    }
}

/// Tells of these prefixes, or of all.
fn tell(database: &Database, of: Option<BTreeSet<u32>>, told: &Told) -> Result<()> {
    let (table, now_s) = (database.begin_read()?.open_table(COUNTS)?, now_s());
    let tell = |prefix: u32, row| {
        if let Some(arm) = most(row, now_s) {
            told(Ipv4Addr::from_bits(prefix << 8), arm);
        }
    };
    match of {
        None => {
            for row in table.iter()? {
                let (prefix, row) = row?;
                tell(prefix.value(), row.value());
            }
        }
        Some(prefixes) => {
            for prefix in prefixes {
                if let Some(row) = table.get(prefix)? {
                    tell(prefix, row.value());
                }
            }
        }
    }
    Ok(())
}

fn write(database: &Database, ended: &[(u32, usize)], now_s: u64, most: u64, left: u64) -> Result<()> {
    let begun = database.begin_write()?;
    {
        let mut table = begun.open_table(COUNTS)?;
        for &(prefix, arm) in ended {
            let known = table.get(prefix)?.map(|row| row.value());
            let fresh = known.filter(|(at, _)| now_s.saturating_sub(*at) <= OLDEST_S);
            let mut counts = fresh.map_or([0.0; ARMS.len()], |(_, counts)| counts.map(|count| KEEPS * count));
            if let Some(count) = counts.get_mut(arm) {
                *count += 1.0;
            }
            table.insert(prefix, (now_s, counts))?;
        }
        if table.len()? > most {
            let mut times = table
                .iter()?
                .map(|row| row.map(|(prefix, value)| (value.value().0, prefix.value())))
                .collect::<Result<Vec<_>, _>>()?;
            times.sort_unstable();
            let over = times.len() - left as usize;
            for (_, prefix) in &times[..over] {
                table.remove(prefix)?;
            }
        }
    }
    Ok(begun.commit()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
    const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 200);
    const STRANGER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);

    fn open(path: Option<&Path>) -> Result<Priors> {
        Priors::open(path, Box::new(|_, _| ()))
    }

    #[test]
    fn who_listens_hears_of_what_is_known_and_of_what_changes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("prior");
        let listen = |waits: usize| {
            let (tell, told) = sync_channel(8);
            let told_of = move |peer, arm| tell.send((peer, arm)).unwrap();
            let priors = Priors::open(Some(&path), Box::new(told_of)).unwrap();
            let before: Vec<_> = told.iter().take(waits).collect();
            priors.note(PEER, 4);
            let after = told.recv().unwrap();
            (before, after)
        };
        let heard = (Ipv4Addr::new(192, 0, 2, 0), 4);
        assert_eq!(listen(0), (vec![], heard));
        assert_eq!(listen(1), (vec![heard], heard));
    }

    #[test]
    fn what_served_a_prefix_is_known_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("prior");
        let priors = open(Some(&path)).unwrap();
        assert_eq!(priors.first(PEER), None);
        for arm in [4, 4, 1] {
            priors.note(PEER, arm);
        }
        drop(priors);
        let priors = open(Some(&path)).unwrap();
        assert_eq!((priors.first(NEIGHBOUR), priors.first(STRANGER)), (Some(4), None));
        // The latest count most.
        for _ in 0..4 {
            priors.note(NEIGHBOUR, 0);
        }
        drop(priors);
        let priors = open(Some(&path)).unwrap();
        assert_eq!(priors.first(PEER), Some(0));
        assert_eq!(priors.first_at(PEER, now_s() + OLDEST_S + 60), None);
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&path.metadata().unwrap()) & 0o777, 0o600);
    }

    #[test]
    fn no_more_prefixes_are_kept_than_allowed_and_the_latest_stay() {
        let priors = open(None).unwrap();
        let database = &priors.0.as_ref().unwrap().database;
        for n in 0..20 {
            write(database, &[(n, 2)], 1000 + u64::from(n), 10, 7).unwrap();
        }
        let kept = |n: u32| priors.first_at(Ipv4Addr::from_bits(n << 8), 1020).is_some();
        let kept: Vec<u32> = (0..20).filter(|&n| kept(n)).collect();
        assert!((7..=10).contains(&kept.len()) && kept.ends_with(&[17, 18, 19]), "{kept:?}");
    }

    #[test]
    fn what_is_no_such_file_or_in_use_is_refused_and_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("prior");
        std::fs::write(&path, "precious").unwrap();
        let refused = open(Some(&path)).err().unwrap();
        assert!(format!("{refused:#}").contains("move it away"), "{refused:#}");
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        std::fs::remove_file(&path).unwrap();
        let _held = open(Some(&path)).unwrap();
        assert!(open(Some(&path)).is_err(), "two agents");
        std::os::unix::fs::symlink("/etc/passwd", directory.path().join("link")).unwrap();
        assert!(open(Some(&directory.path().join("link"))).is_err());
    }
}
