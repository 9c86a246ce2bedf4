//! Files that the agent, often root, writes at paths in folders of others.

use nix::errno::Errno;
use nix::fcntl::OFlag;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Why a file is not written.
#[derive(Debug, thiserror::Error)]
pub enum OwnFileError {
    /// What lies there may be somebody else's: it has a symbolic or another hard link, or is no file.
    #[error(
        "what lies there is a link, has a second name, or is no file; move it away, or give another path"
    )]
    Foreign,
    /// The system refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Opens a file for reading and writing, with its contents, and makes it with `mode` where there is none. Follows no
/// link and waits for nobody; a device such as /dev/null may be written to.
pub fn open(path: &Path, mode: u32) -> Result<File, OwnFileError> {
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(mode)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path);
    let file = opened.map_err(|error| match error.raw_os_error().map(Errno::from_raw) {
        // A link, a socket, a folder.
        Some(Errno::ELOOP | Errno::ENXIO | Errno::EISDIR) => OwnFileError::Foreign,
        _ => OwnFileError::Io(error),
    })?;
    let found = file.metadata()?;
    let device = std::os::unix::fs::FileTypeExt::is_char_device(&found.file_type());
    let own = found.is_file() && found.nlink() == 1;
    if own || device { Ok(file) } else { Err(OwnFileError::Foreign) }
}

/// The same for its one writer, until it is closed: a file that another has opened so is refused.
pub fn open_alone(path: &Path, mode: u32) -> Result<File, OwnFileError> {
    let file = open(path, mode)?;
    // Where the file system has no locks, nobody is kept away.
    if file.metadata()?.is_file() && matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
        let taken = "another agent, or another flag, writes it";
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, taken).into());
    }
    Ok(file)
}
