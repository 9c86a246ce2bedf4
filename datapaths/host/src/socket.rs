//! The datapath's own socket: a file beside the agent's, readable by its owner alone.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, UNIX_EPOCH};

/// Longest socket path: `sun_path` of unix(7) is 108 bytes with the closing NUL.
const MAX_SOCKET_PATH_BYTES: usize = 107;

/// Sockets of processes with one pid that are passed over before a free name is found. The agent serves no more
/// datapaths than this.
const MAX_NAMESAKES: u32 = 4096;

/// Distinguishes the hosts of one process.
static NEXT_HOST: AtomicU32 = AtomicU32::new(1);

/// Why no host could be set up.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The path does not fit a socket address.
    #[error(
        "the datapath's socket {} is {} bytes long, more than the {MAX_SOCKET_PATH_BYTES} of a socket address; give the agent's socket a shorter path",
        path.display(), path.as_os_str().len()
    )]
    PathTooLong {
        /// The socket's path.
        path: PathBuf,
    },
    /// The socket could not be bound or configured.
    #[error(
        "cannot bind the datapath's socket {}: {reason}; it has to lie beside the agent's socket, in a directory that this user may write to",
        path.display()
    )]
    Bind {
        /// The socket's path.
        path: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// The receive thread could not be started.
    #[error("cannot start the datapath's receive thread: {0}")]
    Thread(io::Error),
}

/// A bound datagram socket that removes its file when dropped.
#[derive(Debug)]
pub(crate) struct AgentSocket {
    socket: UnixDatagram,
    own: PathBuf,
    agent: PathBuf,
}

/// Tells one socket file from its successor at the same path: device, inode and time of creation (inode numbers alone
/// are used again). Where the file system keeps no such time, that of the last change stands in; a chmod then looks like
/// a new agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(u64, u64, Duration);

impl AgentSocket {
    /// Binds `<agent>.dp.<pid>.<n>`, after removing what dead processes left under such names. Processes of several
    /// containers that share the folder may have one pid: the number is the first that nobody holds.
    pub(crate) fn bind(agent: &Path) -> Result<AgentSocket, HostError> {
        let agent = &resolved(agent);
        remove_stale(agent);
        let (own, socket) = bind_free(agent, std::process::id())?;
        let bind = |reason| HostError::Bind { path: own.clone(), reason };
        // From here on the file is removed on every way out.
        let socket = AgentSocket { socket, own: own.clone(), agent: agent.to_owned() };
        std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o600)).map_err(bind)?;
        socket.socket.set_nonblocking(true).map_err(bind)?;
        Ok(socket)
    }

    /// Makes whoever holds the agent's path now the only one to send to and to hear from: the kernel
    /// refuses what others send to a connected socket. Drops what came before.
    pub(crate) fn connect(&self) -> io::Result<()> {
        self.socket.connect(&self.agent)?;
        let mut nothing = [0; 1];
        while self.socket.recv(&mut nothing).is_ok_and(|length| length > 0) {}
        Ok(())
    }

    /// Sends one message to the agent, or fails at once.
    pub(crate) fn send(&self, message: &[u8]) -> io::Result<()> {
        self.socket.send(message).map(|_| ())
    }

    /// One datagram and whether it is the agent's, if one waits.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, bool)> {
        let (length, from) = self.socket.recv_from(buffer)?;
        Ok((length, self.is_agent(&from)))
    }

    /// A dead agent's socket is disconnected by the kernel, and until the next one is there anybody of
    /// this user may send. An address is the path as its owner wrote it, relative or through links, so
    /// that only its last part can be compared.
    fn is_agent(&self, from: &SocketAddr) -> bool {
        from.as_pathname().and_then(Path::file_name) == self.agent.file_name()
    }

    /// Which socket file lies at the agent's path now.
    pub(crate) fn agent_identity(&self) -> Option<Identity> {
        let meta = std::fs::metadata(&self.agent).ok()?;
        let born = meta.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        let born = born.unwrap_or(Duration::new(meta.ctime() as u64, meta.ctime_nsec() as u32));
        Some(Identity(meta.dev(), meta.ino(), born))
    }

    /// The socket itself, to wait on.
    pub(crate) fn inner(&self) -> &UnixDatagram {
        &self.socket
    }

    /// Path of the datapath's own socket.
    pub(crate) fn path(&self) -> &Path {
        &self.own
    }
}

