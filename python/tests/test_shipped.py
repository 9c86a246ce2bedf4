"""Every shipped policy: PyTorch, plain Rust and LibTorch give the same over 1000 recurrent steps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import anole_ccp as anole
from anole_ccp import _anole, policy_file

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = sorted((ROOT / "policies" / "shipped").glob("*.safetensors"))
STEPS, ROWS, TOLERANCE = 1000, 2, 1e-5
#: Where `policy-server/test.sh` and `make policy-server` build the library.
LIBRARIES = [
    path
    for folder in ("target/policy-server/debian", "target/policy-server/pip", "policy-server/build")
    if (path := ROOT / folder / "libanole_policy_torch.so").exists()
]

#: Runs in a process of its own: two versions of LibTorch do not fit into one.
THROUGH_C = """
import ctypes, sys
import numpy as np
library, file, data = sys.argv[1:]
given = np.load(data)
lib = ctypes.CDLL(library)
lib.anole_policy_open.restype = ctypes.c_void_p
error = ctypes.create_string_buffer(400)
policy = lib.anole_policy_open(file.encode(), error, ctypes.c_size_t(400))
assert policy, error.value
pointer = lambda a: a.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
worst, state = 0.0, np.ascontiguousarray(given["state"])
out = np.zeros_like(given["outputs"][0])
for x, wanted in zip(given["inputs"], given["outputs"]):
    x = np.ascontiguousarray(x)
    code = lib.anole_policy_step(ctypes.c_void_p(policy), ctypes.c_uint32(len(x)), pointer(x),
                                 pointer(state), pointer(out), error, ctypes.c_size_t(400))
    assert code == 0, error.value
    worst = max(worst, float(np.abs(out - wanted).max()))
print(worst)
"""


def reference(path: Path) -> dict[str, np.ndarray]:
    """Inputs of a random walk within the unit's size, and what PyTorch makes of them."""
    network = policy_file.load(path).network()
    torch.manual_seed(1)
    schema = network.schema
    state = network.initial_state(ROWS)
    first, inputs, outputs = state.numpy().copy(), [], []
    for _ in range(STEPS):
        x = torch.rand(ROWS, schema.inputs)
        with torch.no_grad():
            out, state = network.step(x, state)
        inputs.append(x.numpy())
        outputs.append(out.numpy())
    return {"inputs": np.stack(inputs), "outputs": np.stack(outputs), "state": first}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_rust_agrees_with_pytorch(path):
    given = reference(path)
    rust, state = _anole.Network(path.read_bytes(), path.name), given["state"].copy()
    for x, wanted in zip(given["inputs"], given["outputs"], strict=True):
        out, state = rust.step(x, state)
        assert np.abs(out - wanted).max() <= TOLERANCE


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda path: path.parent.name)
def test_libtorch_agrees_with_pytorch(library, path, tmp_path):
    np.savez(tmp_path / "data.npz", **reference(path))
    command = [sys.executable, "-c", THROUGH_C, str(library), str(path), str(tmp_path / "data.npz")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) <= TOLERANCE


def test_something_is_shipped():
    assert {path.stem for path in SHIPPED} >= {"libra", "orca", "spine"}
    assert all(
        anole.schema.load(path.stem).sha256 == policy_file.load(path).schema.sha256 for path in SHIPPED
    )
