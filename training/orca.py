"""Orca: twin delayed deep deterministic policy gradient above CUBIC.

Abbasloo et al., "Classic Meets Modern: a Pragmatic Learning-Based Congestion Control for the Internet",
SIGCOMM 2020; Fujimoto et al., "Addressing Function Approximation Error in Actor-Critic Methods" (TD3), ICML
2018. Schema `orca`: the last ten sets of seven features, 2 × 256 leaky ReLU, one output a in [−1, 1]; every
20 ms CUBIC's window ← window · 4^a.

Reward of an interval (Orca §4.2): ((thr − ζ·lost)/delay') / (thr_max/d_min), thr and lost in Mbps, delay' =
d_min while delay ≤ β·d_min, else the delay. Here thr_max is the fair share and d_min the smallest
possible round-trip time, which the simulator knows: a flow that never tried for more is not rewarded for that. What a flow among
others has beyond its fair share costs, as a share of it, `--equal-weight`.

Deviations from the paper:
- the policy first imitates on its own rollouts an expert who knows the fair share (DAgger, Ross et al. 2011), while the
  critics learn, and is held near it afterwards (TD3+BC, Fujimoto and Gu 2021);
- actions start at 0 (CUBIC alone) with Gaussian noise around them, whose size falls; white noise over the
  whole range would multiply the window by 64 and more within a round trip;
- returns over several steps, since an action shows only after a round trip, up to ten intervals later;
- the critics also see what only the simulator knows (capacity, base RTT, flows); the policy does not.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
from typing import Any

import numpy as np
import torch
from torch import nn

import anole_ccp as anole
from common import (
    KNOWN,
    Arguments,
    FairShare,
    Rollout,
    Run,
    Workers,
    above_fair_share,
    fair_window,
    greedy,
    named,
    option,
    parse,
    privileged,
    score,
    seed_all,
    smallest_rtt_ms,
    training_ranges,
    validate,
)

#: Of the schema's action: the window is multiplied by its powers.
BASE = 4.0
#: Packets that the expert's window has beyond the path's product.
SPARE = 2.0


@dataclasses.dataclass
class OrcaArguments(Arguments):
    """Arguments of this trainer."""

    zeta: float = option(5.0, "ζ: weight of lost Mbps")
    beta: float = option(1.25, "β: delay up to this multiple of the smallest one costs nothing")
    equal_weight: float = option(0.25, "of what a flow among others has beyond its fair share")
    rollout: int = option(8, "intervals of each flow per iteration")
    updates: int = option(8, "gradient steps of the critics per iteration")
    batch: int = option(1024, "intervals per gradient step")
    replay: int = option(1_000_000, "intervals remembered")
    warmup: int = option(20_000, "intervals before the first gradient step")
    lr: float = option(1e-4, "Adam's step at the beginning; falls to a tenth")
    gamma: float = option(0.98, "discount per interval")
    returns: int = option(5, "steps of a return before the critics' estimate")
    tau: float = option(0.005, "how fast the target networks follow")
    delay: int = option(2, "gradient steps of the critics per step of the actor")
    imitate: float = option(0.3, "share of the budget in which the policy first imitates `expert`")
    imitation_lr: float = option(1e-3, "Adam's step meanwhile")
    value_weight: float = option(
        1.0, "α of TD3+BC, afterwards: weight of the critic's estimate beside the expert's action"
    )
    noise: float = option(0.1, "standard deviation of exploration at the beginning; falls to a quarter")
    smoothing: float = option(0.1, "standard deviation of the noise on target actions; twice it bounds them")


class Actor(nn.Module):
    """The network, and exploration around it."""

    def __init__(self, schema: Any) -> None:
        super().__init__()
        self.network = anole.networks.build(schema)
        # The standard deviation of exploration travels with the weights.
        self.register_buffer("noise", torch.zeros(()))
        with torch.no_grad():
            last = list(self.network.layers)[-1]
            last.weight.mul_(0.01)
            last.bias.zero_()

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Actions."""
        return self.network(obs)

    def act(self, obs: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, Rollout]:
        """Actions with exploration."""
        action = self.network(obs)
        noise = self.noise * torch.randn(action.shape, generator=generator)
        return (action + noise).clamp(-1.0, 1.0), {}


