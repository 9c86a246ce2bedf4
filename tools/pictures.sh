#!/bin/sh
# Makes the pictures of docs/anole/law.md anew: parts of simulated flows, as `anole-eval sim --explain` draws them.
#   tools/pictures.sh [PROGRAM]       anole-eval, or the program to use
set -eu
cd "$(dirname "$0")/.."
program=${1:-anole-eval}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# NAME SCENARIO POLICY DURATION [SPAN]
picture() {
    span=${5:+--explain-span $5}
    # shellcheck disable=SC2086 # one option with its value, or none
    "$program" sim "evaluation/scenarios/$2.toml" --policy "$3" --set "duration_s=$4" \
        --explain $span --out "$folder/$1" >/dev/null
    mv "$folder/$1"/*-flow1-explained.svg "docs/images/anole-$1.svg"
}

picture one-flow anole-normal libra 10
picture four-flows anole-fig9 libra 30
picture ramp anole-normal libra 2 0:0.9
picture drain anole-fig9 libra 13 3.8:6
picture evaluation anole-normal libra 3 0.6:2
picture probing anole-fig10 libra 17 14.8:16.2
picture acceleration anole-normal fault:high 4 0.8:3.2
