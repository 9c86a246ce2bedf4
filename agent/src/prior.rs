//! Where Antelope begins: which law served most flows to an address, kept over restarts (Antelope §IV-C).
//!
//! A count for each /24 and law. A flow that ends adds one to the law that governed it longest, after all counts of its prefix
//! have been multiplied by α, so that old flows are forgotten. Prefixes that are not heard of for a month count no more, and no
//! more of them are kept than [`MOST_PREFIXES`], the latest.
//!
//! The counts are in memory, and the file gets what changes, on a thread of its own: a commit waits for the disk, which flows must
//! not. What the thread is too slow for is left out: a prior is a guess. A file that fails is left alone until the next start.

use crate::logging::panic_text;
use crate::own_file;
use anole_algorithms::ARMS;
use anyhow::{Context, Result, anyhow};
use redb::backends::FileBackend;
use redb::{Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};
use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What an ended flow leaves of the counts before it (the paper's α; it gives no value).
const KEEPS: f64 = 0.9;
/// Prefixes that are kept, and what is left when there are more.
const MOST_PREFIXES: usize = 65_536;
const LEFT_PREFIXES: usize = 49_152;
/// Counts older than this are those of another network, s.
const OLDEST_S: u64 = 30 * 24 * 3600;
/// How often they are looked for: among all, and no flow begins meanwhile.
const SWEEP: Duration = Duration::from_secs(3600);
/// Ended flows that may wait for the disk.
const WAITING: usize = 1024;
/// Memory that the database may take for its pages.
const CACHE_BYTES: usize = 4 << 20;

/// Time of a prefix's last flow, s since 1970, and a count for each law.
type Row = (u64, [f64; ARMS.len()]);

/// Rows by prefix, the upper 24 bits of an IPv4 address.
const COUNTS: TableDefinition<u32, Row> = TableDefinition::new("antelope-counts-1");

/// The counts, or none.
#[derive(Default)]
pub struct Priors(Option<Open>);

struct Open {
    counts: Arc<Mutex<Counts>>,
    /// `None` once it is to end.
    ended: Option<SyncSender<(u32, usize)>>,
    writer: Option<JoinHandle<()>>,
}

/// Hears of the law for a prefix, or that there is none any more, on any thread.
pub type Told = Box<dyn Fn(Ipv4Addr, Option<usize>) + Send>;

impl Priors {
    /// Opens or makes the file at `path`; counts for as long as the agent runs, without one. `told` hears of every
    /// prefix that is known, and then of each when its counts change or are forgotten.
    pub fn open(path: Option<&Path>, told: Told) -> Result<Priors> {
        let open = |path: &Path| {
            guarded(|| Store::open(path)).with_context(|| {
                format!(
                    "--antelope-prior {}: move it away, and counts begin anew, or give another path",
                    path.display()
                )
            })
        };
        let (store, counts) = path.map(open).transpose()?.unzip();
        let counts = Arc::new(Mutex::new(counts.unwrap_or_default()));
        let (ended, waiting) = sync_channel(WAITING);
        let writer = Writer { counts: Arc::clone(&counts), store, told };
        let thread = thread::Builder::new().name("antelope-prior".into());
        let writer = thread.spawn(move || writer.run(&waiting))?;
        Ok(Priors(Some(Open { counts, ended: Some(ended), writer: Some(writer) })))
    }

    /// The law that served most flows to this address's prefix.
    pub fn first(&self, peer: Ipv4Addr) -> Option<usize> {
        locked(&self.0.as_ref()?.counts).first(peer, now_s())
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

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn locked(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    // Nothing panics while it holds the lock; a poisoned one is as good.
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The counts of all prefixes.
#[derive(Debug, Default)]
struct Counts(HashMap<u32, Row>);

impl Counts {
    /// The law that has most.
    fn first(&self, peer: Ipv4Addr, now_s: u64) -> Option<usize> {
        let (at, counts) = self.0.get(&prefix(peer))?;
        let known = now_s.saturating_sub(*at) <= OLDEST_S;
        let best = counts.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        best.filter(|(_, count)| known && **count > 0.0).map(|(arm, _)| arm)
    }

    /// Counts flows to these prefixes, each under its law; the prefixes that changed, or are not kept any more.
    fn add(&mut self, ended: &[(u32, usize)], now_s: u64, most: usize, left: usize) -> BTreeSet<u32> {
        let mut changed = BTreeSet::new();
        for &(prefix, arm) in ended {
            let fresh = self.0.get(&prefix).filter(|(at, _)| now_s.saturating_sub(*at) <= OLDEST_S);
            let mut counts = fresh.map_or([0.0; ARMS.len()], |(_, counts)| counts.map(|count| KEEPS * count));
            if let Some(count) = counts.get_mut(arm) {
                *count += 1.0;
            }
            self.0.insert(prefix, (now_s, counts));
            changed.insert(prefix);
        }
        if self.0.len() > most {
            let mut times: Vec<(u64, u32)> = self.0.iter().map(|(&prefix, &(at, _))| (at, prefix)).collect();
            times.sort_unstable();
            times.truncate(times.len() - left);
            for (_, prefix) in times {
                self.0.remove(&prefix);
                changed.insert(prefix);
            }
        }
        changed
    }

    /// Forgets the prefixes whose counts are too old; which those were.
    fn forget_old(&mut self, now_s: u64) -> BTreeSet<u32> {
        self.0
            .extract_if(|_, (at, _)| now_s.saturating_sub(*at) > OLDEST_S)
            .map(|(prefix, _)| prefix)
            .collect()
    }
}

/// redb says by a panic that a page is damaged.
fn guarded<T>(act: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(act))
        .unwrap_or_else(|panic| Err(anyhow!("it is damaged: {}", panic_text(&*panic))))
}

/// The counts' file.
struct Store(Database);

impl Store {
    /// Opens or makes the one at `path`; with what is in it.
    fn open(path: &Path) -> Result<(Store, Counts)> {
        Store::of(FileBackend::new(own_file::open_alone(path, 0o600)?)?)
    }

    fn of(backend: impl StorageBackend) -> Result<(Store, Counts)> {
        let database = Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(backend)?;
        let begun = database.begin_write()?;
        begun.open_table(COUNTS).context("it holds other tables")?;
        begun.commit()?;
        let mut counts = HashMap::new();
        for row in database.begin_read()?.open_table(COUNTS)?.iter()? {
            let (prefix, row) = row?;
            counts.insert(prefix.value(), row.value());
        }
        Ok((Store(database), Counts(counts)))
    }

    /// Writes these rows; those that are none are removed.
    fn write(&self, rows: &[(u32, Option<Row>)]) -> Result<()> {
        let begun = self.0.begin_write()?;
        {
            let mut table = begun.open_table(COUNTS)?;
            for (prefix, row) in rows {
                match row {
                    Some(row) => table.insert(prefix, row)?,
                    None => table.remove(prefix)?,
                };
            }
        }
        Ok(begun.commit()?)
    }
}

/// What the thread has.
struct Writer {
    counts: Arc<Mutex<Counts>>,
    /// `None` without a file, and once it has failed.
    store: Option<Store>,
    told: Told,
}

impl Writer {
    /// Counts and writes what comes, all that waits at once, until there is nobody to tell anything.
    fn run(mut self, waiting: &Receiver<(u32, usize)>) {
        let mut changed = locked(&self.counts).forget_old(now_s());
        self.keep(&changed);
        changed.extend(locked(&self.counts).0.keys());
        self.tell(changed);
        let mut swept = Instant::now();
        loop {
            let first = match waiting.recv_timeout(SWEEP) {
                Ok(first) => Some(first),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let ended: Vec<(u32, usize)> = first.into_iter().chain(waiting.try_iter()).collect();
            let mut changed = locked(&self.counts).add(&ended, now_s(), MOST_PREFIXES, LEFT_PREFIXES);
            if swept.elapsed() >= SWEEP {
                changed.extend(locked(&self.counts).forget_old(now_s()));
                swept = Instant::now();
            }
            self.keep(&changed);
            self.tell(changed);
        }
        self.close();
    }

    fn keep(&mut self, changed: &BTreeSet<u32>) {
        let Some(store) = self.store.as_ref().filter(|_| !changed.is_empty()) else { return };
        let counts = locked(&self.counts);
        let rows: Vec<_> = changed.iter().map(|prefix| (*prefix, counts.0.get(prefix).copied())).collect();
        drop(counts);
        if let Err(error) = guarded(|| store.write(&rows)) {
            tracing::warn!(
                error = format!("{error:#}"),
                "--antelope-prior: what flows say is not kept until the agent starts again"
            );
            self.close();
        }
    }

    /// The file is written to no more.
    fn close(&mut self) {
        let store = self.store.take();
        let _ = guarded(|| {
            drop(store);
            Ok(())
        });
    }

    /// Tells of these prefixes.
    fn tell(&self, prefixes: BTreeSet<u32>) {
        for prefix in prefixes {
            let peer = Ipv4Addr::from_bits(prefix << 8);
            let first = locked(&self.counts).first(peer, now_s());
            (self.told)(peer, first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redb::backends::InMemoryBackend;
    use std::sync::atomic::{AtomicBool, Ordering};

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
        let heard = (Ipv4Addr::new(192, 0, 2, 0), Some(4));
        assert_eq!(listen(0), (vec![], heard));
        assert_eq!(listen(1), (vec![heard], heard));
    }

    #[test]
    fn who_listens_hears_of_what_is_forgotten() {
        let row = |at| (at, [1.0; ARMS.len()]);
        let (old, evicted) = (prefix(STRANGER), 7);
        // As many as are kept, one of them the oldest, and one beyond its time.
        let mut counts: HashMap<u32, Row> = (0..MOST_PREFIXES as u32).map(|n| (n, row(now_s()))).collect();
        counts.insert(evicted, row(now_s() - 60));
        counts.insert(old, row(now_s() - OLDEST_S - 60));
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&told);
        let (ended, waiting) = sync_channel(1);
        let counts = Arc::new(Mutex::new(Counts(counts)));
        let told_of = move |peer, arm| heard.lock().unwrap().push((prefix(peer), arm));
        let writer = Writer { counts: Arc::clone(&counts), store: None, told: Box::new(told_of) };
        ended.send((prefix(PEER), 4)).unwrap();
        drop(ended);
        writer.run(&waiting);
        let told = told.lock().unwrap();
        let of = |prefix: u32| {
            told.iter().filter(|(of, _)| *of == prefix).map(|(_, arm)| *arm).collect::<Vec<_>>()
        };
        let last = Some(ARMS.len() - 1);
        assert_eq!((of(old), of(evicted), of(prefix(PEER))), (vec![None], vec![last, None], vec![Some(4)]));
        let counts = locked(&counts);
        assert!(!counts.0.contains_key(&old) && counts.0.len() == LEFT_PREFIXES);
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
        let counts = locked(&priors.0.as_ref().unwrap().counts);
        assert_eq!(counts.first(PEER, now_s() + OLDEST_S + 60), None);
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&path.metadata().unwrap()) & 0o777, 0o600);
    }

    #[test]
    fn no_more_prefixes_are_kept_than_allowed_and_the_latest_stay() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("prior");
        let (store, mut counts) = Store::open(&path).unwrap();
        for n in 0..20 {
            let changed = counts.add(&[(n, 2)], 1000 + u64::from(n), 10, 7);
            let rows: Vec<_> =
                changed.iter().map(|prefix| (*prefix, counts.0.get(prefix).copied())).collect();
            store.write(&rows).unwrap();
        }
        drop(store);
        let (_, counts) = Store::open(&path).unwrap();
        let kept = |n: u32| counts.first(Ipv4Addr::from_bits(n << 8), 1020).is_some();
        let kept: Vec<u32> = (0..20).filter(|&n| kept(n)).collect();
        assert!((7..=10).contains(&kept.len()) && kept.ends_with(&[17, 18, 19]), "{kept:?}");
    }

    #[test]
    fn a_damaged_file_is_refused_or_left_alone_and_ends_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("prior");
        let (store, mut counts) = Store::open(&path).unwrap();
        let ended: Vec<(u32, usize)> = (0..2000).map(|n| (n, 2)).collect();
        counts.add(&ended, now_s(), MOST_PREFIXES, LEFT_PREFIXES);
        store.write(&counts.0.iter().map(|(&prefix, &row)| (prefix, Some(row))).collect::<Vec<_>>()).unwrap();
        drop(store);
        let good = std::fs::read(&path).unwrap();
        let mut refused = 0;
        for page in 0..good.len() / 4096 {
            let mut bad = good.clone();
            bad[page * 4096..][..4096].fill(0);
            std::fs::write(&path, &bad).unwrap();
            match open(Some(&path)) {
                Ok(priors) => (0..2000).for_each(|n| priors.note(Ipv4Addr::from_bits(n << 8), 1)),
                Err(error) => {
                    refused += 1;
                    assert!(format!("{error:#}").contains("move it away"), "{error:#}");
                }
            }
        }
        assert!(refused > 10, "{refused}");
    }

    /// A disk that is full once it is told.
    #[derive(Debug)]
    struct Disk(InMemoryBackend, Arc<AtomicBool>);

    impl Disk {
        fn room(&self) -> Result<(), std::io::Error> {
            let full = std::io::ErrorKind::StorageFull;
            if self.1.load(Ordering::SeqCst) { Err(full.into()) } else { Ok(()) }
        }
    }

    impl StorageBackend for Disk {
        fn len(&self) -> Result<u64, std::io::Error> {
            self.0.len()
        }
        fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), std::io::Error> {
            self.0.read(offset, out)
        }
        fn set_len(&self, len: u64) -> Result<(), std::io::Error> {
            self.room()?;
            self.0.set_len(len)
        }
        fn sync_data(&self) -> Result<(), std::io::Error> {
            self.0.sync_data()
        }
        fn write(&self, offset: u64, data: &[u8]) -> Result<(), std::io::Error> {
            self.room()?;
            self.0.write(offset, data)
        }
    }

    #[test]
    fn a_full_disk_leaves_the_counts_in_memory() {
        let full = Arc::new(AtomicBool::new(false));
        let (store, counts) = Store::of(Disk(InMemoryBackend::new(), Arc::clone(&full))).unwrap();
        let counts = Arc::new(Mutex::new(counts));
        let mut writer =
            Writer { counts: Arc::clone(&counts), store: Some(store), told: Box::new(|_, _| ()) };
        let mut ends = |peer| {
            let changed = locked(&counts).add(&[(prefix(peer), 3)], now_s(), MOST_PREFIXES, LEFT_PREFIXES);
            writer.keep(&changed);
            writer.store.is_some()
        };
        assert!(ends(PEER));
        full.store(true, Ordering::SeqCst);
        assert!(!ends(STRANGER));
        full.store(false, Ordering::SeqCst);
        assert!(!ends(STRANGER));
        let first = |peer| locked(&counts).first(peer, now_s());
        assert_eq!((first(PEER), first(STRANGER)), (Some(3), Some(3)));
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
        let refused = format!("{:#}", open(Some(&path)).err().unwrap());
        assert!(refused.ends_with("another agent, or another flag, writes it"), "{refused}");
        std::os::unix::fs::symlink("/etc/passwd", directory.path().join("link")).unwrap();
        assert!(open(Some(&directory.path().join("link"))).is_err());
    }
}
