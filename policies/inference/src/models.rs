//! Files of boosted models. A file that was replaced is taken from the next flow on, once it was checked; flows that run
//! keep what they have, and a file that is refused changes nothing.

use crate::read::read;
use anole_policies::{Boosters, PolicyError};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The files that were asked for.
#[derive(Debug, Default)]
pub(crate) struct ModelFiles(Mutex<BTreeMap<String, Kept>>);

#[derive(Debug)]
struct Kept {
    stamp: Stamp,
    models: Arc<Boosters>,
}

/// What changes when a file is written again or another is put in its place: inode, length, time of the change.
type Stamp = (u64, u64, i64, i64);

impl ModelFiles {
    /// The models in the file; each takes `width` values.
    pub fn get(&self, name: &str, width: usize) -> Result<Arc<Boosters>, PolicyError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let path = Path::new(name);
        let stamp = stamp(path);
        match known.get_mut(name) {
            Some(kept) if stamp.as_ref().is_ok_and(|stamp| *stamp == kept.stamp) => Ok(kept.models.clone()),
            Some(kept) => {
                match load(path, width) {
                    Ok(models) => {
                        tracing::info!(file = name, "new models are taken from the next flow on");
                        kept.models = models;
                    }
                    Err(error) => tracing::warn!(file = name, error, "the models from before stay"),
                }
                kept.stamp = stamp.unwrap_or_default();
                Ok(kept.models.clone())
            }
            None => {
                let refused = |error| PolicyError::Refused(format!("{name}: {error}"));
                let models = load(path, width).map_err(refused)?;
                let stamp = stamp.map_err(|error| refused(error.to_string()))?;
                known.insert(name.to_string(), Kept { stamp, models: models.clone() });
                Ok(models)
            }
        }
    }
}

fn stamp(path: &Path) -> std::io::Result<Stamp> {
    let data = std::fs::metadata(path)?;
    Ok((data.ino(), data.len(), data.mtime(), data.mtime_nsec()))
}

fn load(path: &Path, width: usize) -> Result<Arc<Boosters>, String> {
    let text = String::from_utf8(read(path)?).map_err(|_| "it is no text".to_string())?;
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
        let files = ModelFiles::default();
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
        std::fs::remove_file(&path).unwrap();
        assert_eq!(files.get(name, 1).unwrap().get("bbr").unwrap().predict(&[0.0]), 312.0);
    }
}
