"""Spine: DDPG on a hierarchical LSTM that tunes the executor's four parameters; or, over another program, its own
(`--policy spine-cubic`: CUBIC's beta and C, Sec. 6).

Tian et al., *Spine: An Efficient DRL-based Congestion Control with Ultra-low Overhead* (CoNEXT 2022): a
watcher (LSTM 64) looks every 200 ms and decides whether a generator (LSTM 128) sets new parameters; the
executor (`spine.ccp`) acts on them at every ACK. Deterministic policy gradient over whole sequences with
the hidden states stored at collection, a burn-in before each sequence, and a trigger that is drawn from a
Bernoulli distribution in training with a straight-through gradient.

Reward of one interval: u · lat_min / lat' − ζ · loss − ψ · trigger − η · more, where u is the share of the fair share
that was delivered, at most 1, lat' = lat_min while lat ≤ β · lat_min, and more is what a flow among others has beyond
its fair share, as a share of it.

Where this deviates from the paper, and why:
- The simulator knows capacity and base delay, so that thr_max and lat_min are the true ones, and the fair
  share beside cross traffic. The flow's own maxima reward a flow for never having tried.
- The critics see what only the simulator knows (fair share, base delay, random loss, flows) instead of
  remembering with an LSTM: faster by far, and they are not deployed.
- Two critics, the smaller one counts, and smoothed target actions (TD3), since a single critic
  overestimates within minutes. No target actor: each sequence is unrolled once.
- The critics learn the reward without the trigger's price of the present interval, which the actor's loss
  adds exactly: the price is far smaller than a critic's error. It comes in once the generator has
  something to say.
- A quarter of the flows runs random parameters for seconds, so that the critics know the whole range;
  outputs are kept out of the flat ends of tanh, where the actor got stuck otherwise.
- Learning rate 3e-4 with Adam (0.005 diverges) and a discount of 0.95: what parameters do shows within a few
  seconds.
- The trigger's temperature falls from 1 to 0.2 in the second half, so that the deterministic trigger that is
  deployed (fires above one half) does what the last drawn ones did; its random numbers are stored and used
  again when a sequence is replayed, so that replay takes the same path until the policy has changed.
- For the first part of the run the generator of `spine` imitates an expert who knows the fair share (DAgger, Ross et al.
  2011), while the critics learn, and is held near it afterwards (TD3+BC, Fujimoto and Gu 2021): gradients of critics alone
  do not find what makes flows come to equal shares.
- What a flow has beyond its fair share costs (η), and the loss that the path has whatever is sent does not (ζ).
- ζ weighs the share of packets that is lost, by itself. In eq. 1 the rate of loss is taken off the throughput, and
  divided by lat' with it: a loss is then the cheaper the longer the queue.
- Links are drawn from wider ranges than Table III's (40 to 200 Mbps, 10 to 100 ms one way, 0.5 to 2 BDP, up
  to 1 % loss): `common.training_ranges`.
"""

from __future__ import annotations

import copy
import dataclasses
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import anole_ccp as anole
import common
from common import option


