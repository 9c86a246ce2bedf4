#!/usr/bin/env bash
# Everything that CI runs, in the order in which it fails fastest. `tools/test.sh lint` stops after the lints.
#
# At the end come how long each step took, and the tests that were skipped: with CI set, a skip that
# tools/allowed-skips.txt does not name is a failure. What runs in virtual machines runs beside other steps; figures that
# depend on how fast the host is are in tools/check-realtime.sh. Property tests draw from one seed: PROPTEST_RNG_SEED=N draws
# others, as `cargo test` alone does each time.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$PWD/target/test
mkdir -p "$out"
export ANOLE_SKIPS=$out/skips.txt
: >"$ANOLE_SKIPS"
unset ANOLE_FIGURES
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1}
echo "property tests: PROPTEST_RNG_SEED=$PROPTEST_RNG_SEED"

steps=()
name="" began=0
step() { # NAME: ends the step before
    [ -z "$name" ] || steps+=("$name|$((SECONDS - began))")
    name=$1 began=$SECONDS
    [ -z "$1" ] || printf '\n== %s (%d s)\n' "$1" "$SECONDS"
}

packages="" failed_log=""
declare -A beside=() beside_began=()
begin_beside() { # NAME COMMAND...: runs it in a process group of its own; end_beside waits for it and shows its output
    local name=$1
    shift
    rm -f "$out/$name.end"
    set -m
    (
        "$@"
        echo "$SECONDS" >"$out/$name.end"
    ) >"$out/$name.log" 2>&1 &
    beside[$name]=$!
    set +m
    beside_began[$name]=$SECONDS
    echo "$name: from now on beside what follows, output in target/test/$name.log"
}

end_beside() { # NAME
    local status=0
    wait "${beside[$1]}" || status=$?
    unset "beside[$1]"
    cat "$out/$1.log"
    [ $status = 0 ] || failed_log=$out/$1.log
    steps+=("$1 (beside the steps above)|$(($(cat "$out/$1.end" 2>/dev/null || echo $SECONDS) - beside_began[$1]))")
    return $status
}

summary() {
    local status=$?
    for group in "${beside[@]}" $packages; do kill -- "-$group" 2>/dev/null || true; done
    [ $status = 0 ] || printf '\nFailed: %s\n' "$name"
    [ -z "$failed_log" ] || tail -n 5 "$failed_log"
    step ""
    printf '\n%6s  %s\n' s step
    for line in "${steps[@]}"; do printf '%6d  %s\n' "${line##*|}" "${line%|*}"; done
    printf '%6d  all\n\n' "$SECONDS"
    tools/skips.sh report || status=1
    [ $status != 0 ] || printf '\nAll passed in %d s.\n' "$SECONDS"
    exit $status
}
trap summary EXIT

# Python's packages are gigabytes to fetch and unpack: beside the first steps.
set -m
tools/python.sh packages >"$out/packages.log" 2>&1 &
packages=$!
set +m

