//! What the system's refusal of a path means to whoever has to change it.

use nix::errno::Errno;
use nix::unistd::geteuid;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Why the system refuses `path`. Of a missing permission: whose the path is, with which mode, and who asked. Root's own
/// permissions count like others' where the process has given up the capability that passes by them.
pub(crate) fn why(path: &Path, errno: Errno) -> String {
    let said = errno.desc();
    if errno != Errno::EACCES {
        return said.to_string();
    }
    let own = geteuid();
    match std::fs::metadata(path) {
        Ok(found) => format!(
            "{said}: it belongs to user {}, mode {:04o}, and user {own} without CAP_DAC_OVERRIDE asks; let one user \
             own and use it, or let this one read and write it (setfacl)",
            found.uid(),
            found.mode() & 0o7777
        ),
        Err(_) => format!(
            "{said}: user {own} without CAP_DAC_OVERRIDE asks, who may not search a folder on the way; let it"
        ),
    }
}
