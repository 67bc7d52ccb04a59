#!/bin/bash
# SPDX-License-Identifier: MIT
# test_lenders.sh - tests plenumrun --loader-host on virtual hosts: v2 and v3 run loaders for a job on v1. Faults of v2
# and v3 must not change the batches, and nothing may be left on any host. Prints TAP. Needs root.
. "$top_srcdir/tests/lib.sh"
. "$top_srcdir/tests/system/hosts.sh"
[ -e "$top_builddir/.libs/libplenum-tls.so" ] || skip_all "built without TLS"

feed=$top_builddir/examples/feed ctl=$top_builddir/plenumctl
export PLENUM_CACHE_DIR=$dir/cache LD_LIBRARY_PATH=$top_builddir/.libs
"$ctl" make-sample data --classes 4 --images 30 --size 128 >log 2>&1 || exit 99
stream=(data --pipeline "rrc(64)flip(0.5)" --seed 3 --micro-batch 4)
epochs=40
want=$("$ctl" hash "${stream[@]}" --epochs $epochs)
works() { same "$code ${want:+$(sed -n 's/.*"hash": "\([^"]*\)".*/\1/p' out)}" "0 $want"; }
lent() { for h; do on $h pgrep -f plenumd >/dev/null || { echo "no plenumd on $h"; return 1; }; done; }
lends=(--heartbeat-timeout 3 --loader none --loader-host 'v[2-3]' --host v1)

for how in agent ssh; do
    eval "$("$vhosts" env $how)"
    job "${lends[@]}" -n 2 "$feed" "${stream[@]}" --epochs $epochs --json
    ok "$how: two loader hosts render the same batches" all works 'same "$(cat err)" ""' nothing_is_left
    job --loader-host v2,vhead --host v1,v3 "$feed" "${stream[@]}" --epochs $epochs --json
    ok "$how: the launching host can be a loader host, too" all works nothing_is_left
    job --start-timeout 20 --loader-host vghost,v2 --host v1 true
    ok "$how: a host that is down is reported" all 'same $code 125' 'last_line_has "vghost  *log in"' 'below $took 25000' \
        nothing_is_left
    job --start-timeout 20 --no-host-check --loader-host no-such-host --host v1 true
    ok "$how: without the host check, too, an unknown host name is reported" all 'same $code 125' \
        'last_line_has "loader-host no-such-host: its loader cannot be started"' 'below $took 25000' nothing_runs
    # The agent's daemon descends from plenumrun, whose guard kills the daemon while it starts: its files may be left.
    if [ $how = agent ]; then on v1 sh -c 'rm -rf /tmp/ompi.*'; else ok "$how: no files are left" no_files; fi
done
job --loader-host v2 --host v1,v2 true
ok "a loader host that also runs instances is rejected" all 'same $code 2' 'has "--loader-host v2: instances run there"'
job --host-subnet 10.9.9.0/24 --loader-host v2 --host v1 true
ok "a loader host outside --host-subnet is rejected" all 'same $code 125' 'last_line_has "v2  *network"'

# with FAULT... - run a job, and cause the fault while it runs
with() {
    timeout -k 5 300 "$run" "${lends[@]}" -n 2 "$feed" "${stream[@]}" --epochs $epochs --pause 20 --silence 600 \
        --json >out 2>err &
    local job=$!
    wait_for lent v2 v3
    sleep 0.5
    "$@"
    code=0
    wait $job || code=$?
}
kill_loaders() { for h in v2 v3 v2; do on $h pkill -KILL -f plenumd; sleep 0.7; done; }
with kill_loaders
ok "the job survives when loaders are killed" all works nothing_is_left
kill_keeper() { on v2 pkill -KILL -f lend-loader; }
with kill_keeper
ok "the job survives when a keeper is killed" all works 'has "host v2: its loader is gone"' nothing_is_left
cut() { "$vhosts" drop v3; sleep 7; }
with cut
ok "the job survives when a host is cut off" works
alone() { ! on v3 pgrep -f 'plenumd|lend-loader' >/dev/null; }
ok "the host that was cut off cleans up by itself" wait_for alone
"$vhosts" undrop v3
ok "nothing is left on the other hosts" nothing_is_left
freeze() { "$vhosts" freeze v2; sleep 4; "$vhosts" thaw v2; }
with freeze
ok "the job survives when a host is frozen for longer than the heartbeat timeout" all works nothing_is_left
stop() { pkill -STOP -x plenumrun; sleep 0.2; pkill -CONT -x plenumrun; }
with stop
ok "the job survives when plenumrun is stopped for a moment" all works nothing_is_left

timeout -k 5 300 "$run" "${lends[@]}" -n 2 "$feed" "${stream[@]}" --epochs 10000 --pause 20 >out 2>err &
wait_for lent v2 v3
pkill -KILL -o -f "^$run --heartbeat"
ok "nothing is left if plenumrun is killed" nothing_is_left
wait
timeout -k 5 300 "$run" "${lends[@]}" -n 2 "$feed" "${stream[@]}" --epochs 10000 --pause 20 >out 2>err &
wait_for lent v2 v3
"$vhosts" drop v2
pkill -TERM -o -f "^$run --heartbeat"
wait
ok "a host that is cut off cleans up when the job has ended" wait_for \
    sh -c '! "$0" exec v2 pgrep -f "plenumd|lend-loader"' "$vhosts"
"$vhosts" undrop v2

rm -f marker
job "${lends[@]}" --max-restarts 1 sh -c '[ -e marker ] && exec "$@"; : >marker; exit 3' - "$feed" "${stream[@]}" \
    --epochs $epochs --json
ok "a restarted job works with loaders that have a new key" all works nothing_is_left
crash() { "$vhosts" crash v3; }
with crash
ok "the job survives when a host is powered off" works
finish
