//! Where the agent's socket is, and who may have it.
//!
//! Beside the socket lies a lock file, `PATH.lock`, which the running agent holds by flock(2) and in
//! which it writes its process id: the lock goes with the process, however it ends, so a socket whose
//! lock is free and which refuses connections is stale and replaced. Datapaths bind their own sockets in the same directory.

use crate::own_file::OwnFileError;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::stat::{Mode, umask};
use nix::unistd::geteuid;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Length of `sun_path` in unix(7), the terminating NUL included.
const SUN_PATH_BYTES: usize = 108;
/// What a datapath appends to the path for its own socket: `.dp.`, a pid, a dot and a number.
const DATAPATH_SUFFIX_BYTES: usize = 24;
/// The longest usable path.
const MAX_PATH_BYTES: usize = SUN_PATH_BYTES - 1 - DATAPATH_SUFFIX_BYTES;

/// Why there is no socket. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The path does not fit an address.
    #[error(
        "--socket {}: {length} bytes, and at most {MAX_PATH_BYTES} fit (datapaths append up to \
         {DATAPATH_SUFFIX_BYTES} to a socket address of {SUN_PATH_BYTES}); give a shorter path", path.display())]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Its length.
        length: usize,
    },
    /// Another agent is there.
    #[error("--socket {}: another agent ({holder}) is running there; stop it, or give another path", path.display())]
    Taken {
        /// The path.
        path: PathBuf,
        /// Who has it.
        holder: String,
    },
    /// Another program is there.
    #[error("--socket {}: another program holds this socket; stop it, or give another path", path.display())]
    Foreign {
        /// The path.
        path: PathBuf,
    },
    /// Something else is there.
    #[error("--socket {}: this exists and is not a socket; move it away, or give another path", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The file at the lock's place is not a lock.
    #[error(
        "--socket {}: {}.lock is no lock file (it is a link, has a second name, or is no file); move it away, or give \
         another path", path.display(), path.display())]
    NotALock {
        /// The path.
        path: PathBuf,
    },
    /// The directory of a default path belongs to somebody else.
    #[error("{} belongs to another user; give --socket PATH in a directory of your own", path.display())]
    ForeignDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// The system refuses.
    #[error("--socket {}: cannot {what} ({reason}); the directory has to exist and be writable", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// The system's word.
        reason: io::Error,
    },
}

/// The socket when none is given: `/run/anole-ccp/agent.sock` for root, `$XDG_RUNTIME_DIR/anole-ccp.sock`
/// for others, `/tmp/anole-ccp-UID/agent.sock` where that is not set.
pub fn default_socket() -> PathBuf {
    default_path("agent.sock", "anole-ccp.sock")
}

/// The control socket of the agent that speaks `ipc` to this host's kernel, in the same folder.
pub fn host_control(ipc: &str) -> PathBuf {
    default_path(&format!("{ipc}.control"), &format!("anole-ccp-{ipc}.control"))
}

/// The control socket of the agent whose socket is `socket`.
pub fn control_of(socket: &Path) -> PathBuf {
    with_suffix(socket, ".control")
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    name.into()
}

/// A name in a folder that is the agent's own, or one in the user's runtime folder, which is not.
fn default_path(own: &str, shared: &str) -> PathBuf {
    let uid = geteuid();
    if uid.is_root() {
        return Path::new("/run/anole-ccp").join(own);
    }
    match std::env::var("XDG_RUNTIME_DIR") {
        Ok(runtime) if !runtime.is_empty() => Path::new(&runtime).join(shared),
        _ => Path::new(&format!("/tmp/anole-ccp-{uid}")).join(own),
    }
}

/// Where a socket is bound, and the right to it; removes the socket when dropped.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    lock: Option<Arc<Flock<File>>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        // The lock file stays: removing it would let two agents lock two files of one name.
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(socket = %self.path.display(), %error, "the socket could not be removed");
        }
    }
}

/// Binds a socket at a path, for this user alone (mode 0600), and keeps other agents away from it.
pub fn claim<S>(path: &Path, bind: impl FnOnce(&Path) -> io::Result<S>) -> Result<(Place, S), SocketError> {
    if path.parent() == default_socket().parent() {
        own_directory(path)?;
    }
    let path = &resolved(path)?;
    let length = path.as_os_str().len();
    if length > MAX_PATH_BYTES {
        return Err(SocketError::TooLong { path: path.into(), length });
    }
    // Looked at before a lock file is made beside it.
    stale_socket(path)?;
    let lock = lock(path)?;
    bind_private(path, Some(Arc::new(lock)), bind)
}

