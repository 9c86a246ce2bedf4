"""What the trainers share: command line, rollouts (here or on Ray), validation, log, checkpoint, export.

What makes an algorithm (network, reward, loss, loop) stands in the trainer's own file.
"""

from __future__ import annotations

import argparse
import copy
import csv
import dataclasses
import os
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

import anole_ccp as anole

#: A log keeps at most this many rows; when it is full, every second one is dropped.
MAX_ROWS = 2000
#: Seed of the validation links. Training seeds are below it (``Arguments.seed`` is checked).
VALIDATION_SEED = 1_000_000

#: Arguments that a resumed run may have others of: the budget, and where files lie.
RESUMED_WITH = {"steps", "minutes", "out", "pool", "resume"}
#: Payload of a packet, bytes, and its share of the size on the wire.
PAYLOAD, PAYLOAD_SHARE = 1448.0, 1448.0 / 1500.0
PACKET_BITS = 12_000.0
#: Capacity that a packet's time is taken at where a cell gives less for a moment: the smallest of the training links.
LEAST_MBPS = 1.0
#: Figures of `privileged`.
KNOWN = 6
#: Shares of the training links whose capacity changes in steps, and that are Wi-Fi; the rest may vary like cells.
STEPS, WIFI = 0.25, 0.15
MOST_TRACES = 1.0 - STEPS - WIFI
#: A rate below this share of the fair one counts as this share, where a logarithm is taken.
LEAST_SHARE = 0.001

Rollout = dict[str, np.ndarray]
Stats = dict[str, np.ndarray]


# --- Command line ---------------------------------------------------------------------------------------


def option(default: Any, text: str) -> Any:
    """A field of an arguments class: its default and its line in ``--help``."""
    return dataclasses.field(default=default, metadata={"help": text})


@dataclasses.dataclass
class Arguments:
    """Arguments that all trainers have."""

    seed: int = option(1, "seed of the weights, the exploration and the links; below 1000000")
    steps: int = option(500_000, "environment steps in all; 0: until --minutes are over")
    minutes: float = option(0.0, "wall-clock budget, for a trial; 0: until --steps are over")
    traces: float = option(0.25, "share of training links whose capacity varies like that of a cell")
    envs: int = option(256, "flows simulated at the same time")
    threads: int = option(1, "threads that simulate, and that PyTorch uses on the CPU")
    device: str = option("cpu", "where the network learns: cpu, cuda, cuda:1 …; rollouts stay on the CPU")
    out: str = option("", "folder of the run; default training/runs/NAME")
    resume: bool = option(False, "go on from the checkpoint in --out")
    checkpoints: int = option(12, "validations and checkpoints in a run")
    validation_envs: int = option(128, "flows of the validation")
    validation_steps: int = option(150, "steps of each of them")
    ray: str = option("", "collect on the Ray cluster at this address (auto, local, ray://HOST:PORT)")
    workers: int = option(2, "Ray actors that share --envs")


