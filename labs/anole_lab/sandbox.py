"""A check in a process of its own: limits on time, memory, files and processes, no network.

The process begins in an empty folder that goes with it, without the environment of the parent. Before a submission is
loaded, an audit hook (PEP 578, `guard`) refuses sockets that reach beyond this machine's loopback, processes, native code,
and files outside of that folder for writing. Behind it the kernel refuses the same (`jail`): whoever gets past the hook
meets seccomp and Landlock; where user namespaces are allowed, the process has a network of its own without any link, and sees
no process but its own.

What is left: the check runs in the submission's process, so whoever digs in the interpreter can forge an outcome, and
files that the grader may read can be read.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path

from .check import Outcome

#: Processor time and time of a check, s.
CPU_S, WALL_S = 30, 60
#: Address space: NumPy and the simulator need half a gigabyte of it.
MEMORY_BYTES = 2 << 30
#: A file that is written, files that are open at a time, and what is kept of the output.
FILE_BYTES, OPEN_FILES = 4 << 20, 256
OUTPUT_BYTES = 64 << 10


def sandboxed(lab: str, source: bytes, key: str) -> Outcome:
    """Checks a submission in a process of its own. What goes wrong there is in the outcome."""
    try:
        # What a submission leaves there may be such that it cannot be removed.
        with tempfile.TemporaryDirectory(prefix="anole-lab-", ignore_cleanup_errors=True) as folder:
            return _sandboxed(lab, source, key, Path(folder))
    except Exception as error:
        return _failed(lab, f"{type(error).__name__}: {error}")


def _sandboxed(lab: str, source: bytes, key: str, folder: Path) -> Outcome:
    inside = folder / f"lab{lab}.py"
    inside.write_bytes(source)
    # Without a name: nobody puts something else in its place.
    with tempfile.TemporaryFile() as answer, _Output() as output:
        child = subprocess.Popen(
            [*_apart(), sys.executable, "-I", "-B", "-c", _CHILD, lab, inside.name, str(answer.fileno())],
            cwd=folder,
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": str(folder),
                "TMPDIR": str(folder),
                # As many checks run at a time as there are processors.
                "OPENBLAS_NUM_THREADS": "1",
                "ANOLE_LAB_PATH": _search_path(),
            },
            stdin=subprocess.PIPE,
            stdout=output.end,
            stderr=subprocess.STDOUT,
            pass_fds=[answer.fileno()],
            start_new_session=True,
            preexec_fn=_limits,
        )
        try:
            # Not an argument: other processes of the machine would see it.
            child.communicate(key.encode(), timeout=WALL_S)
        except subprocess.TimeoutExpired:
            return _failed(lab, f"stopped after {WALL_S} s")
        finally:
            _end(child)
        said = output.said()
        answer.seek(0)
        try:
            return Outcome.from_json(answer.read().decode())
        except Exception:
            return _failed(lab, _reason(child.returncode, said))


class _Output:
    """Takes what a process writes, however much, and keeps the last of it."""

    def __init__(self) -> None:
        self._pipe, self.end = os.pipe()
        self._kept = b""
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> _Output:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def said(self) -> str:
        """What the process wrote last. Once it has ended."""
        self._close()
        return self._kept.decode(errors="replace").strip()

    def _close(self) -> None:
        if self.end >= 0:
            os.close(self.end)
            self.end = -1
        self._reader.join()

    def _read(self) -> None:
        with open(self._pipe, "rb", buffering=0) as pipe:
            while more := pipe.read(OUTPUT_BYTES):
                self._kept = (self._kept + more)[-OUTPUT_BYTES:]


def _reason(code: int, said: str) -> str:
    last = said.splitlines()[-1] if said else ""
    # The number of a signal, from here and from a shell.
    ended = -code if code < 0 else code - 128
    if ended in (signal.SIGXCPU, signal.SIGKILL):
        return f"stopped: more than {CPU_S} s of processor time, or killed for memory"
    if ended == signal.SIGXFSZ:
        return f"stopped: a file of more than {FILE_BYTES} bytes"
    return f"ended with status {code}{': ' + last if last else ''}"


def _failed(lab: str, error: str) -> Outcome:
    return Outcome(lab, [], error, None, 0.0)


def _limits() -> None:
    for limit, value in (
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends the process, and with it whatever it has begun: all are in its group."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    child.wait()


@cache
def _apart() -> tuple[str, ...]:
    """A command that runs another one among processes of its own and in a network of its own, with loopback alone; nothing
    where that is not allowed."""
    # Not `exec`: the kernel spares the first process of a namespace most signals.
    shell = 'ip link set lo up 2>/dev/null || true; "$@"; exit $?'
    namespaces = ("unshare", "--map-root-user", "--net", "--pid", "--fork", "--kill-child")
    wrapped = (*namespaces, "--", "sh", "-c", shell, "sh")
    try:
        tried = subprocess.run([*wrapped, "true"], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return wrapped if tried.returncode == 0 and shutil.which("ip") else ()


def network_is_cut() -> bool:
    """Whether checks run in namespaces of their own; the audit hook refuses connections either way."""
    return bool(_apart())


@cache
def kernel_refuses() -> tuple[bool, bool]:
    """Whether seccomp and Landlock stand behind the audit hook here."""
    tried = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import jail; print(*jail.lock('.'))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", tried], capture_output=True, text=True, check=False)
    seccomp, landlock = (word == "True" for word in (done.stdout.split() + 2 * ["False"])[:2])
    return seccomp, landlock


def _search_path() -> str:
    """Where the child finds the packages that this process has found: it starts without PYTHONPATH."""
    import anole_ccp

    here = {
        str(Path(__file__).resolve().parent.parent),
        str(Path(anole_ccp.__file__).resolve().parent.parent),
    }
    return os.pathsep.join([*sorted(here), *(path for path in sys.path if "site-packages" in path)])


#: What the process runs. The answer goes to a file that this process has opened for it.
_CHILD = """
import os, sys
key = sys.stdin.read()
sys.path[:0] = os.environ.pop("ANOLE_LAB_PATH").split(os.pathsep)
lab, submission, answer = sys.argv[1:]
from anole_lab import guard, jail
from anole_lab.check import check
with open(int(answer), "w", encoding="utf-8") as out:
    jail.lock(os.getcwd())
    guard.close(os.getcwd())
    out.write(check(lab, submission, key=key).json())
"""
