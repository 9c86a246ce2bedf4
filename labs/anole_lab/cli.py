"""The program `anole-lab`."""

from __future__ import annotations

import argparse
import io
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from .check import Outcome, check
from .grade import Grade, grade, leaderboard, passed_over, submissions, write_csv, write_leaderboard
from .lab import PRACTICE_KEY, Lab, labs
from .notebook import notebook
from .sandbox import kernel_refuses, network_is_cut

#: As for the other programs: what cannot be used, and what was tried and not met.
USAGE, FAILED = 2, 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code."""
    given = _parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Whatever a submission raises can be printed.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return int(given.run(given))
    except (OSError, ValueError) as error:
        print(f"anole-lab: {error}", file=sys.stderr)
        return USAGE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="anole-lab", description="Six labs on congestion control.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: object, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.set_defaults(run=run)
        return made

    command("list", _list, "Lists the labs.")
    begun = command("start", _start, "Copies a lab's text and its starter into a folder.")
    begun.add_argument("lab", type=_number)
    begun.add_argument("folder", nargs="?", type=Path, default=Path("."))
    checked = command("check", _check, "Checks a submission: a table, and a picture.")
    checked.add_argument("lab", type=_number)
    checked.add_argument("file", nargs="?", type=Path, help="labNN.py in this folder if left out")
    checked.add_argument(
        "--key", default=PRACTICE_KEY, help="draws other links: the instructor's are hidden by theirs"
    )
    checked.add_argument("--picture", type=Path, help="labNN.svg in this folder if left out")
    checked.add_argument("--json", action="store_true", help="the outcome as JSON, and no picture")
    graded = command("grade", _grade, "Checks a class's submissions, FOLDER/STUDENT/labNN.py.")
    graded.add_argument("folder", type=Path)
    graded.add_argument("--key", required=True, help="a text that students do not know")
    graded.add_argument("--out", type=Path, default=Path("grades.csv"))
    graded.add_argument("--leaderboard", type=Path, help="JSON with the scores of lab 06")
    graded.add_argument("--jobs", type=_jobs, help="checks at a time; as many as there are processors")
    made = command("notebooks", _notebooks, "Writes the labs as Jupyter notebooks.")
    made.add_argument("folder", type=Path)
    return parser


def _number(text: str) -> Lab:
    found = labs().get(text.removeprefix("lab").zfill(2))
    if found is None:
        raise argparse.ArgumentTypeError(f'"{text}" is no lab; there are {", ".join(labs())}')
    return found


def _jobs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'"{text}" is no number of checks; give 1 or more')
    return int(text)


def _list(_: argparse.Namespace) -> int:
    for number, lab in labs().items():
        print(f"{number}  {lab.title}")
    return 0


def _start(given: argparse.Namespace) -> int:
    lab: Lab = given.lab
    given.folder.mkdir(parents=True, exist_ok=True)
    for source, name in ((lab.starter, lab.starter.name), (lab.folder / "README.md", f"lab{lab.number}.md")):
        target = _free(given.folder / name)
        shutil.copyfile(source, target)
        print(target)
    return 0


def _free(target: Path) -> Path:
    if target.exists():
        raise FileExistsError(f"{target} is there already; move it away first")
    return target


def _check(given: argparse.Namespace) -> int:
    lab: Lab = given.lab
    file = given.file or Path(lab.starter.name)
    if file.is_dir():
        raise IsADirectoryError(f"{file} is a folder; name the file, such as {file / lab.starter.name}")
    if not file.is_file():
        made = f"; `anole-lab start {lab.number}` makes it" if file.name == lab.starter.name else ""
        raise FileNotFoundError(f"{file} is not there{made}")
    picture = given.picture or Path(f"lab{lab.number}.svg")
    if picture.suffix != ".svg" or not picture.parent.is_dir():
        raise ValueError(f"--picture {picture}: give a name that ends in .svg, in a folder that is there")
    outcome = check(lab.number, file, key=given.key)
    if given.json:
        print(outcome.json())
    else:
        print(f"{lab.title}\n\n{outcome}")
        if outcome.picture(picture):
            print(f"Picture: {picture}")
    return 0 if outcome.passed else FAILED


def _grade(given: argparse.Namespace) -> int:
    for file in (given.out, given.leaderboard):
        if file and not file.parent.is_dir():
            raise FileNotFoundError(f"{file}: there is no folder {file.parent}")
    handed_in = submissions(given.folder)
    if not handed_in:
        raise ValueError(f"{given.folder} holds no STUDENT/labNN.py")
    for path in passed_over(given.folder, handed_in):
        print(
            f"anole-lab: {path} is not graded: it is no STUDENT/labNN.py, or is behind a link",
            file=sys.stderr,
        )
    if not network_is_cut():
        print("anole-lab: no namespaces are allowed here; submissions' connections are refused in Python alone",
              file=sys.stderr)  # fmt: skip
    missing = [
        name for name, there in zip(("seccomp", "Landlock"), kernel_refuses(), strict=True) if not there
    ]
    if missing:
        print(f"anole-lab: no {' and no '.join(missing)} here; what they refuse is refused in Python alone",
              file=sys.stderr)  # fmt: skip
    begun, done = time.monotonic(), 0

    def told(each: Grade) -> None:
        nonlocal done
        done += 1
        print(
            f"{done} of {len(handed_in)}: {each.submission.student}, lab {each.submission.lab}: {_short(each.outcome)}"
        )

    grades = grade(handed_in, given.key, given.jobs, told)
    write_csv(grades, given.out)
    print(f"{given.out}: {len(grades)} submissions in {time.monotonic() - begun:.0f} s")
    if given.leaderboard:
        write_leaderboard(grades, given.leaderboard)
        for entry in leaderboard(grades)[:10]:
            print(f"{entry['rank']:>4}  {entry['student']}  {entry['score']}")
    return 0


def _short(outcome: Outcome) -> str:
    if outcome.error:
        return outcome.error.splitlines()[0]
    return f"{outcome.met} of {outcome.of} met"


def _notebooks(given: argparse.Namespace) -> int:
    given.folder.mkdir(parents=True, exist_ok=True)
    for lab in labs().values():
        target = _free(given.folder / f"{lab.folder.name}.ipynb")
        target.write_text(notebook(lab), encoding="utf-8")
        print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
