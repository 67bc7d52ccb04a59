#!/bin/bash
# SPDX-License-Identifier: MIT
# test_distros.sh - runs scripts/demo and scripts/check in fresh systems made by debootstrap, like a user who has just
# cloned the sources: as root, in root's home, which other users cannot enter. Prints TAP. Needs root, debootstrap and a
# Debian archive.
#
#     DISTROS='bookworm trixie'     the systems: SUITE, or SUITE=MIRROR (noble=http://archive.ubuntu.com/ubuntu needs
#                                   its keyring)
#     SCRIPTS='demo check'          the scripts to run
#     DEBIAN_MIRROR=...             default: http://deb.debian.org/debian
#
# It tests the last commit, not the work tree. Each system takes some GiB next to this build, and is removed at the end;
# its output is kept in tests/system/distro-SUITE-SCRIPT.log.
. "$top_srcdir/tests/lib.sh"
: "${DISTROS:=bookworm trixie}" "${SCRIPTS:=demo check}" "${DEBIAN_MIRROR:=http://deb.debian.org/debian}"

if [ "${1:-}" = --inside ]; then # in separate namespaces: ROOT SCRIPT
    root=$2
    mount --bind "$root" "$root" && mount -t proc proc "$root/proc" && mount -t sysfs -o ro sysfs "$root/sys" &&
        mount -t tmpfs tmpfs "$root/dev" &&
        mkdir -p "$root"/dev/{pts,shm} && mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts" &&
        mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm" && mount -t tmpfs tmpfs "$root/run" || exit 99
    for n in null zero full random urandom tty; do : >"$root/dev/$n" && mount --bind "/dev/$n" "$root/dev/$n" ||
        exit 99; done
    ln -s pts/ptmx "$root/dev/ptmx"
    ln -s /proc/self/fd "$root/dev/fd"
    exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root ${JOBS:+JOBS=$JOBS} \
        sh -c "cd /root/plenum && scripts/$3" </dev/null
fi

[ "$(id -u)" = 0 ] || skip_all "making a system needs root"
command -v debootstrap >/dev/null || skip_all "debootstrap is not installed"
unshare --mount --pid --fork --kill-child --propagation private -- true 2>/dev/null ||
    skip_all "namespaces cannot be created here"
home=$(mktemp -d "$top_builddir/tests/system/distros-XXXXXX") || exit 99
at_end() { rm -rf --one-file-system "$home"; }

# Copy the sources: clone them, or without git copy the files of a tarball.
source_tree() {
    mkdir "$home/plenum"
    if [ -e "$top_srcdir/.git" ]; then
        git -c safe.directory='*' clone -q --depth 1 "file://$top_srcdir" "$home/plenum"
    else
        tar -C "$top_srcdir" --exclude=./build --exclude=./_build -c . | tar -C "$home/plenum" -x
    fi
}
ok "the sources are cloned" source_tree

make_system() { # SUITE MIRROR FOLDER
    local script='' components=main
    case $2 in *ubuntu*) components=main,universe script=gutsy ;; esac
    debootstrap --variant=minbase --include=ca-certificates --components=$components "$1" "$3" "$2" $script >"$3.log" \
        2>&1 || return 1
    # Use the same proxy as this machine to reach archives.
    apt-config dump 2>/dev/null | grep -i '^Acquire::[a-z]*::proxy ' >"$3/etc/apt/apt.conf.d/99proxy"
    cp -L /etc/resolv.conf "$3/etc/resolv.conf"
    # An installed system has this file.
    printf '127.0.0.1 localhost\n::1 localhost ip6-localhost\n' >"$3/etc/hosts"
    cp -a "$home/plenum" "$3/root/plenum"
    chmod 700 "$3/root"
}

# Print the totals of the tests in one line.
counts() { grep -aE '^# (TOTAL|PASS|SKIP|FAIL|ERROR): ' "$1" | tr -s ' \n' ' '; }

for distro in $DISTROS; do
    suite=${distro%%=*} mirror=$DEBIAN_MIRROR root=$home/${distro%%=*}
    [ "$suite" = "$distro" ] || mirror=${distro#*=}
    if ! make_system "$suite" "$mirror" "$root"; then
        tail -n 3 "$root.log" | sed 's/^/# /'
        skip "$suite" "debootstrap cannot create a system from $mirror"
        continue
    fi
    for script in $SCRIPTS; do
        log=$top_builddir/tests/system/distro-$suite-$script.log status=0
        unshare --mount --pid --fork --kill-child --propagation private -- bash "$0" --inside "$root" "$script" \
            >"$log" 2>&1 || status=$?
        [ "$script" != check ] || echo "# $suite: $(counts "$log")"
        { grep -aE '^(FAIL|ERROR):' "$log"; tail -n 30 "$log"; } >"$T/tail"
        result $status "$suite: scripts/$script succeeds" "$T/tail"
    done
    rm -rf --one-file-system "$root"
done
finish
