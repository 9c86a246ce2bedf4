//! Finds policies by name or file, and runs them as asked.

use crate::compute;
use crate::models::ModelFiles;
use crate::read::{MAX_FILE, read};
use crate::server::{self, Remote, RemoteNetwork};
use crate::serving::Serving;
use crate::threaded::Threaded;
use crate::torch::Torch;
use crate::worker::Worker;
use anole_policies::{
    Batch, Boosters, Embedded, Immediate, Network, Policies, Policy, PolicyError, PolicyFile, Schema,
    Shipped, StepError, is_file, schema,
};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What runs the networks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// This program itself.
    #[default]
    Embedded,
    /// LibTorch, in this process.
    Torch,
    /// A policy server.
    Server,
}

impl Backend {
    /// Its name, as flags and results have it.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Embedded => "embedded",
            Backend::Torch => "torch",
            Backend::Server => "server",
        }
    }
}

/// What the user asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackendSettings {
    /// `--backend`; embedded if left out.
    pub backend: Option<Backend>,
    /// `--torch-library`.
    pub torch_library: Option<PathBuf>,
    /// `--policy-server`.
    pub policy_server: Option<PathBuf>,
}

/// Flags that do not go together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BackendSettingsError(&'static str);

/// The trained policies of a program. Each is loaded when it is first asked for, and kept; so is the
/// reason why one was refused.
#[derive(Debug)]
pub struct Loader {
    backend: Backend,
    serving: Serving,
    settings: BackendSettings,
    torch: OnceLock<Result<Arc<Torch>, String>>,
    local: Started<Arc<dyn Network>>,
    remote: Started<Arc<Remote>>,
    /// Why the server does not serve; whoever asks next does not wait for it again.
    unreachable: OnceLock<String>,
    known: Mutex<BTreeMap<String, Found>>,
    failure: Failure,
    models: ModelFiles,
}

/// A thread that is started when it is first needed, or why it could not be.
type Started<T> = OnceLock<Result<Arc<Worker<T>>, String>>;
type Found = Result<Arc<dyn Policy>, PolicyError>;

impl Loader {
    /// Checks what was asked for; nothing is loaded yet.
    pub fn new(settings: BackendSettings, serving: Serving) -> Result<Loader, BackendSettingsError> {
        let backend = settings.backend.unwrap_or_default();
        match (backend, &settings.torch_library, &settings.policy_server) {
            (Backend::Server, _, None) => {
                return Err(BackendSettingsError(
                    "--backend server needs --policy-server PATH, the server's socket",
                ));
            }
            (Backend::Embedded | Backend::Torch, _, Some(_)) => {
                return Err(BackendSettingsError("--policy-server goes with --backend server only"));
            }
            (Backend::Embedded | Backend::Server, Some(_), _) => {
                return Err(BackendSettingsError("--torch-library goes with --backend torch only"));
            }
            _ => {}
        }
        Ok(Loader {
            backend,
            serving,
            settings,
            torch: OnceLock::new(),
            local: OnceLock::new(),
            remote: OnceLock::new(),
            unreachable: OnceLock::new(),
            known: Mutex::default(),
            failure: Failure::default(),
            models: ModelFiles::new(serving),
        })
    }

    /// What runs the policies that were found; `None` while there are none.
    pub fn in_use(&self) -> Option<Backend> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().any(Result::is_ok).then_some(self.backend)
    }

    /// What the user asked for.
    pub fn settings(&self) -> &BackendSettings {
        &self.settings
    }

    /// Why a question that had to be answered at once was not; whoever simulates has to look, for to an
    /// algorithm it is an absent answer.
    pub fn failure(&self) -> Option<String> {
        self.failure.0.get().cloned()
    }

    /// The network of this name or file, computed in this process or waited for.
    pub fn network(&self, name: &str) -> Result<Arc<dyn Network>, PolicyError> {
        match self.backend {
            Backend::Embedded => Source::find(name)?.embedded(),
            Backend::Torch => Source::find(name)?.torch(&self.torch()?),
            Backend::Server => Ok(Arc::new(self.at_server(name)?)),
        }
    }

    /// LibTorch; loaded once.
    pub fn torch(&self) -> Result<Arc<Torch>, PolicyError> {
        let load = || {
            let torch = Torch::load(self.settings.torch_library.as_deref())?;
            tracing::info!(torch = torch.describe(), "LibTorch is loaded");
            Ok(Arc::new(torch))
        };
        self.torch.get_or_init(load).clone().map_err(PolicyError::Refused)
    }

    fn server(&self) -> &Path {
        self.settings.policy_server.as_deref().unwrap_or(Path::new(""))
    }

    /// The server has the weights; here only the schema has to be known.
    fn at_server(&self, name: &str) -> Result<RemoteNetwork, PolicyError> {
        let remote = match is_file(name) {
            true => match Source::find(name)? {
                Source::File { path, file } => {
                    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                    Remote::new(&stem, file.schema)
                }
                Source::Shipped { .. } => return Err(PolicyError::Unknown(name.to_string())),
            },
            false => {
                let schema = schema::builtin(name).ok_or_else(|| PolicyError::Unknown(name.to_string()))?;
                Remote::new(name, schema.clone())
            }
        };
        let opened = match self.unreachable.get() {
            Some(error) => Err(error.clone()),
            None => RemoteNetwork::open(self.server(), remote)
                .unwrap_or_else(|error| Err(self.unreachable.get_or_init(|| error).clone())),
        };
        opened.map_err(|error| {
            PolicyError::Refused(format!("--policy-server {}: {error}", self.server().display()))
        })
    }

    fn load(&self, name: &str) -> Found {
        let no_thread = |error: std::io::Error| format!("the inference thread cannot be started: {error}");
        match (self.serving, self.backend) {
            (Serving::Immediate, _) => {
                let network = self.network(name)?;
                Ok(Arc::new(Immediate(Arc::new(Watched { network, failure: self.failure.clone() }))))
            }
            (Serving::Threaded, Backend::Embedded | Backend::Torch) => {
                let network = self.network(name)?;
                let start = || Worker::start(compute::serve).map(Arc::new).map_err(no_thread);
                let worker = self.local.get_or_init(start).clone().map_err(PolicyError::Refused)?;
                Ok(Arc::new(Threaded::new(network.schema().clone(), network, worker)))
            }
            (Serving::Threaded, Backend::Server) => {
                let remote = Arc::new(self.at_server(name)?.into_remote());
                let path = self.server().to_path_buf();
                let start = || {
                    let serve = move |queue: &_, taken: &mut _| server::serve(&path, queue, taken);
                    Worker::start(serve).map(Arc::new).map_err(no_thread)
                };
                let worker = self.remote.get_or_init(start).clone().map_err(PolicyError::Refused)?;
                Ok(Arc::new(Threaded::new(remote.schema.clone(), remote, worker)))
            }
        }
    }
}

