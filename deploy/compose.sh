#!/bin/sh
# docker compose on our files: deploy/compose.sh COMMAND.., with OVERLAYS="postgres observability console devices gateway web ray
# corrupt student" or some of them in the environment. Takes compose v2 or the older docker-compose (1.29 or newer), and the images' names from
# deploy/.env.images. COMPOSE_PROJECT_NAME as usual.
set -eu
here=$(dirname "$0")
files="--file $here/compose.yaml"
for overlay in ${OVERLAYS:-}; do
    files="$files --file $here/compose.$overlay.yaml"
done
[ ! -e "$here/.env.images" ] || files="--env-file $here/.env.images $files"
export COMPOSE_PROJECT_NAME="${COMPOSE_PROJECT_NAME:-shuffledp}"
# shellcheck disable=SC2086 # words, not one word
if docker compose version >/dev/null 2>&1; then
    exec docker compose $files "$@"
elif command -v docker-compose >/dev/null; then
    exec docker-compose $files "$@"
fi
echo "neither docker compose nor docker-compose is installed" >&2
exit 1
