#!/usr/bin/env bash
# `anole-eval reproduce --ray` on a real Ray cluster, begun for it, with a worker per processor of this machine: the same cells, byte for byte but for how
# long each took, and the same figures as without it. No part of tools/test.sh, where a stand-in of Ray runs the same script:
# Ray is 300 MB of Python packages.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --locked --package anole-eval
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
if [ -z "${ANOLE_PYTHON:-}" ]; then
    python3 -m venv "$out/python"
    "$out/python/bin/pip" install --quiet ray
    export ANOLE_PYTHON=$out/python/bin/python
fi
what=(libra-fig14 anole-random --quick)
target/debug/anole-eval reproduce "${what[@]}" --out "$out/alone" >"$out/alone.txt"
target/debug/anole-eval reproduce "${what[@]}" --out "$out/cluster" --ray local >"$out/cluster.txt"
cmp "$out/alone.txt" "$out/cluster.txt"
cells() { (cd "$1/cells" && for cell in *; do printf '%s %s\n' "$cell" "$(sed 's/"wall_s":[0-9.e-]*//' "$cell" | sha256sum)"; done); }
cmp <(cells "$out/alone") <(cells "$out/cluster")
echo "the same $(ls "$out/cluster/cells" | wc -l) cells on a cluster"