def fail(message: str) -> NoReturn:
    """Ends the program with one line on stderr."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(2)


def parse(kind: type[Any], argv: Sequence[str] | None, text: str) -> Any:
    """Reads a command line into a dataclass; every field is a flag. A wrong flag ends the program."""
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.ArgumentDefaultsHelpFormatter, allow_abbrev=False
    )
    for field in dataclasses.fields(kind):
        flag, about = "--" + field.name.replace("_", "-"), field.metadata["help"]
        if isinstance(field.default, bool):
            parser.add_argument(
                flag, default=field.default, help=about, action=argparse.BooleanOptionalAction
            )
        else:
            parser.add_argument(flag, default=field.default, help=about, type=type(field.default))
    args = kind(**vars(parser.parse_args(argv)))
    if args.steps <= 0 and args.minutes <= 0:
        fail("--steps or --minutes has to be more than 0, or the run would never end")
    if not 0 <= args.seed < VALIDATION_SEED:
        fail(f"--seed must be at least 0 and below {VALIDATION_SEED}, where the validation's links begin")
    if args.envs < 1 or args.threads < 1 or args.workers < 1:
        fail("--envs, --threads and --workers must be at least 1")
    if not 0.0 <= args.traces <= MOST_TRACES:
        fail(
            f"--traces {args.traces}: give a share from 0 to {MOST_TRACES:g}; "
            f"{STEPS:.0%} of the links have steps, {WIFI:.0%} are Wi-Fi"
        )
    if args.checkpoints < 1 or args.validation_envs < 1 or args.validation_steps < 1:
        fail("--checkpoints, --validation-envs and --validation-steps must be at least 1")
    try:
        torch.zeros(1, device=args.device)
    except (RuntimeError, AssertionError) as error:
        fail(f"--device {args.device}: {str(error).splitlines()[0]}")
    return args


def seed_all(args: Arguments) -> None:
    """Seeds PyTorch and says so. Exploration and links have seeds derived from the same one."""
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    print(f"seed {args.seed}, device {args.device}, PyTorch {torch.__version__}", file=sys.stderr)


def training_ranges(args: Arguments) -> anole.Ranges:
    """The links that policies are trained on: those of the random suite with up to 10 % of loss, cells (half of them
    busy), Wi-Fi, steps of the capacity and of the round-trip time; up to three more flows of the policy's own kind
    that start one after the other, and CUBIC or BBR beside at times."""
    duration_s = getattr(args, "episode_s", 30.0)
    return anole.Ranges(
        traces=args.traces,
        busy_cells=0.5,
        steps=STEPS,
        wifi=WIFI,
        rtt_steps=0.35,
        # Without it a queue of nothing and one of a packet are told apart as no real path allows.
        ack_jitter_us=(0.0, 400.0),
        loss=(0.0, 0.1),
        own_flows=(0, 3),
        cross_flows=(0, 1),
        cross_algs=("cubic", "bbr"),
        # Among others it is the first at times, and at times one that comes late.
        start_s=(0.0, min(8.0, duration_s / 3.0)),
        duration_s=duration_s,
    )


# --- Rollouts -------------------------------------------------------------------------------------------


class Flows:
    """The flows of several vector environments, stacked in order: a run may mix algorithms. Their peers run the network
    `peer` from the first episodes on."""

    def __init__(self, environments: list[Any], peer: Any) -> None:
        self.environments = environments
        self.set_peer(peer)
        self.obs = np.concatenate([environment.reset() for environment in environments])

    def set_peer(self, network: Any) -> None:
        """Flows of the policy's own kind beside these run this network from their next episodes on."""
        policy = anole.policy_file.content(network.schema, network)
        for environment in self.environments:
            environment.set_peer(policy)

    def window(self) -> np.ndarray:
        """Windows in force at the present questions, bytes, [n]."""
        return np.concatenate([environment.window() for environment in self.environments])

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One step of every flow: observations, statistics, whether the episode has ended. After an end the
        observation is the first one of a new episode, the statistics those of the step that ended it."""
        parts, first = [], 0
        for environment in self.environments:
            parts.append(environment.step(actions[first : first + environment.num_envs]))
            first += environment.num_envs
        obs, stats, done = (np.concatenate([part[i] for part in parts]) for i in range(3))
        self.obs = obs
        return obs, stats, done


class Worker:
    """Flows and a copy of the policy; lives in this process or as a Ray actor.

    `environments(seed, envs)` makes the vector environments, `policy()` the module that acts.
    """

    def __init__(
        self,
        environments: Callable[[int, int], list[Any]],
        policy: Callable[[], nn.Module],
        seed: int,
        envs: int,
        threads: int,
    ) -> None:
        torch.set_num_threads(threads)
        self.environments, self.policy = environments(seed, envs), policy()
        # Begin with the first weights: their peers have those, too.
        self.flows: Flows | None = None
        self.generator = torch.Generator().manual_seed(seed)

    @torch.no_grad()
    def collect(self, weights: dict[str, torch.Tensor], steps: int) -> Rollout:
        """`steps` steps of every flow under these weights. Arrays [steps, N, …]: obs, action, stats, done
        window at the question and what the policy adds; obs has one row more, the observation after the last step."""
        self.policy.load_state_dict(weights)
        if self.flows is None:
            self.flows = Flows(self.environments, self.policy.network)
        else:
            self.flows.set_peer(self.policy.network)
        flows = self.flows
        rows: dict[str, list[np.ndarray]] = {"obs": [flows.obs]}
        for _ in range(steps):
            action, extra = self.policy.act(torch.from_numpy(flows.obs), self.generator)
            extra["window"] = flows.window()
            obs, stats, done = flows.step(action.numpy())
            # A policy with memory forgets a flow whose episode is over.
            if hasattr(self.policy, "ended"):
                self.policy.ended(done)
            row = {"obs": obs, "action": action.numpy(), "stats": stats, "done": done, **extra}
            for name, value in row.items():
                rows.setdefault(name, []).append(np.array(value))
        return {name: np.stack(values) for name, values in rows.items()}


class Workers:
    """One worker in this process, or several Ray actors, behind one `collect`. Flows of all workers are
    stacked along the second axis, so that a learner need not know where they ran."""

    def __init__(
        self,
        args: Arguments,
        environments: Callable[[int, int], list[Any]],
        policy: Callable[[], nn.Module],
        step: int = 0,
    ) -> None:
        # A resumed run draws new links: the environments' state is not part of a checkpoint.
        seed = int(np.random.SeedSequence([args.seed, step]).generate_state(1)[0] % VALIDATION_SEED)
        self.ray = None
        if not args.ray:
            self.local = Worker(environments, policy, seed, args.envs, args.threads)
            return
        self.ray = start_ray(args.ray)
        remote = self.ray.remote(num_cpus=args.threads)(Worker)
        shares = [len(part) for part in np.array_split(np.arange(args.envs), args.workers) if len(part)]
        seeds = [(seed + 7919 * index) % VALIDATION_SEED for index in range(len(shares))]
        self.remote = [
            remote.remote(environments, policy, own, share, args.threads)
            for own, share in zip(seeds, shares, strict=True)
        ]

    def collect(self, weights: dict[str, torch.Tensor], steps: int) -> Rollout:
        """As `Worker.collect`, from all workers."""
        weights = {name: value.detach().cpu() for name, value in weights.items()}
        if self.ray is None:
            return self.local.collect(weights, steps)
        shared = self.ray.put(weights)
        parts = self.ray.get([worker.collect.remote(shared, steps) for worker in self.remote])
        return {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}

    def close(self) -> None:
        """Ends the actors."""
        if self.ray is not None:
            for worker in self.remote:
                self.ray.kill(worker)


def start_ray(address: str) -> Any:
    """Ray, connected. `local` starts one on this machine."""
    try:
        import ray
    except ImportError:
        fail("--ray needs Ray: pip install ray; on one machine leave --ray out")
    here = str(Path(__file__).resolve().parent)
    package = str(Path(anole.__file__).resolve().parents[1])
    path = os.pathsep.join([here, package, *filter(None, [os.environ.get("PYTHONPATH")])])
    for left in (2, 1, 0):
        try:
            ray.init(
                address=address,
                ignore_reinit_error=True,
                include_dashboard=False if address == "local" else None,
                runtime_env={"env_vars": {"PYTHONPATH": path}},
            )
            break
        except Exception as error:
            # Ray gives a node of its own 30 s to start, which a busy machine may take.
            if address != "local" or not left or "timed out during startup" not in str(error):
                raise
            ray.shutdown()
    return ray


def named(stats: np.ndarray) -> Stats:
    """The statistics by name; see `anole.STATS` for names and units."""
    return {name: stats[..., index] for index, name in enumerate(anole.STATS)}


def privileged(stats: np.ndarray) -> np.ndarray:
    """What only the simulator knows about the last interval, scaled to about one: [..., K] to [..., 6]."""
    s = named(stats)
    fair = np.maximum(s["fair_share_mbps"], 1e-3)
    return np.stack(
        [
            np.log(np.clip(s["throughput_mbps"] / fair, LEAST_SHARE, 4.0)),
            np.log(np.clip(s["rtt_ms"] / np.maximum(s["base_rtt_ms"], 1e-3), 1.0, 20.0)),
            np.clip(s["loss_rate"], 0.0, 1.0) * 10.0,
            np.log(fair) / 5.0,
            np.log(np.maximum(s["base_rtt_ms"], 1.0)) / 5.0,
            s["flows"],
        ],
        axis=-1,
    ).astype(np.float32)


def above_fair_share(stats: np.ndarray) -> np.ndarray:
    """By how much a flow among others has more than its fair share, as a share of it: [..., K] to [...]. What
    it has more, others have less."""
    s = named(stats)
    above = s["throughput_mbps"] / np.maximum(s["fair_share_mbps"], 1e-3) - 1.0
    return np.where(s["flows"] > 1.5, np.clip(above, 0.0, 3.0), 0.0)


def smallest_rtt_ms(stats: np.ndarray) -> np.ndarray:
    """The smallest possible round-trip time, that of a packet which is alone: [..., K] to [...]."""
    s = named(stats)
    return s["base_rtt_ms"] + PACKET_BITS / 1e3 / np.maximum(s["capacity_mbps"], LEAST_MBPS)


class FairShare:
    """The fair share, Mbps, as who knew the link would take it to be: smoothed over `span_s`, for what a cell gives in one
    interval and not in the next is no reason to send less."""

    def __init__(self, flows: int, span_s: float = 0.5) -> None:
        self.known, self.span_s = np.full(flows, np.nan), span_s

    def __call__(self, stats: np.ndarray, done: np.ndarray) -> np.ndarray:
        """After each of the steps that ended with these statistics [T, N, K]: [T, N]."""
        s = named(stats)
        out = np.empty(done.shape)
        for t, over in enumerate(done.astype(bool)):
            now = np.maximum(s["fair_share_mbps"][t], 1e-3)
            kept = np.exp(-s["interval_s"][t] / self.span_s)
            self.known = np.where(np.isnan(self.known), now, kept * self.known + (1.0 - kept) * now)
            out[t] = self.known
            self.known = np.where(over, np.nan, self.known)
        return out


def fair_window(stats: np.ndarray, fair: np.ndarray, spare: float) -> np.ndarray:
    """The window, bytes, that the fair share, Mbps, fills on a path without a queue, and `spare` packets: statistics
    [..., K] and [...] to [...]."""
    base_ms = np.maximum(named(stats)["base_rtt_ms"], 1e-3)
    return PAYLOAD_SHARE * fair * 1e3 / 8.0 * base_ms + spare * PAYLOAD


# --- Validation -----------------------------------------------------------------------------------------


def score(stats: np.ndarray) -> dict[str, float]:
    """Means over flows of what each achieved over its steps [T, N, K].

    utilisation: delivered over fair share (at most 1); rtt_ratio: mean round-trip time over `smallest_rtt_ms`;
    power: utilisation over rtt_ratio (Kleinrock's power, 1 at best), where a flow that has more than its
    fair share counts as one that has as many times less; loss: share of packets.
    """
    s = named(stats)
    weight = s["interval_s"]
    delivered = (weight * s["throughput_mbps"]).sum(0)
    possible = (weight * s["fair_share_mbps"]).sum(0)
    share = delivered / np.maximum(possible, 1e-9)
    utilisation = np.minimum(share, 1.0)
    packets = weight * np.maximum(s["throughput_mbps"], 1e-3)
    rtt_ratio = (packets * s["rtt_ms"] / smallest_rtt_ms(stats)).sum(0) / packets.sum(0)
    sent = weight * np.maximum(s["sending_mbps"], 1e-3)
    loss = (sent * s["loss_rate"]).sum(0) / sent.sum(0)
    power = np.minimum(share, 1.0 / np.maximum(share, 1e-9)) / np.maximum(rtt_ratio, 1.0)
    return {
        "utilisation": float(utilisation.mean()),
        "rtt_ratio": float(rtt_ratio.mean()),
        "loss": float(loss.mean()),
        "power": float(power.mean()),
        "power_p10": float(np.quantile(power, 0.1)),
    }


def validate(
    environments: Callable[[int, int], list[Any]],
    act: Callable[[np.ndarray], np.ndarray],
    args: Arguments,
    network: nn.Module,
) -> dict[str, float]:
    """`score` over links that are never trained on, always the same. `act` maps observations to actions of `network`,
    which flows of the policy's own kind beside these run too. All flows take the same number of steps: by time, those
    of short paths would hold up the rest."""
    flows = Flows(environments(VALIDATION_SEED, args.validation_envs), network)
    steps = [flows.step(act(flows.obs))[1] for _ in range(args.validation_steps)]
    return score(np.stack(steps))


def greedy(network: nn.Module) -> Callable[[np.ndarray], np.ndarray]:
    """The network's outputs as actions, computed on the CPU by a copy."""
    here = copy.deepcopy(network).cpu()

    @torch.no_grad()
    def act(obs: np.ndarray) -> np.ndarray:
        return here(torch.from_numpy(obs)).numpy()

    return act


# --- Log, checkpoint, export ----------------------------------------------------------------------------


class Log:
    """Figures of a run, as TensorBoard events and as a CSV file of at most `MAX_ROWS` rows: when it is full,
    every second row goes, validations (columns `valid_…`) excepted."""

    def __init__(self, folder: Path, rows: list[dict[str, float]]) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            fail("TensorBoard is missing: pip install tensorboard")
        self.rows = list(rows)
        self.stride, self.seen = 1, 0
        self.path = folder / "log.csv"
        self.writer = SummaryWriter(str(folder / "tensorboard"))

    def add(self, step: int, values: dict[str, float]) -> None:
        """Notes figures at an environment step."""
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)
        validation = any(name.startswith("valid_") for name in values)
        self.seen += not validation
        if validation or self.seen % self.stride == 0:
            self.rows.append({"step": step, **values})
        if len(self.rows) > MAX_ROWS:
            self.stride *= 2
            self.rows = [row for i, row in enumerate(self.rows) if i % 2 == 0 or "valid_power" in row]

    def save(self) -> None:
        """Writes the CSV file."""
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        part = self.path.with_suffix(".part")
        with part.open("w", newline="") as file:
            table = csv.DictWriter(file, columns, lineterminator="\n")
            table.writeheader()
            for row in self.rows:
                table.writerow({name: f"{value:.6g}" for name, value in row.items()})
        part.replace(self.path)
        self.writer.flush()


