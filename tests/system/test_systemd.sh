#!/bin/bash
# SPDX-License-Identifier: MIT
# test_systemd.sh - tests plenumd's units under a real systemd: activation, readiness, reload, drain, watchdog, sandbox.
# Everything is installed into a throw-away container. Prints TAP. Needs root; takes half a minute.
. "$top_srcdir/tests/lib.sh"
. "$top_srcdir/tests/system/stage.sh"

if [ "${1:-}" != --inside ]; then
    enter 300 bash "$top_srcdir/tests/system/test_systemd.sh" --inside
    exit
fi

cd "$T" || exit 99
chmod 755 "$T"
take_over
"$ctl" make-sample /srv/data --classes 4 --images 10 --size 96 >make.log 2>&1 || { sed "s/^/# /" make.log; exit 99; }
chmod -R a+rX /srv/data
stream="--pipeline rrc(48)flip(0.5) --seed 3 --micro-batch 4"
as() { # USER COMMAND...
    local user=$1
    shift
    setpriv --reuid "$user" --regid "$user" --init-groups env HOME=/nonexistent XDG_CACHE_HOME="$T" "$@"
}
feed() { as "$1" /usr/local/bin/feed /srv/data $stream --loader unix:/run/plenum/plenumd.sock --json "${@:2}"; }
field() { sed -n "s/.*\"$1\": \"\{0,1\}\([^,\"}]*\).*/\1/p" "$2"; }
delivered() { # JOB HASH - the feed that runs as this shell job succeeds, with this hash
    wait "$1" || { cat "$T/err"; return 1; }
    [ "$(field hash "$T/out")" = "$2" ] || { cat "$T/out" "$T/err"; return 1; }
}
pid() { systemctl show -P MainPID plenumd; }
state() { systemctl show -P "$1" plenumd; }
has() { grep -q -e "$1" "$2" || { echo "no '$1' in:"; cat "$2"; return 1; }; }
logged() { journalctl -u plenumd --no-pager -o cat >"$T/journal"; has "$1" "$T/journal"; }
fails() { ! "$@"; }
long=$("$ctl" hash /srv/data $stream --epochs 20)
begin() { # starts a feed that takes a few seconds, and waits for its first batches
    feed member --epochs 20 --pause 20 >"$T/out" 2>"$T/err" &
    job=$!
    sleep 1
}

ok "systemd-analyze verify accepts the units" test \
    -z "$(systemd-analyze verify --man=no plenumd.service plenumd.socket 2>&1 | grep plenumd)"
ok "the service's exposure is at most 2.0" systemd-analyze security --no-pager --threshold=20 plenumd.service
systemctl daemon-reload

# ---- without roots, the service serves no other user; clients are identified by their user ----
ok "the socket unit starts" systemctl start plenumd.socket
ok "the service is not running" fails systemctl --quiet is-active plenumd.service
feed member --epochs 1 --loader-timeout 5 >"$T/out" 2>"$T/err"
ok "a client starts the service" systemctl --quiet is-active plenumd.service
ok "a client of a different user is rejected with the reason" has "serves user $(id -u plenum) alone" "$T/err"
ok "the client's UID reaches the loader in the sandbox" logged "client user $(id -u member) "

# ---- the service's entries in the journal have fields ----
entries() { journalctl --no-pager -o json -u plenumd "$@" >"$T/entries"; }
entries "PLENUM_CLIENT_UID=$(id -u member)"
ok "the journal finds a message by its client's user" has '"MESSAGE":"client user' "$T/entries"
ok "that message has its priority" has '"PRIORITY":"4"' "$T/entries"
ok "that message was sent by the loader itself" has '"_TRANSPORT":"journal"' "$T/entries"
is plenumd "that message has the name plenumd" sed -n 's/.*"SYSLOG_IDENTIFIER":"\([^"]*\)".*/\1/p;q' "$T/entries"

