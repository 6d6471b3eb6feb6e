#!/bin/sh
# Fails on leftovers: unowned TODOs, broken relative links in the docs, files over 600 lines.
set -eu
cd "$(dirname "$0")/.."
bad=0
if git grep -nE '\b(TODO|FIXME|XXX)\b' -- '*.py' '*.proto' 'Makefile' ':(exclude)docs/check.sh'; then
    echo "leftovers above: finish them, or give them an owner and a reason in an issue" >&2; bad=1
fi
for file in $(git ls-files '*.md'); do
    folder=$(dirname "$file")
    for target in $(grep -oE '\]\([^)# ]+' "$file" | cut -c3- | grep -v '://'); do
        [ -e "$folder/$target" ] || { echo "$file links to $target, which does not exist" >&2; bad=1; }
    done
done
for file in $(git ls-files '*.py' | grep -v _pb2); do
    [ "$(wc -l < "$file")" -le 600 ] || { echo "$file is longer than 600 lines" >&2; bad=1; }
done
for section in $(git grep -hoE 'docs/protocol\.md, (section |sections )?"[A-Za-z ]+"' -- '*.py' | grep -oE '"[A-Za-z ]+"' |
    tr -d '"' | tr ' ' '_' | sort -u); do
    grep -qE "^###? $(echo "$section" | tr '_' ' ')$" docs/protocol.md ||
        { echo "code refers to docs/protocol.md, \"$section\", which does not exist" >&2; bad=1; }
done
for number in $(git grep -hoE 'docs/accounting\.md[^.]*' -- '*.py' | grep -oE '\b[KSCL][0-9]+\b' | sort -u); do
    grep -qE "^#+ .*\b$number\b" docs/accounting.md ||
        { echo "code refers to proposition $number, which docs/accounting.md does not have" >&2; bad=1; }
done
exit $bad
