"""Libra's learned candidate: proximal policy optimisation on a rate (Libra §4.2; Anole's learned slot).

Schulman et al., "Proximal Policy Optimization Algorithms", 2017, on the schemas `libra` and `libra-rl`: the last eight sets
of five or eight features, 2 × 512 tanh, one output a in [−1, 1], rate ← rate · 2^a.

Reward per decision, u of the interval that the decision governed:
  libra   u = w1·x/x_max − w2·d/d_min − w3·L with w = 1, 0.5, 10 (Libra §4.2), x_max and d_min as the flow
          has seen them
  link    the same with the fair share and the smallest possible round-trip time for x_max and d_min: a flow that
          never tried more has x = x_max, and here no reward for it
  power   u = ln(x / fair share) − δ·ln(RTT / smallest RTT) − w3·L/10: the logarithm of Kleinrock's power, which
          the random suite ranks by; a doubling is worth the same at any rate. A flow among others pays for what
          it has beyond its fair share: ln(x / fair share) · `--equal-weight`
L is the loss beyond what the path loses at random, except in `libra`, which knows no difference.
With `--change` the reward is u_t − u_{t−1}, as in the paper. Summed with discount γ that is (1 − γ)·Σ γ^k u
less a term that no action changes, so both forms have the same optimum; the plain form needs no memory.

Deviations from the paper:
- the critic also sees what only the simulator knows (capacity, base RTT, flows); the policy does not;
- before it is rewarded, the policy imitates on its own rollouts an expert who knows the fair share (DAgger,
  Ross et al. 2011): minutes of PPO then begin near a good policy (`--imitate 0` leaves this out);
- the standard deviation of actions follows a schedule;
- an episode's end is the end of a measurement, not of the flow: its last value is bootstrapped;
- a flow alone (`--algorithm libra-rl`, the schema of that name) decides twice per round trip, in Anole's slot (`anole`, the
  schema `libra`) once per cycle, and there its rate is one of three.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import torch
from torch import nn

import anole_ccp as anole
from common import (
    KNOWN,
    LEAST_SHARE,
    PACKET_BITS,
    Arguments,
    FairShare,
    Rollout,
    Run,
    Workers,
    above_fair_share,
    fail,
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

#: What a policy drives, and the schema of it.
SCHEMAS = {"anole": "libra", "libra-rl": "libra-rl"}
#: The last set of features in an input: rate in force over delivery rate.
SENT_OVER_DELIVERED = -4
#: The expert wants this share of the fair share, and of that for a queue of one round trip this much less.
#: Chosen from 0.95 to 1 and 0.25 to 0.5: the most power in Anole's slot.
EXPERT_SHARE, EXPERT_QUEUE = 0.98, 0.25
#: Imitated is what follows from the policy's own, quiet actions: noise would find free capacity for it.
IMITATION_STD = 0.02
#: Libra §4.2.
W_RATE, W_DELAY, W_LOSS = 1.0, 0.5, 10.0


@dataclasses.dataclass
class LibraArguments(Arguments):
    """Arguments of this trainer."""

    algorithm: str = option("libra-rl", "what it drives: anole or libra-rl")
    reward: str = option("power", "libra, link or power")
    change: bool = option(False, "reward the change of utility, as in the paper")
    delay_weight: float = option(1.0, "δ of the reward power")
    loss_weight: float = option(W_LOSS, "w3")
    equal_weight: float = option(
        0.5, "of what a flow among others has beyond its fair share, in the reward power"
    )
    rollout: int = option(32, "decisions of each flow per iteration")
    epochs: int = option(5, "passes over a rollout")
    minibatch: int = option(1024, "decisions per gradient step")
    lr: float = option(3e-4, "Adam's step at the beginning; falls to a tenth")
    gamma: float = option(0.9, "discount per decision")
    lam: float = option(0.9, "λ of the generalised advantage")
    clip: float = option(0.2, "ε of the clipped objective")
    target_kl: float = option(0.03, "an iteration ends early beyond this divergence")
    std: float = option(0.2, "standard deviation of actions at the beginning; falls to a fifth")
    imitate: float = option(0.2, "share of the budget in which the policy first imitates `expert`")
    imitation_lr: float = option(1e-3, "Adam's step meanwhile")
    spare: float = option(0.0, "packets of a flow that the expert wants in the queue")
    held: float = option(0.0, "weight of the distance from the expert's actions afterwards")
    init: str = option("", "policy file whose weights it begins with; random ones if left out")


class Actor(nn.Module):
    """A Gaussian around the network's output. Its standard deviation follows a schedule, for a learned one
    stays large: noise alone finds free capacity, and the mean then never learns to."""

    def __init__(self, schema: Any) -> None:
        super().__init__()
        self.network = anole.networks.build(schema)
        # Travels with the weights.
        self.register_buffer("std", torch.ones(()))
        with torch.no_grad():
            last = list(self.network.layers)[-1]
            last.weight.mul_(0.01)
            last.bias.zero_()

    def forward(self, obs: torch.Tensor) -> torch.distributions.Normal:
        """The distribution of actions."""
        return torch.distributions.Normal(self.network(obs), self.std)

    def act(
        self, obs: torch.Tensor, generator: torch.Generator
    ) -> tuple[torch.Tensor, dict[str, np.ndarray]]:
        """Draws actions, and gives their log-probabilities."""
        normal = self(obs)
        action = normal.mean + normal.stddev * torch.randn(normal.mean.shape, generator=generator)
        return action, {"logp": normal.log_prob(action).sum(-1).numpy()}


def make_critic(inputs: int) -> nn.Module:
    """The value of an observation and of what only the simulator knows."""
    return nn.Sequential(
        nn.Linear(inputs, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 1), nn.Flatten(0)
    )


class Reward:
    """Rewards of all flows, with what each flow has to remember."""

    def __init__(self, args: LibraArguments, flows: int) -> None:
        if args.reward not in ("libra", "link", "power"):
            fail(f"--reward {args.reward}: choose libra, link or power")
        self.args = args
        self.x_max, self.d_min = np.zeros(flows), np.full(flows, np.inf)
        self.last = np.full(flows, np.nan)

    def __call__(self, stats: np.ndarray, done: np.ndarray) -> np.ndarray:
        """Rewards [T, N] of the steps that ended with these statistics [T, N, K]."""
        s, args = named(stats), self.args
        out = np.empty(done.shape, dtype=np.float32)
        for t in range(len(done)):
            x, d, loss = s["throughput_mbps"][t], s["rtt_ms"][t], s["loss_rate"][t]
            excess = np.maximum(loss - s["random_loss"][t], 0.0)
            fair, smallest = np.maximum(s["fair_share_mbps"][t], 1e-3), smallest_rtt_ms(stats[t])
            if args.reward == "power":
                share = np.clip(x / fair, LEAST_SHARE, 1.0)
                delay = args.delay_weight * np.log(np.maximum(d / smallest, 1.0))
                more = args.equal_weight * np.log1p(above_fair_share(stats[t]))
                u = np.log(share) - delay - args.loss_weight / 10.0 * excess - more
            elif args.reward == "link":
                u = W_RATE * np.minimum(x / fair, 1.0) - W_DELAY * d / smallest - args.loss_weight * excess
            else:
                self.x_max = np.maximum(self.x_max, x)
                self.d_min = np.minimum(self.d_min, np.where(d > 0, d, np.inf))
                seen = np.where(np.isfinite(self.d_min), d / self.d_min, 1.0)
                u = W_RATE * x / np.maximum(self.x_max, 1e-3) - W_DELAY * seen - args.loss_weight * loss
            before = np.where(np.isnan(self.last), u, self.last)
            out[t] = u - before if args.change else u
            over = done[t].astype(bool)
            self.last = np.where(over, np.nan, u)
            self.x_max, self.d_min = np.where(over, 0.0, self.x_max), np.where(over, np.inf, self.d_min)
        return out


def advantages(
    rewards: torch.Tensor, values: torch.Tensor, done: torch.Tensor, args: LibraArguments
) -> torch.Tensor:
    """Generalised advantages [T, N] from values [T + 1, N]. Where an episode was cut off, the state after it
    is taken to be worth what the one before it was."""
    out, running = torch.zeros_like(rewards), torch.zeros_like(rewards[0])
    for t in reversed(range(len(rewards))):
        following = torch.where(done[t], values[t], values[t + 1])
        delta = rewards[t] + args.gamma * following - values[t]
        running = delta + args.gamma * args.lam * torch.where(done[t], 0.0, running)
        out[t] = running
    return out


def expert(obs: np.ndarray, stats: np.ndarray, fair: np.ndarray, spare: float) -> np.ndarray:
    """What who knew the link would do: the action that brings the rate in force to the fair share, less a
    little for the queue there is beyond `spare` packets of each flow. NaN where the rate in force is not known. [..., inputs],
    [..., K] and [...] to [..., 1]."""
    s = named(stats)
    rate = obs[..., SENT_OVER_DELIVERED] * s["throughput_mbps"]
    base = np.maximum(s["base_rtt_ms"], 1e-3)
    packet_ms = PACKET_BITS / 1e3 / fair
    queue = (np.maximum(s["rtt_ms"] - base - packet_ms, 0.0) - spare * packet_ms) / base
    wanted = EXPERT_SHARE * fair * np.clip(1.0 - EXPERT_QUEUE * queue, 0.5, 1.5)
    with np.errstate(divide="ignore"):
        action = np.log2(wanted / rate)
    return np.where(rate > 0.0, np.clip(action, -1.0, 1.0), np.nan)[..., None].astype(np.float32)


def update(
    actor: Actor,
    critic: nn.Module,
    optimiser: torch.optim.Optimizer,
    batch: dict[str, torch.Tensor],
    args: LibraArguments,
    imitate: bool,
) -> dict[str, float]:
    """The gradient steps of one iteration on flat tensors obs, known, action, logp, advantage, target and
    expert; `imitate`: the policy's are towards the expert's actions."""
    size = len(batch["obs"])
    sums = {"policy_loss": 0.0, "value_loss": 0.0, "kl": 0.0}
    steps, kl = 0, 0.0
    for _ in range(args.epochs):
        order = torch.randperm(size).to(batch["obs"].device)
        for first in range(0, size, args.minibatch):
            rows = order[first : first + args.minibatch]
            obs, advantage = batch["obs"][rows], batch["advantage"][rows]
            normal = actor(obs)
            log_ratio = normal.log_prob(batch["action"][rows]).sum(-1) - batch["logp"][rows]
            ratio = log_ratio.exp()
            wanted = batch["expert"][rows]
            error = normal.mean - torch.where(wanted.isnan(), normal.mean, wanted)
            policy_loss = error.square().mean()
            if not imitate:
                clipped = ratio.clamp(1.0 - args.clip, 1.0 + args.clip)
                policy_loss = (
                    args.held * policy_loss - torch.min(ratio * advantage, clipped * advantage).mean()
                )
            value = critic(torch.cat([obs, batch["known"][rows]], -1))
            value_loss = nn.functional.smooth_l1_loss(value, batch["target"][rows])
            loss = policy_loss + value_loss
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_([*actor.parameters(), *critic.parameters()], 0.5)
            optimiser.step()
            kl = float((ratio - 1.0 - log_ratio).mean().detach())
            found = {
                "policy_loss": float(policy_loss.detach()),
                "value_loss": float(value_loss.detach()),
                "kl": kl,
            }
            sums = {name: total + found[name] for name, total in sums.items()}
            steps += 1
        if kl > args.target_kl and not imitate:
            break
    return {name: total / steps for name, total in sums.items()} | {"gradient_steps": steps}


def environments(args: LibraArguments, seed: int, envs: int) -> list[Any]:
    """The flows, over the training's links."""
    return [
        anole.VectorEnv(
            schema=SCHEMAS[args.algorithm],
            algorithm=args.algorithm,
            n=envs,
            threads=args.threads,
            ranges=training_ranges(args),
            seed=seed,
        )
    ]


