"""Writes `training/report.md`: how the shipped policies do on links that no training has seen.

    make train
    PYTHONPATH=python .venv/bin/python training/report.py --trace FOLDER/*.down \
        --peer orca-released=orca-released.safetensors

Simulates in this process: random links (`anole_ccp.suite`), recorded traces in Mahimahi's format (`--trace`; none
comes with the repository), two and four flows of one kind, links whose capacity and delay change, a flow beside CUBIC;
and draws the learning curves from `training/logs/`. Peers are released policies that `anole-policy import` made
(`--peer ALGORITHM=FILE`). Every figure in the report comes from this run. `--from FILE` writes the report again from
the figures of an earlier run, without simulating.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

import anole_ccp as anole

mpl.use("svg")
from matplotlib import pyplot

# Or each run would give every curve other ids.
mpl.rcParams["svg.hashsalt"] = "anole-ccp"

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "training"

#: Ranges of `anole-eval suite`, and what is said of them.
RANGES = {
    "random": "The random suite: 1–200 Mbps, 5–200 ms, 0.1–6 BDP, 0–3 % loss, a share of LTE-like traces.",
    "inside": "10–200 Mbps, 10–200 ms, 0.2–4 BDP, up to 2 % loss.",
    "rtt-2x": "As `inside`, 200–400 ms.",
    "loss": "As `inside`, 3–10 % loss.",
    "traces": "LTE-like traces alone.",
    "capacity-2x": "As `inside`, 200–400 Mbps.",
    "capacity-5x": "As `inside`, 400–1000 Mbps.",
}
#: The policies by the algorithm that they drive by themselves.
ALONE = {
    "libra-rl": "libra-rl",
    "orca": "orca",
    "spine": "spine",
    "spine-cubic": "spine-cubic",
    "sage": "sage",
}
STUB = "delay-target"
CLASSICS = ["cubic", "bbr"]
#: Of self-fairness.
ROUND_TRIPS_MS, FLOW_COUNTS = (20, 50, 100, 200), (2, 4)
SEEDS = 3

Contestants = dict[str, str]


def shipped() -> list[str]:
    """Names of the policies in `policies/shipped`, sorted."""
    return sorted(path.stem for path in (ROOT / "policies/shipped").glob("*.safetensors"))


def contestants(peers: list[str]) -> Contestants:
    """What runs, by its name in the report."""
    policies = shipped()
    found = {"anole+libra": "anole+libra"} if "libra" in policies else {}
    found |= {name: name for name, policy in ALONE.items() if policy in policies}
    for peer in peers:
        name, _, file = peer.partition("=")
        if not file or not Path(file).exists():
            raise SystemExit(
                f"error: --peer {peer}: give ALGORITHM=FILE, a file that anole-policy import made"
            )
        found[f"{name.removesuffix('-released')} (released)"] = f"{name}+{file}"
    return found | {f"anole+{STUB}": f"anole+{STUB}"} | {name: name for name in CLASSICS}


def link(**more: Any) -> dict[str, Any]:
    """A link of 48 Mbps, 50 ms and 1 BDP, with changes."""
    return {"capacity_mbps": 48.0, "one_way_delay_ms": 25.0, "buffer_bdp": 1.0} | more


def run(jobs: list[tuple[anole.Scenario, str, int]], threads: int) -> list[anole.Result]:
    """Simulates each: scenario, algorithm, seed."""
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda job: anole.simulate(job[0], job[1], seed=job[2]), jobs))


def recorded(what: Contestants, traces: list[str], threads: int) -> dict[str, Any]:
    """Share of the capacity and queueing delay over each trace: 60 s, 40 ms, 4 BDP of the mean capacity."""
    figures: dict[str, Any] = {}
    for trace in traces:
        over = {"trace": str(Path(trace).resolve()), "one_way_delay_ms": 20.0, "buffer_bdp": 4.0}
        scenario = anole.Scenario(link=over, duration_s=60.0)
        results = run([(scenario, alg, 1) for alg in what.values()], threads)
        figures[Path(trace).name] = {
            name: {
                "utilization": result.links[0].utilization,
                "queue_ms": result.links[0].queue_delay_mean_ms,
                "queue_p95_ms": result.links[0].queue_delay_p95_ms,
                "loss": result.links[0].loss_rate,
            }
            for name, result in zip(what, results, strict=True)
        }
    return figures


def fairness(what: Contestants, threads: int) -> dict[str, Any]:
    """Jain's index and the utilisation of the last 30 of 60 s, flows of one kind that start 5 s apart: 48 Mbps, 1 BDP."""
    figures: dict[str, Any] = {name: {} for name in what}
    for count in FLOW_COUNTS:
        for rtt in ROUND_TRIPS_MS:
            flows = [{"alg": "cubic", "under_test": True, "start_s": 5.0 * n} for n in range(count)]
            over = link(one_way_delay_ms=rtt / 2)
            scenario = anole.Scenario(link=over, flow=flows, duration_s=60.0, warmup_s=30.0)
            results = run([(scenario, alg, 1) for alg in what.values()], threads)
            for name, result in zip(what, results, strict=True):
                mbps = [flow.throughput_mbps or 0.0 for flow in result.flows]
                jain = result.jain_index or 0.0
                used = result.links[0].utilization
                figures[name][f"{count} × {rtt} ms"] = {"jain": jain, "utilization": used, "mbps": mbps}
    return figures


