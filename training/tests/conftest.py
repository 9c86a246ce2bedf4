"""Tests of the trainers run them for a few steps in the real simulator."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("anole_ccp", reason="the package anole_ccp is not built; see python/README.md")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
