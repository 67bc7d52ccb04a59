#!/bin/bash
# test_hosts.sh - plenumrun on three virtual hosts: start by agent and by ssh, and what hosts do when
# they fail. Speaks TAP. Needs root; takes a minute.
. "$top_srcdir/tests/lib.sh"
run=$top_builddir/plenumrun
vhosts=$top_srcdir/tests/system/vhosts.sh
mpi_sum=$top_builddir/tests/launcher/mpi_sum

if [ "${1:-}" != --at-head ]; then
    [ "$(id -u)" = 0 ] || skip_all "virtual hosts need root"
    for tool in mpirun ssh ssh-keygen /usr/sbin/sshd ip unshare nsenter pgrep; do
        command -v $tool >/dev/null || skip_all "$tool is not installed"
    done
    export VHOSTS_DIR=$T/v VHOSTS_NET=10.77.$((100 + $$ % 100)) VHOSTS_SHARE=$top_builddir
    at_end() { "$vhosts" down; }
    "$vhosts" up 3 >"$T/log" 2>&1 || { sed 's/^/# /' "$T/log"; skip_all "no virtual hosts can be made here"; }
    "$vhosts" head bash "$0" --at-head
    exit
fi

dir=$VHOSTS_DIR/shared
cd "$dir" || exit 99
id=$$
unset PLENUM_LOADER PLENUM_PLENUMD OMP_NUM_THREADS WORLD_SIZE HWLOC_SYNTHETIC HWLOC_XMLFILE HWLOC_THISSYSTEM
unset "${!OMPI_MCA_@}"
export LC_ALL=C

job() { # run plenumrun, a minute at most: out, err, $code, $took in milliseconds
    local begin
    begin=$(date +%s%N)
    timeout -k 5 60 "$run" "$@" >out 2>err
    code=$?
    took=$((($(date +%s%N) - begin) / 1000000))
}
same() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; sed 's/^/standard error: /' err; false; }; }
last_line_has() { tail -n 1 err | grep -q -e "$1" || { echo "no '$1' at the end"; false; }; }
below() { [ "$1" -lt "$2" ] || { echo "$1 is not below $2"; false; }; }
all() {
    for t; do eval "$t" || { echo "does not hold: $t"; sed 's/^/standard error: /' err; return 1; }; done
}
nothing_runs() { [ -z "$("$vhosts" ps)" ]; }
nothing_is_left() { wait_for 10 nothing_runs || { "$vhosts" ps; return 1; }; }

for how in agent ssh; do
    eval "$("$vhosts" env $how)"
    job --host 'v[3,1]:2,v2:1' sh -c 'echo $RANK $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK $(hostname) $(pwd) $MASTER_ADDR'
    ok "$how: instances in the order of the hosts" same "$(sort out)" "0 0/2 0 v3 $dir v3
1 1/2 0 v3 $dir v3
2 0/2 1 v1 $dir v3
3 1/2 1 v1 $dir v3
4 0/1 2 v2 $dir v3"
    job --host v2,vhead,v1 sh -c 'echo $RANK $OMPI_COMM_WORLD_RANK $(hostname)'
    ok "$how: also when the launching host is one of them" same "$(sort out)" "0 0 v2
1 1 vhead
2 2 v1"
    if [ -x "$mpi_sum" ]; then
        job --host 'v[1-3]:2' "$mpi_sum"
        ok "$how: MPI between hosts" same "$(grep -c 'sum 6' out)" 6
    fi
    job --host 'v[1-3]' --grace 2 sh -c '[ $RANK != 1 ] || { echo reason >&2; sleep 0.3; exit 3; }; setsid sleep 2000.'$id' & wait'
    ok "$how: a failing instance" all 'same $code 3' 'last_line_has "instance 1 on host v2 exited with code 3"' nothing_is_left
    job --start-timeout 20 --host v1,vghost true
    ok "$how: a host that is down" all 'same $code 125' 'last_line_has "host vghost: cannot log in"' 'below $took 25000' nothing_is_left
    job --start-timeout 20 --host v1,no-such-host true
    ok "$how: a name that nobody knows" all 'same $code 125' 'last_line_has "host no-such-host: cannot log in"' 'below $took 10000' nothing_is_left
    job --host 'v[1-3]' no-such-program
    ok "$how: a program that is not there" all 'same $code 127' 'last_line_has "on host v[123] cannot be started: there is no program"' nothing_is_left
    mkdir -p /tmp/only-at-head.$id
    cd /tmp/only-at-head.$id && "$run" --host v1,v2 true >"$dir/out" 2>"$dir/err"
    code=$?
    cd "$dir" && rmdir /tmp/only-at-head.$id
    ok "$how: a working directory that is not there" all 'same $code 125' 'last_line_has "the working directory /tmp/only-at-head"' nothing_is_left
