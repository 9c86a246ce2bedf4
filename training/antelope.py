"""Antelope's models: for each algorithm gradient-boosted trees that predict the reward it would earn next.

Zhou et al., "Antelope: A Framework for Dynamic Selection of Congestion Control Algorithms", ICNP 2021, section IV-B.

    antelope.py train                     flows on random networks switch at random; writes models
    antelope.py retrain LOG… --models M   goes on from models with what an agent has logged (--antelope-log); a model that
                                          is no better on flows that were kept back stays as it was
    antelope.py vectors [--models M]      writes what XGBoost predicts, which a test in Rust compares with its own
    antelope.py evaluate [--models M]     WAN, data centre and cellular, long flows and short ones, beside each algorithm

A row is what a data unit showed (`DataUnit` in algorithms/src/antelope/unit.rs). Its target is the mean reward, over
time, of the data units that ended between one and `HORIZON_RTTS` + 1 smoothed round trips later under one algorithm,
the one whose model learns the row. The paper's target is the reward of the next data unit: of 20 ACKs, whose packets
were sent before the choice.

The validation networks are never trained on. The same seed gives the same models.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import math
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xgboost

import anole_ccp as anole
import common

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ROOT / "policies/shipped/antelope.json"

ARMS = ["bbr", "c2tcp", "cubic", "illinois", "vegas", "westwood"]
#: Names of a row's values, as logs have them.
FEATURES = ["rtt_ms", "acks", "lost", "time_ms", "pacing_max_kbps", "throughput_kbps", "delay_min_ms"]
#: Round trips over which a reward is predicted, from one round trip after the row on.
HORIZON_RTTS = 16.0
#: Mean round trips between two random switches.
SWITCH_RTTS = 50.0
#: Trees of a model, and what each may be.
TREES = {"max_depth": 4, "eta": 0.15, "subsample": 0.8, "min_child_weight": 20, "tree_method": "hist"}
ROUNDS = 40
#: One flow in so many of a log is kept back to judge by.
HELD_OUT = 5
#: Rows of one run that are kept, drawn at random, so that fast flows do not outweigh the others.
ROWS_PER_RUN = 400

#: Shares of networks with one, two, three and four flows that switch at random; CUBIC may be beside them.
LEARNERS = (0.6, 0.2, 0.1, 0.1)

Rows = dict[str, tuple[np.ndarray, np.ndarray]]


def network(kind: str, random: np.random.Generator) -> dict[str, Any]:
    """A random network of one of the paper's three kinds: keywords of a scenario without flows."""

    def between(low: float, high: float) -> float:
        return round(float(np.exp(random.uniform(math.log(low), math.log(high)))), 4)

    if kind == "dcn":
        link = {
            "capacity_mbps": between(100, 10_000),
            "one_way_delay_ms": between(0.25, 2),
            "buffer_bdp": between(0.05, 1),
        }
        return {"duration_s": 1.0, "link": link}
    if kind == "cellular":
        lte = {"mean_mbps": between(3, 20), "deviation": round(float(random.uniform(0.3, 1.0)), 2)}
        link = {"lte": lte, "one_way_delay_ms": between(10, 50), "buffer_bdp": between(1, 20)}
        return {"duration_s": 20.0, "link": link}
    link = {
        "capacity_mbps": between(4, 60),
        "one_way_delay_ms": between(5, 100),
        "buffer_bdp": between(0.2, 8),
        "random_loss": between(0.001, 0.05) if random.random() < 0.5 else 0.0,
    }
    return {"duration_s": 20.0, "link": link}


