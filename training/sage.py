"""Sage: a recurrent policy learned offline from a pool of classic algorithms.

Yen et al., *Computers Can Learn from the Heuristic Designs and Master Internet Congestion Control* (SIGCOMM
2023): trajectories of classic algorithms over many links are recorded once; a policy (69 inputs, GRU,
mixture of Gaussians over the window's change in 20 ms) is regressed on their actions, each weighted by what
a critic thinks of it (Wang et al., *Critic Regularized Regression*, NeurIPS 2020).

The pool: every algorithm drives the same links, alone or beside CUBIC or BBR. `--pool-algorithms` run as they
are, observed by a tap that measures them as it would measure the policy. `fast` is FAST TCP (Jin et al.,
INFOCOM 2004) with random target and gain, computed here every 20 ms: its changes are a smooth function of what
is observed, while the others mostly change nothing within 20 ms, and its spread of targets gives the critic
something to compare.
Now and then a kick moves its window off (noise injection, Laskey et al., *DART*, CoRL 2017), so that the
pool shows how a flow comes back from where an imperfect policy may find itself; the policy does not
regress on the kicks.

The action is log2 of the window's growth per 20 ms, averaged over the round-trip time to come: an algorithm
that acts once per round trip shows zero in most intervals, and a policy that regresses on zeros stays put.

Reward of 20 ms: the delivered share of the fair share (at most 1) times smallest possible over present round-trip time,
minus ζ times the loss rate. That is Sage's power; beside other flows the fair share makes it Sage's second,
friendly reward at the same time.

Where this deviates from the paper, and why:
- Sized to train in minutes on a few cores (units of 128, a pool of hours instead of years of simulated
  time); `--hidden 512` for a larger one.
- The critics are two plain networks over what the simulator knows, with returns over ten steps of the pool,
  instead of one distributional network with memory: one 20 ms action is too small to be told apart by one
  step. They are not deployed.
- An action's weight also counts how its trajectory fared against the others on the same link: that needs no
  critic, and is what makes a short training choose.
- The rest of the run (`--corrected`) is not offline: the policy drives links, beside up to three more flows of its own kind,
  and learns what who knew the fair share would have done there (DAgger, Ross et al. 2011). A pool has no flows that answer
  a policy that is not there yet: from the pool alone four flows of the policy share as they happen to start.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from tqdm import tqdm

import anole_ccp as anole
import common
from common import fail, option

#: Width of `privileged`.
KNOWN = 8
#: Bounds of the logarithm of a component's standard deviation. Without the lower one the many exact zeros of
#: classic algorithms outweigh everything else.
LOG_STD = (-4.0, -0.5)
#: Algorithms whose pacing rate governs: what they send in a round-trip time stands for their window.
PACED = ("bbr",)
#: Of the schema: a decision.
INTERVAL_MS = 20.0
#: Columns of a pool.
COLUMNS = ("obs", "known", "action", "reward", "own")


@dataclasses.dataclass
class Arguments(common.Arguments):
    """Arguments of this trainer; those of every trainer are in `common.Arguments`."""

    steps: int = option(10_000, "gradient updates in all; 0: until --minutes are over")
    pool: str = option("", "the pool's file, recorded first if it is not there; default OUT/pool.npz")
    pool_algorithms: str = option(
        "cubic,reno,vegas,fast,fast,fast,fast", "what drives the pool's links, each all of them"
    )
    links: int = option(384, "links of the pool")
    validation_steps: int = option(600, "steps of each of them")
    episode_s: float = option(15.0, "length of a trajectory, s of simulated time")
    hidden: int = option(128, "units of every hidden layer; others than 128 give a policy sage-N")
    learning_rate: float = option(3e-4, "Adam's step for policy and critics")
    gamma: float = option(0.99, "discount per 20 ms")
    tau: float = option(0.005, "share of the learned weights that the targets take over per update")
    averaging: float = option(0.002, "the same for the average of the policy's weights, which is served")
    batch: int = option(64, "sequences per update")
    burn_in: int = option(8, "steps that only warm up the hidden state")
    sequence: int = option(24, "steps that are learned from, after the burn-in")
    round: int = option(20, "updates between two rows of the log")
    lookahead: int = option(10, "steps of the pool's reward before the critic's estimate")
    advantage_scale: float = option(1.0, "beta: an advantage of this many standard deviations weighs e")
    trajectory_weight: float = option(1.0, "weight of a trajectory's standing among those on its link")
    loss_weight: float = option(2.0, "zeta, the weight of the loss rate")
    corrected: float = option(0.7, "share of the run, its last, in which the policy drives and is corrected")
    spare: float = option(8.0, "packets that the fair share's window has beyond the path's product")
    correction_rate: float = option(1e-3, "Adam's step for the policy at that time")
    replay: int = option(256_000, "intervals of all flows that are kept then")
    collect: int = option(32, "intervals of every flow between two rounds of updates")


# --- reward and privileged knowledge --------------------------------------------------------------------


def reward_of(stats: np.ndarray, loss_weight: float) -> np.ndarray:
    """Reward of 20 ms: stats [..., len(anole.STATS)] to [...]."""
    s = common.named(stats)
    share = np.minimum(s["throughput_mbps"] / np.maximum(s["fair_share_mbps"], 1e-3), 1.0)
    ratio = np.maximum(s["rtt_ms"] / common.smallest_rtt_ms(stats), 1.0)
    return (share / ratio - loss_weight * s["loss_rate"]).astype(np.float32)


def privileged(stats: np.ndarray) -> np.ndarray:
    """What only the simulator knows, scaled to about one: stats [..., K] to [..., KNOWN]."""
    s = common.named(stats)
    fair, base = np.maximum(s["fair_share_mbps"], 1e-3), np.maximum(s["base_rtt_ms"], 1e-3)
    columns = [
        np.minimum(s["throughput_mbps"] / fair, 4.0),
        np.clip(s["rtt_ms"] / base - 1.0, 0.0, 10.0),
        np.minimum(10.0 * s["loss_rate"], 5.0),
        100.0 * s["random_loss"],
        np.log(fair) / 3.0,
        np.log(base) / 3.0,
        np.log(fair * base) / 3.0,
        s["flows"] / 2.0,
    ]
    return np.stack(columns, axis=-1).astype(np.float32)


# --- pool -----------------------------------------------------------------------------------------------


class Fast:
    """FAST TCP with random parameters on each flow: once per round trip the window goes to
    (1 − γ)·w + γ·(w·base/RTT + α), less something for losses; it doubles per round trip until a queue or a
    loss appears. α is some packets and a share of the window, so that fast paths are filled as soon.
    Every two seconds or so a kick changes the window to between 1/16 and 4 times itself within some
    intervals; a round trip after one downwards it begins again."""

    def __init__(
        self, flows: int, rng: np.random.Generator, interval_ms: float = INTERVAL_MS, kicks: float = 0.01
    ) -> None:
        self.gain = np.exp(rng.uniform(np.log(0.2), np.log(1.0), flows))
        self.packets = np.exp(rng.uniform(np.log(0.5), np.log(4.0), flows))
        self.share = np.exp(rng.uniform(np.log(0.02), np.log(0.2), flows))
        self.back_off = rng.choice([0.0, 0.5, 1.0, 2.0], flows)
        self.noise, self.rng, self.interval = 0.02 * rng.random(flows), rng, interval_ms
        self.starting = np.ones(flows, bool)
        self.kicks, self.kick = kicks, np.zeros(flows)
        self.left, self.wait = np.zeros(flows, np.int64), np.zeros(flows, np.int64)

    def act(self, stats: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log2 of the window's growth over the next interval, and whether it is the algorithm's own and no
        kick: stats [N, K] to [N], [N]."""
        s = common.named(stats.astype(np.float64))
        rtt = np.maximum(s["rtt_ms"], 1.0)
        base = np.minimum(np.maximum(s["base_rtt_ms"], 1.0), rtt)
        window = np.maximum(s["throughput_mbps"] * rtt / 12.0, 2.0)
        per_rtt = np.minimum(self.interval / rtt, 1.0)
        self.starting &= (rtt < 1.15 * base + 12.0 / np.maximum(s["fair_share_mbps"], 0.1)) & (
            s["loss_rate"] < 0.1
        )
        target = base / rtt + self.share + self.packets / window - self.back_off * s["loss_rate"]
        steady = np.log2(np.maximum(1.0 + self.gain * per_rtt * (target - 1.0), 0.25))
        action = np.where(self.starting, per_rtt, steady) + self.noise * self.rng.standard_normal(len(rtt))
        kicked = self.kicked(np.ceil(1.0 / per_rtt).astype(np.int64))
        return np.clip(np.where(kicked, self.kick, action), -1.0, 1.0).astype(np.float32), ~kicked

    def kicked(self, round_trip: np.ndarray) -> np.ndarray:
        """Whose window a kick moves in this interval: intervals of a round trip [N] to [N]."""
        flows = len(self.left)
        begins = (self.left == 0) & (self.rng.random(flows) < self.kicks)
        self.left = np.where(begins, self.rng.integers(1, 5, flows), np.maximum(self.left - 1, 0))
        self.kick = np.where(begins, self.rng.uniform(-1.0, 0.5, flows), self.kick)
        down = begins & (self.kick < 0.0)
        self.wait = np.where(down, self.left + round_trip, np.maximum(self.wait - 1, 0))
        self.starting |= self.wait == 1
        return self.left > 0


