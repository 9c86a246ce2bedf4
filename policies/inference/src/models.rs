//! Files of boosted models. A file that was replaced is taken from the next flow on, once it was checked; flows that run
//! keep what they have, and a file that is refused changes nothing.
//!
//! An agent does not wait for the disk nor for the check, which takes 3 ms for the shipped models and half a second for the largest
//! that are read: a thread does it, and flows that begin meanwhile have the models from before.

use crate::read::{MAX_FILE, read};
use crate::serving::Serving;
use anole_policies::{Boosters, PolicyError};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The files that were asked for.
#[derive(Debug)]
pub(crate) struct ModelFiles {
    serving: Serving,
    known: Known,
}

type Known = Arc<Mutex<BTreeMap<String, Kept>>>;
type Loaded = Result<Arc<Boosters>, String>;

#[derive(Debug)]
struct Kept {
    stamp: Stamp,
    models: Arc<Boosters>,
    /// A thread reads what the file is now.
    being_read: bool,
}

/// What changes when a file is written again, may be read again or another is put in its place: inode, length, times of
/// the changes of content and inode.
type Stamp = (u64, u64, [(i64, i64); 2]);

impl ModelFiles {
    /// None yet; files that are replaced are read before [`ModelFiles::get`] returns, or by a thread.
    pub fn new(serving: Serving) -> ModelFiles {
        ModelFiles { serving, known: Known::default() }
    }

    /// The models in the file; each takes `width` values.
    pub fn get(&self, name: &str, width: usize) -> Result<Arc<Boosters>, PolicyError> {
        let mut known = locked(&self.known);
        let stamp = stamp(Path::new(name));
        let Some(kept) = known.get_mut(name) else {
            let refused = |error| PolicyError::Refused(format!("{name}: {error}"));
            let models = load(name, width).map_err(refused)?;
            let stamp = stamp.map_err(|error| refused(error.to_string()))?;
            let kept = Kept { stamp, models: models.clone(), being_read: false };
            known.insert(name.to_string(), kept);
            return Ok(models);
        };
        let stamp = stamp.unwrap_or_default();
        if stamp != kept.stamp && !kept.being_read {
            match self.serving {
                Serving::Immediate => kept.take(name, load(name, width)),
                Serving::Threaded if self.read_elsewhere(name, width) => kept.being_read = true,
                // The next flow tries again.
                Serving::Threaded => return Ok(kept.models.clone()),
            }
            kept.stamp = stamp;
        }
        Ok(kept.models.clone())
    }

    /// Has a thread read a file; false when there is none.
    fn read_elsewhere(&self, name: &str, width: usize) -> bool {
        let (known, its_name) = (Arc::clone(&self.known), name.to_string());
        let thread = std::thread::Builder::new().name("models".to_string()).spawn(move || {
            let loaded = load(&its_name, width);
            if let Some(kept) = locked(&known).get_mut(&its_name) {
                kept.being_read = false;
                kept.take(&its_name, loaded);
            }
        });
        if let Err(error) = &thread {
            tracing::warn!(file = name, %error, "no thread reads the new models; those from before stay");
        }
        thread.is_ok()
    }
}

impl Kept {
    fn take(&mut self, name: &str, loaded: Loaded) {
        match loaded {
            Ok(models) => {
                tracing::info!(file = name, "new models are taken from the next flow on");
                self.models = models;
            }
            Err(error) => tracing::warn!(file = name, error, "the models from before stay"),
        }
    }
}

fn locked(known: &Mutex<BTreeMap<String, Kept>>) -> MutexGuard<'_, BTreeMap<String, Kept>> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stamp(path: &Path) -> std::io::Result<Stamp> {
    let data = std::fs::metadata(path)?;
    let times = [(data.mtime(), data.mtime_nsec()), (data.ctime(), data.ctime_nsec())];
    Ok((data.ino(), data.len(), times))
}

fn load(name: &str, width: usize) -> Loaded {
    let text = String::from_utf8(read(Path::new(name), MAX_FILE)?)
        .map_err(|_| "it is no text, and models of antelope are XGBoost's JSON".to_string())?;
    Boosters::parse(&text, width).map(Arc::new).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(base: &str) -> String {
        format!(
            r#"{{"boosters": {{"bbr": {{"learner": {{"learner_model_param": {{"base_score": "{base}", "num_feature": "1"}},
            "gradient_booster": {{"name": "gbtree", "model": {{"trees": []}}}}}}}}}}}}"#
        )
    }

    #[test]
    fn a_file_that_is_replaced_is_taken_once_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("models.json");
        let name = path.to_str().unwrap();
        let files = ModelFiles::new(Serving::Immediate);
        let error = files.get(name, 1).unwrap_err().to_string();
        assert!(error.starts_with(name) && error.contains("cannot open it"), "{error}");
        let now = |text: &str| {
            std::fs::write(&path, text).unwrap();
            files.get(name, 1).map(|models| models.get("bbr").unwrap().predict(&[0.0])).unwrap()
        };
        assert_eq!(now(&file("1")), 1.0);
        assert_eq!(now(&file("25")), 25.0);
        assert_eq!(now("{"), 25.0);
        assert_eq!(now(&file("x")), 25.0);
        assert_eq!(now(&file("312")), 312.0);
        // As long, and dated as before.
        let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::fs::write(&path, file("314")).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        assert_eq!(files.get(name, 1).unwrap().get("bbr").unwrap().predict(&[0.0]), 314.0);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(files.get(name, 1).unwrap().get("bbr").unwrap().predict(&[0.0]), 314.0);
    }

    #[test]
    fn an_agent_does_not_wait_for_a_file_that_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let [path, pipe, next] = ["models.json", "pipe", "next"].map(|name| folder.path().join(name));
        let name = path.to_str().unwrap();
        let files = ModelFiles::new(Serving::Threaded);
        let now = || files.get(name, 1).map(|models| models.get("bbr").unwrap().predict(&[0.0])).unwrap();
        std::fs::write(&path, file("1")).unwrap();
        assert_eq!(now(), 1.0);
        // Nobody writes into this one.
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::fs::rename(&pipe, &path).unwrap();
        assert_eq!((now(), now()), (1.0, 1.0));
        std::fs::write(&next, file("25")).unwrap();
        std::fs::rename(&next, &path).unwrap();
        let mut waited = 0;
        while now() == 1.0 {
            waited += 1;
            assert!(waited < 10_000, "the new models are not taken");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(now(), 25.0);
    }
}
