#!/bin/sh
# Runs in a worker of a Ray cluster: ray-worker.sh HEAD:PORT OWN_ADDRESS.
set -eu
exec ray start --block --disable-usage-stats --address "$1" --node-ip-address "$2" --num-cpus 1 \
    --object-store-memory 268435456
