#!/bin/sh
# Runs in the `keys` service: new TLS keys and certificates for everybody, in the volumes of a deployment that may be
# running. Servers use them from the next connection on; nothing is restarted. Arguments are those of
# `shuffledp keys renew`; with --authority or --roster all parties get the new roster as well, and are restarted by hand.
set -eu
umask 077
OWNER=10001:10001 # the user of our images
new=/tmp/keys

[ -e /parties/root/complete ] || { echo "there are no keys yet: make up" >&2; exit 1; }
mkdir "$new"
cp -R /parties/root/root /parties/root/roster.json /parties/operator/root.pub "$new/"
shuffledp keys renew "$new" "$@"

# put SOURCE FOLDER FILE..: replaces files one by one, each in one step: a reader sees the old one or the new one.
put() {
    source=$1 folder=$2
    shift 2
    for file; do
        cp "$source/$file" "$folder/.$file.new"
        chown "$OWNER" "$folder/.$file.new"
        mv "$folder/.$file.new" "$folder/$file"
    done
}

# renewed SOURCE FOLDER: replaces a pair, if there is a new one. --roster makes none, --party some.
renewed() {
    [ ! -e "$1/tls.pem" ] || put "$1" "$2" tls.pem tls-key.pem
}

for party in node-1 node-2 node-3 analyst accountant gateway; do
    renewed "$new/$party" "/parties/$party"
done
[ ! -e /parties/pages/config.toml ] || renewed "$new/gateway" /parties/pages # overlay web
renewed "$new/operator" /parties/operator/operator
renewed "$new/viewer" /parties/viewer/viewer
renewed "$new/client" /parties/fleet/client

if ! cmp -s "$new/roster.json" /parties/root/roster.json; then
    rm -rf /parties/root/root.new
    cp -R "$new/root" /parties/root/root.new
    rm -rf /parties/root/root
    mv /parties/root/root.new /parties/root/root
    for party in node-1 node-2 node-3 analyst accountant gateway pages operator viewer fleet witness-1 witness-2; do
        # A deployment from before there were witnesses has none, nor one without pages.
        [ ! -e "/parties/$party/roster.json" ] || put "$new" "/parties/$party" roster.json
    done
    cp "$new/roster.json" /parties/root/roster.json
    echo "the roster is new: restart all parties between two rounds: deploy/compose.sh restart"
fi
