//! Jobs on several threads, with their results in the order of the jobs.

use anyhow::Result;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Threads to use: as many as were asked for, or as there are processors.
pub fn workers(asked: Option<NonZeroUsize>) -> usize {
    asked.or(thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get)
}

/// Runs jobs 0 to `jobs` on at most `workers` threads; `take` gets each result in this thread, in the order
/// of the jobs and as soon as it and all before it are there, together with its number. `done` is told of every
/// job as it ends, in any order. The first error in the order of the jobs, be it a job's or that of `take`, is
/// returned; after an error no job begins.
pub fn run<T: Send>(
    jobs: usize,
    workers: usize,
    job: impl Fn(usize) -> Result<T> + Sync,
    mut done: impl FnMut(),
    mut take: impl FnMut(usize, T) -> Result<()>,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..workers.min(jobs) {
            let (sender, next, job) = (sender.clone(), &next, &job);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= jobs {
                        break;
                    }
                    let result = job(number);
                    if result.is_err() {
                        next.store(jobs, Ordering::Relaxed);
                    }
                    // The receiver is gone when a result could not be taken.
                    if sender.send((number, result)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let (mut waiting, mut due) = (BTreeMap::new(), 0);
        for (number, result) in receiver {
            done();
            waiting.insert(number, result);
            while let Some(result) = waiting.remove(&due) {
                take(due, result?)?;
                due += 1;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;
    use std::time::Duration;

    #[test]
    fn results_come_in_order_whatever_ends_first() {
        for workers in [1, 3, 50] {
            let (mut taken, mut ended) = (Vec::new(), 0);
            let job = |number: usize| {
                thread::sleep(Duration::from_millis(if number.is_multiple_of(3) { 5 } else { 0 }));
                Ok(number * number)
            };
            run(
                20,
                workers,
                job,
                || ended += 1,
                |number, square| {
                    taken.push((number, square));
                    Ok(())
                },
            )
            .unwrap();
            assert_eq!(taken, (0..20).map(|n| (n, n * n)).collect::<Vec<_>>());
            assert_eq!(ended, 20);
        }
        run(0, 4, |_| Ok(()), || (), |_, ()| bail!("there is no job")).unwrap();
    }

    #[test]
    fn an_error_of_either_side_ends_it() {
        let begun = AtomicUsize::new(0);
        let job = |number: usize| {
            begun.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(1));
            if number == 3 { bail!("job 3") } else { Ok(number) }
        };
        let mut taken = 0;
        let error = run(
            1_000,
            2,
            job,
            || (),
            |_, _| {
                taken += 1;
                Ok(())
            },
        )
        .unwrap_err();
        assert_eq!((error.to_string().as_str(), taken), ("job 3", 3));
        assert!(begun.load(Ordering::Relaxed) < 100);
        let error = run(9, 2, Ok, || (), |number, _| if number == 4 { bail!("full") } else { Ok(()) });
        assert_eq!(error.unwrap_err().to_string(), "full");
    }
}
