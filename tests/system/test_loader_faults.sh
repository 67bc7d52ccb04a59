#!/bin/bash
# SPDX-License-Identifier: MIT
# test_loader_faults.sh - runs three virtual hosts, two loaders with a key, and one trainer, which must receive the same
# bytes although faults occur at random moments. Prints TAP. Needs root.
#
# RUNS is the number of rounds of all faults (default 20), FAULTS selects them (default: all), SEED determines when they
# strike: each round prints its seed, and SEED=NUMBER RUNS=1 repeats it.
#
# A fault is a function that starts a trainer (train), causes the fault while it runs, undoes it, and names the message
# by which the trainer must have noticed. Then the trainer must continue for a while. After it is stopped, the hash of
# its samples must equal what one thread computes for the same number of samples.
. "$top_srcdir/tests/lib.sh"
. "$top_srcdir/tests/system/hosts.sh"

plenumd=$top_builddir/plenumd ctl=$top_builddir/plenumctl feed=$top_builddir/examples/feed
wrong=$top_builddir/tests/libdist/plenumd-wrong broken_disk=$top_builddir/tests/system/.libs/broken_disk.so
: "${PYTHON:=python3}"
export PLENUM_CACHE_DIR=$dir/cache LD_LIBRARY_PATH=$top_builddir/.libs
(umask 077 && head -c 32 /dev/urandom >key && "$ctl" key key trainer >client)
stream=(data --pipeline "rrc(64)flip(0.5)" --seed 3)
"$ctl" make-sample data --classes 4 --images 30 --size 128 >log 2>&1
"$ctl" make-sample other --classes 4 --images 29 --size 128 >>log 2>&1
mkdir full
both=tcp:v1:7000,tcp:v2:7000

# ---- loaders ----

# Loaders are children of the host's first process: nsenter stops when they do, and would then not reap them. $with
# holds variables for their environment.
with=() program=$plenumd
start() { # HOST [ARGUMENT of plenumd...]
    local host=$1
    shift
    on "$host" env "${with[@]}" sh -c 'setsid "$0" "$@" >>"log.$(hostname)" 2>&1 &' "$program" \
        --socket unix:/tmp/plenumd.sock \
        --listen "$host:7000" --tls-key "$dir/key" --threads 1 --quiet "$@"
    wait_for on "$host" sh -c 'test -S /tmp/plenumd.sock'
}
end() { # HOST [SIGNAL]
    on "$1" pkill "-${2:-KILL}" plenumd
    while on "$1" pgrep plenumd >/dev/null; do sleep 0.01; done
    on "$1" rm -f /tmp/plenumd.sock
}
again() { # HOST [ARGUMENT of plenumd...]: replaces the host's loader with a different kind
    end "$1"
    start "$@"
}
as_before() { with=() program=$plenumd && again "$1"; }

# ---- time ----

moment() { sleep "0.$(printf %03d $((RANDOM % 500)))"; }
batches() { grep -c '^feed: batch' err; }
runs() { kill -0 "$trainer" 2>/dev/null; }
# progress N: wait until N more batches have been delivered
progress() {
    local want=$(($(batches) + $1)) end=$((SECONDS + 60))
    until [ "$(batches)" -ge $want ]; do
        runs && [ $SECONDS -lt $end ] || { check "echo 'the stream made no progress'; false"; return 1; }
        sleep 0.02
    done
}
# Wait while a fault lasts, until the trainer has received another 40 batches.
meanwhile() { moment; moment; progress 40; }

# ---- the trainer ----