def mean_run(what: Contestants, scenario: anole.Scenario, threads: int) -> dict[str, Any]:
    """Means over seeds of the link's use, its queueing delay, and the first flow's share of what all flows got."""
    results = run([(scenario, alg, seed) for alg in what.values() for seed in range(1, SEEDS + 1)], threads)
    figures = {}
    for n, name in enumerate(what):
        own = results[n * SEEDS : (n + 1) * SEEDS]
        rates = [[flow.throughput_mbps or 0.0 for flow in result.flows] for result in own]
        figures[name] = {
            "utilization": float(np.mean([result.links[0].utilization or 0.0 for result in own])),
            "queue_ms": float(np.mean([result.links[0].queue_delay_mean_ms or 0.0 for result in own])),
            "loss": float(np.mean([result.links[0].loss_rate or 0.0 for result in own])),
            "share": float(np.mean([mbps[0] / max(sum(mbps), 1e-9) for mbps in rates])),
        }
    return figures


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """All figures of the report."""
    what = contestants(args.peer)
    figures: dict[str, Any] = {"links": args.links, "other_links": args.other_links, "seed": args.seed}
    figures |= {"policies": shipped(), "contestants": list(what), "ranges": {}}
    print("recorded traces, fairness, responsiveness, beside CUBIC", file=sys.stderr)
    figures["recorded"] = recorded(what, args.trace, args.threads)
    figures["fairness"] = fairness(what, args.threads)
    responsive = anole.Scenario("responsiveness", duration_s=120.0)
    figures["responsiveness"] = mean_run(what, responsive, args.threads)
    figures["beside"] = mean_run(what, anole.Scenario("beside"), args.threads)
    for ranges in RANGES:
        print(f"suite: {ranges}", file=sys.stderr)
        number = args.links if ranges == "random" else args.other_links
        rows = anole.suite(
            list(what.values()), links=number, seed=args.seed, ranges=ranges, threads=args.threads
        )
        for name, row in zip(what, rows, strict=True):
            row["alg"] = name
        figures["ranges"][ranges] = rows
        # What is measured is kept: a run takes long.
        (HERE / "report.json").write_text(json.dumps(figures, indent=1) + "\n")
    return figures


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def suite_table(rows: list[dict[str, Any]]) -> list[str]:
    """The table of one range."""
    head = ["algorithm", "power", "10th percentile", "utilisation", "10th percentile", "delay mean, ms"]
    return table(
        [*head, "delay p95, ms", "loss"],
        [
            [row["alg"]]
            + [f"{row[key]:.3f}" for key in ("power", "power_p10", "utilization", "utilization_p10")]
            + ["–" if row[key] is None else f"{row[key]:.1f}" for key in ("delay_mean_ms", "delay_p95_ms")]
            + [f"{100 * row['loss_rate']:.2f} %"]
            for row in rows
        ],
    )


def over_traces(figures: dict[str, Any], name: str) -> tuple[float, float, float]:
    """Means over traces: utilisation, queueing delay, and that over CUBIC's."""
    every = [(trace[name], trace["cubic"]) for trace in figures["recorded"].values()]
    used = float(np.mean([own["utilization"] or 0.0 for own, _ in every]))
    queue = [
        float(np.mean([(who["queue_ms"] or 0.0) for who in column])) for column in zip(*every, strict=True)
    ]
    return used, queue[0], queue[0] / max(queue[1], 1e-9)


def verdict(good: bool, text: str) -> str:
    """A figure, and whether it meets its target."""
    return text if good else f"**{text}**"


def targets(figures: dict[str, Any]) -> list[str]:
    """Each shipped policy against its targets; what is missed is bold."""
    rows = []
    power = {row["alg"]: row["power"] for row in figures["ranges"]["random"]}
    names = [name for name in figures["contestants"] if name == "anole+libra" or name in ALONE]
    for name in names:
        row = [name]
        if figures["recorded"]:
            used, _, ratio = over_traces(figures, name)
            row += [verdict(used >= 0.8, f"{100 * used:.0f} %"), verdict(ratio <= 0.5, f"{ratio:.2f}")]
        else:
            row += ["–", "–"]
        four = [cell["jain"] for key, cell in figures["fairness"][name].items() if key.startswith("4 ")]
        used = figures["responsiveness"][name]["utilization"]
        row += [verdict(min(four) >= 0.9, f"{min(four):.2f}"), verdict(used >= 0.7, f"{100 * used:.0f} %")]
        peer = power.get(f"{name} (released)")
        better = peer is None or power[name] > peer
        row += ["–" if peer is None else verdict(better, f"{power[name]:.3f}, released {peer:.3f}")]
        rows.append(row)
    head = [
        "policy",
        "recorded traces ≥ 80 %",
        "delay ≤ 0.5 of CUBIC's",
        "Jain of four ≥ 0.9 (least of four RTTs)",
    ]
    return table([*head, "responsiveness ≥ 70 %", "power, random suite, above the released peer"], rows)


