#!/bin/sh
# Writes a bill of materials, CycloneDX 1.5, of what uv.lock names: deploy/sbom.sh FILE OPTION.., the options those of
# `uv export` that say which packages (--all-packages, or --package NAME with --extra NAME). Asks no index. C libraries
# inside wheels are added from the packages of the project's environment (native_libraries.py).
set -eu
file=$1
shift
case $file in /*) ;; *) file=$PWD/$file ;; esac
cd "$(dirname "$0")/.."
"${UV:-uv}" export --quiet --frozen --no-dev --offline --format cyclonedx1.5 --preview-features sbom-export "$@" \
    --output-file "$file" >/dev/null
"${UV:-uv}" run --quiet --frozen --no-sync python deploy/native_libraries.py "$file"