def pool_ranges(args: Arguments) -> anole.Ranges:
    """The links of the pool: those that the policy drives later, but without flows of a policy that is not there yet."""
    return common.training_ranges(args).replace(own_flows=(0, 0))


def environments(
    args: Arguments, seed: int, envs: int, algorithm: str = "sage", ranges: anole.Ranges | None = None
) -> list[Any]:
    """Flows that the policy drives, or that it watches while another algorithm drives them."""
    make = anole.VectorEnv if algorithm == "sage" else anole.TapEnv
    return [
        make(
            schema=sized(args.hidden),
            algorithm=algorithm,
            n=envs,
            threads=args.threads,
            ranges=ranges or common.training_ranges(args),
            seed=seed,
            episode_s=args.episode_s,
        )
    ]


def growth(
    window: np.ndarray, rtt_ms: np.ndarray, length: np.ndarray, interval_ms: float = INTERVAL_MS
) -> np.ndarray:
    """log2 of the window's growth per interval over the round trip that follows, as far as the episode goes: [steps, links]
    of windows at the questions and round-trip times, and lengths of the episodes [links], to [steps, links]."""
    steps = len(window)
    ahead = np.clip(np.ceil(rtt_ms / interval_ms), 1, 25).astype(np.int64)
    end = np.minimum(np.arange(steps)[:, None] + ahead, length - 1)
    later = np.take_along_axis(window, end, axis=0)
    per = np.maximum(end - np.arange(steps)[:, None], 1)
    ratio = np.maximum(later, 1.0) / np.maximum(window, 1.0)
    return np.clip(np.log2(ratio) / per, -1.0, 1.0).astype(np.float32)