@dataclasses.dataclass
class Arguments(common.Arguments):
    """Arguments of this trainer; those of every trainer are in `common.Arguments`."""

    policy: str = option("spine", "the schema, which is its algorithm's name too: spine or spine-cubic")
    envs: int = option(64, "flows simulated at the same time")
    validation_steps: int = option(100, "intervals of each of them")
    episode_s: float = option(20.0, "length of an episode, s of simulated time")
    learning_rate: float = option(3e-4, "Adam's step for actor and critics")
    gamma: float = option(0.95, "discount per interval of 200 ms")
    tau: float = option(0.01, "share of the learned weights that the targets take over per update")
    batch: int = option(64, "sequences per update")
    burn_in: int = option(5, "intervals that only warm up the hidden states")
    sequence: int = option(15, "intervals that are learned from, after the burn-in")
    replay: int = option(128_000, "intervals that are kept, of all flows together")
    collect: int = option(8, "intervals of every flow between two rounds of updates")
    updates: int = option(16, "updates in a round; they go on while the next intervals are simulated")
    warm_up: int = option(64, "intervals of every flow before the first update")
    critics_first: float = option(0.05, "share of the run in which only the critics learn")
    wild: float = option(0.25, "share of flows that run random parameters instead, for the critics")
    noise: float = option(0.3, "standard deviation of the exploration noise; falls to a tenth of it")
    noise_memory: float = option(0.9, "correlation of the noise from one interval to the next")
    trigger_price: float = option(0.03, "psi, the pit-stop penalty (Table IV)")
    loss_weight: float = option(2.0, "zeta, the weight of the loss rate")
    equal_weight: float = option(
        0.25, "eta, the weight of what a flow among others has beyond its fair share"
    )
    imitate: float = option(
        0.6,
        "share of the run in which the generator of spine first imitates `expert`; 0: never, and nothing holds it there",
    )
    spare: float = option(8.0, "packets that the expert's window has beyond the path's product")
    imitation_rate: float = option(1e-3, "Adam's step for the actor meanwhile")
    value_weight: float = option(1.0, "of the critic's estimate beside the expert's parameters, afterwards")
    tolerance: float = option(1.05, "beta, the latency over the smallest up to which it costs nothing")


#: What it trains.
POLICIES = ("spine", "spine-cubic")
#: Outputs before tanh beyond this cost something: tanh(2) = 0.964.
MAX_RAW = 2.0
#: Probability that a wild flow gets new parameters at an interval: they stay for 4 s on average.
WILD_CHANGE = 0.05
#: Width of `privileged`.
KNOWN = 8


# --- network ------------------------------------------------------------------------------------------


class Step(NamedTuple):
    """One interval of the policy: the deployed outputs [rows, n], the same before tanh, the trigger (0 or 1,
    with gradient) [rows, 1] and the new state [rows, state]."""

    outputs: torch.Tensor
    raw: torch.Tensor
    trigger: torch.Tensor
    state: torch.Tensor


def policy_step(
    network: nn.Module, x: torch.Tensor, state: torch.Tensor, draw: torch.Tensor | None, temperature: float
) -> Step:
    """One step of the hierarchical network, with the policy file's state layout. `draw` [rows, 1] holds
    uniform random numbers: the trigger fires where its probability is larger; `None` fires above 1/2, as
    deployed."""
    watcher, generator = network.watcher.hidden_size, network.generator.hidden_size
    sizes = [watcher, watcher, generator, generator, network.head.out_features]
    h_w, c_w, h_g, c_g, outputs = state.split(sizes, dim=-1)
    h_w, c_w = network.watcher(torch.cat([x, h_g], dim=-1), (h_w, c_w))
    probability = torch.sigmoid(network.trigger(h_w) / temperature)
    fired = (probability > (0.5 if draw is None else draw)).float()
    # Forward the drawn value, backward the probability (Sec. V, eq. 9).
    z = fired + probability - probability.detach()
    h_new, c_new = network.generator(h_w, (h_g, c_g))
    raw = network.head(h_new)
    outputs = z * torch.tanh(raw) + (1.0 - z) * outputs
    h_g, c_g = z * h_new + (1.0 - z) * h_g, z * c_new + (1.0 - z) * c_g
    return Step(outputs, raw, z, torch.cat([h_w, c_w, h_g, c_g, outputs], dim=-1))


class Critic(nn.Module):
    """Expected discounted reward [...] of the parameters in force [..., n], given what the flow saw and what
    only the simulator knows [..., inputs + KNOWN]."""

    def __init__(self, inputs: int, outputs: int, units: int = 256) -> None:
        super().__init__()
        layers = [nn.Linear(inputs + KNOWN + outputs, units), nn.ReLU(), nn.Linear(units, units), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(units, 1))

    def forward(self, seen: torch.Tensor, outputs: torch.Tensor) -> torch.Tensor:
        """Values."""
        return self.layers(torch.cat([seen, outputs], dim=-1).flatten(0, -2)).view(seen.shape[:-1])


