#!/bin/sh
# Tests that could not run where they were started.
#
#   tools/skips.sh add NAME REASON   prints the reason, and appends "NAME: reason" to $ANOLE_SKIPS if that is set
#   tools/skips.sh report            counts and lists the lines of $ANOLE_SKIPS. With CI set it fails unless each name
#                                    is in allowed-skips.txt beside this script
set -eu
allowed=$(dirname "$0")/allowed-skips.txt

# The reason for which a test may be skipped under CI; fails if there is none. Names may be patterns of the shell.
reason() { # NAME
    grep -v -e '^#' -e '^$' "$allowed" | {
        while IFS= read -r line; do
            # shellcheck disable=SC2254 # a pattern
            case "$1" in ${line%%: *}) echo "${line#*: }" && exit 0 ;; esac
        done
        exit 1
    }
}

report() {
    [ -s "$ANOLE_SKIPS" ] || {
        echo "Skipped: nothing"
        return 0
    }
    sort -u "$ANOLE_SKIPS" >"$ANOLE_SKIPS.sorted"
    echo "Skipped: $(grep -c '' "$ANOLE_SKIPS.sorted")"
    failed=0
    while IFS= read -r line; do
        if why=$(reason "${line%%: *}"); then
            echo "  $line (allowed: $why)"
        else
            echo "  $line"
            failed=1
        fi
    done <"$ANOLE_SKIPS.sorted"
    [ -z "${CI:-}" ] || [ $failed = 0 ] || {
        echo "Under CI a skip is a failure unless $allowed names it, with the reason." >&2
        return 1
    }
}

case "${1:-}" in
add)
    echo "skipped: $3"
    [ -z "${ANOLE_SKIPS:-}" ] || echo "$2: $3" >>"$ANOLE_SKIPS"
    ;;
report) report ;;
*)
    sed -n 's/^#   //p' "$0" >&2
    exit 2
    ;;
esac