def explored(number: int, seed: int) -> list[list[dict[str, Any]]]:
    """Data units of each flow that switches at random on the network with this number."""
    random = np.random.default_rng([seed, number])
    kind = ("wan", "cellular", "wan", "cellular", "dcn")[number % 5]
    keywords = network(kind, random)
    link = keywords["link"]
    mbps = link.get("capacity_mbps") or link["lte"]["mean_mbps"]
    units_per_rtt = mbps * 1e6 / 8 / 1500 * 2e-3 * link["one_way_delay_ms"] / 20
    every = max(8.0, SWITCH_RTTS * units_per_rtt)

    def start() -> float:
        return round(float(random.uniform(0, keywords["duration_s"] / 4)), 2)

    learners = int(random.choice(4, p=LEARNERS)) + 1
    flow: list[dict[str, Any]] = [
        {"alg": "antelope", "under_test": True, "ack_jitter_us": 200, "start_s": start() if learner else 0.0}
        for learner in range(learners)
    ]
    if random.random() < 0.3:
        flow.append({"alg": "cubic", "start_s": start(), "ack_jitter_us": 200})
    scenario = anole.Scenario(name=f"antelope-{kind}", flow=flow, **keywords)
    first = float(random.integers(len(ARMS)))
    params = {"explore": every, "log": 1.0, "first": first}
    result = anole.simulate(scenario, "antelope", params=params, seed=int(random.integers(1, 2**31)))
    return [flow["units"] for flow in result.figures["flows"] if "units" in flow]


def rows_of(units: Sequence[dict[str, Any]], random: np.random.Generator) -> Rows:
    """Rows and targets of one flow's data units, by algorithm."""
    found: dict[str, list[tuple[list[float], float]]] = {arm: [] for arm in ARMS}
    at = np.array([unit["at_s"] for unit in units])
    for index, unit in enumerate(units[:-1]):
        rtt_s = max(unit["srtt_ms"] / 1e3, 1e-3)
        arm = units[index + 1]["arm"]
        begin = int(np.searchsorted(at, unit["at_s"] + rtt_s))
        end = int(np.searchsorted(at, unit["at_s"] + (1 + HORIZON_RTTS) * rtt_s))
        later = units[max(begin, index + 1) : max(end, begin + 1)]
        under = [other for other in units[index + 1 : max(end, begin + 1)] if other["arm"] != arm]
        if not later or under:
            continue
        weights = [other["time_ms"] for other in later]
        if sum(weights) <= 0:
            continue
        reward = float(np.average([other["reward"] for other in later], weights=weights))
        found[arm].append(([unit[name] for name in FEATURES], reward))
    rows: Rows = {}
    total = sum(map(len, found.values()))
    for arm, pairs in found.items():
        if not pairs:
            continue
        keep = min(len(pairs), math.ceil(ROWS_PER_RUN * len(pairs) / total))
        chosen = random.choice(len(pairs), size=keep, replace=False)
        rows[arm] = (
            np.array([pairs[n][0] for n in chosen], dtype=np.float32),
            np.array([pairs[n][1] for n in chosen], dtype=np.float32),
        )
    return rows


def joined(parts: Iterable[Rows]) -> Rows:
    """The rows of several flows."""
    lists: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {arm: [] for arm in ARMS}
    for part in parts:
        for arm, pair in part.items():
            lists[arm].append(pair)
    return {
        arm: (np.concatenate([x for x, _ in pairs]), np.concatenate([y for _, y in pairs]))
        for arm, pairs in lists.items()
        if pairs
    }


def collect(runs: range, seed: int, jobs: int) -> Rows:
    """Rows of many random networks."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        networks = pool.map(lambda number: explored(number, seed), runs)
        return joined(
            rows_of(units, np.random.default_rng([seed, 1, n, flow]))
            for n, flows in zip(runs, networks, strict=True)
            for flow, units in enumerate(flows)
        )


def fit(rows: Rows, seed: int, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """A model for each algorithm, as XGBoost saves it; goes on from the models `before`."""
    models = dict(before or {})
    for arm, (x, y) in rows.items():
        data = xgboost.DMatrix(x, label=y)
        old = None
        if before and arm in before:
            old = xgboost.Booster()
            old.load_model(bytearray(json.dumps(before[arm]).encode()))
        booster = xgboost.train({**TREES, "seed": seed, "nthread": 1}, data, ROUNDS, xgb_model=old)
        models[arm] = json.loads(bytes(booster.save_raw("json")))
    return models


def predict(model: dict[str, Any], x: np.ndarray) -> np.ndarray:
    """What XGBoost predicts."""
    booster = xgboost.Booster()
    booster.load_model(bytearray(json.dumps(model).encode()))
    return np.asarray(booster.predict(xgboost.DMatrix(x)))


def report(models: dict[str, Any], rows: Rows) -> dict[str, dict[str, float]]:
    """Error of each model on rows that it has not seen, and that of the rows' mean."""
    figures = {}
    for arm, (x, y) in rows.items():
        error = float(np.sqrt(np.mean((predict(models[arm], x) - y) ** 2)))
        figures[arm] = {"rows": len(y), "rmse": round(error, 4), "rmse_of_mean": round(float(np.std(y)), 4)}
    return figures


