#!/usr/bin/env bash
# Builds the extension with cargo and puts it into the package, so that `PYTHONPATH=python` finds it.
# `pip install ./python` builds a wheel instead.
#
#   python/build.sh [PROFILE]      release, or the cargo profile to build with
#   python/build.sh LIBRARY        no build: lib_anole.so, as cargo has built it with the workspace
set -euo pipefail
cd "$(dirname "$0")/.."
library=${1:-release}
if [[ $library != *.so ]]; then
    # Without link-time optimisation: it takes minutes and gains a tenth.
    export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=0
    profile=$library
    target=$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
    cargo build --locked --profile "$profile" --package anole-python
    [ "$profile" != dev ] || profile=debug # the folder's name
    library=$target/$profile/lib_anole.so
fi
# Renamed into place: a copy over a library that is in use would break who uses it.
cp "$library" python/anole_ccp/.new.so
mv python/anole_ccp/.new.so python/anole_ccp/_anole.abi3.so
echo "python/anole_ccp/_anole.abi3.so"