# ---- reload ----
echo "root = /srv/data" >>"$conf"
before=$(pid)
ok "the service reloads" systemctl reload plenumd
feed member --epochs 1 >"$T/out" 2>"$T/err"
is "$("$ctl" hash /srv/data $stream)" "a root added to the file is served, with the right pixels" field hash \
    "$T/out"
is "$before" "the reload keeps the process" pid
entries PLENUM_DATASET=/srv/data
ok "the journal finds messages by data set" has '"PLENUM_CLIENT_PID":"[0-9]' "$T/entries"
tells() { state StatusText | grep -q "samples rendered: [1-9]"; }
ok "systemctl status shows what the loader does" wait_for tells
feed stranger --epochs 1 --loader-timeout 1 >"$T/out" 2>"$T/err"
ok "a user outside the group is rejected" has "Permission denied" "$T/err"

# ---- the sandbox ----
status=/proc/$(pid)/status
is plenum "the loader runs as its own user" ps -o user= -p "$(pid)"
ok "the loader has no capabilities" has "^CapEff:.*0000000000000000" "$status"
ok "the loader cannot gain privileges" has "^NoNewPrivs:.*1" "$status"
ok "system calls are filtered" has "^Seccomp:.*2" "$status"
in_sandbox() { nsenter -t "$(pid)" -m "$@"; }
ok "the loader cannot write to data sets" fails in_sandbox touch /srv/data/x
ok "the loader cannot write to the system" fails in_sandbox touch /usr/x /etc/x
ok "the loader can write to its cache" in_sandbox touch /var/cache/plenum/x
ok "the loader sees no disks" fails in_sandbox sh -c 'ls /dev | grep -e "^sd" -e "^vd" -e "^nvme" -e "^mem"'
ok "an index was written" test -n "$(find /var/cache/plenum -type f -size +0)"
# Counts the threads that are pinned to one CPU.
pinned() { for t in /proc/$(pid)/task/*; do sed -n 's/^Cpus_allowed_list:\t//p' "$t/status"; done | grep -cx '[0-9]*'; }
ok "the loader can pin threads to cores" test "$(pinned)" -ge "$(nproc)"

# ---- a stream continues after a restart ----
begin
ok "the service restarts while a job streams" systemctl restart plenumd
ok "the job succeeds with the same hash" delivered $job "$long"
ok "the job reported the restart" has "is being stopped or restarted; after .* s, batches are coming from" "$T/err"
begin
systemctl kill --signal=KILL plenumd
ok "a loader killed while a job streams: the same hash" delivered $job "$long"

begin
for _ in 1 2 3; do systemctl reload plenumd; done
ok "reloads while a job streams: the same hash" delivered $job "$long"
is 0 "reloads while a job streams: no incident" field incidents "$T/out"

begin
systemctl stop plenumd.service 2>/dev/null
ok "a service stopped while a job streams is started by its socket: the same hash" delivered $job "$long"

# ---- the watchdog ----
mkdir -p /run/systemd/system/plenumd.service.d
printf '[Service]\nWatchdogSec=2\n' >/run/systemd/system/plenumd.service.d/test.conf
systemctl daemon-reload
systemctl restart plenumd
begin
before=$(pid)
kill -STOP "$before"
ok "a loader hung by SIGSTOP while a job streams: the same hash" delivered $job "$long"
ok "the watchdog replaced the hung loader" test "$(pid)" != "$before"
ok "the watchdog's action is in the journal" logged "[Ww]atchdog"

# ---- a configuration file with an error ----
echo "ring-limt = 3" >>"$conf"
n=$(grep -c '' "$conf")
ok "a reload with an invalid file fails" fails systemctl reload plenumd
ok "the file's error is logged with its line" wait_for logged \
    "plenumd.conf:$n: there is no key 'ring-limt'; did you mean ring-limit?"
ok "the loader continues after the failed reload" systemctl --quiet is-active plenumd.service
finish
