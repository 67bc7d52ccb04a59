#!/bin/bash
# SPDX-License-Identifier: MIT
# test_fresh.sh - installs the Debian packages with their dependencies in a fresh Debian, runs a job, starts the
# service, upgrades the packages while a job streams, and removes them. PLENUM_DEBS names the folder of the built
# packages, PLENUM_DEBIAN a folder made by debootstrap, which stays unchanged. No systemd runs here; test_packages.sh
# has one. Prints TAP. Needs root, and a Debian archive for the dependencies.
. "$top_srcdir/tests/lib.sh"

case ${1:-} in
"")
    [ -n "${PLENUM_DEBS:-}" ] || skip_all "PLENUM_DEBS does not name a folder with the built packages"
    [ -n "${PLENUM_DEBIAN:-}" ] || skip_all "PLENUM_DEBIAN does not name a folder made by debootstrap"
    [ "$(id -u)" = 0 ] || skip_all "mounting needs root"
    # Mounts end with the last process of the namespace, and are never visible outside.
    mkdir "$T/system"
    system=$T/system unshare --mount --pid --fork --kill-child --propagation private -- bash \
        "$top_srcdir/tests/system/test_fresh.sh" --mount
    exit
    ;;
--mount)
    root=$system/root
    mount -t tmpfs -o size=4G tmpfs "$system" && mkdir "$system"/{up,work,root} &&
        mount -t overlay overlay -o "lowerdir=$PLENUM_DEBIAN,upperdir=$system/up,workdir=$system/work" "$root" &&
        mount -t proc proc "$root/proc" && mount -t sysfs -o ro sysfs "$root/sys" && mount -t tmpfs tmpfs "$root/dev" &&
        mkdir -p "$root"/dev/{pts,shm} "$root/debs/upgrade" &&
        mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts" &&
        mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm" || exit 99
    for n in null zero full random urandom tty; do : >"$root/dev/$n" && mount --bind "/dev/$n" "$root/dev/$n" ||
        exit 99; done
    ln -s pts/ptmx "$root/dev/ptmx"
    ln -s /proc/self/fd "$root/dev/fd"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod +x "$root/usr/sbin/policy-rc.d"
    cp "$PLENUM_DEBS"/*.deb "$root/debs/" && rm -f "$root"/debs/*-dbgsym*
    # Make the next version: the same files with a higher version number.
    for deb in "$root"/debs/*.deb; do
        dpkg-deb -R "$deb" "$system/next" &&
            sed -i -e 's/^Version: .*/&+next1/' -e 's/ (= [^)]*)//g' "$system/next/DEBIAN/control" &&
            dpkg-deb --root-owner-group -b "$system/next" "$root/debs/upgrade/$(basename "$deb")" >/dev/null || exit 99
        rm -r "$system/next"
    done
    cp "$top_srcdir/tests/system/test_fresh.sh" "$top_srcdir/tests/lib.sh" "$root/debs/"
    # Copy the first program of docs/guide.md.
    sed -n '/^# first.py - /,/^```$/p' "$top_srcdir/docs/guide.md" | sed '$d' >"$root/debs/first.py"
    sed -i 's|^. "$top_srcdir/tests/lib.sh"|. /debs/lib.sh|' "$root/debs/test_fresh.sh"
    chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root \
        DEBIAN_FRONTEND=noninteractive \
        TMPDIR=/tmp top_srcdir=/ top_builddir=/ bash /debs/test_fresh.sh --inside
    exit
    ;;
esac

cd "$T" || exit 99
chmod 755 "$T"
apt-get update >log 2>&1 || { tail -n 5 log | sed 's/^/# /'; skip_all "no Debian archive is reachable"; }
stream="--pipeline rrc(48)flip(0.5) --seed 7"
as() { # USER COMMAND...
    local user=$1
    shift
    setpriv --reuid "$user" --regid "$user" --init-groups env HOME=/tmp "$@"
}
version() { dpkg-query -W -f '${Version}' plenum-loader; }
line() { grep -o -E '\b[0-9a-f]{16}\b' "$1" | tail -n 1; }

ok "the packages are installed with their dependencies" apt-get install -y --no-install-recommends /debs/*.deb \
    openmpi-bin openssh-client procps
ok "dpkg finds nothing missing" dpkg --audit
ok "the user exists" id plenum
is plenum:plenum "the user's cache folder exists" stat -c %U:%G /var/cache/plenum
ok "the configuration is valid" plenumd --check-config
useradd --create-home --groups plenum alice
ok "plenumctl creates a data set" plenumctl make-sample /srv/photos --classes 4 --images 12 --size 80
want=$(plenumctl hash /srv/photos $stream --epochs 2)

# ---- a job with its own loader ----
as alice plenumrun --num-instances 2 --num-replicas 4 python3 /debs/first.py /srv/photos >out 2>err || sed 's/^/# /' err
is "$want" "the guide's first job gets the right pixels" line out

# ---- the service, started as its unit would start it ----
mkdir -p /run/plenum && chown plenum:plenum /run/plenum
echo "root = /srv" >>/etc/plenum/plenumd.conf
start=$(sed -n 's/^ExecStart=//p' /lib/systemd/system/plenumd.service)
serve() {
    as plenum PLENUM_CACHE_DIR=/var/cache/plenum $start --socket unix:/run/plenum/plenumd.sock --socket-mode 0660 \
        2>>served &
    service=$!
    wait_for test -S /run/plenum/plenumd.sock
}
ok "the service starts" serve
service=$(pgrep -o -x plenumd)
export PLENUM_LOADER=unix:/run/plenum/plenumd.sock
as alice python3 /debs/first.py /srv/photos >out 2>err || sed 's/^/# /' err
is "$want" "a job of a group member gets the right pixels" line out
ok "plenumctl status works" plenumctl status

# ---- the next version, while a job streams ----
sed 's/epochs=2/epochs=40/; s/total += batch.hash()/&; __import__("time").sleep(0.02)/' /debs/first.py >long.py
as alice python3 "$T/long.py" /srv/photos >out 2>err &
job=$!
sleep 2
before=$(version)
ok "all packages are upgraded while a job streams" dpkg -i /debs/upgrade/*.deb
ok "the upgraded packages have a higher version" dpkg --compare-versions "$(version)" gt "$before"
kill "$service" # systemd would restart it
wait_for test ! -e "/proc/$service"
ok "the new loader starts" serve
ok "the job succeeds" wait $job
is "$(plenumctl hash /srv/photos $stream --epochs 40)" "the job's hash is right" line out
ok "the job reported the restart" grep -q "is being stopped or restarted; after .* s, batches are coming from" err
ok "changes to the configuration are kept" grep -q '^root = /srv' /etc/plenum/plenumd.conf
pkill -x plenumd
ok "the packages are removed" dpkg -P plenum-loader plenum python3-pyplenum libplenum-dev libplenum1
is "" "no files of the packages are left" find /usr /lib /etc /var/cache /run -name '*plenum*' -not -path '/usr/local/*'
finish
