#!/usr/bin/env bash
# `anole-eval reproduce --ray` on a real Ray cluster with two workers on this machine: the same cells, byte for byte but for how
# long each took, and the same figures as without it. No part of tools/test.sh, where a stand-in of Ray runs the same script:
# Ray is 300 MB of Python packages.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --locked --package anole-eval
out=$(mktemp -d)
trap '"$out/python/bin/ray" stop --force >/dev/null 2>&1 || true; rm -rf "$out"' EXIT
if [ -z "${ANOLE_PYTHON:-}" ]; then
    python3 -m venv "$out/python"
    "$out/python/bin/pip" install --quiet ray
    export ANOLE_PYTHON=$out/python/bin/python
fi
what=(libra-fig14 anole-random --quick)
target/debug/anole-eval reproduce "${what[@]}" --out "$out/alone" >"$out/alone.txt"
"$(dirname "$ANOLE_PYTHON")/ray" start --head --num-cpus 2 --disable-usage-stats --include-dashboard false >/dev/null
target/debug/anole-eval reproduce "${what[@]}" --out "$out/cluster" --ray auto >"$out/cluster.txt"
cmp "$out/alone.txt" "$out/cluster.txt"
cells() { (cd "$1/cells" && for cell in *; do printf '%s %s\n' "$cell" "$(sed 's/"wall_s":[0-9.e-]*//' "$cell" | sha256sum)"; done); }
cmp <(cells "$out/alone") <(cells "$out/cluster")
echo "the same $(ls "$out/cluster/cells" | wc -l) cells on a cluster"
