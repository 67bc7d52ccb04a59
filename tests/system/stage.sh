# SPDX-License-Identifier: MIT
# stage.sh - for tests of an installation under their own systemd: source it after lib.sh.
#
#     enter SECONDS SCRIPT...     install everything into a folder, start systemd in a throw-away container, and run
#                                 SCRIPT in it
#     take_over                   in the container: make the installed files part of the system, and create the user
#                                 and the folders
vsystemd=$top_srcdir/tests/system/vsystemd.sh

enter() {
    local limit=$1
    shift
    [ "$(id -u)" = 0 ] || skip_all "a systemd of our own needs root"
    for tool in /lib/systemd/systemd systemctl systemd-analyze unshare nsenter make; do
        command -v $tool >/dev/null || skip_all "$tool is not installed"
    done
    # Not below /tmp: the container has its own.
    stage=$(mktemp -d "$top_builddir/tests/system/stage-XXXXXX") || exit 99
    at_end() { rm -rf "$stage"; }
    "$vsystemd" true >"$T/log" 2>&1 || { sed 's/^/# /' "$T/log"; skip_all "no systemd can be started here"; }
    make -C "$top_builddir" DESTDIR="$stage/root" install >"$T/log" 2>&1 || { sed 's/^/# /' "$T/log"; exit 99; }
    mkdir -p "$stage/root/usr/local/bin"
    "$top_builddir/libtool" --quiet --mode=install install "$top_builddir/examples/feed" \
        "$stage/root/usr/local/bin/feed" >"$T/log" 2>&1
    "$vsystemd" -t "$limit" env top_srcdir="$top_srcdir" top_builddir="$top_builddir" stage="$stage" "$@"
}

take_over() {
    cp "$(find "$stage/root" -name plenumd.service)" "$(find "$stage/root" -name plenumd.socket)" /etc/systemd/system/ \
        || exit 99
    rm -rf "$stage/root/lib" # on many systems /lib is a link
    cp -a "$stage/root/." / || exit 99
    ldconfig
    plenumd=$(sed -n 's/^ExecStart=\([^ ]*\).*/\1/p' /etc/systemd/system/plenumd.service)
    conf=$(sed -n 's/^ExecStart=.*--config \([^ ]*\).*/\1/p' /etc/systemd/system/plenumd.service)
    ctl=$(dirname "$plenumd")/plenumctl
    sysusers=$(find /usr/lib/sysusers.d /usr/local/lib/sysusers.d -name plenumd.conf 2>/dev/null | head -n 1)
    tmpfiles=$(find /usr/lib/tmpfiles.d /usr/local/lib/tmpfiles.d -name plenumd.conf 2>/dev/null | head -n 1)
    ok "the user is created" systemd-sysusers "$sysusers"
    ok "the folders are created" systemd-tmpfiles --create "$tmpfiles"
    useradd --system --groups plenum member
    useradd --system stranger
}
