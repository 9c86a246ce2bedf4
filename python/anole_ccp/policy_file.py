"""Policy files: weights in safetensors with a manifest (format 1; `policies/README.md`)."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _anole
from .schema import Schema, parse

Tensors = dict[str, NDArray[np.float32]]


@dataclasses.dataclass(frozen=True)
class PolicyFile:
    """A policy file that was found whole."""

    schema: Schema
    manifest: dict[str, Any]
    tensors: Tensors

    def network(self) -> Any:
        """The PyTorch module with these weights; needs PyTorch."""
        import torch

        from .networks import build

        module = build(self.schema)
        module.load_state_dict({name: torch.from_numpy(value) for name, value in self.tensors.items()})
        return module


def content(
    schema: Schema,
    weights: Any,
    *,
    training: Mapping[str, Any] | None = None,
    seed: int | None = None,
    trained_by: str = "",
) -> bytes:
    """The bytes of a policy file; arguments and errors as of `save`."""
    tensors = _arrays(weights)
    data = b"".join(tensors[name].tobytes() for name in sorted(tensors))
    header: dict[str, Any] = {}
    start = 0
    for name in sorted(tensors):
        end = start + tensors[name].nbytes
        shape = list(tensors[name].shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, end]}
        start = end
    manifest = {
        "format": 1,
        "name": schema.name,
        "schema_sha256": schema.sha256,
        "schema": schema.text,
        "network": schema.network,
        "tensors_sha256": hashlib.sha256(data).hexdigest(),
        "action": schema.action,
        "training": dict(training or {}),
        "seed": seed,
        "trained_by": trained_by,
    }
    header["__metadata__"] = {"anole": json.dumps(manifest)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def save(
    path: str | Path,
    schema: Schema,
    weights: Any,
    *,
    training: Mapping[str, Any] | None = None,
    seed: int | None = None,
    trained_by: str = "",
) -> None:
    """Writes a policy file; it is whole or not there.

    `weights`: a module of `anole_ccp.networks`, its `state_dict()`, or arrays by tensor name. `training` says
    under which conditions it was trained (numbers, ranges, text; what JSON can carry), `trained_by` with
    which version and command. Raises ValueError if the weights are not those of the schema, or not finite.
    """
    path = Path(path)
    written = content(schema, weights, training=training, seed=seed, trained_by=trained_by)
    _anole.check_policy(written, str(path))
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_bytes(written)
    unfinished.replace(path)


def load(path: str | Path) -> PolicyFile:
    """Reads a policy file. Raises ValueError with the file's name and what is wrong with it."""
    content = Path(path).read_bytes()
    _anole.check_policy(content, str(path))
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    manifest = json.loads(header.pop("__metadata__")["anole"])
    data = content[8 + length :]
    tensors: Tensors = {}
    for name, entry in header.items():
        start, end = entry["data_offsets"]
        values = np.frombuffer(data[start:end], dtype="<f4").reshape(entry["shape"])
        tensors[name] = values.astype(np.float32)
    return PolicyFile(parse(manifest["schema"]), manifest, tensors)


def _arrays(weights: Any) -> Tensors:
    if hasattr(weights, "state_dict"):
        weights = weights.state_dict()
    arrays = {}
    for name, value in weights.items():
        if hasattr(value, "detach"):
            value = value.detach().cpu().numpy()
        arrays[name] = np.ascontiguousarray(value, dtype="<f4")
    return arrays