n() { sed -n "s/.*\"$1\": \"\{0,1\}\([^,\"}]*\).*/\1/p" out; }
check() { checks+=("$1"); }
says() { check "grep -q -e '$1' err"; }
# The fault lasts until the trainer has printed this message.
noticed() { wait_for grep -q -e "$1" err || check "echo \"no '$1'\"; false"; }
struck() { check '[ $(($(n moved) + $(n hedged) + $(n incidents))) -gt 0 ]'; }
lost() { check "[ \"\$(n incidents)\" -ge ${1:-1} ]"; }
ends=0 # the trainer's expected status; if it is not 0, the trainer ends by itself
serves() { on "$1" "$ctl" status unix:/tmp/plenumd.sock --json | grep -q '"streams": [1-9]'; }
part="v1 v2" # hosts whose loaders must be in use before the fault
launch() { # [LOADERS [ARGUMENT of feed...]]
    local loaders=${1:-$both}
    shift
    : >err
    PLENUM_LOADER_KEY=$dir/client PLENUM_VERIFY_BATCHES=$verify% on v3 timeout 300 "$feed" "${stream[@]}" \
        --micro-batch 4 --epochs 1000000 \
        --pause 3 --silence 600 --loader "$loaders" --verbose --json "$@" >out 2>err &
    trainer=$!
}
train() { # launches a trainer, and waits until it runs well, and for a random moment more
    local h
    launch "$@"
    progress 5
    for h in $part; do wait_for serves "$h" || check "echo 'the loader of $h was never used'; false"; done
    moment
}
# run FAULT: succeeds if the trainer gets the same bytes in spite of the fault
run() {
    local code=0 images want begin=$SECONDS
    checks=() ends=0 part=${hosts:-v1 v2} verify=$((RANDOM % 2 * 20))
    "fault_$1" >>log 2>&1
    if [ $ends = 0 ]; then
        progress 20
        on v3 pkill -USR1 -x feed
    fi
    wait $trainer || code=$?
    images=$(n images)
    echo "# $1: $((SECONDS - begin)) s, ${images:-no} images, $(n incidents) incidents, $(n moved) moved, $(n \
        hedged) hedged" >&3
    sed -n 's/^feed: warning/#   warning/p' err >&3
    if [ $ends = 0 ]; then
        want=$("$ctl" hash "${stream[@]}" --epochs 1000000 --samples "${images:-1}")
        check "same \"\$(n hash)\" $want"
    fi
    { [ $code = $ends ] && all "${checks[@]}"; } || { echo "status $code"; cat out; grep -v '^feed: batch' err; false; }
}

# ---- faults of loaders ----

fault_none() { train; meanwhile; }
fault_killed() { train; end v1; moment; start v1; lost; }
fault_all_killed() { train; end v1; moment; start v1; progress 20; end v2; moment; start v2; lost 2; }
fault_both_away() {
    train; end v1; end v2; moment; start v2; start v1; lost 2; says "after .* s, batches are coming from"
}
fault_stopped() { train; on v1 pkill -STOP -x plenumd; meanwhile; on v1 pkill -CONT -x plenumd; struck; }
# The fault strikes within the first tenth of a second: no loader is connected, or some are, or hardly any batch has
# arrived.
fault_at_the_start() {
    local signals=(KILL TERM STOP) signal
    signal=${signals[RANDOM % 3]}
    launch
    sleep "0.0$((RANDOM % 90 + 10))"
    on v1 pkill -$signal plenumd
    moment
    [ $signal != STOP ] || on v1 pkill -CONT plenumd
    end v1
    start v1
    moment
}
fault_told_to_end() { train; end v1 TERM; moment; start v1; lost; }

# ---- faults of their links ----

