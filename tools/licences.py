#!/usr/bin/env python3
"""Licences and sources of every crate that the workspace builds on Linux, its tests' included.

Each crate comes from crates.io or from this workspace, names the versions that it wants, and can be used under licences
of `ALLOWED` alone.
"""

import json
import subprocess
import sys
from pathlib import Path

import license_expression

ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MPL-2.0",
    "Unicode-3.0",
    "Zlib",
}
BANNED = {
    "libccp": "it exports C symbols named `log`, `now` and `send_msg`, and a program that links it and calls f64::ln crashes;"
    " tests/oracle has it in a process of its own",
}
CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"
TARGETS = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"]

spdx = license_expression.get_spdx_licensing()


def allows(node: license_expression.Renderable) -> bool:
    """Whether an SPDX expression can be met with licences of `ALLOWED`."""
    if isinstance(node, spdx.OR):
        return any(map(allows, node.args))
    if isinstance(node, spdx.AND):
        return all(map(allows, node.args))
    return node.render() in ALLOWED


def complaint(package: dict) -> str | None:
    """What is wrong with a package of `cargo metadata`; None if nothing is."""
    if package["name"] in BANNED:
        return f"is banned: {BANNED[package['name']]}"
    if package["source"] not in (None, CRATES_IO):
        return f"comes from {package['source']}: only crates.io and this workspace are sources"
    for wanted in package["dependencies"]:
        if wanted["req"] == "*" and wanted.get("path") is None:
            return f"takes any version of {wanted['name']}"
    if package["license"] is None:
        return "names no licence in its manifest"
    # Manifests of before SPDX expressions have a slash for OR.
    try:
        expression = spdx.parse(package["license"].replace("/", " OR "), validate=True)
    except license_expression.ExpressionError as error:
        return f"has a licence that SPDX does not know: {package['license']} ({error})"
    return None if allows(expression) else f"is licensed {package['license']}: not one of {Path(__file__).name}'s ALLOWED"


def cargo(*arguments: str) -> str:
    return subprocess.run(["cargo", *arguments, "--locked"], check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    # The metadata have all that a lock file names; the tree, what is built.
    targets = [word for target in TARGETS for word in ("--target", target)]
    tree = cargo("tree", "--workspace", "--prefix", "none", "--format", "{p}", *targets)
    built = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    known = {(p["name"], "v" + p["version"]): p for p in json.loads(cargo("metadata", "--format-version", "1"))["packages"]}
    if not built or not built <= known.keys():
        sys.exit(f"cargo's tree and its metadata differ: {sorted(built - known.keys())}")
    packages = [known[crate] for crate in sorted(built)]
    wrong = [f"{p['name']} {p['version']} {what}" for p in packages if (what := complaint(p))]
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"licences and sources of {len(packages)} crates are as they should be")


if __name__ == "__main__":
    main()