def save(path: Path, models: dict[str, Any], made_by: dict[str, Any]) -> None:
    """Writes a file of boosters, as XGBoost saves them; figures of the training's own are 0, to have it small."""
    for model in models.values():
        for tree in model["learner"]["gradient_booster"]["model"]["trees"]:
            for name in ("base_weights", "loss_changes", "sum_hessian"):
                tree[name] = [0.0] * len(tree["left_children"])
    whole = {"made_by": made_by, "features": FEATURES, "boosters": models}
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(whole, separators=(",", ":")) + "\n", encoding="utf-8")
    os.replace(part, path)


def logged(paths: Sequence[Path]) -> tuple[Rows, Rows]:
    """Rows of the data units that agents logged, one JSON object a line, each with its flow: to learn from, and those of
    every fifth flow, to judge by."""
    flows: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for path in paths:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            sys.exit(f"{path}: no log ({error}); --antelope-log writes one")
        for number, line in enumerate(lines, 1):
            try:
                unit = json.loads(line)
                unit = unit | {name: float(unit[name]) for name in (*FEATURES, "at_s", "reward", "srtt_ms")}
                if unit["arm"] not in ARMS:
                    raise ValueError(f'no law is named "{unit["arm"]}"')
                flows.setdefault((str(path), unit["flow"]), []).append(unit)
            except (ValueError, KeyError, TypeError) as error:
                sys.exit(f"{path}:{number}: no data unit ({error}); --antelope-log writes them")
    if len(flows) < HELD_OUT:
        sys.exit(f"the logs have {len(flows)} flows; {HELD_OUT} are needed, one of them to judge by")
    rows = [rows_of(units, np.random.default_rng(n)) for n, units in enumerate(flows.values())]
    learnt = [part for n, part in enumerate(rows) if n % HELD_OUT != HELD_OUT - 1]
    return joined(learnt), joined(rows[HELD_OUT - 1 :: HELD_OUT])


def better(models: dict[str, Any], before: dict[str, Any], unseen: Rows) -> dict[str, Any]:
    """The new models that are nearer to unseen rewards than the old ones, or of which there was none before; the old ones
    otherwise."""
    chosen = dict(before)
    for arm, (x, y) in unseen.items():
        errors = [
            float(np.mean((predict(each[arm], x) - y) ** 2)) for each in (models, before) if arm in each
        ]
        if arm in models and (arm not in before or errors[0] < errors[1]):
            chosen[arm] = models[arm]
    return chosen


#: The networks of the paper's evaluation (section VI-C) and what a long and a short flow is there, bytes.
SETTINGS: dict[str, dict[str, Any]] = {
    "WAN": {"link": {"capacity_mbps": 11.2, "one_way_delay_ms": 50, "buffer_bdp": 5}, "seconds": 40},
    "DCN": {"link": {"capacity_mbps": 8000, "one_way_delay_ms": 0.5, "buffer_bdp": 0.1}, "seconds": 1},
    "cellular": {
        "link": {
            "lte": {"mean_mbps": 9, "deviation": 0.8},
            "one_way_delay_ms": 20,
            "buffer_packets": 300,
        },
        "seconds": 40,
    },
}
SHORT_BYTES = 100_000


Figures = dict[str, float | None]


def measured(name: str, alg: str, models: Path | None, size: int, seed: int) -> Figures:
    """Throughput, delay and completion of one flow; None where there was nothing to measure."""
    setting = SETTINGS[name]
    flow = {"alg": "cubic", "under_test": True, "ack_jitter_us": 200 if name != "DCN" else 20}
    if size:
        flow["bytes"] = size
    scenario = anole.Scenario(name=name, link=setting["link"], flow=flow, duration_s=setting["seconds"])
    policy = str(models) if models and alg == "antelope" else None
    flow_of = anole.simulate(scenario, alg, policy=policy, seed=seed).flow
    return {"mbps": flow_of.throughput_mbps or 0.0, "owd_ms": flow_of.owd_mean_ms, "fct_s": flow_of.fct_s}


