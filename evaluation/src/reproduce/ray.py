"""Spreads the runs of `anole-eval reproduce` over a Ray cluster; `anole-eval reproduce --ray ADDRESS` starts it.

Standard input has one object: the cluster's address, the program's file, how many runs go into one task, and tasks, each a
list of arguments for the program. The program travels with the tasks, so that every node runs the same one. Each task makes
files in a folder of its own; they are written to OUT as they come, each as a whole.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import typing

try:
    import ray
except ImportError:
    sys.exit(f"--ray: {sys.executable} has no ray; install it (pip install ray), or name another Python in $ANOLE_PYTHON")


@ray.remote(num_cpus=1, max_retries=3)
def run(program: bytes, arguments: list[str]) -> dict[str, bytes]:
    """Runs the program once; the cells that it made, by their files' names."""
    with tempfile.TemporaryDirectory() as folder:
        executable = pathlib.Path(folder, "anole-eval")
        executable.write_bytes(program)
        executable.chmod(0o700)
        out = pathlib.Path(folder, "out")
        command = [str(executable), *arguments, "--jobs", "1", "--out", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(arguments)}: {done.stderr.strip()}")
        return {file.name: file.read_bytes() for file in (out / "cells").glob("*.json")}


def main() -> None:
    """Hands out the tasks and takes in their cells."""
    plan: dict[str, typing.Any] = json.load(sys.stdin)
    cells = pathlib.Path(plan["out"], "cells")
    cells.mkdir(parents=True, exist_ok=True)
    ray.init(address=plan["address"], log_to_driver=False, logging_level="warning")
    program = ray.put(pathlib.Path(plan["program"]).read_bytes())
    waiting = [run.remote(program, arguments) for arguments in plan["tasks"]]
    while waiting:
        ready, waiting = ray.wait(waiting)
        for name, content in ray.get(ready[0]).items():
            # Beside its name and renamed: whole, or not there.
            part = cells / f".{name}.part"
            part.write_bytes(content)
            os.replace(part, cells / name)
        print(f"{len(plan['tasks']) - len(waiting)} of {len(plan['tasks'])} tasks", file=sys.stderr)


main()
