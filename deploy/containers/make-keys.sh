#!/bin/sh
# Runs in the `keys` service: all keys of the deployment and a configuration for each party, once. /parties/NAME is a
# volume that only NAME mounts; /parties/root (the root key, the TLS authority, the enrolment key) nobody does.
set -eu
umask 077
OWNER=10001:10001 # the user of our images
new=/tmp/keys

# What the overlay `web` needs, from what fleet and gateway have: it may be added to a deployment that is there.
add_pages() {
    [ -d /parties/pages ] && [ ! -e /parties/pages/config.toml ] || return 0
    find /parties/pages /parties/proxy -mindepth 1 -delete
    cp -R /parties/gateway/tls.pem /parties/gateway/tls-key.pem /parties/gateway/roster.json /parties/root/enrolment \
        /parties/fleet/root.pub /parties/pages/
    touch /parties/pages/enrolment/demo/codes
    python /containers/pages-certificate.py /parties/proxy
    for file in question.html pages.toml; do
        sed "s/0\{64\}/$(cat /parties/fleet/root.pub)/" "/containers/$file" >"/parties/pages/$file"
    done
    chown -R "$OWNER" /parties/pages /parties/proxy
    mv /parties/pages/pages.toml /parties/pages/config.toml
}

if [ -e /parties/root/complete ]; then
    add_pages
    exit 0
fi

set --
for party in node-1 node-2 node-3 analyst accountant; do
    set -- "$@" --address "$party=$party:7000"
done
for witness in witness-1 witness-2; do
    set -- "$@" --witness "$witness=http://$witness:7450"
done
shuffledp keys init "$new" "$@" >/dev/null

# give NAME FILE..: replaces what is in a party's folder, from an attempt that did not end.
give() {
    folder=/parties/$1
    shift
    find "$folder" -mindepth 1 -delete
    cp -R "$@" "$new/roster.json" "$folder/"
}

# configure NAME TEMPLATE
configure() {
    sed -e "s/^name = .*/name = \"$1\"/" -e "s/^root_key = .*/root_key = \"$(cat "$new/root.pub")\"/" \
        -e "s/^metrics = \"[^.]*/metrics = \"$1/" "/containers/$2.toml" >"/parties/$1/config.toml"
}

for node in node-1 node-2 node-3; do
    give "$node" "$new/$node"/*
    configure "$node" node
done
for party in analyst accountant gateway; do
    give "$party" "$new/$party"/*
    configure "$party" "$party"
done
for witness in witness-1 witness-2; do
    give "$witness" "$new/root.pub" "$new/$witness"/*
done
give operator "$new/root.pub" "$new/operator"
give viewer "$new/root.pub" "$new/viewer"
give fleet "$new/root.pub" "$new/client" "$new/enrolment" # simulated users enrol themselves
password=$(python -c 'import secrets; print(secrets.token_urlsafe(32), end="")')
echo "ledger:5432:*:accountant:$password" >/parties/accountant/pgpass
for party in node-1 node-2 node-3 analyst accountant gateway operator viewer fleet witness-1 witness-2; do
    chown -R "$OWNER" "/parties/$party"
done
# The database server's user has another number in every image; only that service mounts this.
printf '%s' "$password" >/parties/ledger/password
chmod 644 /parties/ledger/password
give root "$new/root" "$new/enrolment"
touch /parties/root/complete
add_pages
