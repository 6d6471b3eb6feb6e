#!/bin/sh
# Base images from Debian packages, for machines that reach a Debian mirror but no image registry.
#
#   deploy/offline/build.sh        as root, on Debian, with debootstrap
#
# Makes shuffledp-offline/{python,mosquitto,postgres,prometheus,haproxy}:bookworm, which take the same commands, mounts and
# variables as the official images as far as deploy/compose*.yaml use them, and writes their names to
# deploy/.env.offline. An image that is there is not made again. Bookworm, because its Python (3.11) is the one of the
# official base. The mirror is the host's own, from its apt configuration, or DEBIAN_MIRROR (and DEBIAN_SECURITY).
set -eu
cd "$(dirname "$0")"
SUITE=bookworm
PREFIX=shuffledp-offline

fail() { echo "offline images: $*" >&2; exit 1; }

# The address in the host's apt configuration for a suite; apt reads its own files, old style or new.
host_mirror() {
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
        awk -v wanted="$1" '$2 == wanted && $3 == "main" { print $1; exit }'
}

# One minimal Debian with current security updates: $work/base.
make_base() {
    [ "$(id -u)" = 0 ] || fail "debootstrap needs root: run this once as root"
    command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install debootstrap"
    . /etc/os-release
    mirror=${DEBIAN_MIRROR:-$(host_mirror "${VERSION_CODENAME:-}")}
    [ "${ID:-}" = debian ] || [ -n "${DEBIAN_MIRROR:-}" ] || fail "not a Debian host: set DEBIAN_MIRROR"
    [ -n "$mirror" ] || fail "no Debian mirror in the apt configuration: set DEBIAN_MIRROR"
    security=${DEBIAN_SECURITY:-$(host_mirror "${VERSION_CODENAME:-}-security")}
    echo "offline images: debootstrap $SUITE"
    debootstrap --variant=minbase "$SUITE" "$work/base" "$mirror" >"$work/base.log" 2>&1 ||
        { tail -n 5 "$work/base.log" >&2; fail "debootstrap failed"; }
    {
        echo "deb $mirror $SUITE main"
        [ -z "$security" ] || echo "deb $security $SUITE-security main"
    } >"$work/base/etc/apt/sources.list"
    printf '#!/bin/sh\nexit 101\n' >"$work/base/usr/sbin/policy-rc.d" # no service is started while installing
    chmod +x "$work/base/usr/sbin/policy-rc.d"
    printf 'path-exclude=/usr/share/%s/*\n' doc man info locale lintian >"$work/base/etc/dpkg/dpkg.cfg.d/small"
    inside "$work/base" apt-get update
    inside "$work/base" apt-get upgrade --yes
}

# Runs a command in a root file system, with the host's name resolution.
inside() {
    root=$1
    shift
    cp --dereference /etc/resolv.conf "$root/etc/resolv.conf"
    DEBIAN_FRONTEND=noninteractive LC_ALL=C chroot "$root" "$@" >>"$root.log" 2>&1 ||
        { tail -n 5 "$root.log" >&2; fail "'$*' failed"; }
}

# Begins an image, unless it is there: image NAME PACKAGE... All are made side by side; `finish` waits for them.
image() {
    tag=$PREFIX/$1:$SUITE
    if docker image inspect "$tag" >/dev/null 2>&1; then
        return
    fi
    [ -d "$work/base" ] || make_base
    echo "offline images: $tag"
    {
        trap 'exit 1' TERM
        make_image "$@"
    } &
    making="$making $!"
}

finish() {
    failed=
    for one in $making; do wait "$one" || failed=yes; done # all of them: what still runs needs its folder
    making=
    [ -z "$failed" ] || exit 1
}

# Ctrl-C does not reach what is in the background. It ends behind the command that it is at, before its folder goes: half a
# folder would become an image, and one that is there is not made again.
ended() {
    [ -z "$making" ] || kill $making 2>/dev/null || :
    wait
    rm -rf --one-file-system "$work"
}

# The base with packages: make_image NAME PACKAGE..; then `shape_NAME ROOT` and `import_NAME ROOT`.
make_image() {
    name=$1
    shift
    root=$work/$name
    cp --archive "$work/base" "$root"
    "before_$name" "$root"
    inside "$root" apt-get install --yes --no-install-recommends "$@"
    "shape_$name" "$root"
    for leftover in usr/share/doc usr/share/man usr/share/info usr/share/locale var/lib/apt/lists var/cache var/log; do
        find "${root:?}/$leftover" -mindepth 1 -delete
    done
    rm -f "$root/etc/apt/sources.list" "$root/etc/resolv.conf" "$root/etc/hostname" "$root/usr/sbin/policy-rc.d"
    "import_$name" "$root"
    rm -rf "$root"
}

# load TAG ROOT [CHANGE..]: the root file system as an image.
load() {
    root=$1
    shift
    tar -C "$root" --numeric-owner --exclude='./dev/*' --exclude='./proc/*' --exclude='./sys/*' -c . |
        docker import "$@" - "$tag" >/dev/null
}

before_python() { :; }
shape_python() { :; }
import_python() { load "$1" --change 'CMD ["python3"]'; }

before_mosquitto() { :; }
shape_mosquitto() { # the official image's folders and user number
    mkdir -p "$1/mosquitto/config" "$1/mosquitto/data" "$1/mosquitto/log"
    chown -R 1883:1883 "$1/mosquitto"
}
import_mosquitto() { load "$1" --change 'USER 1883' --change 'CMD ["/usr/sbin/mosquitto", "-c", "/mosquitto/config/mosquitto.conf"]'; }

before_postgres() {
    mkdir -p "$1/etc/postgresql-common"
    echo "create_main_cluster = false" >"$1/etc/postgresql-common/createcluster.conf"
}
shape_postgres() {
    install -m 755 postgres-entrypoint.sh "$1/usr/local/bin/docker-entrypoint.sh"
    mkdir -p "$1/var/lib/postgresql/data"
    chroot "$1" chown -R postgres:postgres /var/lib/postgresql
    programs=$(basename "$(dirname "$(ls -d "$1"/usr/lib/postgresql/*/bin)")")
}
import_postgres() {
    load "$1" --change 'USER postgres' --change 'ENTRYPOINT ["docker-entrypoint.sh"]' --change 'CMD ["postgres"]' \
        --change "ENV PATH=/usr/local/bin:/usr/bin:/bin:/usr/lib/postgresql/$programs/bin"
}

before_prometheus() { :; }
shape_prometheus() {
    mkdir -p "$1/prometheus"
    chown 65534:65534 "$1/prometheus"
}
import_prometheus() { load "$1" --change 'USER 65534' --change 'ENTRYPOINT ["/bin/prometheus"]'; }

before_haproxy() { :; }
shape_haproxy() { :; }
import_haproxy() { load "$1" --change 'USER haproxy' --change 'CMD ["haproxy", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]'; }

making=
work=$(mktemp -d /var/tmp/shuffledp-offline.XXXXXX)
trap ended EXIT
trap 'exit 1' INT TERM
image python python3
image mosquitto mosquitto mosquitto-clients
image postgres postgresql
image prometheus prometheus
image haproxy haproxy
finish
cat >../.env.offline <<END
BASE_IMAGE=$PREFIX/python:$SUITE
MOSQUITTO_IMAGE=$PREFIX/mosquitto:$SUITE
POSTGRES_IMAGE=$PREFIX/postgres:$SUITE
PROMETHEUS_IMAGE=$PREFIX/prometheus:$SUITE
HAPROXY_IMAGE=$PREFIX/haproxy:$SUITE
END
