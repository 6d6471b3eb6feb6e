#!/bin/sh
# Fails when the committed generated code is not what the .proto files give.
set -eu
cd "$(dirname "$0")"
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
sh generate.sh "$fresh"
touch "$fresh/shuffledp_proto/v1/__init__.py"
diff -r --exclude=__pycache__ "$fresh/shuffledp_proto/v1" src/shuffledp_proto/v1 ||
    { echo "the generated code is out of date: run 'make proto' and commit" >&2; exit 1; }
