"""Every starter fails and teaches, every solution passes on other links too, every notebook runs; limits hold."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import types
from pathlib import Path

import anole_ccp
import pytest

from anole_lab import check, check_here, jail, labs
from anole_lab.cli import main
from anole_lab.grade import Submission, grade, leaderboard, passed_over, submissions, write_csv
from anole_lab.lab import Checker, load
from anole_lab.notebook import notebook
from anole_lab.sandbox import kernel_refuses, network_is_cut, sandboxed

SOLUTIONS = Path(__file__).resolve().parent.parent / "solutions"
NUMBERS = ["01", "02", "03", "04", "05", "06"]


def test_there_are_six_labs():
    assert list(labs()) == NUMBERS
    for number, lab in labs().items():
        assert lab.title.startswith(f"Lab {int(number)}: ")
        text = (lab.folder / "README.md").read_text()
        assert "**You learn**" in text and "**Time**" in text and "## Questions" in text
        assert "](../" not in text, "a student has the lab's folder alone"


@pytest.mark.parametrize("number", NUMBERS)
def test_a_starter_runs_fails_and_teaches(number):
    outcome = check(number, labs()[number].starter)
    assert not outcome.passed and not outcome.error
    missed = [row for row in outcome.rows if not row.passed]
    assert any(row.hint for row in missed) and "→" in str(outcome)
    assert max(len(row.found) for row in outcome.rows) < 25
    compared = [row for row in missed if row.what.endswith("of that without a policy")]
    assert all(row.found == "nothing" and "write the rule first" in row.hint for row in compared)
    assert ("cwnd is NaN" in str(outcome)) == bool(compared) == (number == "06")


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("key", ["practice", "one", "two"])
def test_a_solution_passes_on_any_links(number, key):
    outcome = check(number, SOLUTIONS / f"lab{number}.py", key=key)
    assert outcome.passed, str(outcome)
    assert outcome.of == outcome.asked == len(outcome.rows)
    assert (outcome.score is not None) == (number == "06")


@pytest.mark.parametrize(
    ("number", "right", "wrong", "met"), [("04", "jain", "Fair", 3), ("05", "utility", "Prober", 4)]
)
def test_what_an_error_kept_from_being_tried_is_not_met(number, right, wrong, met):
    class Broken(anole_ccp.Algorithm):
        def on_flow(self, flow):
            raise ValueError("not written yet")

    done = load(SOLUTIONS / f"lab{number}.py", "solution")
    outcome = check_here(number, {right: getattr(done, right), wrong: Broken})
    assert "not written yet" in outcome.error
    assert (outcome.met, outcome.of) == (met, outcome.asked) and outcome.points < 0.5


def test_a_prediction_that_is_no_number_is_wrong():
    done = vars(load(SOLUTIONS / "lab01.py", "solution"))
    for told in ((math.nan, math.nan), (math.inf, math.inf)):
        outcome = check_here("01", done | {"predict": lambda *path, told=told: told})
        missed = [row.what for row in outcome.rows if not row.passed]
        assert len(missed) == 6 and all("error of the predicted" in what for what in missed)


def test_a_comparison_of_numpys_numbers_is_met():
    source = (SOLUTIONS / "lab05.py").read_text()
    of_numpy = source.replace("throughput_mbps**0.9", "np.power(throughput_mbps, 0.9)")
    assert of_numpy != source
    outcome = sandboxed("05", f"import numpy as np\n{of_numpy}".encode(), "practice")
    assert outcome.passed, str(outcome)


def test_a_busy_host_is_no_fault_of_a_submission(monkeypatch):
    tries = []

    def transfer(algorithm, _):
        tries.append(algorithm)
        flow = types.SimpleNamespace(throughput_mbps=1.0)
        return types.SimpleNamespace(figures={"flows": [{"reports": algorithm[len(tries) - 1]}]}, flow=flow)

    monkeypatch.setattr(anole_ccp, "transfer", transfer)
    scenario, checker = anole_ccp.Scenario("anole-normal"), Checker("02", "KEY")
    assert checker.transfer("real", scenario, [0, 5, 19]) and checker.rows[0].found == "19 reports, 1.0 Mbps"
    tries.clear()
    assert not checker.transfer("real", scenario, [0, 0, 0, 19]) and len(tries) == 3


def test_what_a_submission_prints_has_no_limit():
    source = (SOLUTIONS / "lab01.py").read_bytes() + b"\nfor _ in range(5000): print('x' * 1000)\n"
    outcome = sandboxed("01", source, "practice")
    assert outcome.passed, str(outcome)


def test_the_law_of_lab_3_has_the_time_that_it_takes():
    """A key that draws long links, on which a packet less per round trip empties no queue within the run."""
    assert check("03", SOLUTIONS / "lab03.py", key="key17").passed


def test_a_rule_that_asks_no_policy_is_no_hybrid():
    rule = load(SOLUTIONS / "lab03.py", "solution").Vegas
    outcome = check_here("06", {"Hybrid": type("Hybrid", (rule,), {})}, key="two")
    assert [row.what.split(" goes")[0] for row in outcome.rows if not row.passed] == ["capacity"]


def test_a_key_draws_the_links(tmp_path):
    rows = [
        [row.what for row in check("03", labs()["03"].starter, key=key).rows] for key in ("one", "one", "two")
    ]
    assert rows[0] == rows[1] != rows[2]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_notebook_runs(number, tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    read = nbformat.reads(notebook(labs()[number]), as_version=4)
    nbformat.validate(read)
    nbclient.NotebookClient(read, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output for cell in read.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("not yet" in output.get("text", "") for output in shown)
    assert any("image/svg+xml" in output.get("data", {}) for output in shown)


#: It forks in C, of which no audit event tells.
FORK_EXEC = "from multiprocessing.util import spawnv_passfds as spawn; spawn(b'/bin/true', [b'true'], [])"

#: Both end the grader where they are not refused.
LIMITS = "import os, resource; resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))"
SIGNALS = """
import fcntl, os
ends = os.pipe()
fcntl.fcntl(ends[0], fcntl.F_SETOWN, os.getppid())
fcntl.fcntl(ends[0], 10, 9)
fcntl.fcntl(ends[0], fcntl.F_SETFL, os.O_ASYNC)
os.write(ends[1], b"x")
"""
#: Writes the outcome itself.
ANSWERS = """
import json, os, sys
fields = {"lab": "01", "rows": [], "error": "", "score": 1.0, "seconds": 1.0}
new = %s
text = new if isinstance(new, str) else json.dumps(fields | new)
os.write(int(sys.argv[3]), text.encode())
os._exit(0)
"""

HARMFUL = {
    "loops": ("while True: pass", "processor time"),
    "allocates": ("x = bytearray(10 << 30)", "MemoryError"),
    "writes elsewhere": ("open('{folder}/evil', 'w')", "for writing"),
    "writes much": ("open('big', 'w').write('x' * (64 << 20))", "File too large"),
    "connects": ("import socket; socket.create_connection(('192.0.2.1', 80))", "not allowed"),
    "forks": ("import os\nwhile True: os.fork()", "not allowed"),
    "runs a program": ("import subprocess; subprocess.run(['true'])", "not allowed"),
    "prints for ever": ("while True: print('x' * 1000)", "processor time"),
    "ends early": ("import os; os._exit(0)", "status 0"),
    "is no Python": ("def f(:", "SyntaxError"),
    "forks past the hook": (FORK_EXEC, "Operation not permitted"),
    "writes databases": ("import sqlite3; sqlite3.connect('x.db')", "sqlite3.connect"),
    "writes past open": (
        "import io, pathlib; io.FileIO(pathlib.Path('{folder}/evil'), 'w')",
        "it opens PosixPath for writing",
    ),
    "writes many": ("for n in range(100): open(str(n), 'w')", "more than 64 files"),
    "moves": ("import os; open('x', 'w').close(); os.rename('x', '{folder}/evil')", "not allowed"),
    "truncates": ("import os; os.open('{folder}/kept', os.O_RDONLY | os.O_TRUNC)", "for writing"),
    "removes below": ("import os; os.remove('kept', dir_fd=os.open('{folder}', os.O_RDONLY))", "not allowed"),
    "dates below": ("import os; os.utime('kept', (1, 1), dir_fd=os.open('{folder}', 0))", "not allowed"),
    "marks": ("import os; os.setxattr('{folder}/kept', 'user.x', b'x')", "not allowed"),
    "removes": ("import os; os.remove('{folder}/kept')", "not allowed"),
    "ends": ("import sys; sys.exit(0)", "SystemExit"),
    "limits another": (LIMITS, "not allowed"),
    "signals another": (SIGNALS, "not allowed"),
    "makes folders": ("import os\nfor n in range(1500): os.mkdir('d'); os.chdir('d')", "more than 64 files"),
    "holds memory elsewhere": ("import os; os.memfd_create('x')", "Operation not permitted"),
    "opens many": ("import os\nwhile True: os.pipe()", "Too many open files"),
    "sees others": ("import os; raise ValueError(f'process {os.getpid()}')", "process 3"),
    "answers": (ANSWERS % "{'score': 'high'}", "status 0"),
    "answers deeply": (ANSWERS % "'[' * 200000", "status 0"),
    "raises what is no text": ("raise ValueError(chr(0xD800))", "ValueError"),
}


@pytest.mark.parametrize("what", HARMFUL)
def test_what_does_harm_is_stopped_and_told(what, tmp_path, monkeypatch):
    monkeypatch.setattr("anole_lab.sandbox.CPU_S", 3)
    if what == "sees others" and not network_is_cut():
        pytest.skip("no namespaces here")
    text, told = HARMFUL[what]
    (tmp_path / "kept").write_text("kept")
    outcome = sandboxed("01", text.replace("{folder}", str(tmp_path)).encode(), "key")
    assert not outcome.passed and outcome.points == 0
    assert told in outcome.error, outcome.error
    assert os.listdir(tmp_path) == ["kept"] and (tmp_path / "kept").read_text() == "kept"


BEYOND_PYTHON = """
import fcntl, os, resource, subprocess, sys, threading, socket
sys.path.insert(0, {package!r})
import jail
print(jail.lock(os.getcwd()))
UDP, UNIX = (socket.AF_INET, socket.SOCK_DGRAM), (socket.AF_UNIX, socket.SOCK_DGRAM)
for what in (
    lambda: os.fork(),
    lambda: os.posix_spawn("/bin/true", ["true"], {{}}),
    lambda: os.execv("/bin/true", ["true"]),
    lambda: subprocess.run(["true"]),
    lambda: os.kill(os.getppid(), 0),
    lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (9, 9)),
    lambda: fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid()),
    lambda: fcntl.fcntl(0, 10, 9),
    lambda: fcntl.ioctl(0, 0x8901, b"1234"),
    lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 9),
    lambda: os.sched_setaffinity(os.getppid(), [0]),
    lambda: os.memfd_create("x"),
    lambda: os.mkfifo("fifo"),
    lambda: socket.create_connection(("127.0.0.1", 9)),
    lambda: open({outside!r}, "w"),
    lambda: os.open({outside!r}, os.O_RDONLY | os.O_TRUNC),
    lambda: os.open({outside!r}, os.O_ACCMODE | os.O_TRUNC),
    lambda: os.truncate({outside!r}, 0),
    lambda: os.utime({outside!r}, (1, 1)),
    lambda: os.setxattr({outside!r}, "user.x", b"x"),
    lambda: os.removexattr({outside!r}, "user.x"),
    lambda: os.remove({outside!r}),
    lambda: os.rename("inside", {outside!r}),
    lambda: socket.socket(*UNIX).bind({outside!r} + ".sock"),
):
    try:
        print(what())
    except PermissionError:
        print("refused")