done

# An sshd that takes connections and says nothing.
if [ "$PYTHON" != : ]; then
    "$vhosts" exec v2 pkill -x sshd
    "$vhosts" exec v2 "$PYTHON" -c 'import socket, time
s = socket.create_server(("", 22))
time.sleep(100)' &
    silent=$!
    wait_for 5 bash -c 'exec 3<>/dev/tcp/v2/22'
    job --start-timeout 8 --host 'v[1-3]' true
    ok "a silent sshd" all 'same $code 125' 'last_line_has "host v2: no answer by ssh"' 'below $took 13000'
    "$vhosts" exec v2 pkill -f socket.create_server
    wait $silent 2>/dev/null
    "$vhosts" sshd v2
    ok "nothing is left of it" nothing_is_left
fi

job --host 'v[1-3]' --tag-output='%h:' sh -c 'seq -f "$RANK line %.0f" 50000'
ok "output of three hosts is complete and unmixed" same "$(awk '
    $1 != "v" $2 + 1 ":" || NF != 4 || $4 != last[$2] + 1 { bad++ }
    { last[$2] = $4 }
    END { print bad + 0, last[0], last[1], last[2] }' out)" "0 50000 50000 50000"
echo hello | timeout 30 "$run" --host v2,v1 sh -c 'echo $RANK: $(cat)' >out 2>err
ok "standard input reaches another host" same "$(sort out)" "0: hello
1:"
job --host v1:2 --print-topology sh -c 'sed -n "s/^Cpus_allowed_list:\s*//p" /proc/self/status'
ok "the plan of another host is what is done there" same "$(awk '$1 ~ /^[01]$/ && $2 == "v1" {print $6}' out | sort)" \
    "$(tail -n 2 out | sort)"

four_run() { [ "$("$vhosts" ps | grep -cE "^v[123]: +[0-9]+ +[0-9]+ +[A-Z]+ +sleep 2002\.$id\$")" = 4 ]; }
# start - a job whose programs do not listen to SIGTERM and have a grandchild in its own session
start() {
    "$run" --grace 1 --heartbeat-timeout 4 --host v1,v2:2,v3 sh -c "trap '' TERM; setsid sleep 2001.$id & sleep 2002.$id; sleep 2002.$id" >out 2>err &
    job=$!
    wait_for 10 four_run
    begin=$(date +%s%N)
}
# await_end - its end, 30 seconds at most: $code, $took
await_end() {
    local i
    for ((i = 0; i < 300; i++)); do
        kill -0 $job 2>/dev/null || break
        sleep 0.1
    done
    kill -0 $job 2>/dev/null && { echo "# plenumrun is still there"; kill -KILL $job; }
    wait $job 2>/dev/null
    code=$?
    took=$((($(date +%s%N) - begin) / 1000000))
}
on() { "$vhosts" exec "$@"; }

start
on v2 pkill -KILL -x orted
await_end
ok "orted killed" all 'same $code 125' 'last_line_has "host v2"' 'below $took 10000' nothing_is_left
start
on v2 sh -c "pkill -KILL -f 'plenumrun --shim'"
await_end
ok "all shims of a host killed" all 'same $code 125' 'last_line_has "host v2"' 'below $took 10000'
on v2 pkill -KILL -x sleep # what has lost both of its guards at once is an orphan of that host
ok "nothing else is left" nothing_is_left
start
on v2 pkill -STOP -f 'plenumrun --shim'
await_end
ok "shims stopped" all 'same $code 125' 'last_line_has "host v2 has said nothing"' 'below $took 20000'
on v2 pkill -CONT -f 'plenumrun --shim'
ok "and continued: they clean up" nothing_is_left
start
"$vhosts" drop v2
await_end
ok "host cut off" all 'same $code 125' 'last_line_has "host v2 has said nothing"' 'below $took 20000' nothing_is_left
"$vhosts" undrop v2
start
"$vhosts" freeze v2
await_end
ok "host frozen" all 'same $code 125' 'last_line_has "host v2 has said nothing"' 'below $took 20000'
"$vhosts" thaw v2
ok "and thawed: it cleans up" nothing_is_left
start
kill -KILL $job
await_end
ok "plenumrun killed" all 'same $code 137' nothing_is_left
start
guard=$(pgrep -P $job)
mpirun=$(pgrep -P "$guard")
kill -STOP "$mpirun"
kill -TERM $job
await_end
ok "mpirun stopped" all 'same $code 143' 'below $took 15000' 'wait_for 10 eval "! kill -0 $mpirun 2>/dev/null"'
ok "nothing is left of it" nothing_is_left
start
"$vhosts" crash v2
await_end
ok "host gone" all 'same $code 125' 'last_line_has "host v2"' 'below $took 20000' nothing_is_left

finish
