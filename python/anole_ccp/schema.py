"""Schemas: what a policy sees, how large its network is, what its output means, how often it runs.

The format is described in `policies/README.md`; errors come from the Rust reader, with file and line.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any

from . import _anole


@dataclasses.dataclass(frozen=True)
class Schema:
    """A checked schema. `text` is canonical: the file without comments, indentation, blank lines and the
    table `[algorithm]`, which says nothing about what the network sees, computes and means."""

    text: str
    """The schema as it is written."""
    data: dict[str, Any]
    """The text as TOML."""
    inputs: int
    """Width of the network's input."""
    outputs: int
    """Width of its output."""
    state: int
    """Width of the state that it carries for each flow."""

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.data["name"])

    @property
    def sha256(self) -> str:
        """SHA-256 of the canonical text, in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def action(self) -> str:
        """Kind of its action."""
        return str(self.data["action"]["kind"])

    @property
    def network(self) -> dict[str, Any]:
        """The network as a policy file's manifest describes it."""
        described: dict[str, Any] = json.loads(_anole.schema_network(self.text))
        return described


def parse(text: str) -> Schema:
    """Reads a schema's text. Raises ValueError with the line of what is wrong."""
    inputs, outputs, state = _anole.schema_shape(text)
    canonical = _anole.canonical_schema(text)
    return Schema(canonical, tomllib.loads(canonical), inputs, outputs, state)


def load(name: str | Path) -> Schema:
    """The schema with this name, or in this file (a path that ends in `.toml`).

    Raises ValueError for a name that is not known, FileNotFoundError for a file that is not there.
    """
    if str(name).endswith(".toml"):
        return parse(Path(name).read_text(encoding="utf-8"))
    text = _anole.schema_text(str(name))
    if text is None:
        raise ValueError(f'no schema is named "{name}"; known are {", ".join(names())}')
    return parse(text)


def names() -> list[str]:
    """Names that `load` knows."""
    return _anole.schema_names()
