#!/bin/bash
# SPDX-License-Identifier: MIT
# soak.sh - tests a long service life in a short time: plenumd runs as a service under a real systemd, with clients that
# come, go, die and are frozen, junk, reloads, changing data, scrapes and rotated logs, for SOAK_SECONDS (default: an
# hour; runs below ten minutes only show that all of this happens, and do not judge growth). soak_actors.py does and
# judges all of it. Prints TAP; comments have the measurements. Needs root.
. "$top_srcdir/tests/lib.sh"
. "$top_srcdir/tests/system/stage.sh"
seconds=${SOAK_SECONDS:-3600}

if [ "${1:-}" != --inside ]; then
    enter $((seconds * 3 / 2 + 600)) SOAK_SECONDS="$seconds" PYTHON="${PYTHON:-python3}" bash \
        "$top_srcdir/tests/system/soak.sh" --inside
    exit
fi

cd "$T" || exit 99
chmod 755 "$T"
take_over
"$ctl" make-sample /srv/data --classes 4 --images 25 --size 96 >log 2>&1 && mkdir /srv/forms &&
    "$PYTHON" "$top_srcdir/tests/e2e/archives.py" /srv/data /srv/forms >>log 2>&1 || { sed 's/^/# /' log; exit 99; }
cp -r /srv/data /srv/damaged
find /srv/damaged -name '*.jpg' | sort | sed -n '3~9p' | while read -r f; do truncate -s 700 "$f"; done
cp -r /srv/data /srv/moving
mkdir /srv/other
chmod -R a+rX /srv
printf 'root = /srv\nhttp-port = 9714\n' >>"$conf"
systemctl daemon-reload
ok "the socket unit starts" systemctl start plenumd.socket
ok "the service starts" systemctl start plenumd.service
# The program continues this script's numbering of tests.
exec "$PYTHON" "$top_srcdir/tests/system/soak_actors.py" "$seconds" "$tap_count" "$tap_failed" "$ctl" "$plenumd" \
    "$conf" "$T"
