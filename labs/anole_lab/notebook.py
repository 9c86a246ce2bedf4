"""The labs as Jupyter notebooks: README, starter and check, made from the labs' own files."""

from __future__ import annotations

import json
from typing import Any

from .lab import Lab


def notebook(lab: Lab) -> str:
    """The notebook's JSON (nbformat 4.5); the same files give the same bytes."""
    readme = (lab.folder / "README.md").read_text(encoding="utf-8")
    starter = lab.starter.read_text(encoding="utf-8")
    check = f'from anole_lab import check_here\n\noutcome = check_here("{lab.number}", globals())\nprint(outcome)\n'
    plot = "import anole_ccp\n\nanole_ccp.plot(*outcome.shown) if outcome.shown else None\n"
    cells = [
        _cell("markdown", readme),
        _cell(
            "markdown",
            f"## {lab.starter.name}\n\nWhat you hand in: copy this cell into `{lab.starter.name}`.\n",
        ),
        _cell("code", starter),
        _cell("markdown", "## Check\n"),
        _cell("code", check),
        _cell("code", plot),
    ]
    for number, cell in enumerate(cells):
        cell["id"] = f"lab{lab.number}-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def _cell(kind: str, text: str) -> dict[str, Any]:
    lines = text.rstrip("\n").splitlines(keepends=True)
    code: dict[str, Any] = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, "metadata": {}, "source": lines} | code
