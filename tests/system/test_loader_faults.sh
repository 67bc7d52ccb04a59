#!/bin/bash
# test_loader_faults.sh - three virtual hosts, two loaders with a key, one trainer: faults at random moments, and the same
# bytes arrive. Speaks TAP. Needs root.
#
# RUNS says how often all faults are gone through (default 20, which takes some twenty minutes), SEED when they strike.
. "$top_srcdir/tests/lib.sh"
. "$top_srcdir/tests/system/hosts.sh"

plenumd=$top_builddir/plenumd ctl=$top_builddir/plenumctl feed=$top_builddir/examples/feed
export PLENUM_CACHE_DIR=$dir/cache LD_LIBRARY_PATH=$top_builddir/.libs
RANDOM=${SEED:-1}
(umask 077 && head -c 32 /dev/urandom >key)
stream=(data --pipeline "rrc(64)flip(0.5)" --seed 3)
"$ctl" make-sample data --classes 4 --images 30 --size 128 >log 2>&1
"$ctl" make-sample other --classes 4 --images 29 --size 128 >>log 2>&1
epochs=60
want=$("$ctl" hash "${stream[@]}" --epochs $epochs)

# As a child of the host's first process: nsenter would stop with it, and then reap nobody.
start() { # HOST
    on "$1" sh -c 'setsid "$0" "$@" >>"log.$(hostname)" 2>&1 &' "$plenumd" --socket unix:/tmp/plenumd.sock --listen "$1:7000" \
        --tls-key "$dir/key" --threads 1 --quiet
    wait_for 30 on "$1" sh -c 'test -S /tmp/plenumd.sock'
}
end() { on "$1" pkill "-${2:-KILL}" -x plenumd; while on "$1" pgrep -x plenumd >/dev/null; do sleep 0.01; done; on "$1" rm -f /tmp/plenumd.sock; }
moment() { sleep "0.$(printf %03d $((RANDOM % 700)))"; }

# Each strikes while the trainer runs, and undoes what it did.
fault_none() { :; }
fault_killed() { end v1; moment; start v1; }
fault_all_killed() { end v1; moment; start v1; moment; end v2; moment; start v2; }
fault_both_away() { end v1; end v2; moment; start v2; start v1; }
fault_stopped() { on v1 pkill -STOP -x plenumd; moment; moment; moment; on v1 pkill -CONT -x plenumd; }
fault_told_to_end() { end v1 TERM; moment; start v1; }
fault_link_down() { "$vhosts" drop v2; moment; moment; moment; "$vhosts" undrop v2; }
fault_one_way() { on v2 ip route add blackhole "$VHOSTS_NET.3"; moment; moment; moment; on v2 ip route del blackhole "$VHOSTS_NET.3"; }
nft_on() { on v1 nft add table inet t && on v1 nft add chain inet t c '{ type filter hook output priority 0; }' && on v1 nft add rule inet t c "$@"; }
fault_loss() { nft_on numgen random mod 100 '<' 5 drop; moment; moment; moment; on v1 nft delete table inet t; }
fault_slow_link() { nft_on limit rate over 400 kbytes/second drop; moment; moment; moment; on v1 nft delete table inet t; }
fault_other_data() { end v1; on v1 mount -n --bind other data; start v1; moment; moment; end v1; on v1 umount -n data; start v1; }

# run FAULT: does what the trainer gets stay the same?
run() {
    local code=0 got
    PLENUM_LOADER_KEY=$dir/key on v3 timeout 100 "$feed" "${stream[@]}" --micro-batch 4 --epochs $epochs --pause 2 --silence 600 \
        --loader tcp:v1:7000,tcp:v2:7000 --json >out 2>err &
    local trainer=$!
    moment
    moment
    "fault_$1" >>log 2>&1
    wait $trainer || code=$?
    got=$(sed -n 's/.*"hash": "\([^"]*\)".*/\1/p' out)
    { [ $code = 0 ] && [ "$got" = "$want" ]; } || { echo "status $code, hash '$got' and not '$want'"; cat out err; false; }
}

start v1
start v2
faults="none killed all_killed both_away stopped told_to_end link_down one_way other_data"
if command -v nft >/dev/null && nft_on accept 2>>log; then
    on v1 nft delete table inet t
    faults="$faults loss slow_link"
else
    skip "a link that loses packets, a slow one" "nftables cannot be had here"
fi
for ((n = 1; n <= ${RUNS:-20}; n++)); do
    for fault in ${FAULTS:-$faults}; do
        ok "run $n: $fault" run "$fault"
    done
done

# A host that is gone without a word, and one that has another key.
"$vhosts" crash v2
ok "a host that was powered off" run none
end v1
(umask 077 && head -c 32 /dev/urandom >key2)
mv key key1 && cp -p key2 key && start v1 && mv key1 key
PLENUM_LOADER_KEY=$dir/key on v3 timeout 100 "$feed" "${stream[@]}" --loader tcp:v1:7000 >out 2>err
code=$?
ok "another key is refused, and the loader says so once" all 'same $code 1' 'has "does not have the key"' \
    'same "$(grep -c "does not have the key" log.v1)" 1'
on v3 timeout 100 "$feed" "${stream[@]}" --loader tcp:v1:7000 >out 2>err
code=$?
ok "and so is none" all 'same $code 1' 'has "PLENUM_LOADER_KEY"'
end v1
finish
