"""Writes `training/report.md`: how the shipped policies do on links that no training has seen.

    make && make train
    .venv/bin/python training/report.py

Runs `anole-eval suite` over the random suite, inside the training range and outside of it, and draws the
learning curves from `training/logs/`. Every figure in the report comes from this run. `--from FILE` writes
the report again from the figures of an earlier run, without simulating.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "training"

#: Ranges of `anole-eval suite`, and what is said of them.
RANGES = {
    "random": "The random suite: 1–200 Mbps, 5–200 ms, 0.1–6 BDP, 0–3 % loss, a share of LTE-like traces.",
    "inside": "Inside the training range.",
    "capacity-2x": "Capacity twice that of training.",
    "capacity-5x": "Capacity five times that of training.",
    "rtt-2x": "Round-trip time twice that of training.",
    "loss": "More random loss than in training.",
    "traces": "LTE-like traces alone.",
}
#: The policies that drive a flow by themselves, by algorithm.
ALONE = {"libra-rl": "libra", "orca": "orca", "spine": "spine", "sage": "sage"}
STUB = "delay-target"


def shipped() -> list[str]:
    """Names of the policies in `policies/shipped`, sorted."""
    return sorted(path.stem for path in (ROOT / "policies/shipped").glob("*.safetensors"))


def suite(program: str, ranges: str, algorithms: list[str], links: int, seed: int) -> list[dict[str, Any]]:
    """One summary per algorithm; the first is compared with each other."""
    command = [program, "suite", "--summary", "--ranges", ranges, "--links", str(links), "--seed", str(seed)]
    done = subprocess.run(
        [*command, "--alg", ",".join(algorithms)], check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def measure(program: str, links: int, other_links: int, seed: int) -> dict[str, Any]:
    """All figures of the report."""
    policies = shipped()
    alone = [algorithm for algorithm, policy in ALONE.items() if policy in policies]
    slot = ["anole+libra"] if "libra" in policies else []
    base = [f"anole+{STUB}", f"libra-rl+{STUB}", "cubic", "bbr"]
    figures: dict[str, Any] = {
        "links": links,
        "other_links": other_links,
        "seed": seed,
        "policies": policies,
        "ranges": {},
    }
    for ranges in RANGES:
        print(f"suite: {ranges}", file=sys.stderr)
        number = links if ranges == "random" else other_links
        figures["ranges"][ranges] = suite(program, ranges, [*slot, *alone, *base], number, seed)
    figures["against_stub"] = {}
    for algorithm in alone:
        rows = suite(program, "random", [algorithm, f"libra-rl+{STUB}"], other_links, seed)
        figures["against_stub"][algorithm] = rows[1]
    return figures


def table(rows: list[dict[str, Any]]) -> list[str]:
    """A Markdown table of one range."""
    lines = [
        "| algorithm | power | 10th percentile | utilisation | 10th percentile | delay mean, ms "
        "| delay p95, ms | loss |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['alg']} | {row['power']:.3f} | {row['power_p10']:.3f} | {row['utilization']:.3f} "
            f"| {row['utilization_p10']:.3f} | {row['delay_mean_ms']:.1f} | {row['delay_p95_ms']:.1f} "
            f"| {100 * row['loss_rate']:.2f} % |"
        )
    return lines


def difference(row: dict[str, Any], key: str) -> str:
    """A paired difference with its interval."""
    value = row[key]
    return f"{value['mean']:+.3f} ({value['low']:+.3f} to {value['high']:+.3f})"


def curves() -> list[str]:
    """Draws the learning curves; gives the Markdown that shows them."""
    lines = []
    for path in sorted((HERE / "logs").glob("*.csv")):
        with path.open() as file:
            rows = list(csv.DictReader(file))
        figure, axes = pyplot.subplots(1, 2, figsize=(9, 2.8), constrained_layout=True)
        offline = path.stem == "sage"
        for ax, wanted, title in (
            (axes[0], ["policy_loss" if offline else "reward"], "training"),
            (axes[1], ["valid_power", "valid_utilisation"], "validation"),
        ):
            for key in wanted:
                points = [(float(r["step"]), float(r[key])) for r in rows if r.get(key)]
                if points:
                    name = key.removeprefix("valid_").replace("_", " ")
                    ax.plot(*zip(*points, strict=True), label=name, linewidth=1)
            ax.set_xlabel("updates" if offline else "environment steps")
            ax.locator_params(axis="x", nbins=7)
            ax.set_title(f"{path.stem}: {title}", fontsize=9)
            ax.legend(fontsize=8)
        folder = HERE / "logs"
        figure.savefig(folder / f"{path.stem}.svg", metadata={"Date": None})
        pyplot.close(figure)
        lines += [f"![{path.stem}](logs/{path.stem}.svg)", ""]
    return lines


def write(figures: dict[str, Any]) -> str:
    """The report."""
    links, seed = figures["links"], figures["seed"]
    lines = [
        "# Trained policies on links that no training has seen",
        "",
        "Written by `training/report.py`; the figures are those of one run. Each row: "
        f"{links} links (the random suite) or {figures['other_links']} (the other ranges, and a policy alone "
        f"against the stub), 30 s each, seed {seed}. Power is utilisation / (mean RTT / RTT of a lone "
        "packet), Kleinrock's power scaled to 1 for a link that is always busy and never queues; delay is "
        "one way, beyond that of a lone packet. Differences are paired over links, with 95 % bootstrap "
        "intervals.",
        "",
        f"`anole+{STUB}` is Anole with the hand-written stub in its learned slot, `libra-rl+{STUB}` that "
        "stub driving a flow by itself. `libra-rl`, `orca`, `spine` and `sage` are the policies driving a "
        "flow by themselves.",
        "",
        "## Against the stub, over the random suite",
        "",
        "| policy | against | power | wins | utilisation |",
        "|---|---|---|---|---|",
    ]
    for row in figures["ranges"]["random"]:
        if row["alg"] == f"anole+{STUB}" and "libra" in figures["policies"]:
            lines.append(
                f"| anole+libra | {row['alg']} | {difference(row, 'first_less_this_power')} "
                f"| {100 * row['first_less_this_power']['wins']:.0f} % "
                f"| {difference(row, 'first_less_this_utilization')} |"
            )
    for algorithm, row in figures["against_stub"].items():
        lines.append(
            f"| {algorithm} | {row['alg']} | {difference(row, 'first_less_this_power')} "
            f"| {100 * row['first_less_this_power']['wins']:.0f} % "
            f"| {difference(row, 'first_less_this_utilization')} |"
        )
    for ranges, about in RANGES.items():
        lines += ["", f"## {ranges}", "", about, "", *table(figures["ranges"][ranges])]
    notes = HERE / "notes.md"
    lines += ["", "## Learning curves", "", *curves()]
    if notes.exists():
        lines += [notes.read_text().rstrip(), ""]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--links", type=int, default=200, help="links of the random suite")
    parser.add_argument("--other-links", type=int, default=60, help="links of each other range")
    parser.add_argument("--seed", type=int, default=1, help="seed of the links")
    parser.add_argument("--program", default=str(ROOT / "anole-eval"), help="anole-eval")
    parser.add_argument("--from", dest="source", help="figures of an earlier run (training/report.json)")
    args = parser.parse_args()
    if args.source:
        figures = json.loads(Path(args.source).read_text())
    else:
        figures = measure(args.program, args.links, args.other_links, args.seed)
        (HERE / "report.json").write_text(json.dumps(figures, indent=1) + "\n")
    (HERE / "report.md").write_text(write(figures))
    print(HERE / "report.md")


if __name__ == "__main__":
    main()