# --- experience ---------------------------------------------------------------------------------------


class Replay:
    """The last `length` intervals of `rows` simulations, a ring along time. The hidden state is stored as
    it was at collection, in half precision."""

    def __init__(self, length: int, rows: int, inputs: int, outputs: int, state: int) -> None:
        self.length, self.rows = length, rows
        self.inputs = np.zeros((length, rows, inputs), np.float32)
        self.outputs = np.zeros((length, rows, outputs), np.float32)
        self.draw = np.zeros((length, rows, 1), np.float32)
        self.known = np.zeros((length, rows, KNOWN), np.float32)
        self.expert = np.zeros((length, rows, outputs), np.float32)
        self.reward = np.zeros((length, rows), np.float32)
        self.state = np.zeros((length, rows, state), np.float16)
        # Intervals since the start of the episode: a sequence that has it rising by one each is whole.
        self.age = np.zeros((length, rows), np.int32)
        self.added = 0

    def add(self, rollout: common.Rollout, known: np.ndarray, expert: np.ndarray, reward: np.ndarray) -> None:
        """Adds the intervals of a rollout (`common.Worker.collect`), with what was known before each and what the expert
        would have done."""
        width = self.outputs.shape[-1]
        for t in range(len(reward)):
            at = self.added % self.length
            self.inputs[at], self.outputs[at] = rollout["obs"][t], rollout["action"][t, :, :width]
            self.draw[at], self.known[at], self.reward[at] = rollout["draw"][t], known[t], reward[t]
            self.expert[at] = expert[t]
            self.state[at], self.age[at] = rollout["state"][t], rollout["age"][t]
            self.added += 1

    def holds(self, oldest: int, held: int, length: int) -> bool:
        """Whether any sequence of `length` intervals is whole."""
        first = oldest + np.arange(held - length + 1)
        span = self.age[(first + length - 1) % self.length] - self.age[first % self.length]
        return bool((span == length - 1).any())

    def sample(self, rng: np.random.Generator, batch: int, length: int, device: torch.device) -> dict:
        """`batch` sequences of `length` intervals within one episode each: tensors [length, batch, …], and
        the state before the first interval."""
        held = min(self.added, self.length)
        oldest = self.added - held
        starts, rows = np.empty(0, np.int64), np.empty(0, np.int64)
        while len(starts) < batch:
            start = oldest + rng.integers(0, held - length + 1, 2 * batch)
            row = rng.integers(0, self.rows, 2 * batch)
            last = (start + length - 1) % self.length
            whole = self.age[last, row] - self.age[start % self.length, row] == length - 1
            if not whole.any() and not self.holds(oldest, held, length):
                common.fail(f"no episode has the {length} intervals of a sequence: give more --episode-s")
            starts, rows = np.concatenate([starts, start[whole]]), np.concatenate([rows, row[whole]])
        starts, rows = starts[:batch], rows[:batch]
        at = (starts[None, :] + np.arange(length)[:, None]) % self.length
        columns = {
            "inputs": self.inputs[at, rows],
            "outputs": self.outputs[at, rows],
            "draw": self.draw[at, rows],
            "known": self.known[at, rows],
            "expert": self.expert[at, rows],
            "reward": self.reward[at, rows],
            "state": self.state[starts % self.length, rows].astype(np.float32),
        }
        return {name: torch.from_numpy(values).to(device) for name, values in columns.items()}


def reward_of(stats: np.ndarray, args: Arguments) -> np.ndarray:
    """Reward of an interval without the trigger's price: stats [..., len(anole.STATS)] → [...]."""
    s = common.named(stats)
    share = np.minimum(s["throughput_mbps"] / np.maximum(s["fair_share_mbps"], 1e-3), 1.0)
    ratio = s["rtt_ms"] / common.smallest_rtt_ms(stats)
    ratio = np.where(ratio <= args.tolerance, 1.0, ratio)
    loss = np.maximum(s["loss_rate"] - s["random_loss"], 0.0)
    more = args.equal_weight * common.above_fair_share(stats)
    return (share / np.maximum(ratio, 1.0) - args.loss_weight * loss - more).astype(np.float32)


