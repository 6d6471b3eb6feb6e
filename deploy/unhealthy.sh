#!/bin/sh
# What keeps a deployment from being healthy: every container of the project that has failed, is
# unhealthy or was never started, with its health check's last answer and the end of its log. Exits
# with 1 if there is one.
set -eu
project=${COMPOSE_PROJECT_NAME:-shuffledp}
failed=0
for id in $(docker ps --all --quiet --filter "label=com.docker.compose.project=$project"); do
    state=$(docker inspect --format \
        '{{.State.Status}} {{.State.ExitCode}} {{if .State.Health}}{{.State.Health.Status}}{{end}}' "$id")
    # A one-off such as the maker of keys has ended well.
    case $state in "running 0 healthy" | "running 0 " | "exited 0 "*) continue ;; esac
    failed=1
    docker inspect --format \
        '{{index .Config.Labels "com.docker.compose.service"}}: {{.State.Status}}{{if .State.Health}}, {{.State.Health.Status}}{{end}}, exit code {{.State.ExitCode}}{{if .State.OOMKilled}}, killed for lack of memory{{end}}{{with .State.Error}}, {{.}}{{end}}' "$id"
    docker inspect --format \
        '{{if .State.Health}}{{range .State.Health.Log}}{{println .Output}}{{end}}{{end}}' "$id" |
        grep . | tail -n 1 | sed 's/^/    health check: /' || :
    docker logs --tail 5 "$id" 2>&1 | sed 's/^/    log: /'
done >&2
[ "$failed" = 0 ] || exit 1