def prepare(
    rollout: Rollout,
    rewards: np.ndarray,
    known: np.ndarray,
    fair: np.ndarray,
    critic: nn.Module,
    device: torch.device,
    args: LibraArguments,
) -> dict[str, torch.Tensor]:
    """A rollout as the flat tensors that `update` takes. `known` [T + 1, N, 6] goes with the observations, `fair` [T, N] is
    the fair share after each step."""
    data = {name: torch.from_numpy(rollout[name]).to(device) for name in ("obs", "action", "logp", "done")}
    all_known = torch.from_numpy(known).to(device)
    # Scaled so that the value of a constant reward is that reward.
    scaled = torch.from_numpy(rewards).to(device) * (1.0 - args.gamma)
    with torch.no_grad():
        values = critic(torch.cat([data["obs"], all_known], -1).flatten(0, 1)).view(len(rewards) + 1, -1)
    advantage = advantages(scaled, values, data["done"].bool(), args)
    target = advantage + values[:-1]
    # Every flow counts the same: how much rewards vary differs between links, and most between algorithms.
    size = advantage.square().mean(0).sqrt()
    advantage = advantage / (size + 0.1 * size.mean() + 1e-8)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    # The statistics that belong to an observation are those of the step before it.
    wanted = expert(rollout["obs"][1:-1], rollout["stats"][:-1], fair[:-1], args.spare)
    wanted[rollout["done"][:-1].astype(bool)] = np.nan
    unknown = np.full_like(rollout["action"][:1], np.nan)
    imitated = torch.from_numpy(np.concatenate([unknown, wanted])).to(device)
    return {
        "obs": data["obs"][:-1].flatten(0, 1),
        "known": all_known[:-1].flatten(0, 1),
        "action": data["action"].flatten(0, 1),
        "logp": data["logp"].flatten(),
        "advantage": advantage.flatten(),
        "target": target.flatten(),
        "expert": imitated.flatten(0, 1),
    }


