#!/bin/bash
# SPDX-License-Identifier: MIT
# test_faults.sh - tests plenumrun's reaction to failures on three virtual hosts with two instances each. Each case must
# end within its limit, with the right message and exit status, and leave no process and no file on any host unless the
# case says otherwise. Prints TAP. Needs root; takes minutes.
#
#     FAULTS="exits dropped" test_faults.sh      run only these
. "$top_srcdir/tests/lib.sh"
. "$top_srcdir/tests/system/hosts.sh"

# ---- a job, and its end ----
# $stubborn ignores SIGTERM and starts a grandchild in a separate session; another program uses MPI.
stubborn="trap '' TERM; setsid sleep 2001.$id & sleep 2002.$id; sleep 2002.$id"
six_run() { [ "$("$vhosts" ps | grep -cE "^v[123]: +[0-9]+ +[0-9]+ +[^ ]+ +sleep 2002\.$id\$")" = 6 ]; }
six_add() { [ "$(grep -c 'sum 6' out)" = 6 ]; }
# start [OPTION]... - start a job in the background: $job is plenumrun's process
start() {
    "$run" --grace 1 --heartbeat-timeout 4 "$@" --host 'v[1-3]:2' sh -c "$stubborn" >out 2>err &
    job=$!
    wait_for six_run || { echo "# the job did not start"; sed 's/^/# /' err; }
    begin=$(date +%s%N)
}
# start_once [OPTION]... - like start, but when the job is restarted, it succeeds
start_once() {
    local stubborn="[ \$PLENUM_RESTART_COUNT = 0 ] || exit 0; $stubborn"
    start "$@"
}
start_mpi() {
    "$run" --grace 1 --heartbeat-timeout 4 "$@" --host 'v[1-3]:2' "$mpi_sum" wait >out 2>err &
    job=$!
    wait_for six_add || { echo "# the job did not start"; sed 's/^/# /' err; }
    begin=$(date +%s%N)
}
# await_end [SECONDS] - wait for the job's end, 40 seconds at most; sets $code and $took (ms)
await_end() {
    local i
    for ((i = 0; i < ${1:-40} * 10; i++)); do
        kill -0 $job 2>/dev/null || break
        sleep 0.1
    done
    kill -0 $job 2>/dev/null && { echo "# plenumrun still runs"; kill -KILL $job; }
    wait $job 2>/dev/null
    code=$?
    took=$((($(date +%s%N) - begin) / 1000000))
}
# program RANK - print the process id of this instance's program, which runs on v2
program() {
    on v2 \
        sh -c 'for p in $(pgrep -f "^(sh -c|.*mpi_sum wait)"); do tr "\0" "\n" </proc/$p/environ | grep -qx "RANK='$1'" && echo $p && break; done'
}

