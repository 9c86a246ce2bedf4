"""Every starter fails and teaches, every solution passes on other links too, every notebook runs; limits hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import anole_ccp
import pytest

from anole_lab import check, check_here, jail, labs
from anole_lab.cli import main
from anole_lab.grade import Submission, grade, leaderboard, submissions, write_csv
from anole_lab.lab import load
from anole_lab.notebook import notebook
from anole_lab.sandbox import kernel_refuses, sandboxed

SOLUTIONS = Path(__file__).resolve().parent.parent / "solutions"
NUMBERS = ["01", "02", "03", "04", "05", "06"]


def test_there_are_six_labs():
    assert list(labs()) == NUMBERS
    for number, lab in labs().items():
        assert lab.title.startswith(f"Lab {int(number)}: ")
        text = (lab.folder / "README.md").read_text()
        assert "**You learn**" in text and "**Time**" in text and "## Questions" in text


@pytest.mark.parametrize("number", NUMBERS)
def test_a_starter_runs_fails_and_teaches(number):
    outcome = check(number, labs()[number].starter)
    assert not outcome.passed and not outcome.error
    missed = [row for row in outcome.rows if not row.passed]
    assert any(row.hint for row in missed) and "→" in str(outcome)


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

HARMFUL = {
    "loops": ("while True: pass", "processor time"),
    "allocates": ("x = bytearray(10 << 30)", "MemoryError"),
    "writes elsewhere": ("open('{folder}/evil', 'w')", "for writing"),
    "writes much": ("open('big', 'w').write('x' * (64 << 20))", "File too large"),
    "connects": ("import socket; socket.create_connection(('192.0.2.1', 80))", "not allowed"),
    "forks": ("import os\nwhile True: os.fork()", "not allowed"),
    "runs a program": ("import subprocess; subprocess.run(['true'])", "not allowed"),
    "prints for ever": ("while True: print('x' * 1000)", "File too large"),
    "ends early": ("import os; os._exit(0)", "status 0"),
    "is no Python": ("def f(:", "SyntaxError"),
    "forks past the hook": (FORK_EXEC, "Operation not permitted"),
    "writes many": ("for n in range(100): open(str(n), 'w')", "more than 64 files"),
    "moves": ("import os; open('x', 'w').close(); os.rename('x', '{folder}/evil')", "not allowed"),
    "removes": ("import os; os.remove('{folder}/kept')", "not allowed"),
}


@pytest.mark.parametrize("what", HARMFUL)
def test_what_does_harm_is_stopped_and_told(what, tmp_path, monkeypatch):
    monkeypatch.setattr("anole_lab.sandbox.CPU_S", 3)
    text, told = HARMFUL[what]
    (tmp_path / "kept").write_text("kept")
    file = tmp_path / "lab01.py"
    file.write_text(text.replace("{folder}", str(tmp_path)))
    outcome = sandboxed("01", file, "key")
    assert not outcome.passed and outcome.points == 0
    assert told in outcome.error, outcome.error
    assert sorted(os.listdir(tmp_path)) == ["kept", "lab01.py"]


BEYOND_PYTHON = """
import os, subprocess, sys, threading, socket
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
    lambda: socket.create_connection(("127.0.0.1", 9)),
    lambda: open({outside!r}, "w"),
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
os.remove("inside")
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
    assert lines == ["(True, True)", *10 * ["refused"], "thread", "all"], done.stdout + done.stderr
    assert outside.read_text() == "kept" and sorted(os.listdir(tmp_path)) == ["folder", "outside"]


def test_a_class_is_graded(tmp_path):
    for student, source in (("ada", SOLUTIONS / "lab06.py"), ("=bob", labs()["06"].starter)):
        (tmp_path / student).mkdir()
        (tmp_path / student / "lab06.py").write_text(source.read_text())
    (tmp_path / "eve").mkdir()
    (tmp_path / "eve" / "lab06.py").symlink_to(SOLUTIONS / "lab06.py")
    handed_in = submissions(tmp_path)
    assert [each.student for each in handed_in] == ["=bob", "ada"]
    grades = grade(handed_in, "key")
    assert [each.outcome.passed for each in grades] == [False, True]
    board = leaderboard(grades)
    assert [entry["student"] for entry in board] == ["ada", "=bob"] and board[0]["rank"] == 1
    write_csv(grades, tmp_path / "grades.csv")
    lines = (tmp_path / "grades.csv").read_text().splitlines()
    assert (
        len(lines) == 3 and lines[1].startswith("'=bob,06,False,") and lines[2].startswith("ada,06,True,1.0,")
    )


def test_the_key_decides_in_a_process_of_its_own_as_here():
    here = check("01", SOLUTIONS / "lab01.py", key="k")
    there = grade([Submission("x", "01", SOLUTIONS / "lab01.py")], "k")[0].outcome
    assert [row.found for row in here.rows] == [row.found for row in there.rows]


def test_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["list"]) == 0 and "Lab 4: fairness" in capsys.readouterr().out
    assert main(["check", "1"]) == 2 and "anole-lab start 01" in capsys.readouterr().err
    assert main(["start", "1"]) == 0 and (tmp_path / "lab01.md").is_file()
    assert main(["start", "1"]) == 2 and "already" in capsys.readouterr().err
    assert main(["check", "1"]) == 1 and (tmp_path / "lab01.svg").stat().st_size > 5000
    capsys.readouterr()
    (tmp_path / "lab01.py").write_text((SOLUTIONS / "lab01.py").read_text())
    assert main(["check", "1", "--json"]) == 0 and json.loads(capsys.readouterr().out)["error"] == ""
    assert main(["grade", ".", "--key", "k"]) == 2 and "STUDENT/labNN.py" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["check", "9"])
    assert "there are 01" in capsys.readouterr().err


def test_what_is_missing_is_named():
    outcome = check_here("03", {"Vegas": 3})
    assert "Vegas has to be a class" in outcome.error
    assert "defines no Vegas" in check_here("03", {}).error
