#!/bin/sh
# Prints the secrets of a deployment as manifests, each with what that party alone gets: sh secrets.sh KEYS | kubectl apply -f -
#
# KEYS is a folder that `shuffledp keys init KEYS --address NAME=NAME:7000 ...` has made, with the names of the services here. The
# root key, the TLS authority and the enrolment key are in none of the secrets: they stay where they are, offline.
set -eu
keys=${1:?"which key folder? usage: sh secrets.sh KEYS | kubectl apply -f -"}
templates=$(dirname "$0")/../containers

# secret PARTY FILE..: the beginning of a secret, and each file under its own name.
secret() {
    printf -- '---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: keys-%s\n  namespace: shuffledp\ntype: Opaque\ndata:\n' "$1"
    shift
    for file; do entry "$(basename "$file")" <"$file"; done
}

# entry NAME <CONTENT
entry() {
    content=$(base64 | tr -d '\n')
    printf '  %s: %s\n' "$1" "$content"
}

# configuration PARTY TEMPLATE: the one of the containers. Network policies keep everybody away from the page of metrics.
configuration() {
    sed -e "s/^name = .*/name = \"$1\"/" -e "s/^root_key = .*/root_key = \"$root_key\"/" \
        -e 's/^metrics = .*/metrics = "0.0.0.0:9100"/' "$templates/$2.toml" | entry config.toml
}

# need FILE COMMAND: before anything is printed, since half of the secrets would be applied as well.
need() {
    [ -r "$keys/$1" ] || { echo "$keys/$1 is missing: make it with $2" >&2; exit 2; }
}

for file in roster.json root.pub operator/tls.pem operator/tls-key.pem; do need "$file" "shuffledp keys init"; done
for party in node-1 node-2 node-3 analyst accountant; do
    for file in identity.pem tls.pem tls-key.pem; do need "$party/$file" "shuffledp keys init"; done
done
# A deployment from before there were gateways has none. It has no identity: it signs nothing.
for file in tls.pem tls-key.pem; do need "gateway/$file" "shuffledp keys renew $keys --party gateway"; done
root_key=$(cat "$keys/root.pub")

for party in node-1 node-2 node-3 analyst accountant; do
    secret "$party" "$keys/roster.json" "$keys/$party/identity.pem" "$keys/$party/tls.pem" "$keys/$party/tls-key.pem"
    configuration "$party" "${party%-[0-9]}"
done
secret gateway "$keys/roster.json" "$keys/gateway/tls.pem" "$keys/gateway/tls-key.pem"
configuration gateway gateway
secret operator "$keys/roster.json" "$keys/root.pub" "$keys/operator/tls.pem" "$keys/operator/tls-key.pem"
