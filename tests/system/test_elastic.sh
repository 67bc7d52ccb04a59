#!/bin/bash
# SPDX-License-Identifier: MIT
# test_elastic.sh - tests jobs that outlive their hosts, on five virtual hosts: spares, fewer hosts, hosts that return
# or are added. Prints TAP. Needs root; takes minutes. test_losses.sh loses and adds hosts at random.
num_hosts=5
. "$top_srcdir/tests/lib.sh"
. "$top_srcdir/tests/system/hosts.sh"
eval "$("$vhosts" env agent)"

# A program that writes its host's name to where.COUNT.RANK, and ends when ends.COUNT exists. COUNT: restarts so far.
cat >prog <<'END'
#!/bin/sh
echo "$(hostname) $PLENUM_NUM_INSTANCES $PLENUM_NUM_REPLICAS" >where.$PLENUM_RESTART_COUNT.$RANK.new
mv where.$PLENUM_RESTART_COUNT.$RANK.new where.$PLENUM_RESTART_COUNT.$RANK
[ ! -e stubborn ] || trap '' TERM
until [ -e ends.$PLENUM_RESTART_COUNT ]; do sleep 0.1; done
END
chmod +x prog
start() { # [OPTION]... - start a job in the background; if $stubborn is set, its programs ignore SIGTERM
    rm -f where.* ends.* stubborn
    [ -z "${stubborn:-}" ] || : >stubborn
    "$run" --grace 1 --heartbeat-timeout 4 "$@" ./prog >out 2>err &
    job=$!
}
# runs COUNT HOST... - wait until the start after COUNT restarts has an instance on each of these hosts, in this order
runs_now() {
    local count=$1 rank=0 h
    shift
    for h; do
        [ "$(cut -d' ' -f1 "where.$count.$rank" 2>/dev/null)" = "$h" ] || return
        rank=$((rank + 1))
    done
    [ ! -e "where.$count.$rank" ]
}
runs() { wait_for runs_now "$@" || { tail -n 3 where.*; sed 's/^/standard error: /' err; false; }; }
ends() { # COUNT - let the programs of this start end, and the job with them
    : >"ends.$1"
    wait $job
    code=$?
}
lose() { on "$1" pkill -KILL -x $daemon; } # a fast way to lose a host: its daemon is killed

start --host 'v[1-4]' --num-hosts 3 --max-restarts 5
runs 0 v1 v2 v3
lose v2
ok "a spare replaces a lost host" all 'runs 1 v1 v3 v4' 'has "this start of the job has 3 hosts: v1, v3, v4"'
lose v4
ok "a host that has returned is the next spare" runs 2 v1 v2 v3
ends 2
ok "a job whose hosts were replaced ends as usual" all 'same $code 0' 'same "$(cat where.2.0)" "v1 3 3"' nothing_is_left

start --host 'v[1-3]:2' --min-hosts 2 --replicas-per-host 4 --max-restarts 5
runs 0 v1 v1 v2 v2 v3 v3
"$vhosts" crash v3
ok "without a spare, the job continues on fewer hosts" all 'runs 1 v1 v1 v2 v2' 'same "$(cat where.1.3)" "v2 4 8"' \
    'has "  v3  *log in  "'
"$vhosts" boot v3
on v1 pkill -KILL -f 'sh ./prog'
ok "the job uses a host that has returned at the next restart" all 'runs 2 v1 v1 v2 v2 v3 v3' 'same "$(cat where.2.5)" "v3 6 12"'
ends 2
ok "the job whose host returned ends as usual" all 'same $code 0' nothing_is_left

echo "v1
v2" >hosts
start --hostfile hosts --min-hosts 1 --num-replicas 6 --max-restarts 5
runs 0 v1 v2
printf 'v2\nv5\nv4\n' >hosts
lose v1
ok "a changed host file is read at each restart" all 'runs 1 v2 v5 v4' 'same "$(cat where.1.2)" "v4 3 6"'
printf 'v[2-5]:x\n' >hosts
lose v4
ok "a malformed host file is ignored at a restart" all 'runs 2 v2 v5 v4' 'has "the list of hosts cannot be read again"'
printf 'v[1-5]\n' >hosts
lose v5
ok "only as many hosts are used as the replicas can be divided among" all 'runs 3 v2 v4 v3' \
    'has "the job cannot use 5 hosts: 6 replicas"' 'has "the job cannot use 4 hosts: 6 replicas"'