impl Policies for Loader {
    fn names(&self) -> Vec<String> {
        match self.backend {
            Backend::Embedded | Backend::Torch => Shipped.names(),
            Backend::Server => schema::builtins().iter().map(|schema| schema.name.clone()).collect(),
        }
    }

    fn find(&self, name: &str) -> Found {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(name.to_string()).or_insert_with(|| self.load(name)).clone()
    }

    fn boosters(&self, name: Option<&str>, width: usize) -> Result<Arc<Boosters>, PolicyError> {
        match name.filter(|name| is_file(name)) {
            Some(file) => self.models.get(file, width),
            None => Shipped.boosters(name, width),
        }
    }
}

/// The first failure of any network that answers at once.
#[derive(Clone, Debug, Default)]
struct Failure(Arc<OnceLock<String>>);

/// A network whose failure is remembered.
#[derive(Debug)]
struct Watched {
    network: Arc<dyn Network>,
    failure: Failure,
}

impl Network for Watched {
    fn schema(&self) -> &Schema {
        self.network.schema()
    }

    fn step(&self, batch: &mut Batch) -> Result<(), StepError> {
        let done = self.network.step(batch);
        if let Err(error) = &done {
            self.failure.0.get_or_init(|| format!("policy {}: {error}", self.schema().name));
        }
        done
    }
}

/// A policy's file.
enum Source {
    /// It comes with the program.
    Shipped { name: String, bytes: &'static [u8] },
    /// The user has it.
    File { path: PathBuf, file: Box<PolicyFile> },
}

impl Source {
    fn find(name: &str) -> Result<Source, PolicyError> {
        if !is_file(name) {
            let bytes = Shipped::bytes(name).ok_or_else(|| PolicyError::Unknown(name.to_string()))?;
            return Ok(Source::Shipped { name: name.to_string(), bytes });
        }
        let path = PathBuf::from(name);
        let bytes =
            read(&path, MAX_FILE).map_err(|error| PolicyError::Refused(format!("{name}: {error}")))?;
        Ok(Source::File { file: Box::new(PolicyFile::read(&bytes, name)?), path })
    }

    fn embedded(self) -> Result<Arc<dyn Network>, PolicyError> {
        match self {
            Source::Shipped { name, .. } => Ok(Shipped::network(&name)?),
            Source::File { file, .. } => Ok(Arc::new(Embedded::new(&file)?)),
        }
    }

    fn torch(self, torch: &Arc<Torch>) -> Result<Arc<dyn Network>, PolicyError> {
        let open = |path: &Path, schema, name: &str| match torch.open(path, schema) {
            Ok(network) => Ok(Arc::new(network) as Arc<dyn Network>),
            Err(error) => Err(PolicyError::Refused(format!("{name}: {error}"))),
        };
        match self {
            Source::File { path, file } => open(&path, file.schema, &path.display().to_string()),
            Source::Shipped { name, bytes } => {
                // The library reads files; this one is gone as soon as it was read.
                let copy = tempfile::NamedTempFile::with_prefix("anole-policy-").and_then(|mut copy| {
                    copy.write_all(bytes)?;
                    Ok(copy)
                });
                let copy = copy.map_err(|error| {
                    PolicyError::Refused(format!(
                        "policy {name}: cannot be written to a temporary file: {error}"
                    ))
                })?;
                open(copy.path(), Shipped::network(&name)?.schema().clone(), &format!("policy {name}"))
            }
        }
    }
}
