#!/bin/sh
# Generates the committed code below proto/src (or below the folder given) from the .proto files.
set -eu
cd "$(dirname "$0")"
out=${1:-src}
mkdir -p "$out"
python -m grpc_tools.protoc -I . \
    --python_out="$out" --grpc_python_out="$out" --mypy_out="quiet:$out" --mypy_grpc_out="quiet:$out" \
    shuffledp_proto/v1/*.proto