class Run:
    """One training run: its folder, its budget, its log, its checkpoints and its policy files.

    `step` counts what `--steps` does, environment steps of all flows or updates; the trainer adds to it. The
    folder holds `checkpoint.pt`, `log.csv`, `tensorboard/`, `NAME-last.safetensors` and `NAME.safetensors`, the
    one that validated best.
    """

    def __init__(
        self,
        name: str,
        args: Arguments,
        argv: Sequence[str] | None,
        ranges: anole.Ranges,
        trainer: str = "",
    ) -> None:
        self.name, self.args, self.ranges = name, args, ranges
        given = list(sys.argv[1:] if argv is None else argv)
        # Where its files lie says nothing about the policy.
        places = {"--out", "--pool"}
        kept = [
            a for i, a in enumerate(given) if not places & {a.partition("=")[0], given[i - 1] if i else ""}
        ]
        # Of the code that trains, whatever is edited meanwhile.
        self.commit = commit()
        #: The command that began it, and those that resumed it.
        self.commands = [shlex.join([f"training/{trainer or name}.py", *kept])]
        self.folder = Path(args.out or f"training/runs/{name}")
        self.step, self.best = 0, 0.0
        elapsed_s, self.state = 0.0, None
        checkpoint = self.folder / "checkpoint.pt"
        if args.resume:
            self.state = load_checkpoint(checkpoint, args)
            self.step, self.best, elapsed_s = (self.state[key] for key in ("step", "best", "elapsed_s"))
            self.commands = [*self.state["commands"], *self.commands]
        elif checkpoint.exists():
            fail(f"{self.folder} holds a run already: go on with --resume, or choose another --out")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            fail(f"--out {self.folder}: {error.strerror}; give a folder that can be made")
        self.start = time.monotonic() - elapsed_s
        if args.resume and self.over():
            fail(
                f"{self.folder}: its budget is used up ({self.step} steps): give a larger --steps or --minutes"
            )
        self.table = Log(self.folder, self.state["rows"] if self.state else [])
        self.saved = int(self.progress() * args.checkpoints)
        self.bar = tqdm(
            total=100, desc=name, bar_format="{desc} {percentage:3.0f}%|{bar:20}| {elapsed} {postfix}"
        )

    # Budget

    def elapsed_s(self) -> float:
        """Seconds of training, those before a resume included."""
        return time.monotonic() - self.start

    def progress(self) -> float:
        """0 at the beginning, 1 when steps or minutes are used up, whichever is nearer to its end."""
        by_steps = self.step / self.args.steps if self.args.steps > 0 else 0.0
        by_time = self.elapsed_s() / (60.0 * self.args.minutes) if self.args.minutes > 0 else 0.0
        return min(1.0, max(by_steps, by_time))

    def over(self) -> bool:
        """True when the budget is used up."""
        return self.progress() >= 1.0

    # State

    def restore(self, parts: dict[str, Any]) -> None:
        """Gives the parts (modules, optimisers: what has `load_state_dict`) their state of the checkpoint,
        and PyTorch its random state; does nothing in a new run."""
        if self.state is None:
            return
        for name, part in parts.items():
            part.load_state_dict(self.state["parts"][name])
        torch.set_rng_state(self.state["random"]["cpu"])
        if self.args.device.startswith("cuda") and "device" in self.state["random"]:
            torch.cuda.set_rng_state(self.state["random"]["device"], self.args.device)
        self.state = None

    def due(self) -> bool:
        """True when a validation and a checkpoint are due."""
        return int(self.progress() * self.args.checkpoints) > self.saved

    def validated(self, figures: dict[str, float], network: nn.Module, parts: dict[str, Any]) -> None:
        """Notes a validation, exports the network if it is the best so far, writes a checkpoint."""
        self.saved = int(self.progress() * self.args.checkpoints)
        self.table.add(self.step, {f"valid_{name}": value for name, value in figures.items()})
        tqdm.write(f"{self.name} step {self.step}: " + ", ".join(f"{k} {v:.3f}" for k, v in figures.items()))
        if figures["power"] > self.best:
            self.best = figures["power"]
            self.export(self.folder / f"{self.name}.safetensors", network, figures)
        self.checkpoint(parts)

    def checkpoint(self, parts: dict[str, Any]) -> None:
        """Writes everything but the environments: a resumed run goes on with new episodes on new links. The
        file is whole or not there."""
        random = {"cpu": torch.get_rng_state()}
        if self.args.device.startswith("cuda"):
            random["device"] = torch.cuda.get_rng_state(self.args.device)
        state = {
            "parts": {name: part.state_dict() for name, part in parts.items()},
            "random": random,
            "step": self.step,
            "best": self.best,
            "elapsed_s": self.elapsed_s(),
            "rows": self.table.rows,
            "arguments": dataclasses.asdict(self.args),
            "commands": self.commands,
        }
        part = self.folder / "checkpoint.part"
        torch.save(state, part)
        part.replace(self.folder / "checkpoint.pt")
        self.table.save()

    def log(self, figures: dict[str, float]) -> None:
        """Notes the figures of an iteration."""
        self.table.add(self.step, {**figures, "steps_per_s": self.step / max(self.elapsed_s(), 1e-9)})
        self.bar.set_postfix_str(f"step {self.step}, reward {figures['reward']:.3f}", refresh=False)
        self.bar.update(int(100 * self.progress()) - self.bar.n)

    def export(self, path: Path, network: nn.Module, figures: dict[str, float]) -> None:
        """Writes a policy file; `figures` are those of its validation."""
        training = {
            "steps": self.step,
            "commit": self.commit,
            "ranges": dataclasses.asdict(self.ranges),
            "validation": {name: round(value, 4) for name, value in figures.items()},
        }
        program = f"anole-ccp {version()} {' && '.join(self.commands)}"
        anole.policy_file.save(
            path, network.schema, network, training=training, seed=self.args.seed, trained_by=program
        )

    def finish(self, network: nn.Module, parts: dict[str, Any]) -> None:
        """Writes the last checkpoint and the last network."""
        self.checkpoint(parts)
        self.export(self.folder / f"{self.name}-last.safetensors", network, {})
        self.bar.close()