/// Binds the control socket beside an agent's own, for this user alone; no other agent comes before both are gone.
pub fn bind_beside<S>(
    owner: &Place,
    bind: impl FnOnce(&Path) -> io::Result<S>,
) -> Result<(Place, S), SocketError> {
    bind_private(&control_of(&owner.path), owner.lock.clone(), bind)
}

/// Binds a socket for this user alone, in the place of a stale one; it goes with its [`Place`].
pub fn bind_private<S>(
    path: &Path,
    lock: Option<Arc<Flock<File>>>,
    bind: impl FnOnce(&Path) -> io::Result<S>,
) -> Result<(Place, S), SocketError> {
    clear(path)?;
    let before = umask(Mode::S_IRWXG | Mode::S_IRWXO | Mode::S_IXUSR);
    let bound = bind(path);
    umask(before);
    let socket = bound.map_err(|reason| io_error(path, "bind the socket", reason))?;
    Ok((Place { path: path.into(), lock }, socket))
}

/// The path from the root and without links in its directory: it is the address that datapaths see, and
/// they know the agent by it wherever they run.
pub fn resolved(path: &Path) -> Result<PathBuf, SocketError> {
    let name = path.file_name().ok_or_else(|| SocketError::NotASocket { path: path.into() })?;
    let directory =
        std::path::absolute(path).map(|path| path.parent().map(Path::to_path_buf).unwrap_or(path));
    let directory = directory.and_then(fs::canonicalize);
    Ok(directory.map_err(|reason| io_error(path, "find its directory", reason))?.join(name))
}

/// Makes the directory of a default path, and refuses one that another user laid there.
fn own_directory(path: &Path) -> Result<(), SocketError> {
    let Some(directory) = path.parent() else { return Ok(()) };
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(io_error(path, "create its directory", error));
        }
        _ => {}
    }
    let found =
        fs::symlink_metadata(directory).map_err(|reason| io_error(path, "look at its directory", reason))?;
    if found.uid() == geteuid().as_raw() && found.is_dir() {
        Ok(())
    } else {
        Err(SocketError::ForeignDirectory { path: directory.into() })
    }
}

fn lock(path: &Path) -> Result<Flock<File>, SocketError> {
    let file = crate::own_file::open(&with_suffix(path, ".lock"), 0o600).map_err(|error| match error {
        OwnFileError::Foreign => SocketError::NotALock { path: path.into() },
        OwnFileError::Io(reason) => io_error(path, "open the lock file beside it", reason),
    })?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(mut lock) => {
            let pid = std::process::id();
            lock.rewind()
                .and_then(|()| lock.set_len(0))
                .and_then(|()| writeln!(lock, "{pid}"))
                .map_err(|reason| io_error(path, "write the lock file beside it", reason))?;
            Ok(lock)
        }
        Err((mut file, Errno::EWOULDBLOCK)) => {
            let mut pid = String::new();
            let read = (&mut file).take(32).read_to_string(&mut pid);
            let holder = match (read, pid.trim()) {
                (Ok(_), pid) if !pid.is_empty() => format!("pid {pid}"),
                _ => "its pid is not known yet".to_string(),
            };
            Err(SocketError::Taken { path: path.into(), holder })
        }
        Err((_, error)) => Err(io_error(path, "lock the file beside it", error.into())),
    }
}

/// Whether a socket is at `path`; anything else there is an error.
fn stale_socket(path: &Path) -> Result<bool, SocketError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(reason) => Err(io_error(path, "look at it", reason)),
        Ok(found) if found.file_type().is_socket() => Ok(true),
        Ok(_) => Err(SocketError::NotASocket { path: path.into() }),
    }
}

/// Removes a stale socket; refuses anything else. Somebody without our lock may hold it, of another type perhaps:
/// stale is only what the kernel refuses to connect to because nobody is there.
fn clear(path: &Path) -> Result<(), SocketError> {
    if !stale_socket(path)? {
        return Ok(());
    }
    let probe = UnixDatagram::unbound().and_then(|probe| probe.connect(path));
    match probe.as_ref().map_err(io::Error::kind) {
        Err(io::ErrorKind::ConnectionRefused) => {
            fs::remove_file(path).map_err(|reason| io_error(path, "remove the stale socket", reason))
        }
        _ => Err(SocketError::Foreign { path: path.into() }),
    }
}

