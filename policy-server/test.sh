#!/usr/bin/env bash
# Everything that CI runs of this folder: format, build with warnings as errors, tests with each LibTorch
# that is there, tests under address, undefined-behaviour and thread sanitizers. What is missing is skipped
# with the reason (tools/skips.sh).
#
#   ANOLE_TORCH_PYTHON=PYTHON    a Python with the package torch, for the second LibTorch
#   BUILD=FOLDER                 where to build [../target/policy-server]
#   JOBS=N                       compilers at a time [number of cores]
set -euo pipefail
cd "$(dirname "$0")"

build=${BUILD:-../target/policy-server}
jobs=${JOBS:-$(nproc)}

skip() {
    ../tools/skips.sh add "policy-server/test.sh::$1" "$2"
}

step() {
    printf '\n== policy-server: %s (%d s)\n' "$1" "$SECONDS"
}

# Sources of a library in one, which compiles in two thirds of the time; the first build has them as a user does.
unity=-DCMAKE_UNITY_BUILD=ON

# make_and_test FOLDER TARGETS CMAKE-OPTIONS...: builds the targets, and runs the tests among them
make_and_test() {
    local folder=$build/$1 targets=$2
    shift 2
    cmake -S . -B "$folder" -G Ninja "$@" >"$folder.log" 2>&1 || { cat "$folder.log"; exit 1; }
    # shellcheck disable=SC2086 # a list of words
    cmake --build "$folder" --target $targets --parallel "$jobs" >"$folder.log" 2>&1 || { cat "$folder.log"; exit 1; }
    (cd "$folder" && ctest --output-on-failure --timeout 300 --parallel "$jobs" --no-tests=error -E '_NOT_BUILT$' |
        tail -n 25)
}

for program in cmake ninja c++; do
    if ! command -v "$program" >/dev/null; then
        echo "policy-server: $program is missing: apt install cmake ninja-build g++ nlohmann-json3-dev libgtest-dev" >&2
        exit 1
    fi
done
mkdir -p "$build"

step "format"
if command -v clang-format >/dev/null; then
    clang-format --dry-run -Werror include/*.h library/*.{h,cpp,c} server/*.{h,cpp} tests/*.{h,cpp} bench/*.cpp
else
    skip format "clang-format is not installed (apt install clang-format)"
fi

debian=/usr/lib/$(c++ -dumpmachine)/cmake/Torch
[ -d "$debian" ] || debian=/usr/lib/x86_64-linux-gnu/cmake/Torch
if [ -d "$debian" ]; then
    # What needs no LibTorch is tested under sanitizers alone.
    step "Debian's LibTorch"
    make_and_test debian "anole-policy-server policy-bench torch_test" -DTorch_DIR="$debian"
    step "address and undefined-behaviour sanitizers, Debian's LibTorch"
    make_and_test address all $unity -DTorch_DIR="$debian" -DANOLE_SANITIZE=address
else
    skip debian "Debian's LibTorch is missing (apt install libtorch-dev libopenblas0-pthread)"
    step "address and undefined-behaviour sanitizers, without LibTorch"
    make_and_test address-core all $unity -DANOLE_SANITIZE=address -DANOLE_WITH_TORCH=OFF
fi

step "LibTorch of a Python package"
if [ -n "${ANOLE_TORCH_PYTHON:-}" ]; then
    package=$("$ANOLE_TORCH_PYTHON" -c \
        'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])')
    make_and_test pip torch_test $unity -DTorch_DIR="$package/share/cmake/Torch"
else
    skip pip "ANOLE_TORCH_PYTHON names no Python with the package torch (pip install torch)"
fi

step "thread sanitizer, without LibTorch (which is not instrumented)"
make_and_test thread server_test $unity -DANOLE_SANITIZE=thread -DANOLE_WITH_TORCH=OFF

printf '\npolicy-server: all passed in %d s.\n' "$SECONDS"
