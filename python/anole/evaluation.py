"""Policies over the random suite: a thin way to `anole-eval suite`."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: Where `cargo build --release` leaves the program.
BUILT = Path(__file__).resolve().parents[2] / "target" / "release" / "anole-eval"


def evaluate(
    algorithms: Sequence[str],
    *,
    policies: Sequence[str | Path] = (),
    links: int = 200,
    seed: int = 1,
    ranges: str = "random",
    duration_s: float | None = None,
    program: str | Path | None = None,
) -> list[dict[str, Any]]:
    """Runs `anole-eval suite --summary` and returns one dictionary for every algorithm and policy, in order.

    `algorithms`: names, or `NAME+POLICY`; `policies`: names or files, each with every algorithm that takes
    one. `program` is the path of `anole-eval` (default: from PATH, else target/release). Raises ValueError
    with the program's message where it refuses, FileNotFoundError where there is no program.
    """
    found = program or shutil.which("anole-eval") or BUILT
    command = [str(found), "suite", "--summary", "--alg", ",".join(algorithms), "--links", str(links)]
    command += ["--seed", str(seed), "--ranges", ranges]
    if policies:
        command += ["--policy", ",".join(str(policy) for policy in policies)]
    if duration_s is not None:
        command += ["--duration", str(duration_s)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(done.stderr.strip() or f"{command[0]} ended with {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()]
