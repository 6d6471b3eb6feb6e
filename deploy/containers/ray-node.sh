#!/bin/sh
# Runs in a node that mixes on a Ray cluster: ray-node.sh HOST:PORT starts the cluster's head there, and the node.
set -eu
{
    cat /keys/config.toml
    cat <<EOF

[engine]
kind = "ray"
address = "$1"
token = "/ray/token"
certificate = "/ray/tls.pem"
key = "/ray/tls-key.pem"
authority = "/ray/ca.pem"
task_memory = ${RAY_TASK_MEMORY:-268435456}
wait_seconds = 180
EOF
} >/tmp/node.toml
# A head that ends takes the node along, and the container starts anew with both.
{
    ray start --head --block --disable-usage-stats --include-dashboard=false --num-cpus 0 \
        --object-store-memory 268435456 --node-ip-address "${1%:*}" --port "${1##*:}" || :
    kill 1
} >/tmp/ray.log 2>&1 &
exec run --config /tmp/node.toml
