#!/usr/bin/env python3
"""Makes the tables of figures in the docs anew, with the commit of the program that made them.

tools/tables.py                      all of them but `any-link`: simulated, a quarter of an hour on two cores
tools/tables.py overview classics    these
sudo tools/tables.py any-link        with real packets too: seven minutes of an idle machine

A table stands between the lines `<!-- tools/tables.py NAME -->` and `<!-- end -->`, and holds nothing else. `make` builds
the program: commit first, for the commit named is the last one before that.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SCENARIOS = ROOT / "evaluation" / "scenarios"

Line = dict[str, Any]
#: Runs the program with these arguments and gives its JSON lines.
Run = Callable[..., list[Line]]


def row(cells: Iterable[str]) -> str:
    """A line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def table(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    """The lines of a Markdown table."""
    return [row(head), "|" + "---|" * len(head), *map(row, rows)]


def figures(lines: list[Line]) -> dict[str, float]:
    """What a reproduction printed: the mean of each figure by its name."""
    return {line["what"]: line["mean"] for line in lines}


def overview(run: Run) -> list[str]:
    """Every algorithm on eight links: its order is the order of the page."""
    found = figures(run("reproduce", "overview"))
    links = ["normal", "0.1 % loss", "long", "shallow", "LTE", "swings"]
    first = f"utilisation, {links[0]}, "
    algorithms = [what.removeprefix(first) for what in found if what.startswith(first)]

    def cells(alg: str) -> list[str]:
        pairs = [
            [found[f"{what}, {link}, {alg}"] for what in ("utilisation", "p95 queueing delay")]
            for link in links
        ]
        shares = [f"{found[f'Jain, four flows, {alg}']:.3f}", f"{found[f'share beside CUBIC, {alg}']:.0f}"]
        return [f"`{alg}`", *(f"{used:.0f}, {delay:.0f}" for used, delay in pairs), *shares]

    return table(["algorithm", *links, "four flows, Jain", "beside CUBIC, %"], map(cells, algorithms))


def conformance(run: Run) -> list[str]:
    """Mbps of every algorithm in every case."""
    found = run("conformance")
    cases = list(dict.fromkeys(line["case"] for line in found))
    rows: dict[str, list[str]] = {}
    for line in found:
        cell = f"{line['mbps']:.1f}{' ✗' if line['missed'] else ''}"
        rows.setdefault(line["alg"], [f"`{line['alg']}`"]).append(cell)
    return table(["algorithm", *cases], rows.values())


LAWS = [
    "allegro",
    "bbr",
    "bbr3",
    "c2tcp",
    "copa",
    "cubic",
    "illinois",
    "reno",
    "track",
    "vegas",
    "vivace",
    "westwood",
]


class Setting(NamedTuple):
    """A scenario, what is changed in it, and the cell that its run makes."""

    name: str
    scenario: str
    changes: list[str]
    cell: Callable[[Line], str]


def alone(line: Line) -> str:
    """Mbps, mean queueing delay in ms and loss in % of one flow."""
    (flow,), (link, *_) = line["flows"], line["links"]
    return f"{flow['throughput_mbps']:.1f}, {link['queue_delay_mean_ms']:.1f}, {100 * link['loss_rate']:.2f}"


def among_itself(line: Line) -> str:
    """Jain's index of several flows, and the mean queueing delay, ms."""
    return f"{line['jain_index']:.2f}, {line['links'][0]['queue_delay_mean_ms']:.0f}"


def beside(line: Line) -> str:
    """Mbps of the first flow."""
    return f"{line['flows'][0]['throughput_mbps']:.0f}"


CLASSICS = [
    Setting("normal", "anole-normal", [], alone),
    Setting("loss 0.1 %", "anole-loss", [], alone),
    Setting("buffer 0.2 BDP", "anole-normal", ["bottleneck.buffer_bdp=0.2"], alone),
    Setting("four flows", "anole-fig9", ["duration_s=60", "warmup_s=20"], among_itself),
    Setting("beside CUBIC", "coexistence", ["duration_s=60", "warmup_s=10"], beside),
    Setting("LTE", "lte", [], alone),
]


def classics(run: Run) -> list[str]:
    """One flow of each law alone, four of them, and one beside CUBIC."""

    def cells(law: str) -> list[str]:
        made = [f"`{law}`"]
        for setting in CLASSICS:
            changes = [word for change in setting.changes for word in ("--set", change)]
            (line,) = run("sim", str(SCENARIOS / f"{setting.scenario}.toml"), "--alg", law, *changes)
            made.append(setting.cell(line))
        return made

    return table(["law", *(setting.name for setting in CLASSICS)], map(cells, LAWS))


#: The seed of the random links: one that no choice was made with.
DRAWN = 2771326875
ATTACKED = ["anole", "cubic", "bbr", "vegas", "libra-rl", "orca", "sage", "spine", "spine-cubic", "antelope"]
FAMILIES = ["swings", "jitter", "service", "cross", "paths", "queues", "starts"]
WORST = 10


def attacks(run: Run, families: list[str], budget: int) -> list[Line]:
    """Random links of these families, tried by every algorithm of the table."""
    words = ["--alg", ",".join(ATTACKED), "--family", ",".join(families), "--budget", str(budget)]
    return run("adversary", *words, "--seed", str(DRAWN), "--finds", "0", "--worst", str(WORST))


def adversary(run: Run) -> list[str]:
    """How many random links of each family are below the floor, and the worst of each algorithm."""
    found = [*attacks(run, FAMILIES, 80), *attacks(run, ["crowds"], 20)]
    cells: dict[str, list[str]] = {}
    worst: dict[str, list[tuple[float, str]]] = {alg: [] for alg in ATTACKED}
    for line in found:
        if line["kind"] == "robustness":
            of = cells.setdefault(line["family"], [f"{line['family']} ({line['links']})"])
            of.append(f"{100 * line['below']:.0f} %, {line['worst']:.2f}")
        elif line["kind"] == "worst":
            worst[line["alg"]].append((100 * line["score"] / line["floor"], line["family"]))
    names = [f"`{alg}`" for alg in ATTACKED]
    shares = [
        ", ".join(f"{family} {share:.1f}" for share, family in sorted(worst[alg])[:WORST]) for alg in ATTACKED
    ]
    return [
        *table(["family (links)", *names], cells.values()),
        "",
        f"The worst {WORST} of each algorithm, by the score's share of the floor, %:",
        "",
        *table(["algorithm", "families and shares"], map(list, zip(names, shares, strict=True))),
    ]


def any_link(run: Run) -> list[str]:
    """Anole on eight links: simulated, over QUIC and on Linux TCP."""
    carriers = {"simulation": [], "QUIC": ["--datapath", "quic"], "Linux TCP": ["--datapath", "kernel"]}
    experiment = ["reproduce", "anole-any-link", "--quick", "--seeds", "3", "--alone"]
    found = [{line["what"]: line for line in run(*experiment, *words)} for words in carriers.values()]
    first = "utilisation, "
    links = [what.removeprefix(first) for what in found[0] if what.startswith(first)]

    def cell(of: dict[str, Line], link: str) -> str:
        used, delay, loss = (of[f"{what}, {link}"] for what in ("utilisation", "mean queueing delay", "loss"))
        jain = of.get(f"Jain's index, {link}")
        shared = f"; {jain['mean']:.2f}" if jain else ""
        return (
            f"{used['mean']:.1f} ± {used['deviation']:.1f}, {delay['mean']:.1f}, {loss['mean']:.2f}{shared}"
        )

    return table(["link", *carriers], ([link, *(cell(of, link) for of in found)] for link in links))


class Page(NamedTuple):
    """Where a table stands, and what makes it."""

    page: str
    make: Callable[[Run], list[str]]


TABLES = {
    "overview": Page("README.md", overview),
    "conformance": Page("docs/conformance.md", conformance),
    "classics": Page("docs/classics.md", classics),
    "adversary": Page("docs/adversary.md", adversary),
    "any-link": Page("docs/anole/results.md", any_link),
}


def put(text: str, name: str, lines: list[str]) -> str:
    """A page with these lines as its table of this name."""
    begin, end = f"<!-- tools/tables.py {name} -->\n", "<!-- end -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        sys.exit(f"tools/tables.py: the page for {name} has no lines {begin.strip()!r} and {end!r}")
    return before + begin + "\n".join(["", *lines, ""]) + "\n" + end + after


def commit(version: str) -> str:
    """The commit that a version of the program names."""
    named = re.fullmatch(r"[^+]*\+([0-9a-f]{7})[0-9a-f]*", version)
    if not named:
        sys.exit(f"tools/tables.py: the program's version, {version!r}, names no commit: build it in a clone")
    return named[1]


def main() -> None:
    """Makes the tables that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ", ".join(TABLES)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{names}; all but any-link if left out")
    parser.add_argument(
        "--program", type=Path, default=ROOT / "anole-eval", help="anole-eval; default: what `make` built"
    )
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in TABLES]
    if unknown:
        parser.error(f"no table {unknown[0]!r}: there are {names}")
    if not given.program.exists():
        parser.error(f"no {given.program}: `make` builds it, --program names another")

    def run(*words: str) -> list[Line]:
        command = [str(given.program.resolve()), *words, "--json"]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=folder)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        # A conformance with a case missed ends with 1 and has told all of them.
        if not lines or (done.returncode != 0 and words[0] != "conformance"):
            sys.exit(f"tools/tables.py: {' '.join(command)} ended with {done.returncode}")
        return lines

    version = subprocess.run(
        [given.program.resolve(), "--version"], capture_output=True, text=True, check=True
    ).stdout
    made_by = commit(version.split()[-1])
    for name in given.names or [name for name in TABLES if name != "any-link"]:
        page, make = TABLES[name]
        lines = [f"Commit {made_by}.", "", *make(run)]
        path = ROOT / page
        path.write_text(put(path.read_text(encoding="utf-8"), name, lines), encoding="utf-8")
        print(f"{page}: {name}")


if __name__ == "__main__":
    main()
