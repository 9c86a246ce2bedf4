#!/bin/sh
# Writes the documentation's site to target/site; a broken link or a page that is missing is an error. Needs .venv (tools/python.sh).
set -eu
cd "$(dirname "$0")/.."
.venv/bin/python tools/site.py
# It tells of its own end of life, in 2027, at each run.
NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet --config-file docs/mkdocs.yml
! grep -rhoE '(src|<link[^>]* href)="https?://[^"]+' target/site --include='*.html' || {
    echo "The site fetches these from elsewhere; it has to work offline." >&2
    exit 1
}
echo "The site: target/site/index.html"