fault_link_down() { train; "$vhosts" drop v2; meanwhile; "$vhosts" undrop v2; struck; }
fault_one_way() {
    train
    on v2 ip route add blackhole "$VHOSTS_NET.3"
    meanwhile
    on v2 ip route del blackhole "$VHOSTS_NET.3"
    struck
}
# No packet closes the connection, because the loader dies while its host is unreachable, and is then replaced.
fault_half_open() { train; "$vhosts" drop v1; end v1; start v1; moment; "$vhosts" undrop v1; struck; }
lossy() { # HOST
    on "$1" nft -f - <<-EOF
		table inet t {
		    chain out { type filter hook output priority 0; numgen random mod 100 < 5 counter drop; }
		    chain in { type filter hook input priority 0; numgen random mod 100 < 5 counter drop; }
		}
	EOF
}
drops() { [ "$(on "$1" nft list table inet t | grep -c 'counter packets [1-9]')" = 2 ]; }
fault_loss() {
    local h
    train
    for h in v1 v2; do
        lossy $h
        meanwhile
        wait_for drops $h || check "echo no packet was lost; false"
        on $h nft delete table inet t
    done
}
limits() { on "$1" tc -s qdisc show dev eth0 | grep -q 'overlimits [1-9]'; }
fault_slow_link() {
    local h
    train
    for h in v1 v2; do
        on $h tc qdisc add dev eth0 root tbf rate 8mbit burst 64k latency 50ms
        meanwhile
        wait_for limits $h || check "echo the limit was never reached; false"
        on $h tc qdisc del dev eth0 root
    done
}

# ---- a bad connection to loaders ----

proxy() { # HOST ARGUMENT...: forwards the host's port 7001 to 7000; proxy.HOST is its log
    local host=$1
    shift
    on "$host" sh -c 'setsid "$@" >"proxy.$(hostname)" 2>&1 &' sh "$PYTHON" "$top_srcdir/tests/system/proxy.py" \
        "$host:7001" "$host:7000" \
        --seed $RANDOM "$@"
    wait_for grep -q listening "proxy.$host"
}
end_proxy() { on "$1" pkill -KILL -f proxy.py; }
better_way() { for h; do end_proxy "$h"; proxy "$h"; done; }
proxies_did() { wait_for grep -q "$1" proxy.v1 || check "cat proxy.v1; false"; }
# All loaders are 200 ms away in each direction.
fault_delay() {
    proxy v1 --delay 0.2
    proxy v2 --delay 0.2
    train tcp:v1:7001,tcp:v2:7001 --silence 3000 --prefetch-depth 12
    progress 10
    proxies_did "delayed answers"
    progress 10
    better_way v1
    progress 10
    lost
    better_way v2
    lost 2
    ending="end_proxy v1; end_proxy v2"
}
fault_stalls() {
    proxy v1 --stall 2
    train tcp:v1:7001,tcp:v2:7000
    proxies_did "stalled answers"
    meanwhile
    struck
    ending="end_proxy v1"
}
fault_all_stall() {
    proxy v1 --stall 2
    proxy v2 --stall 2
    train tcp:v1:7001,tcp:v2:7001
    proxies_did "stalled"
    progress 10
    better_way v1 v2
    ending="end_proxy v1; end_proxy v2"
}
# If a loader accepts a connection but sends nothing, the client gives up and connects again.
twice() { [ "$(grep -c accepted proxy.v1)" -ge 2 ]; }
fault_mute() {
    proxy v1 --mute
    part=v2
    train tcp:v1:7001,tcp:v2:7000
    wait_for twice || check "cat proxy.v1; false"
    better_way v1
    ending="end_proxy v1"
}

# ---- a different loader at the same address ----

fault_other_data() {
    train
    end v1
    on v1 mount -n --bind other data
    start v1
    noticed "loader tcp:v1:7000 is not used: .*is now a different data set under the same name: one has 120 samples, the other 116"
    meanwhile
    end v1
    on v1 umount -n data
    start v1
    lost
}
fault_other_major() {
    train
    with=("PLENUM_WRONG_VERSION=2.0") program=$wrong
    again v1
    noticed "loader tcp:v1:7000 is not used: the other side speaks protocol 2.0 and this side 1\.[0-9]*: "
    meanwhile
    as_before v1
    lost
}
# A loader of a different minor version must serve: the stream continues even while that is the only loader.
minor() {
    train
    with=("PLENUM_WRONG_VERSION=$1") program=$wrong
    again v1
    end v2
    progress 20
    with=() program=$plenumd
    start v2
    as_before v1
    lost 3
}
fault_older_minor() { minor 1.0; }
fault_newer_minor() { minor 1.200; }
fault_wrong_pixels() {
    ends=1
    verify=100
    train
    with=() program=$wrong
    again v1
    wait $trainer
    as_before v1
    says "loaders tcp:v[12]:7000 and tcp:v[12]:7000 rendered sample 11 differently "
}
# A third loader shows which of two is wrong.
fault_wrong_pixels_of_three() {
    ends=1
    start v3
    verify=100
    train unix:/tmp/plenumd.sock,$both
    with=() program=$wrong
    again v1
    wait $trainer
    as_before v1
    end v3
    says "rendered sample 11 differently .* agrees with .*, so tcp:v1:7000, or its copy of the data, is broken"
}

