#!/bin/sh
# Runs in the `ray-keys` service: ray-keys.sh ADDRESS.. makes an authority for one Ray cluster, a certificate for its
# machines, which have these addresses, and its token, once. The authority's key is not kept.
set -eu
umask 077
cd /keys
[ ! -e complete ] || exit 0
authority=$(mktemp -d)
trap 'rm -rf "$authority"' EXIT
new_key() { openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=ray "$@" 2>/dev/null; }

new_key -x509 -days 3650 -keyout "$authority/ca.key" -out ca.pem
new_key -keyout ray.key -out "$authority/ray.csr"
printf 'subjectAltName=IP:%s' "$1" >"$authority/names"
shift
for address; do printf ',IP:%s' "$address" >>"$authority/names"; done
openssl x509 -req -in "$authority/ray.csr" -CA ca.pem -CAkey "$authority/ca.key" -CAcreateserial -days 3650 \
    -CAserial "$authority/serial" -extfile "$authority/names" -out ray.pem 2>/dev/null
openssl rand -hex 32 >token
touch complete
