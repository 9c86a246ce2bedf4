#!/usr/bin/env bash
# Runs the tests once more that failed in a log of `cargo test --no-fail-fast`, each target for itself. Fails where one
# fails again, where more than a few failed, or where something else went wrong.
#
#   tools/again.sh LOG
set -euo pipefail
cd "$(dirname "$0")/.."
log=${1:?"$(sed -n 's/^#   //p' "$0")"}

# Cargo's last lines name the targets: "    `-p anole-bpf --test loopback`".
mapfile -t targets < <(sed -n 's/^    `\(-p [^`]*\)`$/\1/p' "$log")
# A target's last list of failures, before its result: what tests printed stands in the one before.
names='/^failures:$/ {list = ""} /^    [^ ]+$/ {list = list $1 "\n"} /^test result:/ {printf "%s", list; list = ""}'
mapfile -t tests < <(awk "$names" "$log" | sort -u)
if [ ${#targets[@]} = 0 ] || [ ${#tests[@]} = 0 ] || [ ${#tests[@]} -gt 5 ]; then
    echo "${#tests[@]} tests of ${#targets[@]} targets failed: no second try" >&2
    exit 1
fi
for target in "${targets[@]}"; do
    # shellcheck disable=SC2086 # a target is several words
    cargo test --locked $target -- --exact "${tests[@]}" 2>&1 | tee "$log.again"
    # Nor has one passed that did not run: a target that crashed lists no failures.
    grep -q '^test result: ok. [1-9]' "$log.again"
done
echo "Passed at the second try: ${tests[*]}"
