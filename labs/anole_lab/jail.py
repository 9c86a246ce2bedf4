"""What the kernel refuses a check's process, whatever its interpreter is talked into (Linux: seccomp, Landlock).

No other program or process, no signal to one, no limit or priority of one, no debugging; nothing is written outside of one
folder, no file is emptied by its name or by opening it for reading, and none's times or extended attributes are set; no memory
is taken that the limit on the address space does not count; no TCP. Threads are allowed, which the QUIC
transfers need. `guard` says the same earlier, with better words.

The numbers are those of the kernel's headers: `linux/seccomp.h`, `linux/landlock.h`, `asm/unistd.h`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

#: Numbers of the system calls that are refused, by machine: (audit architecture, those of which it depends on the arguments:
#: clone, clone3, prlimit64, tgkill, fcntl, ioctl, openat, openat2, open; the others). There is no open on aarch64.
MACHINES = {
    "x86_64": (
        0xC000003E, (56, 435, 302, 234, 72, 16, 257, 437, 2),
        # fork vfork execve execveat kill tkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal pidfd_open ptrace
        # process_vm_readv process_vm_writev unshare setns mount io_uring_setup bpf userfaultfd
        # setrlimit setpriority sched_setparam sched_setscheduler sched_setattr sched_setaffinity ioprio_set
        # memfd_create memfd_secret shmget mknod mknodat
        # truncate utime utimes futimesat utimensat
        # setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr setxattrat removexattrat
        (57, 58, 59, 322, 62, 200, 129, 297, 424, 434, 101, 310, 311, 272, 308, 165, 425, 321, 323,
         160, 141, 142, 144, 314, 203, 251, 319, 447, 29, 133, 259,
         76, 132, 235, 261, 280, 188, 189, 190, 197, 198, 199, 463, 466),
    ),
    "aarch64": (
        0xC00000B7, (220, 435, 261, 131, 25, 29, 56, 437, None),
        (221, 281, 129, 130, 138, 240, 424, 434, 117, 270, 271, 97, 268, 40, 425, 280, 282,
         164, 140, 118, 119, 274, 122, 30, 279, 447, 194, 33,
         45, 88, 5, 6, 7, 14, 15, 16, 463, 466),
    ),
}  # fmt: skip

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050000, 0x80000000
CLONE_THREAD = 0x10000
#: Whom a file's signals go to, and which signal: F_SETOWN, F_SETSIG, F_SETOWN_EX; FIOSETOWN, SIOCSPGRP.
FCNTL_OWNER, IOCTL_OWNER = (8, 10, 15), (0x8901, 0x8902)
#: Numbers at and above this one are another ABI of the same machine (x32).
FOREIGN_ABI = 0x40000000

LANDLOCK_CREATE, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT = 444, 445, 446
VERSION_FLAG, PATH_BENEATH = 1, 1
#: Rights that change something, each with the version of Landlock that knows it: write, remove (2), make (7); refer (2);
#: truncate (3).
WRITE_FILE, CHANGES = 1 << 1, 0b1_1111_1111 << 4
REFER, TRUNCATE = 1 << 13, 1 << 14
BIND_TCP, CONNECT_TCP = 1 << 0, 1 << 1
SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS = 1 << 0, 1 << 1


def lock(folder: str) -> tuple[bool, bool]:
    """Shuts this process in, for good; tells whether (seccomp, Landlock) are there and hold."""
    if sys.platform != "linux":
        return False, False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False, False
    confined = _landlock(libc, folder)
    return _seccomp(libc), confined


def _landlock(libc: ctypes.CDLL, folder: str) -> bool:
    version = libc.syscall(LANDLOCK_CREATE, None, ctypes.c_size_t(0), VERSION_FLAG)
    if version < 1:
        return False
    files = WRITE_FILE | CHANGES | (REFER if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0)
    attributes = struct.pack(
        "QQQ",
        files,
        BIND_TCP | CONNECT_TCP if version >= 4 else 0,
        SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS if version >= 6 else 0,
    )
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = libc.syscall(LANDLOCK_CREATE, attributes, ctypes.c_size_t(size), 0)
    if rules < 0:
        return False
    try:
        for path, rights in ((folder, files), (os.devnull, WRITE_FILE | (files & TRUNCATE))):
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                rule = struct.pack("=Qi", rights, place)
                if libc.syscall(LANDLOCK_ADD_RULE, rules, PATH_BENEATH, rule, 0) != 0:
                    return False
            finally:
                os.close(place)
        return bool(libc.syscall(LANDLOCK_RESTRICT, rules, 0) == 0)
    finally:
        os.close(rules)


def _seccomp(libc: ctypes.CDLL) -> bool:
    machine = MACHINES.get(platform.machine())
    if machine is None:
        return False
    program = _filter(*machine)
    code = ctypes.create_string_buffer(program)
    # struct sock_fprog: the number of instructions, and where they are.
    of = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    return bool(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, of, 0, 0) == 0)


def _filter(architecture: int, depending: tuple[int | None, ...], refused: tuple[int, ...]) -> bytes:
    """The classic BPF program over `struct seccomp_data`: number at 0, architecture at 4, arguments of 8 bytes from 16."""
    clone, clone3, prlimit, tgkill, fcntl, ioctl, openat, openat2, open_ = depending
    load, equal, at_least, any_of, keep, answer = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
    not_permitted, not_there = REFUSE | errno.EPERM, REFUSE | errno.ENOSYS
    lines = [
        *((load, 0, 0, 4), (equal, 1, 0, architecture), (answer, 0, 0, KILL)),
        *((load, 0, 0, 0), (at_least, 0, 1, FOREIGN_ABI), (answer, 0, 0, not_there)),
        # The C library then makes threads by clone, whose flags can be read here; likewise openat.
        *((equal, 0, 1, clone3), (answer, 0, 0, not_there)),
        *((equal, 0, 1, openat2), (answer, 0, 0, not_there)),
        *((equal, 0, 4, clone), (load, 0, 0, 16), (any_of, 1, 0, CLONE_THREAD)),
        *((answer, 0, 0, not_permitted), (answer, 0, 0, ALLOW)),
        # Limits are read (no new one, of 8 bytes) and not set.
        *((equal, 0, 6, prlimit), (load, 0, 0, 32), (equal, 0, 2, 0), (load, 0, 0, 36), (equal, 1, 0, 0)),
        *((answer, 0, 0, not_permitted), (answer, 0, 0, ALLOW)),
        # The C library aborts by it.
        *((equal, 0, 4, tgkill), (load, 0, 0, 16), (equal, 1, 0, os.getpid())),
        *((answer, 0, 0, not_permitted), (answer, 0, 0, ALLOW)),
    ]
    for number, commands in ((fcntl, FCNTL_OWNER), (ioctl, IOCTL_OWNER)):
        lines += [(equal, 0, len(commands) + 3, number), (load, 0, 0, 24)]
        lines += [(equal, len(commands) - place, 0, command) for place, command in enumerate(commands)]
        lines += [(answer, 0, 0, ALLOW), (answer, 0, 0, not_permitted)]
    # Landlock before version 3 asks whether a file is opened for writing, and not whether that empties it.
    for number, flags in ((openat, 32), (open_, 24)):
        if number is not None:
            lines += [(equal, 0, 7, number), (load, 0, 0, flags), (any_of, 0, 4, os.O_TRUNC)]
            lines += [(keep, 0, 0, os.O_ACCMODE), (equal, 2, 0, os.O_WRONLY), (equal, 1, 0, os.O_RDWR)]
            lines += [(answer, 0, 0, not_permitted), (answer, 0, 0, ALLOW)]
    for number in refused:
        lines += [(equal, 0, 1, number), (answer, 0, 0, not_permitted)]
    lines.append((answer, 0, 0, ALLOW))
    return b"".join(struct.pack("HBBI", *line) for line in lines)
