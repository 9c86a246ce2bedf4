"""A class: every submission in a folder is checked in a process of its own; a CSV, and the leaderboard."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from .check import Outcome
from .lab import labs
from .sandbox import sandboxed

COLUMNS = ("student", "lab", "passed", "points", "met", "of", "score", "seconds", "error", "sha256")


@dataclasses.dataclass(frozen=True)
class Submission:
    """A file that was handed in: STUDENT/labNN.py."""

    student: str
    lab: str
    file: Path


@dataclasses.dataclass(frozen=True)
class Grade:
    """What became of it."""

    submission: Submission
    outcome: Outcome
    #: Of the file that was checked; empty if it could not be read.
    sha256: str

    def row(self) -> dict[str, object]:
        """A line of the CSV."""
        outcome = self.outcome
        score = "" if outcome.score is None else round(outcome.score, 4)
        error = _cell(outcome.error.splitlines()[0] if outcome.error else "")
        values = (
            *(_cell(self.submission.student), self.submission.lab, outcome.passed, round(outcome.points, 3)),
            *(outcome.met, outcome.of, score, outcome.seconds, error, self.sha256),
        )
        return dict(zip(COLUMNS, values, strict=True))


def _cell(text: str) -> str:
    """Text that a spreadsheet takes for no formula."""
    return "'" + text if text.startswith(("=", "+", "-", "@")) else text


def submissions(folder: Path) -> list[Submission]:
    """FOLDER/STUDENT/labNN.py, in order. Links are not followed: what they point to is not the student's."""
    found = []
    for file in sorted(folder.glob("*/lab[0-9][0-9].py")):
        number = re.fullmatch(r"lab(\d\d)\.py", file.name)
        linked = file.is_symlink() or file.parent.is_symlink()
        if number and number[1] in labs() and file.is_file() and not linked:
            found.append(Submission(file.parent.name, number[1], file))
    return found


def passed_over(folder: Path, handed_in: Iterable[Submission]) -> list[Path]:
    """Other Python files in the students' folders, and folders of students without a submission."""
    taken = {each.file for each in handed_in}
    with_one = {file.parent for file in taken}
    others = {file for file in folder.glob("*/*.py") if file not in taken}
    students = {each for each in folder.iterdir() if each.is_dir() and each.name[0] not in "._"}
    return sorted(others | (students - with_one - {file.parent for file in others}))


def grade(
    handed_in: Iterable[Submission],
    key: str,
    jobs: int | None = None,
    told: Callable[[Grade], None] = lambda _: None,
) -> list[Grade]:
    """Checks all of them, `jobs` at a time; `told` hears of each as it is done. The order is that of the submissions."""
    handed_in = list(handed_in)

    def graded(each: Submission) -> Grade:
        try:
            source = each.file.read_bytes()
        except OSError as error:
            return Grade(each, Outcome(each.lab, [], f"{each.file}: {error.strerror}", None, 0.0), "")
        return Grade(each, sandboxed(each.lab, source, key), hashlib.sha256(source).hexdigest())

    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        running = [pool.submit(graded, each) for each in handed_in]
        for future in as_completed(running):
            told(future.result())
        return [future.result() for future in running]


def write_csv(grades: Iterable[Grade], path: Path) -> None:
    """Writes the CSV beside its name first, so that one that is there is replaced as a whole."""
    beside = path.with_name(path.name + ".new")
    with beside.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(each.row() for each in grades)
    beside.replace(path)


def leaderboard(grades: Iterable[Grade]) -> list[dict[str, object]]:
    """Who has which score in labs that have one, the highest first; equal ones share a rank."""
    scored = sorted(
        (each for each in grades if each.outcome.score is not None),
        key=lambda each: (-round(each.outcome.score or 0.0, 4), each.submission.student),
    )
    board: list[dict[str, object]] = []
    for place, each in enumerate(scored, 1):
        score = round(each.outcome.score or 0.0, 4)
        rank = board[-1]["rank"] if board and board[-1]["score"] == score else place
        board.append(
            {"rank": rank, "student": each.submission.student, "lab": each.submission.lab, "score": score}
        )
    return board


def write_leaderboard(grades: Iterable[Grade], path: Path) -> None:
    """Writes the leaderboard as JSON."""
    beside = path.with_name(path.name + ".new")
    beside.write_text(json.dumps(leaderboard(grades), indent=1) + "\n", encoding="utf-8")
    beside.replace(path)
