#!/bin/sh
# Builds the wheel of python/, installs it into a fresh environment and uses it from an empty folder, so that nothing of
# this tree can be found: a run, a plot, a refusal, an algorithm of one's own, docs/tutorial.md, the labs. Says how long that took.
#   tools/wheel.sh [PROFILE]       release, or the cargo profile to build with
set -eu
cd "$(dirname "$0")/.."
labs=$PWD/labs
tutorial=$PWD/docs/tutorial.md
maturin=${MATURIN:-$PWD/.venv/bin/maturin}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(cd python && "$maturin" build --quiet --locked --profile "${1:-release}" --out "$folder/wheel")

began=$(date +%s)
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "$folder"/wheel/*.whl
mkdir "$folder/empty"
cd "$folder/empty"
env -i PATH=/usr/bin:/bin "$folder/venv/bin/python" - <<'END'
import anole_ccp

result = anole_ccp.simulate("anole-normal", "anole")
assert result.flow.throughput_mbps > 40
assert result.plot().save("first.svg").stat().st_size > 10_000
try:
    anole_ccp.simulate("anole-normal", "cubik")
except ValueError as error:
    assert "did you mean cubic" in str(error)


class Fixed(anole_ccp.Algorithm):
    def on_flow(self, flow):
        return {"cwnd": 20 * flow.mss}


assert anole_ccp.simulate("anole-normal", Fixed).flow.throughput_mbps < 6
assert len(anole_ccp.suite(["anole+libra", "cubic"], links=2, duration_s=2)) == 2
END
first=$(($(date +%s) - began))
# The tutorial, as a reader would type it.
sed -n '/^```python$/,/^```$/p' "$tutorial" | sed '/^```/d' >tutorial.py
env -i PATH=/usr/bin:/bin "$folder/venv/bin/python" tutorial.py
# The labs' package: as a student has it, without the solutions.
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "$labs"
lab=$folder/venv/bin/anole-lab
env -i PATH=/usr/bin:/bin "$lab" start 02
status=0
env -i PATH=/usr/bin:/bin "$lab" check 02 || status=$?
[ $status = 1 ] && [ -s lab02.svg ] || { echo "anole-lab check of a starter: status $status" >&2; exit 1; }
! find "$folder/venv" -path '*anole_lab*' -name '*solution*' | grep . || exit 1
echo "The wheel, installed into a fresh environment, made its first plot $first s after the beginning."
