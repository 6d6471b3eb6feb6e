#!/bin/sh
# One deployment for a whole class, on a machine that the students' laptops reach (docs/how-to/teach-with-labs.md).
#
#   deploy/class.sh enrol CLASS.csv     enrols the column `name` and leaves each one's bundle in out/class
#   deploy/class.sh page                addresses of the instructor's pages, which show a round as it goes
#   deploy/class.sh round [OPTION..]    a round for the class, options of `shuffledp round`
#   deploy/class.sh logs FOLDER         what corrupt nodes wrote down (OVERLAYS with corrupt), for lab 4
#
# HOST is the address at which the laptops reach this machine. Whoever is enrolled already stays as he is, so a longer
# list can be given later.
set -eu
cd "$(dirname "$0")/.."
OVERLAYS=${OVERLAYS:-devices observability}
export OVERLAYS

enrol() {
    [ -f "$1" ] || { echo "no file $1: a CSV file with the column name, for whom to enrol" >&2; exit 2; }
    host=${HOST:-127.0.0.1}
    [ "$host" != 127.0.0.1 ] || echo "HOST is not set: the bundles work on this machine alone" >&2
    outside="--address node-1=$host:${NODE_1_PORT:-7001} --address analyst=$host:${ANALYST_PORT:-7004}"
    outside="$outside --broker $host:${BROKER_PORT:-1883}"
    sh deploy/compose.sh run --rm -T --entrypoint sh enrol -euc '
        cat >/tmp/class.csv
        # A file and no words: a name with a blank in it would become two people.
        python -c "
import csv, pathlib, sys
rows = csv.DictReader(open(\"/tmp/class.csv\", encoding=\"utf-8-sig\", newline=\"\"))
if \"name\" not in (rows.fieldnames or ()):
    sys.exit(\"the list has no column name; its first line names columns\")
names = [(row[\"name\"] or \"\").strip() for row in rows]
new = [name for name in names if name and not pathlib.Path(\"/keys/clients\", name + \".bundle\").exists()]
csv.writer(open(\"/tmp/new.csv\", \"w\", newline=\"\")).writerows([[one] for one in (\"name\", *new) if new])
"
        [ ! -s /tmp/new.csv ] || shuffledp keys enrol /keys '"$outside"' --csv /tmp/new.csv >&2
    ' <"$1"
    (
        umask 077
        mkdir -p out/class
        sh deploy/compose.sh run --rm -T --entrypoint sh enrol -c 'cd /keys/clients && tar -cf - *.bundle' >out/class/.tar
        tar -xf out/class/.tar --no-same-owner -C out/class
        rm out/class/.tar
    )
    echo "$(ls out/class | wc -l) bundles in out/class: each is all of its device, so hand it to its owner alone"
}

page() {
    base=http://127.0.0.1:${PROMETHEUS_PORT:-9090}
    round=shuffledp_analyst_round
    echo "the round as it goes: $base/graph?g0.expr=${round}_accepted_reports&g0.tab=0&g0.range_input=15m&g1.expr=${round}_stage%20%3D%3D%201&g1.tab=1&g2.expr=shuffledp_analyst_node_phase%20%3D%3D%201&g2.tab=1"
    echo "who is up:            $base/targets"
    echo "with Grafana (COMPOSE_PROFILES=grafana): http://127.0.0.1:${GRAFANA_PORT:-3000}/d/shuffledp-round"
}

logs() {
    mkdir -p "$1"
    for node in node-1 node-2 node-3; do
        # One volume of all corrupt nodes; an honest node's folder is empty.
        docker cp "$(sh deploy/compose.sh ps -q "$node"):/corrupt/." "$1" >/dev/null
    done
    [ -n "$(ls "$1")" ] || { echo "no node here is corrupt: OVERLAYS=corrupt make up, and then a round" >&2; exit 1; }
    echo "the logs of $(ls "$1" | tr '\n' ' ')are in $1"
}

what=${1:-}
[ $# = 0 ] || shift
case $what in
    enrol) enrol "${1:?a CSV file with the column name}" ;;
    page) page ;;
    logs) logs "${1:?a folder to copy the logs into}" ;;
    round)
        # What a class of 20 can have certified: a histogram of four answers. Ends when all have reported, or in time.
        MECHANISM=${MECHANISM:-krr-histogram} MAX_VALUE=${MAX_VALUE:-3} EPSILON=${EPSILON:-2} \
            USERS=${USERS:-$(ls out/class | wc -l)} exec sh deploy/round.sh "$@"
        ;;
    *) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
