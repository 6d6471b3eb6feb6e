#!/bin/sh
# One round on the running deployment: deploy/round.sh [OPTION..], options of `shuffledp round`. Prints the result and
# leaves its documents in out/. USERS people are expected (default: those of one fleet); it ends when all have reported.
set -eu
cd "$(dirname "$0")/.."
users=${USERS:-${FLEET_USERS:-1000}}
name=${COMPOSE_PROJECT_NAME:-shuffledp}-round-$$
trap 'docker rm --force "$name" >/dev/null 2>&1 || true' EXIT
trap 'exit 1' INT TERM
terminal=
[ -t 0 ] && [ -t 1 ] || terminal=-T
case " ${OVERLAYS:-} " in *" corrupt "* | *" student "*) set -- --allow-corrupt "$@" ;; esac # a laboratory, by the operator's own word
sh deploy/compose.sh run --no-deps $terminal --name "$name" operator round /keys \
    --mechanism "${MECHANISM:-node-sum}" --max-value "${MAX_VALUE:-20}" --epsilon "${EPSILON:-1}" \
    --min-reports "$users" --max-reports "$users" --open-seconds "${OPEN_SECONDS:-600}" --out /out "$@"
mkdir -p out
docker cp "$name:/out/." out/ >/dev/null
echo "(/out is copied to $(pwd)/out)" >&2