step "lock files, format, import circles"
for lock in Cargo.lock */Cargo.lock */*/Cargo.lock */*/*/Cargo.lock; do
    [ ! -e "$lock" ] || (cd "$(dirname "$lock")" && cargo metadata --locked --quiet --format-version 1 >/dev/null)
done
cargo fmt --all --check
(cd tests/oracle && cargo fmt --check)
clang-format --dry-run -Werror ccp-kernel/vm/*.h ccp-kernel/module/*.[ch] ccp-kernel/tests/*.c ccp-kernel/bpf/src/*.c \
    ccp-kernel/bpf/src/bpf/*.[ch] datapaths/capi/tests/c/*.[ch] datapaths/capi/examples/*.c tools/ns3/*.cc
python3 tools/circles.py

oracle() { # COMMAND...: cargo's, with what has been built of dependencies
    (cd tests/oracle && CARGO_TARGET_DIR=${out%/test} cargo "$@")
}

step "lints as errors"
cargo clippy --locked --workspace --all-targets -- -D warnings
oracle clippy --locked --all-targets -- -D warnings

virtual_machines() {
    # Beside a build they get a part of a core.
    export BPF_TEST AGENT=$PWD/target/debug/anole-ccp TIMEOUT_S=1800
    # 77: something is missing; the script says what.
    for kernel in oldest newest; do
        BUILD_ONLY=1 ccp-kernel/tests/vm.sh $kernel || [ $? = 77 ]
    done
    ccp-kernel/tests/vm.sh stable || [ $? = 77 ]
    # The host's kernel, a newer one, runs all of the eBPF datapath.
    BPF_BRIEFLY=1 ccp-kernel/tests/vm.sh backports || [ $? = 77 ]
}

step "licences and sources; Python: format, lints"
wait $packages || { cat "$out/packages.log" && exit 1; }
packages=""
for folder in python training labs; do
    (cd $folder && ../.venv/bin/ruff format --check . && ../.venv/bin/ruff check .)
done
.venv/bin/python tools/licences.py
for folder in python labs; do
    (cd $folder && MYPYPATH=../python ../.venv/bin/mypy)
done

if [ "${1:-}" = lint ]; then
    exit 0
fi

step "programs and tests are built"
# In one: dependencies of tests ask for further features of what programs are built with, and Python's extension for fewer.
# By itself a part of it would have dependencies built that the whole builds again.
built=$(cargo build --locked --workspace --lib --bins --tests --message-format json-render-diagnostics)
BPF_TEST=$(sed -n 's/.*"name":"loopback".*"executable":"\([^"]*\)".*/\1/p' <<<"$built")
[ -x "$BPF_TEST" ] || { echo "cargo names no program of the test loopback" && exit 1; }
begin_beside virtual-machines virtual_machines
python/build.sh target/debug/lib_anole.so
# As root has it: without cargo. What is put there goes again.
rm -rf "$out/installed"
for target in install uninstall; do
    env -i PATH=/usr/bin:/bin make -s $target BUILT=target/debug DESTDIR="$out/installed"
    find "$out/installed" -type f >"$out/installed.$target"
done
grep -q '/share/man/man1/anole-quic-send.1$' "$out/installed.install"
[ ! -s "$out/installed.uninstall" ]
oracle test --locked --no-run

step "policy server: with each LibTorch, under sanitizers"
ANOLE_TORCH_PYTHON=$PWD/.venv/bin/python policy-server/test.sh

step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --quiet

pytest() { # FOLDER OPTIONS...
    local folder=$1 root=$PWD
    shift
    # Two threads for small products gain nothing, and wait for each other where others have the processors.
    (cd "$folder" && OMP_NUM_THREADS=1 PYTHONPATH=$root/python:$root/labs:$root/tools \
        ../.venv/bin/python -m pytest -q -p pytest_skips "$@")
}

# One at a time has the kernel's BPF datapath.
bpf_alone=test_linux_tcp_is_governed

python_and_pages() {
    pytest python -k "not $bpf_alone"
    pytest training
    # The documentation's site and an evaluation's.
    tools/site.sh
    rm -rf "$out/pages"
    target/debug/anole-eval reproduce spine-fig17 anole-fig9 --quick --out "$out/pages" >"$out/pages.log" 2>&1
    for folder in target/site "$out/pages"; do
        .venv/bin/python tools/browser.py "$folder"
    done
}

labs_wheel_and_oracle() {
    pytest labs
    # In a fresh environment, and with the extension's own features. What it builds keeps cargo to itself, which is free
    # once the workspace's tests run.
    tools/wheel.sh dev
    oracle test --locked
}

# The tests of --backend torch and server take what was built above.
export ANOLE_POLICY_SERVER_BUILD=$PWD/target/policy-server/debian
# Tests in real time leave the processors idle; where they do not, they come first.
for tests in python_and_pages labs_wheel_and_oracle; do
    begin_beside $tests $tests
    renice -n 10 --pgrp "${beside[$tests]}" >/dev/null
done

step "unit, property, golden, simulation and end-to-end tests"
cargo test --locked --workspace --no-fail-fast

step "Python on Linux TCP"
pytest python -k $bpf_alone

step "Python's tests, trainers; pages in a browser"
end_beside python_and_pages

step "labs, wheel, libccp as the oracle"
end_beside labs_wheel_and_oracle

step "the kernel's TCP in virtual machines"
end_beside virtual-machines