def record(args: Arguments, algorithm: str, number: int) -> dict[str, np.ndarray]:
    """One trajectory of this algorithm, the pool's `number`th, on every link: `COLUMNS` as [links, steps, …],
    and length [links]."""
    rng = np.random.default_rng([args.seed, number])
    policy = Fast(args.links, rng) if algorithm == "fast" else None
    driver = "sage" if policy else algorithm
    env = environments(args, args.seed, args.links, driver, pool_ranges(args))[0]
    obs = env.reset()
    stats, known = None, np.zeros((args.links, KNOWN), np.float32)
    length, over = np.zeros(args.links, np.int64), np.zeros(args.links, bool)
    rows: dict[str, list[np.ndarray]] = {name: [] for name in (*COLUMNS, "window", "rtt")}
    bar = tqdm(desc=f"pool: {algorithm}", unit=" steps")
    while not over.all():
        rows["obs"].append(obs.astype(np.float16))
        rows["known"].append(known.astype(np.float16))
        if policy and stats is not None:
            action, own = policy.act(stats)
        else:
            action, own = np.zeros(args.links, np.float32), np.ones(args.links, bool)
        rows["own"].append(own)
        if policy:
            rows["action"].append(action)
            obs, stats, done = env.step(action[:, None])
        else:
            window = env.window()
            obs, stats, done = env.step()
            s = common.named(stats)
            rows["window"].append(s["sending_mbps"] * s["rtt_ms"] if algorithm in PACED else window)
            rows["rtt"].append(s["rtt_ms"])
        known = privileged(stats)
        rows["reward"].append(reward_of(stats, args.loss_weight))
        length += ~over
        over |= done.astype(bool)
        bar.update()
    bar.close()
    if not policy:
        rows["action"] = list(growth(np.stack(rows["window"]), np.stack(rows["rtt"]), length))
    return {name: np.stack(rows[name]).swapaxes(0, 1) for name in COLUMNS} | {"length": length}


