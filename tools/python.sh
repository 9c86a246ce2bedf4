#!/bin/sh
# Makes .venv with what python/ and training/ need (PyTorch among it, several GB), unless it is there and up
# to date; then builds the simulator as a Python extension, unless asked for the packages alone:
#
#   tools/python.sh [packages]
set -eu
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "Python 3.11 or newer is needed; $python is $("$python" --version 2>&1). Name another one with PYTHON=…" >&2
    exit 1
}
if ! cmp -s training/requirements.txt .venv/requirements.txt 2>/dev/null; then
    echo "Installing training/requirements.txt into .venv"
    "$python" -m venv .venv
    # uv takes a third of pip's time; a mirror or a proxy may be known to pip alone.
    install() { # OPTIONS: of what is installed little is imported, and compiled then
        .venv/bin/pip install --no-compile --quiet --disable-pip-version-check "$@"
    }
    install "$(grep '^uv==' training/requirements.txt)"
    .venv/bin/uv pip install --quiet --python .venv/bin/python --requirement training/requirements.txt ||
        install --requirement training/requirements.txt
    cp training/requirements.txt .venv/requirements.txt
fi
[ "${1:-}" = packages ] || python/build.sh
