#!/bin/bash
# SPDX-License-Identifier: MIT
# test_packages.sh - installs the Debian packages under a real systemd, starts the service, upgrades it while a job
# streams, and removes it. PLENUM_DEBS names the folder of the built packages (dpkg-buildpackage -b). Prints TAP. Needs
# root.
. "$top_srcdir/tests/lib.sh"
vsystemd=$top_srcdir/tests/system/vsystemd.sh

if [ "${1:-}" != --inside ]; then
    [ -n "${PLENUM_DEBS:-}" ] || skip_all "PLENUM_DEBS does not name a folder with the built packages"
    [ "$(id -u)" = 0 ] || skip_all "a systemd of our own needs root"
    "$vsystemd" true >"$T/log" 2>&1 || { sed 's/^/# /' "$T/log"; skip_all "no systemd can be started here"; }
    stage=$(mktemp -d "$top_builddir/tests/system/stage-XXXXXX") || exit 99
    at_end() { rm -rf "$stage"; }
    cp "$PLENUM_DEBS"/*.deb "$top_builddir/examples/feed" "$stage/" || exit 99
    rm -f "$stage"/*-dbgsym*
    # Make the next version: the same files with a higher version number.
    dpkg-deb -R "$stage"/plenum-loader_*.deb "$stage/next" || exit 99
    sed -i 's/^Version: .*/&+next1/' "$stage/next/DEBIAN/control"
    mkdir "$stage/upgrade"
    dpkg-deb --root-owner-group -b "$stage/next" "$stage/upgrade/plenum-loader.deb" >/dev/null || exit 99
    "$vsystemd" -t 300 env top_srcdir="$top_srcdir" top_builddir="$top_builddir" stage="$stage" \
        bash "$top_srcdir/tests/system/test_packages.sh" --inside
    exit
fi

cd "$T" || exit 99
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
rm -f /usr/sbin/policy-rc.d
pid() { systemctl show -P MainPID plenumd; }
field() { sed -n "s/.*\"$1\": \"\{0,1\}\([^,\"}]*\).*/\1/p" out; }
feed() {
    PLENUM_CACHE_DIR=$T/c "$stage/feed" /srv/data --pipeline "rrc(48)flip(0.5)" --micro-batch 4 \
        --loader unix:/run/plenum/plenumd.sock --json "$@"
}
owner() { stat -c %U:%G "$1"; }

ok "the packages are installed" dpkg -i "$stage"/*.deb
ok "the user exists" id plenum
is plenum:plenum "the user's cache folder exists" owner /var/cache/plenum
ok "the socket listens" systemctl --quiet is-active plenumd.socket
ok "the service runs" systemctl --quiet is-active plenumd.service
ok "the socket and the service start at boot" systemctl --quiet is-enabled plenumd.socket plenumd.service
ok "the configuration is valid" plenumd --check-config
ok "plenumctl works" plenumctl make-sample /srv/data --classes 4 --images 10 --size 96
chmod -R a+rX /srv/data
echo "root = /srv/data" >>/etc/plenum/plenumd.conf
ok "the service reloads" systemctl reload plenumd
feed --epochs 1 >out 2>err
is "$(plenumctl hash /srv/data --pipeline "rrc(48)flip(0.5)" --micro-batch 4 2>/dev/null ||
    plenumctl hash /srv/data --pipeline "rrc(48)flip(0.5)")" "a job gets the right pixels" field hash
ok "Python finds the library" /usr/bin/python3 -c 'import pyplenum; pyplenum.Job'

feed --epochs 20 --pause 20 >out 2>err &
job=$!
sleep 1
before=$(pid)
ok "the package is upgraded while a job streams" dpkg -i "$stage/upgrade/plenum-loader.deb"
ok "the job succeeds" wait $job
is "$(plenumctl hash /srv/data --pipeline "rrc(48)flip(0.5)" --epochs 20)" "the job's hash is right" field hash
ok "the loader is a new process" test "$(pid)" != "$before"
ok "changes to the configuration are kept" grep -q '^root = /srv/data' /etc/plenum/plenumd.conf
ok "the packages are removed" dpkg -r plenum-loader plenum python3-pyplenum libplenum-dev libplenum1
ok "plenum-loader is purged" dpkg -P plenum-loader
ok "the loader's folders are removed" test ! -e /var/cache/plenum -a ! -e /run/plenum
ok "the user is kept" id plenum
ok "the service is inactive" test "$(systemctl show -P ActiveState plenumd)" = inactive
finish
