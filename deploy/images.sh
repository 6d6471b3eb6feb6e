#!/bin/sh
# Builds the images: deploy/images.sh [COMPONENT..], by default all; `cluster` where OVERLAYS has ray. See docs/operations.md, "Images".
#
# Collects the wheels that uv.lock names for each component, with pip and with our own, below deploy/build (the only
# step that needs a package index), with a bill of materials (sbom.cdx.json, CycloneDX) beside them, builds, and writes the names of all images to deploy/.env.images.
set -eu
cd "$(dirname "$0")/.."
UV=${UV:-uv}
BUILD=deploy/build
TAG=${SHUFFLEDP_TAG:-local}

say() { echo "images: $*" >&2; }

# Our own wheels, of every member.
build_members() {
    rm -rf "$BUILD/members"
    "$UV" build --quiet --wheel --all-packages --out-dir "$BUILD/members"
}

export_lock() { "$UV" export --quiet --frozen --no-dev --no-header --no-annotate "$@"; }

# The locked wheels of a component, by its exact requirements with their hashes; kept while the lock stays.
collect() {
    component=$1
    folder=$BUILD/$component
    package=shuffledp-$component
    extra=
    case $component in
        accountant) extra=postgres ;;
        sim) package=shuffledp extra=all ;; # a whole laboratory: every command
        gateway) package=shuffledp-client extra=gateway ;;
        cluster) package=shuffledp-shuffler extra=ray ;;
    esac
    mkdir -p "$folder/wheels"
    {
        export_lock --no-emit-workspace --package "$package" ${extra:+--extra $extra}
        export_lock --only-group images
    } >"$folder/requirements.new"
    if ! cmp -s "$folder/requirements.new" "$folder/requirements.txt"; then
        rm -rf "$folder/wheels" "$folder/requirements.txt"
        "$UV" run --quiet --frozen python -m pip download --quiet --disable-pip-version-check --dest "$folder/wheels" \
            --require-hashes --no-deps --only-binary :all: --implementation cp --python-version 3.11 --abi cp311 \
            --abi abi3 --abi none --platform any $(platforms) --requirement "$folder/requirements.new"
        mv "$folder/requirements.new" "$folder/requirements.txt"
    fi
    rm -f "$folder"/wheels/shuffledp*.whl "$folder/requirements.new"
    export_lock --no-hashes --package "$package" ${extra:+--extra $extra} | sed -n 's/^-e \.\///p' | while read -r member; do
        distribution=shuffledp_$member
        cp "$BUILD/members/${distribution%_shuffledp}"-*.whl "$folder/wheels/"
    done
    echo "$package${extra:+[$extra]}" >"$folder/wheels/install"
    sh deploy/sbom.sh "$folder/sbom.cdx.json" --package "$package" ${extra:+--extra $extra}
}

# Wheels that the base's C library (glibc 2.36) can run, of this machine's processor.
platforms() {
    machine=$(uname -m)
    for version in 2_36 2_35 2_34 2_31 2_28 2_27 2_26 2_24 2_17 2_12 2_5; do
        printf ' --platform manylinux_%s_%s' "$version" "$machine"
    done
    printf ' --platform manylinux2014_%s --platform manylinux2010_%s --platform manylinux1_%s' "$machine" "$machine" "$machine"
}

build() {
    component=$1
    case $component in client | sim) target=command ;; gateway) target=gateway ;; *) target=service ;; esac
    case $component in sim) program=shuffledp ;; cluster) program=shuffledp-shuffler ;; *) program=shuffledp-$component ;; esac
    say "shuffledp/$component:$TAG"
    docker build --quiet --file deploy/Dockerfile --target "$target" --tag "shuffledp/$component:$TAG" \
        --build-arg "BASE_IMAGE=$BASE_IMAGE" --build-arg "PROGRAM=$program" \
        --label "org.opencontainers.image.title=shuffledp-$component" \
        --label "org.opencontainers.image.version=$version" \
        --label "org.opencontainers.image.revision=$revision" "$BUILD/$component" >/dev/null
}

version=$("$UV" version --short --package shuffledp-core --frozen)
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
components=${*:-sim shuffler analyst accountant client gateway}
# A shuffler with Ray, 200 MB more, only where it is asked for.
case "$#,${OVERLAYS:-}" in 0,*ray*) components="$components cluster" ;; esac
collecting='' building=''
# Ctrl-C does not reach what is in the background: it is told to end, behind the command that it is at.
ended() { [ -z "$collecting$building" ] || kill $collecting $building 2>/dev/null || :; wait; }
trap ended EXIT
trap 'exit 1' INT TERM
# The wheels are collected while a base is made: they come from different servers.
{
    trap 'exit 1' TERM
    build_members
    for component in $components; do collect "$component"; done
} &
collecting=$!
sh deploy/bases.sh
. ./deploy/.env.images
wait "$collecting"
collecting=
# Two at a time: the first, which is the largest of all, beside the others.
set -- $components
{
    trap 'exit 1' TERM
    build "$1"
} &
building=$!
shift
for component; do build "$component"; done
wait "$building"
building=
