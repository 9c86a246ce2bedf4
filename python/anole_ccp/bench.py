"""How fast the environment is: `python -m anole_ccp.bench`. Prints one JSON object per algorithm.

Packets are those that arrived at the receivers of the flows that are trained; time is that of all
processors together, so that other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

from .environment import STATS, VectorEnv

PACKET_BITS = 1500 * 8
"""A full packet on the wire, bits."""


def measure(schema: str, algorithm: str, n: int, threads: int, seconds: float) -> dict[str, object]:
    """Figures of one algorithm under random actions."""
    env = VectorEnv(schema, algorithm, n, threads=threads, ranges="inside", seed=1, episode_s=20.0)
    env.reset()
    rng = np.random.default_rng(1)
    rate, interval = STATS.index("throughput_mbps"), STATS.index("interval_s")
    steps, packets = 0, 0.0
    started, started_cpu = time.perf_counter(), time.process_time()
    while time.perf_counter() - started < seconds:
        _, stats, _ = env.step(rng.uniform(-0.5, 0.5, (n, env.schema.outputs)))
        steps += n
        packets += float((stats[:, rate] * stats[:, interval]).sum()) * 1e6 / PACKET_BITS
    cpu_s, wall_s = time.process_time() - started_cpu, time.perf_counter() - started
    env.close()
    return {
        "bench": "environment",
        "algorithm": algorithm,
        "n": n,
        "threads": threads,
        "packets_per_cpu_s": round(packets / cpu_s),
        "packets_per_s": round(packets / wall_s),
        "steps_per_s": round(steps / wall_s),
    }


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description="Measures simulated packets per second, Python included.")
    parser.add_argument("--schema-algorithm", default="libra:anole,libra:libra-rl,orca:orca,spine:spine")
    parser.add_argument("--n", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5.0)
    args = parser.parse_args()
    for pair in args.schema_algorithm.split(","):
        schema, _, algorithm = pair.partition(":")
        print(json.dumps(measure(schema, algorithm, args.n, args.threads, args.seconds)), flush=True)


if __name__ == "__main__":
    main()
