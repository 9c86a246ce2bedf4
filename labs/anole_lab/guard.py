"""What a submission may not do, refused by an audit hook (PEP 578), which cannot be taken away again."""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

#: Events that have no use in a lab: other processes, native code, other processes' memory.
REFUSED = (
    "os.system",
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "os.kill",
    "os.killpg",
    "subprocess.Popen",
    "pty.spawn",
    "socket.connect",
    "socket.bind",
    "socket.sendto",
    "socket.sendmsg",
    "socket.getaddrinfo",
    "socket.__new__",
    "os.symlink",
    "os.link",
    "os.chmod",
    "os.chown",
    "os.setxattr",
    "os.removexattr",
    "_thread.start_new_thread",
    "_thread.start_joinable_thread",
    "sys.remote_exec",
    "gc.get_objects",
    "gc.get_referrers",
    "resource.prlimit",
    "resource.setrlimit",
    "fcntl.fcntl",
    "fcntl.ioctl",
    "sqlite3.connect",
)
#: Modules that open files where Python does not see it.
UNSEEN = ("_dbm", "_gdbm")
#: Events of a path that is changed: where their arguments have paths, and the folder's descriptor that each is relative to.
CHANGES: dict[str, tuple[tuple[int, int | None], ...]] = {
    "os.remove": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.mkdir": ((0, 2),),
    "os.rmdir": ((0, 1),),
    "os.truncate": ((0, None),),
    "shutil.rmtree": ((0, 1),),
    "os.chdir": ((0, None),),
    "os.utime": ((0, 3),),
}
#: Flags with which a file is opened for writing. Linux empties one that is opened for reading too.
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

#: Files that a submission may open for writing, each of at most `sandbox.FILE_BYTES`, and folders that it may make.
FILES = 64


class Refused(BaseException):
    """A submission did what a lab has no use for. No `except Exception` catches it."""


def close(folder: str) -> None:
    """From now on nothing of that, and no file outside of `folder` is changed."""
    inside = os.path.realpath(folder) + os.sep
    opened = 0

    def count(more: bool) -> None:
        nonlocal opened
        opened += more
        if opened > FILES:
            refuse(f"it writes more than {FILES} files and folders")

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            writes = bool(isinstance(flags, int) and flags & WRITES)
            # A descriptor was opened before; what else is no text may be another path when it is opened.
            named = os.fsdecode(path) if isinstance(path, (str, bytes)) else None
            if writes and not isinstance(path, int) and (named is None or not _within(named, inside)):
                refuse(f"it opens {named or type(path).__name__} for writing")
            count(writes)
        elif event in CHANGES:
            count(event == "os.mkdir")
            for path, base in CHANGES[event]:
                changed = _below(None if base is None else arguments[base], os.fsdecode(arguments[path]))
                if not _within(changed, inside):
                    refuse(f"{event}: {changed}")
        elif event == "import" and arguments[0] in UNSEEN:
            refuse(f"it imports {arguments[0]}")
        elif event in REFUSED or event.startswith("ctypes."):
            refuse(event)

    sys.addaudithook(hook)


def refuse(what: str) -> NoReturn:
    """Ends what was tried."""
    raise Refused(f"not allowed in a submission: {what}")


def _below(folder: int | None, path: str) -> str:
    """A path that is relative to a folder's descriptor; to the current folder where there is none (-1)."""
    if folder is None or folder == -1 or os.path.isabs(path):
        return path
    try:
        return os.path.join(os.readlink(f"/proc/self/fd/{folder}"), path)
    except OSError:
        refuse(f"a path relative to a folder that cannot be told: {path}")


def _within(path: str, inside: str) -> bool:
    return path == os.devnull or os.path.realpath(path).startswith(inside)
