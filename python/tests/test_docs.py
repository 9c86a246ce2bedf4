"""The examples of the documentation run as they stand: those of docs/python.md and docs/tutorial.md each by itself."""

from __future__ import annotations

import re
import shutil
import subprocess
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


ROOT = DOCS.parent
PROGRAMS = ("anole-policy", "anole-eval", "anole-ccp")


def test_a_module_of_ones_own_drives_a_flow(tmp_path, monkeypatch):
    """docs/own-model.md from its first line to its last; the run over QUIC takes the five seconds that it says."""
    text = (DOCS / "own-model.md").read_text(encoding="utf-8")
    blocks = {kind: re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL) for kind in ("python", "toml", "sh")}
    missing = [name for name in PROGRAMS if not (ROOT / "target/debug" / name).exists()]
    if missing:
        pytest.skip(f"{', '.join(missing)}: not in target/debug (cargo build --workspace --bins)")
    pytest.importorskip("safetensors.torch")
    monkeypatch.chdir(tmp_path)
    for name in PROGRAMS:
        (tmp_path / name).symlink_to(ROOT / "target/debug" / name)
    shutil.copytree(ROOT / "evaluation/scenarios", tmp_path / "evaluation/scenarios")
    exec(compile(blocks["python"][0], "own-model.md", "exec"), {"__name__": "example"})
    (tmp_path / "mine.toml").write_text(blocks["toml"][0])
    done = subprocess.run(
        ["sh", "-e"], input="\n".join(blocks["sh"]), text=True, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "known answers: largest difference" in done.stdout and "mine, action rate-exp" in done.stdout
    assert done.stdout.count("link bottleneck used") == 3