fn io_error(path: &Path, what: &'static str, reason: io::Error) -> SocketError {
    SocketError::Io { path: path.into(), what, reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn bind(path: &Path) -> Result<(Place, UnixDatagram), SocketError> {
        claim(path, |path| UnixDatagram::bind(path))
    }

    fn directory() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn the_socket_is_for_its_owner_alone_and_goes_with_the_agent() {
        let directory = directory();
        let path = directory.path().join("a.sock");
        let bound = bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(bound);
        assert!(!path.exists());
        bind(&path).unwrap();
    }

    #[test]
    fn a_second_agent_is_told_who_is_there() {
        let directory = directory();
        let path = directory.path().join("a.sock");
        let _first = bind(&path).unwrap();
        let error = bind(&path).unwrap_err().to_string();
        assert!(error.contains(&format!("pid {}", std::process::id())), "{error}");
        assert!(error.contains("a.sock"), "{error}");
    }

    #[test]
    fn no_agent_follows_while_the_control_socket_is_there() {
        let directory = directory();
        let path = directory.path().join("a.sock");
        let agent = bind(&path).unwrap();
        let control = bind_beside(&agent.0, |path| UnixListener::bind(path)).unwrap();
        drop(agent);
        assert!(matches!(bind(&path), Err(SocketError::Taken { .. })));
        drop(control);
        bind(&path).unwrap();
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_foreign_one_is_not() {
        let directory = directory();
        let path = directory.path().join("a.sock");
        let foreign = UnixDatagram::bind(&path).unwrap();
        assert!(matches!(bind(&path), Err(SocketError::Foreign { .. })));
        drop(foreign);
        assert!(path.exists());
        bind(&path).unwrap();
        // A server of another kind refuses datagrams, and is there all the same.
        let server = UnixListener::bind(&path).unwrap();
        assert!(matches!(bind(&path), Err(SocketError::Foreign { .. })));
        assert!(UnixStream::connect(&path).is_ok(), "it is still to be found");
        drop(server);
        bind(&path).unwrap();
    }

    #[test]
    fn what_lies_at_the_locks_place_is_not_overwritten() {
        let directory = directory();
        let path = directory.path().join("a.sock");
        let (lock, precious) = (directory.path().join("a.sock.lock"), directory.path().join("precious"));
        fs::write(&precious, "precious").unwrap();
        let refused = || {
            let error = bind(&path).unwrap_err();
            assert!(matches!(error, SocketError::NotALock { .. }), "{error}");
            assert_eq!(fs::read(&precious).unwrap(), b"precious");
            fs::remove_file(&lock).unwrap();
        };
        fs::hard_link(&precious, &lock).unwrap();
        refused();
        std::os::unix::fs::symlink(&precious, &lock).unwrap();
        refused();
        nix::unistd::mkfifo(&lock, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        refused();
        bind(&path).unwrap();
    }

    #[test]
    fn the_address_is_the_same_whatever_way_leads_to_it() {
        let directory = directory();
        let link = directory.path().join("link");
        fs::create_dir(directory.path().join("real")).unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        let bound = bind(&link.join("../link/a.sock")).unwrap();
        let expected = fs::canonicalize(directory.path()).unwrap().join("real/a.sock");
        assert_eq!(bound.1.local_addr().unwrap().as_pathname(), Some(expected.as_path()));
    }

    #[test]
    fn paths_that_cannot_be_are_refused_with_the_way_out() {
        let directory = directory();
        let file = directory.path().join("file");
        fs::write(&file, "x").unwrap();
        assert!(matches!(bind(&file), Err(SocketError::NotASocket { .. })));
        assert_eq!(fs::read(&file).unwrap(), b"x");
        assert!(matches!(bind(directory.path()), Err(SocketError::NotASocket { .. })));
        assert!(matches!(bind(Path::new("/")), Err(SocketError::NotASocket { .. })));
        let long = directory.path().join("x".repeat(120));
        assert!(matches!(bind(&long), Err(SocketError::TooLong { .. })));
        let missing = directory.path().join("no/such/a.sock");
        assert!(matches!(bind(&missing), Err(SocketError::Io { .. })));
    }
}