# ---- disks ----

bad_disk() { # HOST...
    local h
    with=("LD_PRELOAD=$broken_disk" "BROKEN_DISK=$dir/data" "BROKEN_DISK_CONTROL=$dir/percent")
    for h; do again "$h"; done
    with=()
    ending="for h in $*; do as_before \$h; done"
}
failures() { cat log.v? | grep -c '^broken_disk: '; }
# Occasionally a read fails, and the trainer does not notice.
fault_disk_hiccups() {
    local before
    bad_disk v1 v2
    train
    before=$(failures)
    echo 5 >percent
    meanwhile
    rm percent
    check "[ $(failures) -gt $before ]"
    check "! grep 'could not render a batch' err"
}
fault_disk() {
    local before
    bad_disk v1
    train
    before=$(failures)
    echo 100 >percent
    meanwhile
    rm percent
    check "[ $(failures) -gt $before ]"
    struck
}
# Samples that no loader can read are reported, and not replaced.
fault_all_disks() {
    ends=1
    bad_disk v1 v2
    train
    echo 100 >percent
    wait $trainer
    rm percent
    says "^feed: .*data/.*: Input/output error"
    check '! grep -q "\"substituted\": [1-9]" out'
}
# The index does not fit on the disk, or only just.
fault_full_disk() {
    local pages=$((1 + RANDOM % 3)) before
    train
    before=$(grep -c "its index cannot be saved" log.v1)
    end v1
    on v1 mount -n -t tmpfs -o size=$((4 * pages))k full full
    with=("PLENUM_CACHE_DIR=$dir/full")
    start v1
    end v2
    progress 20
    as_before v2
    if [ $pages = 1 ]; then
        check "[ $(on v1 ls full | grep -c '\.index$\|\.tmp$') = 0 ]"
        check "[ $(grep -c 'its index cannot be saved' log.v1) -gt $before ]"
    fi
    with=("PLENUM_CACHE_DIR=$dir/full")
    again v1 # the new loader finds the files that the last one left
    end v2
    progress 20
    end v1
    on v1 umount -n full
    with=()
    start v1
    start v2
    lost 4
}

# ---- memory ----

if mkdir /sys/fs/cgroup/memory/plenum-$id 2>>log; then
    group=/sys/fs/cgroup/memory/plenum-$id limit=memory.limit_in_bytes no_limit=-1 events=memory.oom_control
elif mkdir /sys/fs/cgroup/plenum-$id 2>>log && [ -e /sys/fs/cgroup/plenum-$id/memory.max ]; then
    group=/sys/fs/cgroup/plenum-$id limit=memory.max no_limit=max events=memory.events
else
    group=