def privileged(stats: np.ndarray) -> np.ndarray:
    """What only the simulator knows about the last interval, scaled to about one: stats [..., K] to
    [..., KNOWN]."""
    s = common.named(stats)
    fair, base = np.maximum(s["fair_share_mbps"], 1e-3), np.maximum(s["base_rtt_ms"], 1e-3)
    columns = [
        np.minimum(s["throughput_mbps"] / fair, 4.0),
        np.clip(s["rtt_ms"] / base - 1.0, 0.0, 10.0),
        10.0 * s["loss_rate"],
        100.0 * s["random_loss"],
        np.log(fair) / 3.0,
        np.log(base) / 3.0,
        np.log(fair * base) / 3.0,
        s["flows"] / 2.0,
    ]
    return np.stack(columns, axis=-1).astype(np.float32)


def expert(
    window: np.ndarray, stats: np.ndarray, fair: np.ndarray, limits: np.ndarray, spare: float
) -> np.ndarray:
    """What who knew the link would set: parameters of the executor that bring the window, bytes [...], within the next
    interval to what the fair share fills, Mbps [...], and `spare` packets; as outputs [..., 4] within the limits [4, 2].

    While it grows, delays are tolerated a tenth beyond the present ones; on a loss beyond what the path loses at random the
    window falls by 30 %."""
    s = common.named(stats)
    base_ms = np.maximum(s["base_rtt_ms"], 1e-3)
    ratio = np.maximum(s["rtt_ms"] / base_ms, 1.0)
    wanted = common.fair_window(stats, fair, spare)
    round_trips = np.maximum(1e3 * s["interval_s"] / np.maximum(s["rtt_ms"], base_ms), 1.0)
    growth = np.log(wanted / np.maximum(window, 1.0)) / round_trips
    tolerated = (ratio - 0.9 + spare * common.PAYLOAD / wanted) * np.clip(0.5 + 10.0 * growth, 0.0, 1.0)
    own_loss = s["loss_rate"] - s["random_loss"] > 0.01
    parameters = np.stack([growth, -growth, tolerated, np.where(own_loss, 0.7, 1.0)], axis=-1)
    low, high = limits[:, 0], limits[:, 1]
    return np.clip(2.0 * (parameters - low) / (high - low) - 1.0, -0.95, 0.95).astype(np.float32)


# --- collection ---------------------------------------------------------------------------------------


def environments(args: Arguments, seed: int, envs: int) -> list[Any]:
    """Flows that the executor drives."""
    return [
        anole.VectorEnv(
            schema=args.policy,
            algorithm=args.policy,
            n=envs,
            threads=args.threads,
            ranges=common.training_ranges(args),
            seed=seed,
            episode_s=args.episode_s,
            # While it trains, what a policy does to a path is not cut short by the guard; where it is judged, as it is served.
            params={"guard": float(seed == common.VALIDATION_SEED)},
        )
    ]


