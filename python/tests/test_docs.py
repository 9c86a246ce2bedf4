"""The examples of docs/python.md and docs/tutorial.md run as they stand, each by itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
EXAMPLES = [
    pytest.param(name, example, id=f"{name}-{number}")
    for name in ("python.md", "tutorial.md")
    for number, example in enumerate(
        re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(encoding="utf-8"), re.DOTALL)
    )
]


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
@pytest.mark.filterwarnings("ignore:.*")
def test_an_example_runs(name, example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(example, name, "exec"), {"__name__": "example"})