class Critic(nn.Module):
    """Two estimates of what is still to be earned."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.twins = nn.ModuleList(
            nn.Sequential(
                nn.Linear(inputs, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)
            )
            for _ in range(2)
        )

    def forward(self, obs: torch.Tensor, known: torch.Tensor, action: torch.Tensor) -> list[torch.Tensor]:
        """Both estimates, [B] each."""
        row = torch.cat([obs, known, action], -1)
        return [twin(row).squeeze(-1) for twin in self.twins]


class Replay:
    """A ring of steps of all flows, [rows, flows, …]; the observation after a step is the next row's."""

    def __init__(self, capacity: int, flows: int, inputs: int, outputs: int, device: torch.device) -> None:
        rows = max(capacity // flows, 64)
        self.data = {
            "obs": torch.zeros(rows, flows, inputs, device=device),
            "known": torch.zeros(rows, flows, KNOWN, device=device),
            "action": torch.zeros(rows, flows, outputs, device=device),
            "expert": torch.zeros(rows, flows, outputs, device=device),
            "reward": torch.zeros(rows, flows, device=device),
            "done": torch.ones(rows, flows, dtype=torch.bool, device=device),
        }
        self.rows, self.flows, self.head, self.filled = rows, flows, 0, 0

    def add(self, **steps: np.ndarray) -> None:
        """Appends arrays [T, flows, …] of every kind of `data`."""
        count = len(steps["done"])
        where = (torch.arange(count) + self.head) % self.rows
        for name, values in steps.items():
            ring = self.data[name]
            ring[where.to(ring.device)] = torch.from_numpy(values).to(ring)
        self.head, self.filled = (self.head + count) % self.rows, min(self.filled + count, self.rows)

    def sample(self, size: int, returns: int, gamma: float) -> dict[str, torch.Tensor]:
        """Steps drawn evenly: obs, known, action, expert, `reward` (discounted over `returns` steps), next_obs,
        next_known, and `whole`: 1 where no episode ends on the way, 0 where the sample says nothing."""
        device = self.data["obs"].device
        age = torch.randint(returns + 1, self.filled + 1, (size,))
        row = ((self.head - age) % self.rows).to(device)
        flow = torch.randint(self.flows, (size,)).to(device)
        out = {name: self.data[name][row, flow] for name in ("obs", "known", "action", "expert")}
        reward, whole = torch.zeros(size, device=device), torch.ones(size, device=device)
        for k in range(returns):
            at = (row + k) % self.rows
            reward += gamma**k * self.data["reward"][at, flow]
            whole *= (~self.data["done"][at, flow]).float()
        last = (row + returns) % self.rows
        following = {f"next_{name}": self.data[name][last, flow] for name in ("obs", "known")}
        return {**out, **following, "reward": reward, "whole": whole}

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {**self.data, "head": self.head, "filled": self.filled}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """From a checkpoint; what comes next belongs to new episodes."""
        if state["done"].shape != self.data["done"].shape:
            raise ValueError("--envs and --replay must be those that the run was begun with")
        for name, ring in self.data.items():
            ring.copy_(state[name])
        self.head, self.filled = state["head"], state["filled"]
        self.data["done"][self.head - 1] = True


def rewards(stats: np.ndarray, args: OrcaArguments) -> np.ndarray:
    """Rewards of the intervals with these statistics; at most 1."""
    s = named(stats)
    throughput, loss = s["throughput_mbps"], np.clip(s["loss_rate"], 0.0, 0.9)
    lost = throughput * loss / (1.0 - loss)
    ratio = s["rtt_ms"] / smallest_rtt_ms(stats)
    delay = np.where(ratio <= args.beta, 1.0, ratio)
    share = np.minimum((throughput - args.zeta * lost) / np.maximum(s["fair_share_mbps"], 1e-3), 1.0)
    more = args.equal_weight * above_fair_share(stats)
    return np.maximum(share / delay - more, -1.0).astype(np.float32)


def expert(window: np.ndarray, stats: np.ndarray, fair: np.ndarray) -> np.ndarray:
    """What who knew the link would do: the action that brings the window in force, bytes [...], to what the fair share
    fills, Mbps [...], and some packets. [..., 1]."""
    action = np.log(fair_window(stats, fair, SPARE) / np.maximum(window, 1.0)) / np.log(BASE)
    return np.clip(action, -1.0, 1.0)[..., None].astype(np.float32)


class Learner:
    """Actor, critics, their targets and optimisers."""

    def __init__(self, schema: Any, args: OrcaArguments) -> None:
        self.args, device = args, torch.device(args.device)
        self.actor = Actor(schema).to(device)
        self.critic = Critic(schema.inputs + KNOWN + schema.outputs).to(device)
        self.target_actor, self.target_critic = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.actor_optimiser = torch.optim.Adam(self.actor.parameters(), lr=args.lr)
        self.critic_optimiser = torch.optim.Adam(self.critic.parameters(), lr=args.lr)

    def parts(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {name: part for name, part in vars(self).items() if hasattr(part, "load_state_dict")}

    def update(
        self, batch: dict[str, torch.Tensor], with_actor: bool, imitate: bool
    ) -> dict[str, torch.Tensor]:
        """One gradient step of the critics; `with_actor`: also one of the actor, which may be towards the expert, and of the
        targets."""
        args = self.args
        with torch.no_grad():
            action = self.target_actor(batch["next_obs"])
            noise = args.smoothing * torch.randn_like(action)
            action = (action + noise.clamp(-2 * args.smoothing, 2 * args.smoothing)).clamp(-1.0, 1.0)
            following = torch.min(*self.target_critic(batch["next_obs"], batch["next_known"], action))
            target = batch["reward"] + args.gamma**args.returns * following
        errors = [
            (batch["whole"] * nn.functional.smooth_l1_loss(q, target, reduction="none")).mean()
            for q in self.critic(batch["obs"], batch["known"], batch["action"])
        ]
        loss = errors[0] + errors[1]
        self.critic_optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.critic_optimiser.step()
        found = {"value_loss": loss.detach(), "value": target.mean()}
        if with_actor:
            action = self.actor(batch["obs"])
            loss = (action - batch["expert"]).square().mean()
            if not imitate:
                value = self.critic(batch["obs"], batch["known"], action)[0]
                loss = loss - args.value_weight * value.mean() / value.abs().mean().detach()
            self.actor_optimiser.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(self.actor.parameters(), 1.0)
            self.actor_optimiser.step()
            for online, target_of in ((self.actor, self.target_actor), (self.critic, self.target_critic)):
                follow(online, target_of, args.tau)
        return found


@torch.no_grad()
def follow(online: nn.Module, target: nn.Module, tau: float) -> None:
    """Moves the target network towards the online one."""
    for ours, theirs in zip(target.parameters(), online.parameters(), strict=True):
        ours.lerp_(theirs, tau)


def environments(args: OrcaArguments, seed: int, envs: int) -> list[Any]:
    """The flows, over the links of the training range."""
    ranges = training_ranges(args)
    return [anole.VectorEnv("orca", "orca", n=envs, threads=args.threads, ranges=ranges, seed=seed)]


def main(argv: list[str] | None = None) -> dict[str, float]:
    """Trains, and gives the figures of the last iteration."""
    args = parse(OrcaArguments, argv, "Trains the policy orca by TD3 in the simulator.")
    seed_all(args)
    run = Run("orca", args, argv, training_ranges(args))
    schema = anole.schema.load("orca")
    learner = Learner(schema, args)
    replay = Replay(args.replay, args.envs, schema.inputs, schema.outputs, torch.device(args.device))
    parts = {**learner.parts(), "replay": replay}
    run.restore(parts)
    make = functools.partial(environments, args)
    workers = Workers(args, make, functools.partial(Actor, schema), run.step)
    known, fair_share = np.zeros((args.envs, KNOWN), dtype=np.float32), FairShare(args.envs)
    figures: dict[str, float] = {}
    while not run.over():
        progress = run.progress()
        imitate = progress < args.imitate
        learner.actor.noise.fill_(args.noise * (1.0 - 0.75 * progress))
        falling = args.lr * (1.0 - 0.9 * progress)
        for group in learner.critic_optimiser.param_groups:
            group["lr"] = falling
        for group in learner.actor_optimiser.param_groups:
            group["lr"] = args.imitation_lr if imitate else falling
        rollout = workers.collect(learner.actor.state_dict(), args.rollout)
        reward = rewards(rollout["stats"], args)
        # After an episode's end the next observation belongs to a link about which nothing is known yet.
        over = rollout["done"].astype(bool)
        following = np.where(over[..., None], 0.0, privileged(rollout["stats"])).astype(np.float32)
        all_known = np.concatenate([known[None], following[:-1]])
        known = following[-1]
        # The statistics that belong to a question are those of the step before it.
        fair = fair_share(rollout["stats"], over)
        wanted = rollout["action"].copy()
        wanted[1:] = expert(rollout["window"][1:], rollout["stats"][:-1], fair[:-1])
        wanted[1:][over[:-1]] = rollout["action"][1:][over[:-1]]
        # Scaled so that the value of a constant reward is that reward.
        replay.add(
            obs=rollout["obs"][:-1],
            known=all_known,
            action=rollout["action"],
            expert=wanted,
            reward=(1.0 - args.gamma) * reward,
            done=over,
        )
        run.step += reward.size
        found: dict[str, torch.Tensor] = {}
        if replay.filled > max(args.returns, min(args.warmup // args.envs, replay.rows) - 1):
            for index in range(args.updates):
                batch = replay.sample(args.batch, args.returns, args.gamma)
                found = learner.update(batch, index % args.delay == 0, imitate)
        figures = {
            "reward": float(reward.mean()),
            "noise": float(learner.actor.noise),
            **{f"rollout_{name}": value for name, value in score(rollout["stats"]).items()},
            **{name: float(value) for name, value in found.items()},
        }
        if run.due():
            network = learner.actor.network
            run.validated(validate(make, greedy(network), args, network), network, parts)
        run.log(figures)
    workers.close()
    run.finish(learner.actor.network, parts)
    return figures


if __name__ == "__main__":
    main()