def means(runs: Sequence[Figures]) -> Figures:
    """Means of each figure over the runs that have it; None where none has."""
    found = {key: [run[key] for run in runs if run[key] is not None] for key in runs[0]}
    return {key: float(np.mean(values)) if values else None for key, values in found.items()}


def evaluate(models: Path | None, seeds: range, jobs: int) -> list[dict[str, Any]]:
    """One row for each network, size and algorithm: `means` over the seeds."""
    algorithms = ["antelope", "rein", *ARMS]
    cells = [(name, size, alg) for name in SETTINGS for size in (0, SHORT_BYTES) for alg in algorithms]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        run = {
            (cell, seed): pool.submit(measured, cell[0], cell[2], models, cell[1], seed)
            for cell in cells
            for seed in seeds
        }
        table = []
        for cell in cells:
            each = means([run[cell, seed].result() for seed in seeds])
            table.append({"network": cell[0], "bytes": cell[1], "alg": cell[2], **each})
    return table


def read_models(path: Path) -> dict[str, Any]:
    """The models in a file; what is none ends the program."""
    try:
        models: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["boosters"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"--models {path}: no models of antelope ({error!r}); antelope.py train writes them")
    return models


def vectors(models: dict[str, Any], seed: int) -> dict[str, Any]:
    """Random rows, some with missing values, and XGBoost's predictions."""
    random = np.random.default_rng(seed)
    high = np.array([500, 40, 10, 400, 100_000, 100_000, 200])
    rows = (high * random.random((60, len(FEATURES))) ** 3).astype(np.float32)
    missing = random.random(rows.shape) < 0.03
    rows[missing] = np.nan
    shown = [[None if math.isnan(value) else float(value) for value in row] for row in rows]
    return {"rows": shown, "predicted": {arm: predict(models[arm], rows).tolist() for arm in models}}


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["train", "retrain", "vectors", "evaluate"])
    parser.add_argument("logs", nargs="*", type=Path, help="what agents logged, for retrain")
    parser.add_argument("--models", type=Path, help=f"models to go on from or to evaluate; {SHIPPED.name}")
    parser.add_argument("--out", type=Path, default=Path("antelope.json"), help="the models that are written")
    parser.add_argument("--runs", type=int, default=1000, help="random networks to train on")
    parser.add_argument("--seeds", type=int, default=10, help="runs of each cell of an evaluation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args(argv)
    for flag in ("runs", "seeds", "jobs"):
        if getattr(args, flag) < 1:
            parser.error(f"--{flag} {getattr(args, flag)}: give at least 1")
    if args.command == "evaluate":
        if args.models:
            read_models(args.models)
        for row in evaluate(args.models, range(1, args.seeds + 1), args.jobs):
            print(json.dumps(row, allow_nan=False))
        return
    try:
        args.out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--out: {error}")
    if args.command == "vectors":
        models = read_models(args.models or SHIPPED)
        args.out.write_text(json.dumps(vectors(models, args.seed)) + "\n", encoding="utf-8")
        return
    made_by = {
        "command": " ".join(["training/antelope.py", *(argv or sys.argv[1:])]),
        "version": common.version(),
    }
    if args.command == "train":
        rows, before = collect(range(args.runs), args.seed, args.jobs), None
        unseen = collect(range(1_000_000, 1_000_000 + max(4, args.runs // 8)), args.seed, args.jobs)
    else:
        if not args.logs:
            parser.error("retrain needs the logs of an agent (--antelope-log)")
        before = read_models(args.models or SHIPPED)
        rows, unseen = logged(args.logs)
    models = fit(rows, args.seed, before)
    if before is not None:
        models = better(models, before, unseen)
    save(args.out, models, made_by)
    for arm, figures in report(models, {arm: pair for arm, pair in unseen.items() if arm in models}).items():
        print(json.dumps({"arm": arm, **figures}, allow_nan=False))


if __name__ == "__main__":
    main()
