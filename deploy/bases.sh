#!/bin/sh
# Chooses the images of others and writes their names to deploy/.env.images: deploy/bases.sh [pin]
#
# A tag may mean another image tomorrow, so images of a registry are named by digest. With `pin`, all tags below are
# pulled and their digests written to deploy/images.lock, which belongs under version control: later builds then pull
# these very images or fail. Without a pin, the digest of what the registry gave is used for this build.
set -eu
cd "$(dirname "$0")"
BASE=python:3.11-slim-bookworm
LOCK=${IMAGES_LOCK:-images.lock}
OUT=${ENV_IMAGES:-.env.images}

say() { echo "images: $*" >&2; }

# The variables of compose files, and the tags that stand there.
tags() {
    echo "BASE_IMAGE $BASE"
    sed -n 's/^ *image: \${\([A-Z]*_IMAGE\):-\([^}]*\)}.*/\1 \2/p' compose*.yaml | sort -u
}

# The digest of an image that is here, as name@sha256:...; nothing for one that was built here.
digest_of() { docker image inspect --format '{{range .RepoDigests}}{{println .}}{{end}}' "$1" | sed -n '/@sha256:/{p;q;}'; }

pin() {
    tags | while read -r variable tag; do
        docker pull --quiet "$tag" >/dev/null
        digest=$(digest_of "$tag")
        [ -n "$digest" ] || { say "the registry gives no digest of $tag"; exit 1; }
        echo "$variable $tag $digest"
    done >"$LOCK.new"
    mv "$LOCK.new" "$LOCK"
    say "$LOCK names $(grep -c . "$LOCK") images by digest"
}

# Every pin whose tag is still that of the sources, as VARIABLE=name@sha256:...; one that is not is an error.
pinned() {
    [ -e "$LOCK" ] || return 0
    tags | while read -r variable tag; do
        line=$(grep "^$variable " "$LOCK" || :)
        [ -z "$line" ] || [ "${line% *}" = "$variable $tag" ] || { say "$LOCK pins another tag than $tag: run deploy/bases.sh pin"; exit 1; }
        [ -z "$line" ] || echo "$variable=${line##* }"
    done
}

# The base: what the caller chose, the pinned one, the tag's that is here or that a registry gives, or Debian packages.
choose() {
    pins=$(pinned)
    wanted=$(echo "$pins" | sed -n 's/^BASE_IMAGE=//p')
    others=$(echo "$pins" | grep -v '^BASE_IMAGE=' || :)
    if [ -n "${BASE_IMAGE:-}" ]; then
        say "base $BASE_IMAGE, as told"
    elif docker image inspect "${wanted:-$BASE}" >/dev/null 2>&1 || docker pull --quiet "${wanted:-$BASE}" >/dev/null 2>&1; then
        BASE_IMAGE=${wanted:-$(digest_of "$BASE")}
        BASE_IMAGE=${BASE_IMAGE:-$BASE}
        say "base $BASE_IMAGE"
    else
        say "${wanted:-$BASE} is not here and no registry gives it: making bases from Debian packages"
        sh offline/build.sh
        cp .env.offline "$OUT"
        return
    fi
    printf '%s\n' "BASE_IMAGE=$BASE_IMAGE" ${others:+"$others"} >"$OUT"
}

case ${1:-} in
    pin) pin ;;
    *) choose ;;
esac
