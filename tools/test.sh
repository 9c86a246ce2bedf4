#!/usr/bin/env bash
# Everything that CI runs, in the order in which it fails fastest. `tools/test.sh lint` stops after the lints.
set -euo pipefail
cd "$(dirname "$0")/.."

step() {
    printf '\n== %s (%d s)\n' "$1" "$SECONDS"
}

step "format"
cargo fmt --all --check
(cd tests/oracle && cargo fmt --check)
clang-format --dry-run -Werror ccp-kernel/vm/*.h ccp-kernel/module/*.[ch] ccp-kernel/tests/*.c ccp-kernel/bpf/src/*.c \
    ccp-kernel/bpf/src/bpf/*.[ch]

step "lints as errors"
cargo clippy --locked --workspace --all-targets -- -D warnings
(cd tests/oracle && cargo clippy --locked --all-targets -- -D warnings)

step "licences and sources"
if cargo deny --version >/dev/null 2>&1; then
    cargo deny --locked --log-level error check bans licenses sources
elif [ -n "${CI:-}" ]; then
    cargo install --locked --quiet cargo-deny
    cargo deny --locked --log-level error check bans licenses sources
else
    echo "skipped: cargo-deny is not installed (cargo install --locked cargo-deny)"
fi

step "Python: environment, format, lints"
tools/python.sh
for folder in python training; do
    (cd $folder && ../.venv/bin/ruff format --check . && ../.venv/bin/ruff check .)
done

[ "${1:-}" = lint ] && exit 0

ANOLE_TORCH_PYTHON=$PWD/.venv/bin/python policy-server/test.sh

step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --quiet

step "unit, property, golden, simulation and end-to-end tests"
# The tests of --backend torch and server take what was built above.
export ANOLE_POLICY_SERVER_BUILD=$PWD/target/policy-server/debian
cargo build --locked --workspace --bins
cargo test --locked --workspace

step "Python: environments, networks against Rust and LibTorch, trainers"
for folder in python training; do
    (cd $folder && PYTHONPATH=../python ../.venv/bin/python -m pytest -q)
done

step "differential tests: libccp, the kernel datapaths' machine"
(cd tests/oracle && cargo test --locked --release)

step "the kernel's TCP in virtual machines"
tests=$(cargo test --locked --package anole-bpf --test loopback --no-run --message-format json)
BPF_TEST=$(sed -n 's/.*"name":"loopback".*"executable":"\([^"]*\)".*/\1/p' <<<"$tests")
# CUBIC of the simulator on a link that software emulation is quick enough for, for the kernel's to be held against.
slow=(evaluation/scenarios/anole-normal.toml --alg cubic --set bottleneck.capacity_mbps=8)
CROSS_CHECK=$(target/debug/anole-eval sim "${slow[@]}" --json | .venv/bin/python -c 'if True:
    import json, sys
    flow = json.load(sys.stdin)["flows"][0]
    print(8000, round(1000 * flow["goodput_mbps"]), round(flow["rtt_mean_ms"]))')
export BPF_TEST
# 77: something is missing; the script says what.
for kernel in oldest newest; do
    BUILD_ONLY=1 ccp-kernel/tests/vm.sh $kernel || [ $? = 77 ]
done
export AGENT=$PWD/target/debug/anole-ccp
CROSS_CHECK=$CROSS_CHECK ccp-kernel/tests/vm.sh stable || [ $? = 77 ]
CROSS_CHECK='' ccp-kernel/tests/vm.sh backports || [ $? = 77 ]

printf '\nAll passed in %d s.\n' "$SECONDS"