def beyond(figures: dict[str, Any]) -> list[str]:
    """The sections that are no suites."""
    names = figures["contestants"]
    lines = ["", "## Recorded traces", ""]
    if figures["recorded"]:
        lines += [
            "60 s over each, 40 ms, a buffer of 4 BDP of the mean capacity. Share of the capacity, and mean queueing "
            "delay in ms.",
            "",
        ]
        cell = "{:.0f} %, {:.0f} ms".format
        rows = []
        for name in names:
            traces = [trace[name] for trace in figures["recorded"].values()]
            cells = [cell(100 * (trace["utilization"] or 0.0), trace["queue_ms"] or 0.0) for trace in traces]
            used, queue, ratio = over_traces(figures, name)
            rows.append([name, *cells, cell(100 * used, queue), f"{ratio:.2f}"])
        lines += table(["algorithm", *figures["recorded"], "mean", "delay over CUBIC's"], rows)
    else:
        lines += ["None was given (`--trace`)."]
    lines += ["", "## Flows of one kind", "", " ".join((fairness.__doc__ or "").split()), ""]
    settings = list(figures["fairness"][names[0]])
    pairs = [[figures["fairness"][name][setting] for setting in settings] for name in names]
    cells = [
        [f"{one['jain']:.2f}, {100 * (one['utilization'] or 0.0):.0f} %" for one in row] for row in pairs
    ]
    lines += table(["algorithm", *settings], [[name, *row] for name, row in zip(names, cells, strict=True)])
    lines += [
        "",
        "## Responsiveness",
        "",
        "The scenario `responsiveness` for 120 s, three seeds: every 10 s another",
    ]
    lines += ["capacity of 1 to 100 Mbps and another round-trip time of 20 to 200 ms.", ""]
    percent = "{:.1f} %".format
    rows = [
        [name, percent(100 * own["utilization"]), f"{own['queue_ms']:.1f}", percent(100 * own["loss"])]
        for name, own in figures["responsiveness"].items()
    ]
    lines += table(["algorithm", "utilisation", "queueing delay, ms", "loss"], rows)
    lines += [
        "",
        "## Beside CUBIC",
        "",
        "The scenario `beside`: one flow and one of CUBIC, 100 Mbps, 30 ms, 1 BDP.",
    ]
    lines += ["The flow's share of what both got; one half is equal.", ""]
    rows = [
        [name, f"{own['share']:.2f}", f"{own['queue_ms']:.1f}"] for name, own in figures["beside"].items()
    ]
    return lines + table(["algorithm", "share", "queueing delay, ms"], rows)


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
    lines = [
        "# Trained policies on links that no training has seen",
        "",
        "Written by `training/report.py`; each algorithm's figures are those of one run. Each row of a suite: "
        f"{figures['links']} links (the random suite) or {figures['other_links']} (the other ranges), 30 s each, "
        f"seed {figures['seed']}. Power is utilisation / (mean RTT / RTT of a lone packet), Kleinrock's power scaled "
        "to 1 for a link that is always busy and never queues; delay is one way, beyond that of a lone packet.",
        "",
        f"`anole+{STUB}` is Anole with the hand-written stub in its learned slot. `libra-rl`, `orca`, `spine`, "
        "`spine-cubic` and `sage` are the policies driving a flow by themselves; *released* are policies of the "
        "papers' authors.",
        "",
        "## Against the targets",
        "",
        "Bold is missed.",
        "",
        *targets(figures),
        *beyond(figures),
    ]
    for ranges, rows in figures["ranges"].items():
        lines += ["", f"## {ranges}", "", RANGES[ranges], "", *suite_table(rows)]
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
    parser.add_argument("--threads", type=int, default=2, help="simulations at the same time")
    parser.add_argument("--trace", nargs="*", default=[], help="recorded traces in Mahimahi's format")
    parser.add_argument("--peer", action="append", default=[], help="ALGORITHM=FILE: a released policy")
    parser.add_argument("--from", dest="source", help="figures of an earlier run (training/report.json)")
    args = parser.parse_args()
    if args.source:
        figures = json.loads(Path(args.source).read_text())
    else:
        figures = measure(args)
    (HERE / "report.md").write_text(write(figures))
    print(HERE / "report.md")


if __name__ == "__main__":
    main()