# And this is what labs need.
open("inside", "w").close()
os.close(os.open("inside", os.O_RDWR | os.O_TRUNC))
os.remove("inside")
fcntl.fcntl(0, fcntl.F_GETFL)
resource.prlimit(0, resource.RLIMIT_CPU)
thread = threading.Thread(target=print, args=("thread",))
thread.start()
thread.join()
socket.socket(*UDP).bind(("127.0.0.1", 0))
socket.socket(*UNIX).bind("agent.sock")
print("all")
"""


def test_the_kernel_refuses_what_gets_past_the_hook(tmp_path):
    if not all(kernel_refuses()):
        pytest.skip("no seccomp or no Landlock in this kernel")
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.write_text("kept")
    folder.mkdir()
    (folder / "inside").write_text("")
    package = str(Path(jail.__file__).parent)
    code = BEYOND_PYTHON.format(package=package, outside=str(outside))
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert lines == ["(True, True)", *24 * ["refused"], "thread", "all"], done.stdout + done.stderr
    assert outside.read_text() == "kept" and sorted(os.listdir(tmp_path)) == ["folder", "outside"]


def test_a_class_is_graded(tmp_path):
    for student, source in (("ada", SOLUTIONS / "lab06.py"), ("=bob", labs()["06"].starter)):
        (tmp_path / student).mkdir()
        (tmp_path / student / "lab06.py").write_text(source.read_text())
    (tmp_path / "eve").mkdir()
    (tmp_path / "eve" / "lab06.py").symlink_to(SOLUTIONS / "lab06.py")
    (tmp_path / "mallory").symlink_to("ada")
    handed_in = submissions(tmp_path)
    assert [each.student for each in handed_in] == ["=bob", "ada"]
    (tmp_path / "ada" / "Lab01.py").touch()
    for name in ("zoe", ".git"):
        (tmp_path / name).mkdir()
    unread = [
        tmp_path / name
        for name in ("ada/Lab01.py", "eve/lab06.py", "mallory/Lab01.py", "mallory/lab06.py", "zoe")
    ]
    assert passed_over(tmp_path, handed_in) == unread
    gone = Submission("\udcff", "06", tmp_path / "gone" / "lab06.py")
    grades = grade([*handed_in, gone], "key")
    assert [each.outcome.passed for each in grades] == [False, True, False]
    board = leaderboard(grades)
    assert [entry["student"] for entry in board] == ["ada", "=bob"] and board[0]["rank"] == 1
    write_csv(grades, tmp_path / "grades.csv")
    lines = (tmp_path / "grades.csv").read_text().splitlines()
    assert [line.split(",")[:3] for line in lines[1:]] == [
        ["'=bob", "06", "False"], ["ada", "06", "True"], ["\\udcff", "06", "False"],
    ]  # fmt: skip
    assert "No such file" in lines[3]


def test_the_key_decides_in_a_process_of_its_own_as_here():
    here = check("01", SOLUTIONS / "lab01.py", key="k")
    there = grade([Submission("x", "01", SOLUTIONS / "lab01.py")], "k")[0].outcome
    assert [row.found for row in here.rows] == [row.found for row in there.rows]


def test_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["list"]) == 0 and "Lab 4: fairness" in capsys.readouterr().out
    assert main(["check", "1"]) == 2 and "anole-lab start 01" in capsys.readouterr().err
    assert main(["check", "1", "mine.py"]) == 2 and "start" not in capsys.readouterr().err
    assert main(["check", "1", "."]) == 2 and "is a folder; name the file" in capsys.readouterr().err
    assert main(["start", "1"]) == 0 and (tmp_path / "lab01.md").is_file()
    assert (
        main(["check", "1", "--picture", "no/p.svg"]) == 2 and "--picture no/p.svg" in capsys.readouterr().err
    )
    assert main(["start", "1"]) == 2 and "already" in capsys.readouterr().err
    assert main(["check", "1"]) == 1 and (tmp_path / "lab01.svg").stat().st_size > 5000
    capsys.readouterr()
    (tmp_path / "lab01.py").write_text((SOLUTIONS / "lab01.py").read_text())
    assert main(["check", "1", "--json"]) == 0 and json.loads(capsys.readouterr().out)["error"] == ""
    assert main(["grade", ".", "--key", "k"]) == 2 and "STUDENT/labNN.py" in capsys.readouterr().err
    assert main(["grade", ".", "--key", "k", "--out", "no/g.csv"]) == 2
    assert "no folder no" in capsys.readouterr().err
    assert main(["notebooks", "books"]) == 0 and main(["notebooks", "books"]) == 2
    assert "already" in capsys.readouterr().err
    (tmp_path / "lab01.py").write_text("import sys; sys.exit(0)")
    assert main(["check", "1"]) == 1 and "SystemExit: 0" in capsys.readouterr().out
    (tmp_path / "lab01.py").write_text("raise ValueError(chr(0xD800))")
    assert main(["check", "1"]) == 1 and r"ValueError: \ud800" in capsys.readouterr().out
    for wrong, told in (
        (["check", "9"], "there are 01"),
        (["grade", ".", "--key", "k", "--jobs", "-1"], "--jobs"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(wrong)
        assert told in capsys.readouterr().err


def test_what_is_missing_is_named():
    outcome = check_here("03", {"Vegas": 3})
    assert "Vegas has to be a class" in outcome.error
    assert "defines no Vegas" in check_here("03", {}).error


def test_an_error_names_the_line(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import anole_ccp\n\n\nclass Vegas(anole_ccp.Algorithm):\n    def on_flow(self, flow):\n        return 1 / 0\n"
    )
    assert "\n  mine.py:6: return 1 / 0" in check("03", file).error
    no_number = {"jain": lambda rates: None, "Fair": anole_ccp.Algorithm}
    assert "float(jain(rates))" in check_here("04", no_number).error