class Explorer(nn.Module):
    """The policy while it collects: trigger drawn, correlated noise on the parameters. It keeps the hidden
    states of its flows; temperature and noise travel with the weights."""

    def __init__(self, schema: Any, memory: float, wild: float) -> None:
        super().__init__()
        self.network = anole.networks.build(schema)
        self.memory, self.wild, self.width = memory, wild, schema.state
        self.register_buffer("temperature", torch.tensor(1.0))
        self.register_buffer("noise", torch.tensor(0.0))
        self.state: torch.Tensor | None = None

    def begin(self, rows: int) -> None:
        """Forgets everything: all flows are new."""
        self.state = torch.zeros(rows, self.width)
        self.disturbance = torch.zeros(rows, self.network.head.out_features)
        self.random = torch.zeros_like(self.disturbance)
        self.changes = torch.ones(rows, 1)
        self.is_wild = (torch.arange(rows) < self.wild * rows).unsqueeze(-1)
        self.age = np.zeros(rows, np.int32)

    def ended(self, done: np.ndarray) -> None:
        """Begins anew where an episode has ended."""
        keep = torch.from_numpy(~done.astype(bool)).float().unsqueeze(-1)
        self.state, self.disturbance, self.changes = self.state * keep, self.disturbance * keep, 1.0 - keep
        self.age = np.where(done.astype(bool), 0, self.age + 1).astype(np.int32)

    def act(self, obs: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, common.Rollout]:
        """Outputs with noise and trigger, [rows, 5]; beside them what a replay needs."""
        if self.state is None:
            self.begin(len(obs))
        draw = torch.rand(len(obs), 1, generator=generator)
        fresh = torch.randn(self.disturbance.shape, generator=generator)
        step = policy_step(self.network, obs, self.state, draw, self.temperature)
        extra = {"state": self.state.numpy().astype(np.float16), "draw": draw.numpy(), "age": self.age}
        self.disturbance = self.memory * self.disturbance + (1.0 - self.memory**2) ** 0.5 * fresh
        self.state = step.state
        outputs = (step.outputs + self.noise * self.disturbance).clamp(-1.0, 1.0)
        fresh, change = (torch.rand(shape, generator=generator) for shape in (fresh.shape, draw.shape))
        changes = (self.changes > 0.0) | (change < WILD_CHANGE)
        self.random = torch.where(changes, 2.0 * fresh - 1.0, self.random)
        outputs = torch.where(self.is_wild, self.random, outputs)
        return torch.cat([outputs, step.trigger], dim=-1), extra


class Deployed:
    """The policy as it will be served, for the validation: no noise, trigger above one half."""

    def __init__(self, network: nn.Module, width: int) -> None:
        self.network, self.width, self.state = network, width, None
        self.triggers: list[float] = []

    @torch.no_grad()
    def __call__(self, obs: np.ndarray) -> np.ndarray:
        """Outputs [rows, 5]."""
        if self.state is None:
            self.state = torch.zeros(len(obs), self.width)
        step = policy_step(self.network, torch.from_numpy(obs), self.state, None, 1.0)
        self.state = step.state
        self.triggers.append(float(step.trigger.mean()))
        return torch.cat([step.outputs, step.trigger], dim=-1).numpy()

    def trigger_share(self) -> float:
        """Share of the intervals at which the generator ran."""
        return float(np.mean(self.triggers))


# --- learning -----------------------------------------------------------------------------------------


