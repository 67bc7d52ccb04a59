#!/bin/bash
# SPDX-License-Identifier: MIT
# test_grow.sh - jobs that continue on more hosts while they run (plenumctl job grow). A script replaces ssh, and
# another one mpirun: all "hosts" are this one. Prints TAP.
. "$top_srcdir/tests/lib.sh"
run=$top_builddir/plenumrun ctl=$top_builddir/plenumctl stopper=$top_builddir/tests/launcher/stopper
command -v timeout >/dev/null || skip_all "timeout is not installed"
unset PLENUM_LOADER PLENUM_PLENUMD TMPDIR
export LC_ALL=C
cd "$T" || exit 99

cat >agent <<'END'
#!/bin/bash
export AWAY=$1
shift
exec bash -c "$*"
END
# Starts the shims of all instances, with the command that Open MPI would give them.
mkdir bin
cat >bin/mpirun <<'END'
#!/bin/bash
[ "$1" != --version ] || { echo "mpirun (Open MPI) 4.1.4"; exit; }
echo "$*" >>"${0%/*}/../mpirun.txt"
until [ "$1" = -n ]; do shift; done
for ((i = 0; i < $2; i++)); do
    OMPI_COMM_WORLD_RANK=$i OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_SIZE=$2 OMPI_COMM_WORLD_LOCAL_SIZE=1 \
        "$run" --shim &
done
wait
END
chmod +x agent bin/mpirun
printf '#!/bin/sh\ntest -z "$AWAY" || test -e "well-$AWAY" || { echo "$AWAY is ill"; exit 1; }\n' >check
chmod +x check
export run OMPI_MCA_plm_rsh_agent=$T/agent PATH=$T/bin:$PATH

same() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; false; }; }
has() { grep -q -e "$2" "$1" || { echo "no '$2' in $1"; false; }; }
has_not() { ! grep -e "$2" "$1"; }
all() { # all "TEST" "TEST"... - each holds; otherwise prints the failing ones and plenumrun's output
    for t; do eval "$t" || { echo "does not hold: $t"; tail -n 5 out; sed 's/^/standard error: /' err; return 1; }; done
}
start() { # PROGRAM OPTION... - start a job in the background, and wait for its first step
    local program=$1
    shift
    mkfifo in 2>/dev/null
    rm -f well-* out err
    "$run" --allow-run-as-root --loader none "$@" $program <in >out 2>err &
    job=$!
    exec 4>in
    wait_for grep -q 'is in step 0' out
    wait_for finds_id
    wait_for asks
}
finds_id() {
    id=$("$ctl" job list --json | sed -n "s/.*\"id\": \"\([0-9a-f]*\)\", \"pid\": $job,.*/\1/p")
    [ -n "$id" ]
}
asks() { "$ctl" job status "$id" --json | grep -q '"step": [0-9]'; } # does plenumrun know the programs' steps?
grow() { "$ctl" job grow "$id" >grown 2>&1; code=$?; }
at_end() { kill "$job" 2>/dev/null; }
ends() { exec 4>&-; wait $job; code=$?; }
starts_again() { [ "$(grep -c 'is in step 0' out)" -ge "$1" ]; }

start "$stopper 1000000000" --starter own
grow
ok "a job whose hosts never change cannot grow, and nothing is stopped" all 'same $code 1' \
    'has grown "nothing was stopped: the job has neither --num-hosts nor --min-hosts"' 'kill -0 $job'
kill $job
ends
ok "a job that cannot grow still stops when it is asked to" same $code 75

start "$stopper 1000000000 wait=0:5" --host localhost,h1,h2 --min-hosts 1 --max-host-failures 1 \
    --health-check ./check
grow
ok "a job does not grow if no other host is ready, and the message says why" all 'same $code 1' \
    'has grown "nothing was stopped: no host is ready in addition to those in use: h1: health: .*: h1 is ill; h2: "' \
    'kill -0 $job'
: >well-h1
"$ctl" job grow "$id" >grown 2>&1 &
asked=$!
wait_for has err "plenumctl job grow: stopping the programs"
exec 4>&- # step 5 ends; if the FIFO were opened for writing again, plenumrun could miss this end
wait $asked
code=$?
ok "a host that was left out, and has become healthy, is found" all 'same $code 0' \
    'has grown "^the programs stop at the same step and continue on localhost, h1$"'