def main(argv: list[str] | None = None) -> dict[str, float]:
    """Trains, and gives the figures of the last iteration."""
    args = parse(LibraArguments, argv, "Trains the policy libra by PPO in the simulator.")
    if args.algorithm not in SCHEMAS:
        fail(f"--algorithm {args.algorithm}: choose {' or '.join(SCHEMAS)}")
    seed_all(args)
    schema = anole.schema.load(SCHEMAS[args.algorithm])
    run = Run(schema.name, args, argv, training_ranges(args), trainer="libra")
    device = torch.device(args.device)
    actor = Actor(schema).to(device)
    if args.init:
        try:
            begun = anole.policy_file.load(args.init)
        except (OSError, ValueError) as error:
            fail(f"--init: {error}")
        if begun.schema.text != schema.text:
            fail(f"--init {args.init}: its schema is another; give a policy of the schema {schema.name}")
        actor.network.load_state_dict(begun.network().state_dict())
    critic = make_critic(schema.inputs + KNOWN).to(device)
    optimiser = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=args.lr, eps=1e-5)
    parts = {"actor": actor, "critic": critic, "optimiser": optimiser}
    run.restore(parts)
    make = functools.partial(environments, args)
    workers = Workers(args, make, functools.partial(Actor, schema), run.step)
    reward, fair_share = Reward(args, args.envs), FairShare(args.envs)
    known = np.zeros((args.envs, KNOWN), dtype=np.float32)
    figures: dict[str, float] = {}
    while not run.over():
        progress = run.progress()
        imitate = progress < args.imitate
        actor.std.fill_(IMITATION_STD if imitate else args.std * (1.0 - 0.8 * progress))
        for group in optimiser.param_groups:
            group["lr"] = args.imitation_lr if imitate else args.lr * (1.0 - 0.9 * progress)
        rollout = workers.collect(actor.state_dict(), args.rollout)
        rewards = reward(rollout["stats"], rollout["done"])
        # After an episode's end the next observation belongs to a link about which nothing is known yet.
        over = rollout["done"].astype(bool)[..., None]
        following = np.where(over, 0.0, privileged(rollout["stats"])).astype(np.float32)
        fair = fair_share(rollout["stats"], rollout["done"])
        batch = prepare(
            rollout, rewards, np.concatenate([known[None], following]), fair, critic, device, args
        )
        known = following[-1]
        found = update(actor, critic, optimiser, batch, args, imitate)
        run.step += rewards.size
        figures = {
            "reward": float(rewards.mean()),
            "std": float(actor.std),
            **{f"rollout_{name}": value for name, value in score(rollout["stats"]).items()},
            **found,
        }
        if run.due():
            run.validated(validate(make, greedy(actor.network), args, actor.network), actor.network, parts)
        run.log(figures)
    workers.close()
    run.finish(actor.network, parts)
    return figures


if __name__ == "__main__":
    main()