class Learner:
    """Actor, two critics with their targets, and the optimisers."""

    def __init__(self, args: Arguments, schema: Any, device: torch.device) -> None:
        self.args = args
        self.imitates = args.policy == "spine" and args.imitate > 0.0
        self.actor = anole.networks.build(schema).to(device)
        inputs, outputs = schema.inputs, self.actor.head.out_features
        # Parameters start in the middle of their ranges, where the executor works at all; the generator
        # starts by running at most intervals.
        nn.init.uniform_(self.actor.head.weight, -3e-2, 3e-2)
        nn.init.zeros_(self.actor.head.bias)
        nn.init.ones_(self.actor.trigger.bias)
        self.critics = nn.ModuleList([Critic(inputs, outputs), Critic(inputs, outputs)]).to(device)
        self.targets = copy.deepcopy(self.critics).requires_grad_(False)
        self.actor_optimiser = torch.optim.Adam(self.actor.parameters(), lr=args.learning_rate)
        self.critic_optimiser = torch.optim.Adam(self.critics.parameters(), lr=args.learning_rate)

    def parts(self) -> dict[str, Any]:
        """What a checkpoint has to hold."""
        names = ["actor", "critics", "targets", "actor_optimiser", "critic_optimiser"]
        return {name: getattr(self, name) for name in names}

    def unroll(self, batch: dict, temperature: float) -> tuple[torch.Tensor, ...]:
        """The policy over whole sequences from the stored state: outputs [time, rows, n], the same before
        tanh, and triggers [time, rows], all after the burn-in."""
        state, steps = batch["state"], []
        for t in range(len(batch["inputs"])):
            with torch.set_grad_enabled(t >= self.args.burn_in):
                step = policy_step(self.actor, batch["inputs"][t], state, batch["draw"][t], temperature)
            state = step.state
            steps.append((step.outputs, step.raw, step.trigger.squeeze(-1)))
        return tuple(torch.stack(column) for column in zip(*steps[self.args.burn_in :], strict=True))

    def update(
        self,
        batch: dict,
        temperature: float,
        price: float,
        critics_only: bool = False,
        imitate: bool = False,
    ) -> dict[str, float]:
        """One update from sequences of burn_in + sequence + 1 intervals; `price` is that of a trigger. To imitate is to follow
        the expert alone."""
        args, burn = self.args, self.args.burn_in
        seen = torch.cat([batch["inputs"], batch["known"]], dim=-1)[burn:]
        outputs, raw, triggers = self.unroll(batch, temperature)
        with torch.no_grad():
            noise = (0.1 * torch.randn_like(outputs[1:])).clamp(-0.2, 0.2)
            following = (outputs[1:] + noise).clamp(-1.0, 1.0)
            value = torch.minimum(*[critic(seen[1:], following) for critic in self.targets])
            target = batch["reward"][burn:-1] + args.gamma * (value - price * triggers[1:])
        values = [critic(seen[:-1], batch["outputs"][burn:-1]) for critic in self.critics]
        critic_loss = sum(F.smooth_l1_loss(value, target) for value in values)
        self.critic_optimiser.zero_grad(set_to_none=True)
        critic_loss.backward()
        self.critic_optimiser.step()

        torch._foreach_lerp_(list(self.targets.parameters()), list(self.critics.parameters()), args.tau)
        figures = {"critic_loss": float(critic_loss.detach()), "value": float(target.mean())}
        if critics_only and not imitate:
            return figures
        # An output that tanh has driven into its end no longer learns.
        actor_loss = (raw.abs() - MAX_RAW).clamp_min(0.0).square().mean() + price * triggers.mean()
        if self.imitates:
            # What the generator says, and what is in force: the trigger is worth its price where they differ.
            strayed = (torch.tanh(raw) - batch["expert"][burn:]).square().mean()
            held = (outputs - batch["expert"][burn:]).square().mean()
            figures |= {"strayed": float(strayed.detach()), "held": float(held.detach())}
            actor_loss = actor_loss + strayed + held
        if not imitate:
            self.critics.requires_grad_(False)
            value = self.critics[0](seen, outputs)
            self.critics.requires_grad_(True)
            weight = args.value_weight / value.abs().mean().detach().clamp_min(1e-3) if self.imitates else 1.0
            actor_loss = actor_loss - weight * value.mean()
        self.actor_optimiser.zero_grad(set_to_none=True)
        actor_loss.backward()
        nn.utils.clip_grad_norm_(self.actor.parameters(), 1.0)
        self.actor_optimiser.step()
        return figures


# --- run ----------------------------------------------------------------------------------------------


def anneal(explorer: Explorer, learner: Learner, args: Arguments, progress: float) -> float:
    """Gives the explorer the learned weights, and its noise and temperature at this point of the run; gives
    the temperature."""
    explorer.network.load_state_dict(learner.actor.state_dict())
    temperature = 0.2 ** max(0.0, 2.0 * progress - 1.0)
    explorer.noise.fill_(args.noise * 0.1**progress)
    explorer.temperature.fill_(temperature)
    return temperature


