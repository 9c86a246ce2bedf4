#!/usr/bin/env bash
# Figures over real packets: rates, shares and times that depend on how fast and how quiet the host is. No part of
# tools/test.sh, whose tests assert what holds on any host; the same tests note these figures on the way. Leave the host
# alone meanwhile.
#
# Prints a table: figure, expected, seen, met or missed. Fails if one is missed, or a test fails.
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p target/test
export ANOLE_FIGURES=$PWD/target/test/figures.txt
export ANOLE_SKIPS=$PWD/target/test/skips.txt
: >"$ANOLE_FIGURES"
: >"$ANOLE_SKIPS"

# In one, as in tools/test.sh.
cargo build --locked --workspace --bins --tests
# One test at a time: they would disturb each other.
within=(an_overloaded_link what_an_ack_costs what_an_ack_and_a_decision_cost)
cargo test --locked --workspace --lib -- --test-threads 1 "${within[@]}" | tee target/test/within.log
for name in "${within[@]}"; do
    # A name that is no test's any more leaves its figures out without a word.
    grep -q "^test .*$name.* \.\.\. ok$" target/test/within.log || { echo "no test is named $name" >&2 && exit 1; }
done
noting=(agent bpf loopback outage transfer emulate kernel policies bench lwip carriers kernel_peer in_process)
cargo test --locked --workspace "${noting[@]/#/--test=}" -- --test-threads 1

# The kernel's CUBIC against the simulator's, on a link that software emulation is quick enough for.
slow=(evaluation/scenarios/anole-normal.toml --alg cubic --set bottleneck.capacity_mbps=8)
CROSS_CHECK=$(target/debug/anole-eval sim "${slow[@]}" --json | python3 -c 'if True:
    import json, sys
    flow = json.load(sys.stdin)["flows"][0]
    print(8000, round(1000 * flow["goodput_mbps"]), round(flow["rtt_mean_ms"]))')
export CROSS_CHECK AGENT=$PWD/target/debug/anole-ccp
ccp-kernel/tests/vm.sh stable || [ $? = 77 ]

printf '\n%-78s %-18s %-12s\n' figure expected seen
awk -F '\t' '{ printf "%-78s %-18s %-12s %s\n", $1, $2, $3, $4 }' "$ANOLE_FIGURES"
tools/skips.sh report
missed=$(awk -F '\t' '$4 != "met"' "$ANOLE_FIGURES" | wc -l)
printf '\n%d figures, %d missed\n' "$(wc -l <"$ANOLE_FIGURES")" "$missed"
[ "$missed" = 0 ]