def make_pool(args: Arguments, path: Path) -> dict[str, np.ndarray]:
    """The pool: `COLUMNS` as [trajectories, steps, …], those of an algorithm after those of another, and
    length [trajectories]. Read if the file is there, else recorded (on Ray: an algorithm per task) and
    written; the file is whole or not there."""
    if path.exists():
        return read_pool(args, path)
    names = args.pool_algorithms.split(",")
    check_drivers(names)
    if args.ray:
        ray = common.start_ray(args.ray)
        task = ray.remote(num_cpus=args.threads)(record)
        parts = ray.get([task.remote(args, name, number) for number, name in enumerate(names)])
    else:
        parts = [record(args, name, number) for number, name in enumerate(names)]
    steps = max(part["action"].shape[1] for part in parts)
    pool = {"length": np.concatenate([part["length"] for part in parts])}
    for name in COLUMNS:
        shape = (len(pool["length"]), steps, *parts[0][name].shape[2:])
        pool[name] = np.zeros(shape, parts[0][name].dtype)
        for number, part in enumerate(parts):
            pool[name][number * args.links :][: args.links, : part[name].shape[1]] = part[name]
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part.npz")
    np.savez(unfinished, key=pool_key(args), **pool)
    unfinished.replace(path)
    return pool


def read_pool(args: Arguments, path: Path) -> dict[str, np.ndarray]:
    """The pool in this file. What is none, or has other arguments, ends the program."""
    try:
        with np.load(path) as file:
            key, pool = str(file["key"]), {name: file[name] for name in (*COLUMNS, "length")}
    except (OSError, EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
        fail(f"{path} is no pool of trajectories ({error}): choose another --pool, or delete it")
    if key != pool_key(args):
        fail(f"{path} was recorded with other arguments: choose another --pool, or delete it")
    return pool


def check_drivers(names: list[str]) -> None:
    """Ends the program where one of these cannot drive the pool's links."""
    for name in dict.fromkeys(names):
        if name == "fast":
            continue
        if name == "sage":
            fail("--pool-algorithms sage: it learns from the others in the pool; leave it out")
        try:
            anole.TapEnv("sage", name, n=1)
        except ValueError as error:
            fail(f"--pool-algorithms {name}: {error}")


def pool_key(args: Arguments) -> str:
    """What a pool depends on."""
    links = f"links {args.links} episode {args.episode_s} seed {args.seed} loss weight {args.loss_weight}"
    return f"{args.pool_algorithms} {links} {pool_ranges(args)}"


def returns(pool: dict[str, np.ndarray], algorithms: int, gamma: float) -> tuple[np.ndarray, np.ndarray]:
    """Of every step the mean discounted reward to come, [trajectories, steps], and how far it is above the
    mean of all algorithms on the same link at that time, in standard deviations of that difference."""
    reward, length = pool["reward"], pool["length"]
    inside = np.arange(reward.shape[1]) < length[:, None]
    mean, value, weight = np.zeros_like(reward), np.zeros(len(reward)), np.zeros(len(reward))
    for t in reversed(range(reward.shape[1])):
        value = np.where(inside[:, t], reward[:, t] + gamma * value, 0.0)
        weight = np.where(inside[:, t], 1.0 + gamma * weight, 0.0)
        mean[:, t] = value / np.maximum(weight, 1e-9)
    links = mean.reshape(algorithms, -1, mean.shape[1])
    present = inside.reshape(links.shape)
    others = (links * present).sum(0) / np.maximum(present.sum(0), 1)
    standing = np.where(present, links - others, 0.0).reshape(mean.shape)
    return mean, (standing / max(standing[inside].std(), 1e-9)).astype(np.float32)


def sized(hidden: int) -> Any:
    """The schema with hidden layers of this many units; another size is another schema, `sage-N`."""
    schema = anole.schema.load("sage")
    text = schema.text
    for layer in schema.network["layers"][:-1]:
        text = text.replace(f"\nunits = {layer['units']}\n", f"\nunits = {hidden}\n")
    if text == schema.text:
        return schema
    return anole.schema.parse(text.replace('name = "sage"\n', f'name = "sage-{hidden}"\n', 1))


# --- corrections ----------------------------------------------------------------------------------------


def expert(window: np.ndarray, stats: np.ndarray, fair: np.ndarray, spare: float) -> np.ndarray:
    """What who knew the link would do: log2 of the growth, per round trip and at most a doubling, that brings the window,
    bytes [...], to what the fair share fills, Mbps [...], and `spare` packets. [...]."""
    wanted = common.fair_window(stats, fair, spare)
    return np.clip(np.log2(wanted / np.maximum(window, 1.0)), -1.0, 1.0).astype(np.float32)


class Driver(nn.Module):
    """The policy as it will be served, while it drives the flows of a worker: it keeps their states."""

    def __init__(self, schema: Any) -> None:
        super().__init__()
        self.network, self.width = anole.networks.build(schema), schema.state
        self.state: torch.Tensor | None = None

    def ended(self, done: np.ndarray) -> None:
        """Begins anew where an episode has ended."""
        self.state = self.state * torch.from_numpy(~done.astype(bool)).float().unsqueeze(-1)

    def act(self, obs: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, common.Rollout]:
        """Outputs [rows, 1]."""
        if self.state is None:
            self.state = torch.zeros(len(obs), self.width)
        output, self.state = self.network.step(obs, self.state)
        return output, {}


class Corrections:
    """The last `length` intervals of `flows` flows, a ring along time, and what `expert` would have done in each."""

    def __init__(self, length: int, flows: int, inputs: int) -> None:
        self.obs = np.zeros((length, flows, inputs), np.float16)
        self.wanted, self.per_rtt = np.zeros((2, length, flows), np.float32)
        # Intervals since the episode's start: a sequence that has it rising by one each is whole.
        self.age = np.zeros((length, flows), np.int64)
        self.added = 0
        # Of the interval before the next: statistics, fair share, and the age of the next.
        self.before = np.zeros((flows, len(anole.STATS))), np.ones(flows), np.zeros(flows, np.int64)

    def add(self, rollout: common.Rollout, fair: np.ndarray, spare: float) -> None:
        """Adds the intervals of a rollout. Statistics tell about a question in the step after."""
        last, last_fair, age = self.before
        stats = np.concatenate([last[None], rollout["stats"][:-1]])
        fairs = np.concatenate([last_fair[None], fair[:-1]])
        wanted = expert(rollout["window"], stats, fairs, spare)
        per_rtt = np.clip(INTERVAL_MS / np.maximum(common.named(stats)["rtt_ms"], 1.0), 0.02, 1.0)
        for t, over in enumerate(rollout["done"].astype(bool)):
            at = self.added % len(self.obs)
            self.obs[at], self.wanted[at], self.per_rtt[at] = rollout["obs"][t], wanted[t], per_rtt[t]
            self.age[at] = age
            age = np.where(over, 0, age + 1)
            self.added += 1
        self.before = rollout["stats"][-1], fair[-1], age

    def whole(self, start: np.ndarray, row: np.ndarray, length: int) -> np.ndarray:
        """Whether the `length` intervals that begin there are of one episode, without its first."""
        first = self.age[start % len(self.obs), row]
        last = self.age[(start + length - 1) % len(self.obs), row]
        return (first > 0) & (last - first == length - 1)

    def holds(self, held: int, length: int) -> bool:
        """Whether the last `held` intervals have any such sequence."""
        starts = self.added - held + np.arange(held - length + 1)
        return bool(self.whole(starts[:, None], np.arange(self.obs.shape[1]), length).any())

    def sample(self, rng: np.random.Generator, batch: int, length: int) -> dict[str, np.ndarray]:
        """`batch` sequences of `length` intervals within one episode each, without its first, whose link nobody has told
        yet: arrays [batch, length, …]. Where there is none, the program ends."""
        held = min(self.added, len(self.obs))
        starts, rows = np.empty(0, np.int64), np.empty(0, np.int64)
        while len(starts) < batch:
            start = self.added - held + rng.integers(0, held - length + 1, 4 * batch)
            row = rng.integers(0, self.obs.shape[1], 4 * batch)
            whole = self.whole(start, row, length)
            if not whole.any() and not self.holds(held, length):
                fail(
                    f"no episode has the {length} intervals of a sequence, and one before: give more --episode-s"
                )
            starts, rows = np.concatenate([starts, start[whole]]), np.concatenate([rows, row[whole]])
        at = (starts[:batch, None] + np.arange(length)) % len(self.obs)
        row = rows[:batch, None]
        columns = {"obs": self.obs, "wanted": self.wanted, "per_rtt": self.per_rtt}
        return {name: values[at, row].astype(np.float32) for name, values in columns.items()}


# --- networks -------------------------------------------------------------------------------------------


def squash(action: torch.Tensor) -> torch.Tensor:
    """Spreads the small changes that most actions are over [-1, 1]."""
    return action.sign() * torch.log1p(100.0 * action.abs()) / math.log(101.0)


class Critic(nn.Module):
    """Mean reward to come [...], given what the flow saw and what only the simulator knows [..., inputs +
    KNOWN] and the action [...]."""

    def __init__(self, inputs: int, units: int = 128) -> None:
        super().__init__()
        layers = [nn.Linear(inputs + KNOWN + 1, units), nn.ReLU(), nn.Linear(units, units), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(units, 1))

    def forward(self, seen: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """Values."""
        return self.layers(torch.cat([seen, squash(action).unsqueeze(-1)], dim=-1)).squeeze(-1)


def mixture(raw: torch.Tensor) -> torch.distributions.Distribution:
    """The distribution that the last layer's values [..., 3K] mean. The bounds of the deviations are soft: a
    component beyond them still learns."""
    logits, means, log_stds = raw.chunk(3, dim=-1)
    low, high = LOG_STD
    log_stds = high - F.softplus(high - (low + F.softplus(log_stds - low)))
    components = torch.distributions.Normal(means, log_stds.exp())
    return torch.distributions.MixtureSameFamily(torch.distributions.Categorical(logits=logits), components)


def unroll(network: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """The last layer's values over whole sequences from a new flow's state: [rows, steps, inputs] to
    [rows, steps, 3K]."""
    return network.sequence(x)[0]


class Served:
    """The policy as it will be served, for the validation: it keeps the states of its flows."""

    def __init__(self, network: nn.Module, width: int) -> None:
        self.network, self.width, self.state = copy.deepcopy(network).cpu(), width, None

    @torch.no_grad()
    def __call__(self, obs: np.ndarray) -> np.ndarray:
        """Outputs [rows, 1]."""
        if self.state is None:
            self.state = torch.zeros(len(obs), self.width)
        output, self.state = self.network.step(torch.from_numpy(obs), self.state)
        return output.numpy()


class Learner:
    """Policy, two critics with their targets, and the optimisers."""

    def __init__(
        self, args: Arguments, schema: Any, pool: dict[str, np.ndarray], device: torch.device
    ) -> None:
        self.args, self.device = args, device
        algorithms = len(args.pool_algorithms.split(","))
        self.policy = anole.networks.build(schema).to(device)
        # In a closed loop, the weights of one update differ much from those of the next.
        self.average = copy.deepcopy(self.policy).requires_grad_(False)
        self.critics = nn.ModuleList([Critic(schema.inputs), Critic(schema.inputs)]).to(device)
        # Running scale of the advantages, which have no unit of their own.
        self.critics.register_buffer("spread", torch.ones((), device=device))
        self.targets = copy.deepcopy(self.critics).requires_grad_(False)
        self.policy_optimiser = torch.optim.Adam(self.policy.parameters(), lr=args.learning_rate)
        self.critic_optimiser = torch.optim.Adam(self.critics.parameters(), lr=args.learning_rate)
        # The previous action predicts the next one so well that a policy which sees it copies itself instead
        # of looking at the path; it is hidden, here and, by weights of 0, wherever the policy is served.
        hidden = [
            i for i, feature in enumerate(schema.data["feature"]) if feature["signal"] == "previous-action"
        ]
        self.hidden = hidden
        with torch.no_grad():
            for network in (self.policy, self.average):
                network.layers[0].weight[:, hidden] = 0.0
        pool["obs"][:, :, hidden] = 0.0
        standing = returns(pool, algorithms, args.gamma)[1]
        self.pool = {name: torch.from_numpy(pool[name]).to(device) for name in COLUMNS}
        self.pool["standing"] = torch.from_numpy(standing).to(device)
        self.window = args.burn_in + args.sequence + args.lookahead
        self.longest = np.maximum(pool["length"] - self.window, 0)
        if self.longest.max() == 0:
            fail(f"--episode-s {args.episode_s} is too short for sequences of {self.window} steps")

    def parts(self) -> dict[str, Any]:
        """What a checkpoint has to hold."""
        names = ["policy", "average", "critics", "targets", "policy_optimiser", "critic_optimiser"]
        return {name: getattr(self, name) for name in names}

    def slow_down(self, progress: float, rate: float) -> None:
        """Adam's steps fall to a tenth of `rate` over the budget; progress is 0 to 1."""
        for optimiser in (self.policy_optimiser, self.critic_optimiser):
            for group in optimiser.param_groups:
                group["lr"] = rate * (1.0 - 0.9 * progress)

    def sample(self, rng: np.random.Generator) -> dict[str, torch.Tensor]:
        """Sequences of the pool: tensors [batch, window, …]."""
        long_enough = np.flatnonzero(self.longest)
        rows = rng.choice(long_enough, self.args.batch)
        starts = (rng.random(self.args.batch) * self.longest[rows]).astype(np.int64)
        at = torch.from_numpy(starts[:, None] + np.arange(self.window)).to(self.device)
        row = torch.from_numpy(rows[:, None]).to(self.device)
        return {name: values[row, at].float() for name, values in self.pool.items()}

    def update(self, batch: dict[str, torch.Tensor]) -> dict[str, float]:
        """One update of critics and policy."""
        args, gamma, ahead = self.args, self.args.gamma, self.args.lookahead
        first, last = args.burn_in, args.burn_in + args.sequence
        seen = torch.cat([batch["obs"], batch["known"]], dim=-1)
        raw = unroll(self.policy, batch["obs"])
        pi = mixture(raw[:, first:last])
        now, later = seen[:, first:last], seen[:, first + ahead : last + ahead]
        action, reward = batch["action"][:, first:last], batch["reward"][:, first:]
        with torch.no_grad():
            to_come = [gamma**k * reward[:, k : k + args.sequence] for k in range(ahead)]
            following = mixture(raw[:, first + ahead :]).sample().clamp(-1.0, 1.0)
            value = torch.minimum(*[critic(later, following) for critic in self.targets])
            target = (1.0 - gamma) * sum(to_come) + gamma**ahead * value
        values = [critic(now, action) for critic in self.critics]
        critic_loss = sum(F.smooth_l1_loss(value, target) for value in values)
        self.critic_optimiser.zero_grad(set_to_none=True)
        critic_loss.backward()
        self.critic_optimiser.step()
        torch._foreach_lerp_(list(self.targets.parameters()), list(self.critics.parameters()), args.tau)

        with torch.no_grad():
            drawn = pi.sample((4,)).clamp(-1.0, 1.0)
            difference = self.critics[0](now, action) - sum(self.critics[0](now, one) for one in drawn) / 4.0
            self.critics.spread.lerp_(difference.std(), 0.01)
            advantage = difference / self.critics.spread.clamp_min(1e-6)
            advantage = advantage + args.trajectory_weight * batch["standing"][:, first:last]
            weight = (advantage / args.advantage_scale).exp().clamp_max(20.0) * batch["own"][:, first:last]
        policy_loss = -(weight * pi.log_prob(action)).mean() / weight.mean()
        self.policy_optimiser.zero_grad(set_to_none=True)
        policy_loss.backward()
        nn.utils.clip_grad_norm_(self.policy.parameters(), 1.0)
        self.policy_optimiser.step()
        torch._foreach_lerp_(list(self.average.parameters()), list(self.policy.parameters()), args.averaging)
        return {
            "reward": float((weight * reward[:, : args.sequence]).mean() / weight.mean()),
            "pool_reward": float(reward[:, : args.sequence].mean()),
            "policy_loss": float(policy_loss.detach()),
            "critic_loss": float(critic_loss.detach()),
            "value": float(target.mean()),
            "effective_share": float(weight.mean() ** 2 / (weight**2).mean()),
        }

    def correct(self, batch: dict[str, np.ndarray]) -> dict[str, float]:
        """One update of what the policy would do, towards what `expert` would have done, both per round trip."""
        given = {name: torch.from_numpy(values).to(self.device) for name, values in batch.items()}
        given["obs"][..., self.hidden] = 0.0
        first = self.args.burn_in
        action = self.policy.apply_head(unroll(self.policy, given["obs"])[:, first:]).squeeze(-1)
        loss = F.smooth_l1_loss(action / given["per_rtt"][:, first:], given["wanted"][:, first:])
        self.policy_optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.policy.parameters(), 1.0)
        self.policy_optimiser.step()
        torch._foreach_lerp_(
            list(self.average.parameters()), list(self.policy.parameters()), self.args.averaging
        )
        return {"correction": float(loss.detach())}


# --- run ------------------------------------------------------------------------------------------------


def main(argv: list[str] | None = None) -> dict[str, float]:
    """Records the pool if need be, trains, and gives the figures of the last updates."""
    args = common.parse(Arguments, argv, "Trains the policy sage offline from a pool of classic algorithms.")
    common.seed_all(args)
    length = args.burn_in + args.sequence
    if args.replay < 2 * length * args.envs:
        fail(
            f"--replay {args.replay} is too small: give {2 * length * args.envs}, two sequences of every flow"
        )
    try:
        schema, device = sized(args.hidden), torch.device(args.device)
    except ValueError as error:
        fail(f"--hidden {args.hidden}: {error}")
    run = common.Run("sage", args, argv, common.training_ranges(args))
    pool = make_pool(args, Path(args.pool) if args.pool else run.folder / "pool.npz")
    learner = Learner(args, schema, pool, device)
    for number, name in enumerate(args.pool_algorithms.split(",")):
        rows = slice(number * args.links, (number + 1) * args.links)
        total = pool["length"][rows].sum()
        inside = np.arange(pool["reward"].shape[1]) < pool["length"][rows][:, None]
        print(f"pool: {name} {total} steps, mean reward {pool['reward'][rows][inside].mean():.3f}")
    del pool
    parts = learner.parts()
    run.restore(parts)
    rng = np.random.default_rng([args.seed, run.step])
    # No episode ends during a validation, in which nobody tells the policy.
    longer = functools.partial(environments, dataclasses.replace(args, episode_s=2.0 * args.episode_s))
    workers = common.Workers(
        args, functools.partial(environments, args), functools.partial(Driver, schema), run.step
    )
    corrections = Corrections(args.replay // args.envs, args.envs, schema.inputs)
    fair_share = common.FairShare(args.envs)
    figures: dict[str, float] = {}
    while not run.over():
        corrected = run.progress() >= 1.0 - args.corrected
        learner.slow_down(run.progress(), args.correction_rate if corrected else args.learning_rate)
        if corrected:
            served = {f"network.{name}": value for name, value in learner.average.state_dict().items()}
            # At first enough for whole sequences.
            for _ in range(1 if corrections.added else 1 + 2 * length // args.collect):
                rollout = workers.collect(served, args.collect)
                corrections.add(rollout, fair_share(rollout["stats"], rollout["done"]), args.spare)
            batches = [corrections.sample(rng, args.batch, length) for _ in range(args.round)]
            reward = {"reward": float(reward_of(rollout["stats"], args.loss_weight).mean())}
            found = [learner.correct(batch) | reward for batch in batches]
        else:
            found = [learner.update(learner.sample(rng)) for _ in range(args.round)]
        run.step += len(found)
        figures = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
        if run.due():
            served = Served(learner.average, schema.state)
            valid = common.validate(longer, served, args, learner.average)
            run.validated(valid, learner.average, parts)
        run.log(figures)
    workers.close()
    run.finish(learner.average, parts)
    return figures


if __name__ == "__main__":
    main()