def main(argv: list[str] | None = None) -> dict[str, float]:
    """Trains, and gives the figures of the last round."""
    args = common.parse(Arguments, argv, "Trains the policy spine or spine-cubic by DDPG in the simulator.")
    if args.policy not in POLICIES:
        common.fail(f"--policy {args.policy}: choose {' or '.join(POLICIES)}")
    common.seed_all(args)
    run = common.Run(args.policy, args, argv, common.training_ranges(args), trainer="spine")
    schema, device = anole.schema.load(args.policy), torch.device(args.device)
    learner = Learner(args, schema, device)
    explorer, deployed = (Explorer(schema, args.noise_memory, args.wild) for _ in range(2))
    parts = learner.parts()
    run.restore(parts)
    make = partial(environments, args)
    # No episode ends during a validation, in which nobody tells the policy.
    longer = partial(environments, dataclasses.replace(args, episode_s=2.0 * args.episode_s))
    workers = common.Workers(args, make, partial(Explorer, schema, args.noise_memory, args.wild), run.step)
    rng = np.random.default_rng([args.seed, run.step])
    window = args.burn_in + args.sequence + 1
    rows = max(window, args.replay // args.envs)
    known, fair_share = np.zeros((args.envs, KNOWN), np.float32), common.FairShare(args.envs)
    limits = np.array([[one["low"], one["high"]] for one in schema.data["action"]["parameter"]])
    replay = Replay(rows, args.envs, schema.inputs, learner.actor.head.out_features, schema.state)
    figures: dict[str, float] = {}
    with ThreadPoolExecutor(1) as simulator:
        while not run.over():
            # The price comes in between 30 and 60 % of the run: earlier, it silences the watcher before the
            # generator has anything better to say; later, a cold trigger hardly learns.
            price = args.trigger_price * float(np.clip((run.progress() - 0.3) / 0.3, 0.0, 1.0))
            imitate = learner.imitates and run.progress() < args.imitate
            for group in learner.actor_optimiser.param_groups:
                group["lr"] = args.imitation_rate if imitate else args.learning_rate
            temperature = anneal(explorer, learner, args, run.progress())
            weights = {name: value.clone() for name, value in explorer.state_dict().items()}
            collected = simulator.submit(workers.collect, weights, args.collect)
            found: list[dict[str, float]] = []
            # A resumed run fills its replay again before it goes on learning.
            if replay.added >= max(args.warm_up, window):
                for _ in range(args.updates):
                    batch = replay.sample(rng, args.batch, window, device)
                    # What untaught critics say would only lead the actor astray.
                    found.append(
                        learner.update(
                            batch, temperature, price, run.progress() < args.critics_first, imitate
                        )
                    )
            rollout = collected.result()
            reward = reward_of(rollout["stats"], args)
            # After an episode's end the next observation is of a link about which nothing is known yet.
            over = rollout["done"].astype(bool)[..., None]
            after = np.where(over, 0.0, privileged(rollout["stats"])).astype(np.float32)
            fair = fair_share(rollout["stats"], rollout["done"])
            wanted = rollout["action"][..., : len(limits)].copy()
            if learner.imitates:
                # The statistics that belong to a question are those of the step before it.
                found_by = expert(rollout["window"][1:], rollout["stats"][:-1], fair[:-1], limits, args.spare)
                wanted[1:] = np.where(over[:-1], wanted[1:], found_by)
            replay.add(rollout, np.concatenate([known[None], after[:-1]]), wanted, reward)
            known = after[-1]
            run.step += reward.size
            triggers = rollout["action"][..., -1]
            figures = {"reward": float((reward - args.trigger_price * triggers).mean())}
            figures |= {"triggers": float(triggers.mean()), "noise": float(explorer.noise)}
            figures |= {
                f"output_{i}": float(rollout["action"][..., i].mean())
                for i in range(rollout["action"].shape[-1] - 1)
            }
            for name in sorted({name for one in found for name in one}):
                figures[name] = float(np.mean([one[name] for one in found if name in one]))
            if run.due():
                deployed.network.load_state_dict(learner.actor.state_dict())
                act = Deployed(deployed.network, schema.state)
                valid = common.validate(longer, act, args, deployed.network)
                run.validated(valid | {"triggers": act.trigger_share()}, deployed.network, parts)
            run.log(figures)
    workers.close()
    deployed.network.load_state_dict(learner.actor.state_dict())
    run.finish(deployed.network, parts)
    return figures


if __name__ == "__main__":
    main()