def version() -> str:
    """Version of the code that trains."""
    manifest = tomllib.loads((Path(__file__).resolve().parents[1] / "Cargo.toml").read_text())
    return manifest["workspace"]["package"]["version"]


def commit() -> str:
    """The commit of the code that trains, with `+` behind it where files that git knows differ from it."""
    here = Path(__file__).resolve().parent

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    try:
        found = git("rev-parse", "--short=12", "HEAD")
        return found + ("+" if found and git("status", "--porcelain", "--untracked-files=no") else "")
    except FileNotFoundError:
        return ""


def flag_of(name: str, value: Any) -> str:
    """An argument as a command line gives it."""
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    return f"--{flag} {shlex.quote(str(value))}"


def load_checkpoint(path: Path, args: Arguments) -> dict[str, Any]:
    """A checkpoint of `Run.checkpoint`, whose run had the same arguments, `RESUMED_WITH` excepted."""
    if not path.exists():
        fail(f"{path} is not there: leave --resume out to begin a run")
    state = torch.load(path, map_location="cpu", weights_only=True)
    if "commands" not in state:
        fail(f"{path} is of another version of the trainer: begin another run with another --out")
    begun, given = state["arguments"], dataclasses.asdict(args)
    for name in sorted({*begun, *given} - RESUMED_WITH):
        if begun.get(name) != given.get(name):
            was, now = (flag_of(name, values.get(name)) for values in (begun, given))
            fail(
                f"{path} was begun with {was}, not {now}: go on with that, or begin another run with another --out"
            )
    return state