ok "the programs stop at the same step, and start again on both hosts" all 'wait_for starts_again 3' \
    'has out "^instance 0 stops before "' 'has err "to continue on more hosts"' \
    'has err "this start of the job has 2 hosts: localhost, h1"' 'has_not err "error: .*instance"'
: >well-h2
wait_for asks
grow
ok "a job grows again, without counting a restart" all 'same $code 0' 'wait_for starts_again 6' \
    'has err "this start of the job has 3 hosts: localhost, h1, h2"' 'has_not err "starts again"'
wait_for asks
grow
ok "a job that uses all of its hosts cannot grow" all 'same $code 1' \
    'has grown "nothing was stopped: all hosts that the job may have are in use"'
"$ctl" job stop "$id" >stopped
ends
ok "a job that has grown stops when it is asked to" all 'same $code 75' 'has out "^instance 2 stops before "'

# ---- what ends the job while hosts are checked, or while it stops in order to grow ----
start "$stopper 1000000000" --host localhost,h1 --min-hosts 1 \
    --health-check 'test -z "$AWAY" || { test -e runs && : >waits && sleep 1000; }'
: >runs
"$ctl" job grow "$id" >grown 2>&1 &
asked=$!
wait_for [ -e waits ]
"$ctl" job stop "$id" >stopped
wait $asked
code=$?
ok "a job that stops while hosts are checked says so at once" all 'same $code 1' \
    'has grown "nothing was stopped: the job is stopping already"'
ends
ok "a job that stops while hosts are checked stops as usual" same $code 75
printf '#!/bin/sh\ntrap "" HUP\nexec "$@"\n' >deaf
chmod +x deaf
stopping() { # OPTION... - start a job, which stops in order to grow as soon as its standard input ends
    start "./deaf $stopper 1000000000 wait=0:5" --host localhost,h1 --min-hosts 1 --health-check ./check "$@"
    : >well-h1
    grow
}
stopping
kill -USR1 "$(sed -n 's/^instance 0 is process \([0-9]*\) .*/\1/p' out)"
ends
ok "SIGUSR1 to a program ends a job that stops in order to grow" all 'same $code 75' 'has err "as requested"' \
    'has err "a program was sent SIGUSR1: the programs are stopping already, and the job does not continue"' \
    'has_not err "2 hosts"'
stopping
kill -HUP $job
wait_for has err "SIGHUP: ending the job"
ends
ok "SIGHUP ends such a job, even if its programs ignore the signal" all 'same $code 75' 'has err "as requested"' \
    'has_not err "2 hosts"'
stopping --stop-command 'test -e notice' --stop-poll 100ms
: >notice
wait_for has err "--stop-command has ended"
ends
ok "--stop-command ends such a job" all 'same $code 75' 'has err "as requested"' 'has_not err "2 hosts"' \
    'has err "status 0: the programs are stopping already, and the job does not continue"'

# ---- hosts that cannot be checked ----
lose() { # INSTANCE - kill its shims, as if its host had failed
    local inner outer
    inner=$(sed -n "s/^instance $1 is process .* of \([0-9]*\)$/\1/p" out | tail -n 1)
    outer=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$inner/status")
    kill -STOP "$inner" # or it could still report that the other shim has ended
    wait_for grep -q '^State:.T' "/proc/$inner/status"
    kill -9 "$outer" "$inner"
}
start "$stopper 1000000000 work" --host localhost,h1,h2 --num-hosts 2 --no-host-check --max-restarts 9 \
    --heartbeat-timeout 2 --grace 1
lose 1
wait_for has err "this start of the job has 2 hosts: localhost, h2"
wait_for starts_again 4
lose 1
wait_for has err "this start of the job has 2 hosts: localhost, h1"
wait_for starts_again 6
kill $job
ends
ok "a host that has failed, and cannot be checked, is used again if no other host is left" all 'same $code 75' \
    'has err "host h2 does not answer"'
finish
