#!/bin/sh
# Looks up known vulnerabilities of what uv.lock and the two Cargo.lock name: deploy/advisories.sh
#
# Status 0: everything was checked and nothing found. 1: an advisory was found. 3: something was not checked, because
# there is no database of advisories here (no network) or no tool; an advisory found elsewhere still gives 1.
set -u
cd "$(dirname "$0")/.."
UV=${UV:-uv}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
found=0 unchecked=0

# report NAME STATUS: 0 is clean. The tools give 1 both for an advisory and for a database that they cannot reach, so
# an advisory counts only if its own identifier was printed.
report() {
    if [ "$2" = 0 ]; then
        echo "advisories: $1: checked, none found"
    elif grep -qE '\b(PYSEC|GHSA|CVE|RUSTSEC)-[0-9A-Za-z-]+' "$work/$1"; then
        cat "$work/$1"
        echo "advisories: $1: vulnerabilities found, see above"
        found=1
    else
        tail -n 1 "$work/$1" | cut -c 1-200
        echo "advisories: $1: NOT CHECKED, no database of advisories can be reached here"
        unchecked=1
    fi
}

"$UV" export --quiet --frozen --all-packages --all-extras --no-emit-workspace --no-header --no-annotate \
    --output-file "$work/requirements.txt" >/dev/null || exit 2
timeout 300 "$UV" tool run --quiet pip-audit --strict --disable-pip --require-hashes --progress-spinner off \
    --timeout 10 --requirement "$work/requirements.txt" >"$work/pip-audit" 2>&1
report pip-audit $?

if command -v cargo-audit >/dev/null; then
    status=0
    for folder in accel crates/shuffledp-device; do
        (cd "$folder" && timeout 300 cargo audit) >>"$work/cargo-audit" 2>&1 || status=$?
    done
    report cargo-audit $status
else
    echo "advisories: cargo-audit: NOT CHECKED, it is not installed (cargo install cargo-audit)"
    unchecked=1
fi
[ "$found" = 0 ] || exit 1
[ "$unchecked" = 0 ] || exit 3
