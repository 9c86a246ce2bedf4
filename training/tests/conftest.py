"""Tests of the trainers run them for a few steps in the real simulator."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("anole_ccp", reason="the package anole_ccp is not built; see python/README.md")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


@pytest.fixture(scope="session")
def ray() -> Iterator[Any]:
    """Ray, whose node the first trainer starts and the others find."""
    module = pytest.importorskip("ray")
    yield module
    module.shutdown()