/// Binds the first free `<agent>.dp.<pid>.<n>`.
fn bind_free(agent: &Path, pid: u32) -> Result<(PathBuf, UnixDatagram), HostError> {
    let mut namesakes = 0;
    loop {
        let number = NEXT_HOST.fetch_add(1, Ordering::Relaxed);
        let mut own = agent.as_os_str().to_owned();
        own.push(format!(".dp.{pid}.{number}"));
        let own = PathBuf::from(own);
        if own.as_os_str().len() > MAX_SOCKET_PATH_BYTES {
            return Err(HostError::PathTooLong { path: own });
        }
        match UnixDatagram::bind(&own) {
            Ok(socket) => return Ok((own, socket)),
            Err(taken) if taken.kind() == io::ErrorKind::AddrInUse && namesakes < MAX_NAMESAKES => {
                namesakes += 1;
            }
            Err(reason) => return Err(HostError::Bind { path: own, reason }),
        }
    }
}

/// The agent's path from the root and without links in its directory, as the agent binds it: its
/// messages come from that address, and it answers to ours from wherever it runs.
fn resolved(agent: &Path) -> PathBuf {
    let absolute = std::path::absolute(agent).unwrap_or_else(|_| agent.to_owned());
    let directory = absolute.parent().and_then(|directory| directory.canonicalize().ok());
    match (directory, absolute.file_name()) {
        (Some(directory), Some(name)) => directory.join(name),
        _ => absolute,
    }
}

impl Drop for AgentSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.own);
    }
}

/// Removes datapath sockets beside the agent's that nobody holds any more. Whether one is held is
/// asked of the socket itself: connecting to a datagram socket without an owner is refused.
fn remove_stale(agent: &Path) {
    let (Some(directory), Some(name)) = (agent.parent(), agent.file_name()) else { return };
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let prefix = format!("{}.dp.", name.to_string_lossy());
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(&prefix) {
            continue;
        }
        let path = entry.path();
        let refused = UnixDatagram::unbound()
            .and_then(|probe| probe.connect(&path))
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        if refused {
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_socket_is_private_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let agent = dir.path().join("agent.sock");
        let socket = AgentSocket::bind(&agent).unwrap();
        let path = socket.path().to_owned();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn stale_sockets_go_and_live_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let agent = dir.path().join("agent.sock");
        let stale = dir.path().join("agent.sock.dp.1.1");
        drop(UnixDatagram::bind(&stale).unwrap());
        let live = AgentSocket::bind(&agent).unwrap();
        assert!(!stale.exists());
        let other = AgentSocket::bind(&agent).unwrap();
        assert!(live.path().exists() && other.path().exists());
    }

    #[test]
    fn errors_say_what_to_do() {
        let long = Path::new("/tmp").join("x".repeat(100));
        assert!(matches!(AgentSocket::bind(&long), Err(HostError::PathTooLong { .. })));
        let error = AgentSocket::bind(Path::new("/nonexistent/agent.sock")).unwrap_err().to_string();
        assert!(
            error.contains("/nonexistent/agent.sock.dp.") && error.contains("beside the agent"),
            "{error}"
        );
    }

    #[test]
    fn processes_of_one_pid_share_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let agent = dir.path().join("agent.sock");
        let next = NEXT_HOST.load(Ordering::Relaxed);
        let name = |number| dir.path().join(format!("agent.sock.dp.1.{number}"));
        // Another container's pid 1 has the names that come next; tests beside this one take numbers as well.
        let theirs: Vec<_> =
            (next..next + 100).map(|number| UnixDatagram::bind(name(number)).unwrap()).collect();
        let (path, _socket) = bind_free(&agent, 1).unwrap();
        assert!(path.to_string_lossy().contains(".dp.1."), "{}", path.display());
        drop(theirs);
    }

    #[test]
    fn another_mode_does_not_make_a_new_agent() {
        let dir = tempfile::tempdir().unwrap();
        let agent = dir.path().join("agent.sock");
        let socket = AgentSocket::bind(&agent).unwrap();
        let _agent = UnixDatagram::bind(&agent).unwrap();
        if std::fs::metadata(&agent).unwrap().created().is_err() {
            anole_testing::skip!("this file system keeps no time of creation");
            return;
        }
        let before = socket.agent_identity();
        // Changes are stamped with a clock that ticks every few milliseconds.
        std::thread::sleep(Duration::from_millis(20));
        std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o660)).unwrap();
        assert_eq!(before, socket.agent_identity());
    }

    #[test]
    fn a_new_socket_file_is_a_new_agent() {
        let dir = tempfile::tempdir().unwrap();
        let agent = dir.path().join("agent.sock");
        let socket = AgentSocket::bind(&agent).unwrap();
        assert_eq!(socket.agent_identity(), None);
        let first = UnixDatagram::bind(&agent).unwrap();
        let before = socket.agent_identity();
        assert!(before.is_some() && before == socket.agent_identity());
        drop(first);
        std::fs::remove_file(&agent).unwrap();
        let _second = UnixDatagram::bind(&agent).unwrap();
        assert_ne!(before, socket.agent_identity());
    }
}
