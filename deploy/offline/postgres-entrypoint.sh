#!/bin/sh
# Makes the database at the first start from the official image's variables, as far as deploy/compose.postgres.yaml sets
# them: POSTGRES_USER, POSTGRES_DB, POSTGRES_PASSWORD_FILE, PGDATA (a folder inside the volume). Then runs the command.
set -eu
if [ ! -d "$PGDATA" ]; then
    new=$PGDATA.new # renamed when it is whole: a stop in between starts over
    rm -rf "$new"
    initdb --pgdata="$new" --username="$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" \
        --auth-local=trust --auth-host=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8
    echo "host all all all scram-sha-256" >>"$new/pg_hba.conf"
    echo "CREATE DATABASE \"$POSTGRES_DB\"" | postgres --single -D "$new" postgres
    mv "$new" "$PGDATA"
fi
exec "$@"