# ---- the faults ----
fault_exits() {
    job --grace 1 --host 'v[1-3]:2' sh -c "[ \$RANK != 3 ] || { sleep 0.5; echo the reason >&2; exit 7; }; $stubborn"
    ok "an instance that exits ends the job with its exit code" all 'same $code 7' 'has "^  | the reason"' \
        'last_line_has "instance 3 on host v2 exited with code 7 after"' 'below $took 15000' nothing_is_left
}
fault_killed() {
    for kind in start start_mpi; do
        [ $kind = start ] || [ -x "$mpi_sum" ] || continue
        $kind
        on v2 kill -KILL "$(program 2)"
        await_end
        ok "an instance that is killed ends the job with 128 plus the signal ($kind)" all 'same $code 137' \
            'last_line_has "instance 2 on host v2 was ended by signal 9 (Killed)"' 'below $took 10000' nothing_is_left
    done
}
fault_stopped() {
    start --timeout 12
    on v2 kill -STOP "$(program 2)"
    await_end
    ok "an instance that is stopped is named when the job times out" all 'same $code 124' 'has "warning: instance 2 on host v2 was stopped by SIGSTOP"' \
        'last_line_has "(--timeout); instance 2 on host v2 had been stopped by SIGSTOP"' 'below $took 25000' \
        nothing_is_left
}
fault_orted() {
    for kind in start start_mpi; do
        [ $kind = start ] || [ -x "$mpi_sum" ] || continue
        $kind
        on v2 pkill -KILL -x $daemon
        await_end
        ok "if Open MPI's daemon is killed, its host is named ($kind)" all 'same $code 125' 'last_line_has "host v2"' 'below $took 15000' \
            nothing_is_left
    done
}
fault_orted_stopped() {
    "$run" --host 'v[1-3]:2' sh -c "touch up.\$RANK; sleep 3; echo done" >out 2>err &
    job=$!
    begin=$(date +%s%N)
    wait_for test -e up.5 -a -e up.4 -a -e up.3 -a -e up.2 -a -e up.1 -a -e up.0
    on v2 pkill -STOP -x $daemon
    await_end
    rm -f up.*
    ok "a job completes although Open MPI's daemon on a host is stopped" all 'same $code 0' 'same "$(grep -c done out)" 6' \
        'below $took 25000' nothing_is_left
    start
    on v2 pkill -STOP -x $daemon
    kill -TERM $job
    await_end
    ok "SIGTERM ends a job although Open MPI's daemon on a host is stopped" all 'same $code 143' 'below $took 25000' nothing_is_left
}
fault_shims() {
    start
    on v2 sh -c "pkill -KILL -f 'plenumrun --shim'"
    await_end
    ok "if all shims of a host are killed, the host is named" all 'same $code 125' 'last_line_has "host v2"' 'below $took 15000'
    on v2 pkill -KILL -x sleep # a program that loses both of its guards at once becomes an orphan on v2
    on v2 sh -c 'rm -rf /tmp/ompi.* /tmp/prte*'
    ok "besides orphans on that host and Open MPI's files there, nothing is left" nothing_is_left
    start
    on v2 pkill -STOP -f 'plenumrun --shim'
    await_end
    ok "if a host's shims are stopped, the host is reported as silent" all 'same $code 125' 'last_line_has "host v2 has been silent"' 'below $took 20000'
    on v2 pkill -CONT -f 'plenumrun --shim'
    ok "the stopped shims clean up when they are continued" nothing_is_left
}
fault_dropped() {
    for kind in start start_mpi; do
        [ $kind = start ] || [ -x "$mpi_sum" ] || continue
        $kind
        "$vhosts" drop v2
        await_end
        ok "a host that is cut off is reported as silent ($kind)" all 'same $code 125' 'last_line_has "host v2 has been silent"' \
            'below $took 20000' nothing_is_left
        "$vhosts" undrop v2
    done
}
fault_default() { # a job as users start it: without options for times
    eval "$("$vhosts" env ${how:-agent})"
    "$run" --host 'v[1-3]:2' sh -c "trap '' TERM; echo up; sleep 2002.$id; sleep 2002.$id" >out 2>err &
    job=$!
    wait_for six_run
    "$vhosts" drop v2
    sleep 12
    "$vhosts" undrop v2
    sleep 20
    ok "the job continues after the network has failed for 12 s (by ${how:-agent})" all 'kill -0 $job' '[ ! -s err ]'
    "$vhosts" drop v2
    begin=$(date +%s%N)
    await_end 90
    ok "if the network fails permanently, the host is named (by ${how:-agent})" all 'same $code 125' \
        'last_line_has "host v2 has been silent for [0-9.]* s (--heartbeat-timeout)"' nothing_is_left
    "$vhosts" undrop v2
    eval "$("$vhosts" env agent)"
}
fault_default_ssh() { how=ssh fault_default; }
fault_printing() { # queued output of an instance does not block others
    "$run" --grace 1 --heartbeat-timeout 4 --host 'v[1-3]:2' yes 2003.$id >/dev/null 2>err &
    job=$!
    wait_for eval '[ "$(pgrep -cfx "yes 2003.$id")" = 6 ]'
    sleep 1
    "$vhosts" drop v2
    begin=$(date +%s%N)
    await_end
    ok "a host that is cut off while it prints is reported as silent" all 'same $code 125' 'last_line_has "host v2 has been silent"' \
        'below $took 25000' nothing_is_left
    "$vhosts" undrop v2
}
fault_frozen() { # by ssh: the agent's processes on v2 descend from plenumrun, so that its guard could kill them
    eval "$("$vhosts" env ssh)"
    start
    "$vhosts" freeze v2
    await_end
    ok "a frozen host is reported as silent" all 'same $code 125' 'last_line_has "host v2 has been silent"' 'below $took 20000'
    "$vhosts" thaw v2
    ok "a frozen host cleans up when it is thawed" nothing_is_left
    eval "$("$vhosts" env agent)"
}
fault_launcher() {
    start
    kill -KILL $job
    await_end
    ok "nothing is left after plenumrun was killed" all 'same $code 137' nothing_is_left
    start
    kill -KILL "$(pgrep -P $job)"
    await_end
    ok "the job fails with code 125 if the guard of mpirun is killed" all 'same $code 125' nothing_is_left
    start
    guard=$(pgrep -P $job)
    mpirun=$(pgrep -P "$guard")
    kill -STOP "$mpirun"
    kill -TERM $job
    await_end
    ok "SIGTERM ends a job although mpirun is stopped" all 'same $code 143' 'below $took 25000' 'wait_for eval "! kill -0 $mpirun 2>/dev/null"' \
        nothing_is_left
}
fault_sshd() {
    on v2 pkill -x sshd
    eval "$("$vhosts" env ssh)"
    job --start-timeout 20 --host 'v[1-3]:2' true
    ok "a host without sshd is reported" all 'same $code 125' 'has "1 of 3 other hosts are not ready"' \
        'last_line_has "v2  *log in  *.*Connection refused"' 'below $took 15000' nothing_is_left
    if [ "$PYTHON" != : ]; then
        on v2 "$PYTHON" -c 'import socket, time
s = socket.create_server(("", 22))
time.sleep(100)' &
        silent=$!
        wait_for bash -c 'exec 3<>/dev/tcp/v2/22'
        job --start-timeout 8 --host 'v[1-3]:2' true
        ok "a silent sshd is reported" all 'same $code 125' 'last_line_has "v2  *log in  *\(no answer within\|.*timed out\)"' \
            'below $took 13000'
        on v2 pkill -f socket.create_server
        wait $silent 2>/dev/null
    fi
    "$vhosts" sshd v2
    ok "nothing is left after logins failed" nothing_is_left
}
fault_missing() {
    job --host v1,no-such-host,v3 true
    ok "an unknown host name is reported" all 'same $code 125' 'last_line_has "no-such-host  *log in  "' 'below $took 10000' \
        nothing_is_left
    job --start-timeout 20 --host v1,vghost,no-such-host true
    ok "an unknown host name and a host that is down are reported in one table" all 'same $code 125' 'has "2 of 3 other hosts are not ready"' \
        'has "^  vghost  *log in  "' 'has "^  no-such-host  *log in  "' nothing_is_left
    mkdir -p "$TMPDIR/only-here"
    cp "$run" "$TMPDIR/only-here/plenumrun"
    [ ! -e "$top_builddir/.libs/libplenum-tls.so" ] || cp "$top_builddir/.libs/libplenum-tls.so" "$TMPDIR/only-here"
    "$vhosts" hide v2 "$TMPDIR/only-here"
    timeout 300 "$TMPDIR/only-here/plenumrun" --host 'v[1-3]:2' true >out 2>err
    code=$?
    ok "a host without plenumrun is reported" all 'same $code 125' \
        'last_line_has "v2  *plenumrun  *there is no $TMPDIR/only-here/plenumrun: install it"' nothing_is_left
    "$vhosts" unhide v2 "$TMPDIR/only-here"
    job --no-host-check --host 'v[1-3]:2' no-such-program
    ok "without the host check, a missing program is reported" all 'same $code 127' \
        'last_line_has "on host v[123] cannot be started: there is no program"' nothing_is_left
    (cd /tmp && mkdir -p only-at-head.$id && cd only-at-head.$id &&
        timeout 300 "$run" --no-host-check --host 'v[1-3]:2' true >"$dir/out" 2>"$dir/err")
    code=$?
    ok "without the host check, a missing working directory is reported" all 'same $code 125' \
        'last_line_has "the working directory /tmp/only-at-head"' nothing_is_left
    (cd /tmp/only-at-head.$id && timeout 300 "$run" --host 'v[1-3]:2' true >"$dir/out" 2>"$dir/err")
    code=$?
    rmdir /tmp/only-at-head.$id
    ok "a missing working directory is reported for all hosts" all 'same $code 125' 'has "3 of 3 other hosts"' \
        'last_line_has "v3  *working directory  */tmp/only-at-head.*: No such file"' nothing_is_left
}
fault_restart() {
    start_once --max-restarts 2
    on v2 pkill -KILL -x $daemon
    await_end
    ok "a job with --max-restarts is restarted" all 'same $code 0' 'has "the job starts again (1 of 2 times)"' \
        nothing_is_left
}
fault_reboot() { # a host reboots, and logins fail for a while
    eval "$("$vhosts" env ssh)"
    start_once --max-restarts 5
    on v2 pkill -KILL -x sshd
    on v2 pkill -KILL -x $daemon
    wait_for has 'trying again in 10 s'
    "$vhosts" sshd v2
    await_end 60
    ok "a restart waits for a host that is not ready" all 'same $code 0' \
        'has "1 of 3 other hosts are not ready"' 'has "the job starts again (3 of 5 times)"' nothing_is_left
    eval "$("$vhosts" env agent)"
}
fault_crashed() { # must be the last fault: afterwards the host is gone
    start
    "$vhosts" crash v2
    await_end
    ok "a host that was powered off is named" all 'same $code 125' 'last_line_has "host v2"' 'below $took 20000' nothing_is_left
}

eval "$("$vhosts" env agent)"
faults='exits killed stopped orted orted_stopped shims dropped default default_ssh printing frozen launcher missing
    restart reboot sshd crashed'
for fault in ${FAULTS:-$faults}; do
    fault_$fault
done
finish
