"""What a submission may not do, refused by an audit hook (PEP 578), which cannot be taken away again."""

from __future__ import annotations

import os
import sys
from typing import Any

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
    "_thread.start_new_thread",
    "_thread.start_joinable_thread",
    "sys.remote_exec",
    "gc.get_objects",
    "gc.get_referrers",
    "resource.prlimit",
    "resource.setrlimit",
    "fcntl.fcntl",
    "fcntl.ioctl",
)
#: Events whose first argument is a path that is changed.
CHANGES = (
    "os.remove",
    "os.rename",
    "os.mkdir",
    "os.rmdir",
    "os.truncate",
    "shutil.rmtree",
    "os.chdir",
    "os.utime",
)


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
            writes = bool(isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
            if writes and isinstance(path, (str, bytes)) and not _within(os.fsdecode(path), inside):
                refuse(f"it opens {os.fsdecode(path)} for writing")
            count(writes)
        elif event in CHANGES:
            count(event == "os.mkdir")
            for path in arguments[: 2 if event == "os.rename" else 1]:
                if not _within(os.fsdecode(path), inside):
                    refuse(f"{event}: {path}")
        elif event in REFUSED or event.startswith("ctypes."):
            refuse(event)

    sys.addaudithook(hook)


def refuse(what: str) -> None:
    """Ends what was tried."""
    raise Refused(f"not allowed in a submission: {what}")


def _within(path: str, inside: str) -> bool:
    return path == os.devnull or os.path.realpath(path).startswith(inside)
