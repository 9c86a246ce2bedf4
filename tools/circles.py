#!/usr/bin/env python3
"""Import circles: modules of a crate that use each other, directly or around. Fails if there is one.

`python3 tools/circles.py [FOLDER]` reads the sources of every crate below the folder. A module and those within it belong
together and make no circle; what is used through a re-export counts as used where it is. Tests are left out.
"""

import os
import re
import sys
from collections.abc import Iterator

SKIPPED = {"target", ".git", ".venv", "node_modules"}
Path = tuple[str, ...]


def crates(root: str) -> Iterator[tuple[str, dict[Path, str]]]:
    """Every crate's name, and the text of each of its modules."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - SKIPPED)
        source = os.path.join(folder, "src")
        if "Cargo.toml" in files and os.path.isdir(source):
            with open(os.path.join(folder, "Cargo.toml"), encoding="utf-8") as file:
                name = re.search(r'^name = "(.*)"', file.read(), re.M)
            yield (name[1] if name else folder), modules(source)


def modules(source: str) -> dict[Path, str]:
    texts: dict[Path, str] = {}
    for folder, _, files in os.walk(source):
        for file in files:
            path = tuple(os.path.relpath(os.path.join(folder, file), source)[: -len(".rs")].split(os.sep))
            if not file.endswith(".rs") or "tests" in path:
                continue
            if path[-1] in ("mod", "lib", "main"):
                path = path[:-1]
            with open(os.path.join(folder, file), encoding="utf-8") as opened:
                text = opened.read()
            text = re.sub(r"#\[cfg\(test\)\]\s*mod \w+ \{.*?\n\}\n", "", text, flags=re.S)
            # A library and a program of one crate have their roots in one folder.
            texts[path] = texts.get(path, "") + re.sub(r"//.*", "", text)
    return texts


def paths(tree: str) -> Iterator[Path]:
    """The paths of a `use` tree: `a::{b, c::{d}}` has a::b and a::c::d."""
    depth, piece, pieces = 0, "", []
    for sign in tree + ",":
        depth += (sign == "{") - (sign == "}")
        if sign == "," and depth == 0:
            pieces.append(piece.strip())
            piece = ""
        else:
            piece += sign
    for piece in filter(None, pieces):
        before, brace, within = piece.partition("{")
        start = tuple(part for part in before.split(" as ")[0].strip().split("::") if part)
        if brace:
            yield from (start + rest for rest in paths(within[: within.rindex("}")]))
        else:
            yield start


def uses(text: str, keyword: str) -> Iterator[Path]:
    for tree in re.findall(keyword + r"\buse ([\w:{},*\s]+);", text):
        yield from paths(" ".join(tree.split()))


def longest(path: Path, texts: dict[Path, str]) -> Path:
    while path not in texts:
        path = path[:-1]
    return path


def absolute(path: Path, module: Path) -> Path | None:
    """From the crate's root; None if it leads out of the crate."""
    if path[0] == "crate":
        return path[1:]
    if path[0] not in ("super", "self"):
        return None
    while path and path[0] == "super":
        path, module = path[1:], module[:-1]
    return module + tuple(part for part in path if part != "self")


def place(path: Path, texts: dict[Path, str]) -> Path:
    """The module in which the item with this path is."""
    for _ in range(8):
        module = longest(path, texts)
        name = path[len(module) :][:1]
        exported = (
            absolute(use, module) or module + use for use in uses(texts[module], r"pub(?:\([^)]*\))? ") if use[-1:] == name
        )
        further = next((use for use in exported if longest(use, texts) != module), None)
        if not name or further is None:
            break
        path = further
    return longest(path, texts)


def graph(texts: dict[Path, str]) -> dict[Path, set[Path]]:
    used: dict[Path, set[Path]] = {module: set() for module in texts}
    for module, text in texts.items():
        inline = (tuple(path.split("::")) for path in re.findall(r"\b(?:crate|super)(?:::\w+)+", text))
        for path in [*uses(text, ""), *inline]:
            whole = absolute(path, module)
            if whole is not None:
                other = place(whole, texts)
                shared = min(len(module), len(other))
                if module[:shared] != other[:shared]:
                    used[module].add(other)
    return used


def circle(used: dict[Path, set[Path]]) -> list[Path] | None:
    done: set[Path] = set()

    def follow(module: Path, way: list[Path]) -> list[Path] | None:
        if module in way:
            return [*way[way.index(module) :], module]
        if module in done:
            return None
        found = next(filter(None, (follow(other, [*way, module]) for other in sorted(used[module]))), None)
        done.add(module)
        return found

    return next(filter(None, (follow(module, []) for module in sorted(used))), None)


def main() -> int:
    found = 0
    for name, texts in crates(sys.argv[1] if len(sys.argv) > 1 else "."):
        ring = circle(graph(texts))
        if ring:
            found += 1
            print(f"{name}: an import circle: " + " -> ".join("::".join(module) or "the root" for module in ring))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