ends 3
ok "the job whose host file changed ends as usual" all 'same $code 0' nothing_is_left

start --host 'v[1-3]' --min-hosts 1 --max-host-failures 2 --max-restarts 5
runs 0 v1 v2 v3
lose v2
runs 1 v1 v2 v3
lose v2
ok "a host that fails too often is left out" all 'runs 2 v1 v3' \
    'has "host v2 is left out of this job, because it has failed 2 times (--max-host-failures): instance 1 on host v2"'
ends 2
ok "the job without the failing host ends as usual" all 'same $code 0' nothing_is_left

start --host v1,v2 --num-hosts 2 --max-restarts 5 --wait-hosts 1
runs 0 v1 v2
"$vhosts" crash v2
wait $job
code=$?
ok "a job without enough hosts ends with code 96, and each reason" all 'same $code 96' \
    'last_line_has "1 of the 2 hosts that the job needs (--num-hosts) is ready: v2: log in: "' nothing_is_left
start --host v1,v2 --num-hosts 2 --max-restarts 0 --wait-hosts 1m
wait_for has 'checking the hosts again in 5 s'
"$vhosts" boot v2
ok "--wait-hosts waits for a host, also at the first start" runs 0 v1 v2
ends 0
ok "waiting for a host at the first start does not count as a restart" all 'same $code 0' 'has_not "starts again"' nothing_is_left
job --host v1,vghost,v3 --num-hosts 2 --start-timeout 20 hostname
ok "a host that is not ready at first is replaced, too" all 'same $code 0' 'same "$(sort out | tr "\n" ,)" v1,v3,'
job --host v1,v2 --min-hosts 1 no-such-program
ok "a missing program is reported as such" all 'same $code 127' 'has "v2  *program  *there is no program"'

# The programs on v2 lose both of their shims, which would otherwise end them.
stubborn=1 start --host v1,v2 --num-hosts 2 --max-restarts 1
runs 0 v1 v2
on v2 pkill -KILL -f 'plenumrun --shim'
ok "programs of the earlier start are killed before the next one begins" all 'runs 1 v1 v2' \
    'same "$(on v2 pgrep -cf "sh ./prog")" 1'
ends 1
on v2 sh -c 'rm -rf /tmp/ompi.* /tmp/prte*' # normally, the shims remove them
ok "the job whose earlier programs were killed ends as usual" all 'same $code 0' nothing_is_left

# v2 is cut off. No start may begin while the programs on v2 could still write to the shared files.
stubborn=1 start --host v1,v2,v3 --num-hosts 2 --max-restarts 1
runs 0 v1 v2
"$vhosts" drop v2
wait_for has 'host v2 does not answer: its programs will have ended in'
ok "a host that is cut off gets time to end its programs" all 'runs 1 v1 v3' '! on v2 pgrep -f "sh ./prog"'
"$vhosts" undrop v2
ends 1
ok "the job that lost the host ends as usual" all 'same $code 0' nothing_is_left

refused() { # WORDS OPTION... - plenumrun refuses these options with these words
    local words=$1
    shift
    job "$@" true
    all 'same $code 2' "last_line_has '$words'"
}
ok "options that cannot be kept are rejected" all \
    'refused "needs several hosts to choose from" --num-hosts 2' \
    'refused "only 2 hosts are named" --host v1,v2 --num-hosts 3' \
    'refused "only 2 hosts are named" --host v1,v2 --min-hosts 3' \
    'refused "give the hosts slots instead (--host v1:2)" --host v1,v2 --min-hosts 1 -n 4' \
    'refused "with 2 hosts: 5 replicas cannot be split" --host v1,v2 --min-hosts 1 --num-replicas 5' \
    'refused "with 2 hosts: 3 replicas cannot" --host "v[1-3]" --min-hosts 2 --num-replicas 3' \
    'refused "have different numbers of slots" --host v1:2,v2:3,v3:2 --num-hosts 2 --num-replicas 20' \
    'refused "no instance 2 if the job starts on 2 hosts" --host "v[1-3]" --min-hosts 2 \
        --instance-mpi-local-args "2:-x A"' \
    'refused "only-output-from-instance, with 1 host: 1 in" --host v1,v2 --min-hosts 1 --only-output-from-instance 0,1'
finish
