#!/usr/bin/env python3
"""Gathers the pages of the documentation's site into target/site-pages: every Markdown file of the tree at its own path,
the Python reference, and a gallery of plots that are made here. `make docs` then runs mkdocs on docs/mkdocs.yml.

A link to a file that is no page becomes plain text: the site stands alone. A link to what is not there stays, and
`mkdocs build --strict` refuses it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "target" / "site-pages"
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")

#: Scenario, algorithms and title of each picture.
GALLERY = [
    ("anole-normal", ["cubic"], "CUBIC's sawtooth"),
    ("anole-normal", ["anole", "cubic", "bbr"], "Anole, CUBIC and BBR on one link"),
    ("lte", ["anole", "vegas"], "A cellular link"),
    ("anole-loss", ["anole", "cubic", "bbr"], "Packets lost at random"),
    ("square-wave", ["anole", "c-libra", "cubic"], "A capacity that changes"),
    ("anole-normal", ["orca", "spine", "sage"], "Trained policies"),
    ("rtt-fairness", ["cubic"], "Two flows with unequal round-trip times"),
    ("staggered", ["anole"], "Flows that begin one after another"),
]


def main() -> None:
    """Writes target/site-pages anew."""
    shutil.rmtree(PAGES, ignore_errors=True)
    pages = tracked("*.md")
    for page in pages:
        target = PAGES / page.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = page.read_text(encoding="utf-8")
        target.write_text(LINK.sub(lambda link, page=page: linked(link, page, pages), text), encoding="utf-8")
    for picture in tracked("*.svg", "*.png"):
        target = PAGES / picture.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, target)
    modules = ["anole_ccp", *(f"anole_ccp.{name}" for name in ("fold", "gym", "schema", "networks", "policy_file"))]
    reference = "\n".join(f"::: {module}\n" for module in modules)
    (PAGES / "reference.md").write_text(f"# Python reference\n\n{reference}", encoding="utf-8")
    gallery()


def tracked(*patterns: str) -> set[Path]:
    """The files of the tree with such names."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return {ROOT / name for name in listed.stdout.split()}


def linked(link: re.Match[str], page: Path, pages: set[Path]) -> str:
    """The link as the site has it."""
    text, target, anchor = link[1], link[2], link[3] or ""
    if "://" in target or target.startswith("mailto:"):
        return link[0]
    path = (page.parent / target).resolve()
    if path in pages:
        return link[0]
    if path.is_dir() and path / "README.md" in pages:
        return f"[{text}]({target.rstrip('/')}/README.md{anchor})"
    return text if path.exists() else link[0]


def gallery() -> None:
    """Runs and draws the pictures."""
    sys.path.insert(0, str(ROOT / "python"))
    import anole_ccp

    folder = PAGES / "gallery"
    folder.mkdir(parents=True)
    lines = ["# Gallery", "", "Simulated; each picture is made with the site, by the command below it.", ""]
    for number, (scenario, algorithms, title) in enumerate(GALLERY, 1):
        results = [anole_ccp.simulate(scenario, alg) for alg in algorithms]
        anole_ccp.plot(*results).save(folder / f"{number}.svg")
        command = f"anole-eval sim {scenario} --alg {','.join(algorithms)} --plot --out DIR"
        lines += [f"## {title}", "", f"![{title}](gallery/{number}.svg)", "", f"`{command}`", ""]
    (PAGES / "gallery.md").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