fi
at_end() { [ -z "$group" ] || { end v1; rmdir "$group"; } }
killed_for_memory() { sed -n 's/^oom_kill //p' "$group/$events"; }
# Start another job, whose batches need much of the loader's memory.
big_job() { # NAME
    PLENUM_LOADER_KEY=$dir/client on v3 timeout 10 "$feed" data --pipeline "rrc(224)" --micro-batch 512 --batches 20 \
        --loader tcp:v1:7000 \
        --loader-timeout 2 >"$1" 2>&1
}
fault_out_of_memory() {
    local before
    train
    before=$(killed_for_memory)
    on v1 sh -c 'pgrep -x plenumd >"$0/cgroup.procs"' "$group"
    echo 8M >"$group/$limit"
    big_job big
    check "[ $(killed_for_memory) -gt ${before:-0} ]"
    echo $no_limit >"$group/$limit"
    as_before v1
    lost
}
# No control group kills the loader, but no more memory can be allocated.
fault_no_memory() {
    local pid size before
    train
    before=$(wc -l <log.v1)
    pid=$(on v1 pgrep -x plenumd)
    size=$(on v1 awk '/^VmSize/ { print $2 }' "/proc/$pid/status")
    on v1 prlimit --pid "$pid" --as=$(((size + RANDOM % 8192) * 1024)): || check "echo no limit can be set; false"
    big_job big
    progress 20
    check "same '$(on v1 pgrep -x plenumd)' '$pid'"
    check "{ cat big; tail -n +$((before + 1)) log.v1; } | grep -i memory || { cat big log.v1; false; }"
    check "! grep -e 'the key' big"
    on v1 prlimit --pid "$pid" --as=unlimited:
}
fault_small_budget() {
    train
    again v1 --memory-budget 1M
    noticed "loader tcp:v1:7000 is not used for now: .*(--memory-budget)"
    meanwhile
    as_before v1
    lost
}

start v1
start v2
faults="none killed all_killed both_away stopped told_to_end at_the_start link_down one_way half_open delay stalls
    all_stall mute other_data disk_hiccups disk all_disks full_disk no_memory small_budget"
if [ -x "$wrong" ]; then
    faults="$faults other_major older_minor newer_minor wrong_pixels wrong_pixels_of_three"
else
    skip "loaders of other versions, and a wrong one" "they are built only with Criterion"
fi
if [ -n "$group" ]; then
    faults="$faults out_of_memory"
else
    skip "a loader that is killed for lack of memory" "control groups cannot be created here"
fi
if command -v nft >/dev/null && lossy v1 2>>log; then
    on v1 nft delete table inet t
    faults="$faults loss"
else
    skip "a link that loses packets" "nftables is not available here"
fi
if command -v tc >/dev/null && on v1 tc qdisc add dev eth0 root tbf rate 8mbit burst 64k latency 50ms 2>>log; then
    on v1 tc qdisc del dev eth0 root
    faults="$faults slow_link"
else
    skip "a slow link" "tc cannot limit a link here"
fi
[ -n "${SEED:-}" ] || SEED=$(date +%s)
exec 3>&1
for ((i = 1; i <= ${RUNS:-20}; i++)); do
    echo "# run $i: SEED=$SEED"
    RANDOM=$SEED
    for fault in ${FAULTS:-$faults}; do
        ending=:
        ok "run $i: $fault" run "$fault"
        eval "$ending"
    done
    SEED=$((SEED + 1))
done

# One host disappears silently, and one has a different key.
"$vhosts" crash v2
hosts=v1 ok "a host that was powered off is replaced" run none
end v1
(umask 077 && head -c 32 /dev/urandom >key2)
mv key key1 && cp -p key2 key && start v1 && mv key1 key
PLENUM_LOADER_KEY=$dir/client on v3 timeout 300 "$feed" "${stream[@]}" --loader tcp:v1:7000 >out 2>err
code=$?
ok "a wrong key is rejected, and the loader logs it once" all 'same $code 1' 'has "does not have the key"' \
    'same "$(grep -c "does not have the key" log.v1)" 1'
on v3 timeout 300 "$feed" "${stream[@]}" --loader tcp:v1:7000 >out 2>err
code=$?
ok "a missing key is rejected" all 'same $code 1' 'has "PLENUM_LOADER_KEY"'

# A trainer's host disappears silently: the loader frees its resources within a minute or so.
as_before v1
PLENUM_LOADER_KEY=$dir/client on v3 "$feed" "${stream[@]}" --epochs 1000000 --pause 10 --loader tcp:v1:7000 >out 2>err &
ok "the loader notices that a trainer's host was powered off" eval \
    'wait_for serves v1 && "$vhosts" crash v3 && wait_for eval "sleep 1; ! serves v1"'
finish
