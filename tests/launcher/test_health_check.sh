#!/bin/bash
# SPDX-License-Identifier: MIT
# test_health_check.sh - hosts that are not healthy: which jobs start without them, and which do not start. A script
# replaces ssh; it runs what plenumrun sends to other hosts on this host. Prints TAP.
. "$top_srcdir/tests/lib.sh"
run=$top_builddir/plenumrun ctl=$top_builddir/plenumctl
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
# mpirun is only asked for its version: either a check fails first, or the only host is this one.
mkdir bin
cat >bin/mpirun <<'END'
#!/bin/bash
[ "$1" != --version ] || { echo "mpirun (Open MPI) 4.1.4"; exit; }
exit 9
END
chmod +x agent bin/mpirun
export OMPI_MCA_plm_rsh_agent=$T/agent PATH=$T/bin:$PATH

job() { # ARGUMENT... - sets the files out and err, and $code
    timeout -k 5 300 "$run" --allow-run-as-root "$@" >out 2>err
    code=$?
}
same() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; false; }; }
gone() { ! grep -qs '^State:[[:space:]]*[^ZX]' "/proc/$1/status"; } # or waits to be reaped
has() { grep -q -e "$1" err || { echo "no '$1'"; false; }; }
has_not() { ! grep -e "$1" err; }
all() { # all "TEST" "TEST"... - each holds; otherwise prints the failing ones and plenumrun's output
    for t; do eval "$t" || { echo "does not hold: $t"; sed 's/^/standard error: /' err; return 1; }; done
}

# ---- on this host ----
job --starter own --health-check 'pwd; echo "$PATH" >path; exit 0' echo started
ok "a healthy host runs the job, and the command's output is not shown" all 'same $code 0' 'same "$(cat out)" started' \
    'same "$(cat path)" "$PATH"' '[ ! -s err ]'
job --health-check 'echo all is well; echo GPU 3 has ECC errors >&2; exit 1' echo started
ok "status 1 keeps the job from starting, and the message has the command's last line" all 'same $code 125' \
    '[ ! -s out ]' 'has "this host is not ready: health: --health-check exited with code 1: GPU 3 has ECC errors$"'
job --health-check 'kill -9 $$' echo started
ok "a command that is killed counts as unhealthy" all 'same $code 125' '[ ! -s out ]' \
    'has "health: --health-check was ended by signal 9 (Killed)$"'
job --start-timeout 15 --health-check 'echo $$ >pid; echo slow; exec sleep 1000' echo started
ok "a command that does not end is killed, and counts as unhealthy" all 'same $code 125' '[ ! -s out ]' \
    'has "health: --health-check did not end in time\(: slow\)\?$"' '[ ! -e pid ] || wait_for gone "$(cat pid)"'
"$run" --allow-run-as-root --health-check 'sleep 1000 & echo $! >left; wait' echo started >out 2>err &
job=$!
wait_for [ -s left ]
kill -9 $job
wait $job 2>/dev/null
ok "if plenumrun is killed meanwhile, nothing is left of the command" wait_for gone "$(cat left)"
checking() { # OPTION... - start a job, and wait until its health check runs
    rm -f left
    env --default-signal=INT,QUIT "$run" --allow-run-as-root --result ended.json \
        --health-check 'echo $$ >left; exec sleep 1000' "$@" echo started >out 2>err &
    job=$!
    wait_for [ -s left ]
}
ends() { wait $job; code=$?; }
for signal in TERM USR1 INT; do
    checking
    kill -$signal $job
    ends
    ok "SIG$signal during the checks ends the job, with a message" all 'same $code $((128 + $(kill -l $signal)))' \
        'has "error: the job was ended by SIG$signal before it started$"' '[ ! -s out ]' 'wait_for gone "$(cat left)"' \
        'grep -q "\"exit_status\": $code" ended.json'
done
checking --host localhost,h1 --num-hosts 1
"$ctl" job list --json >"jobs"
kill -TERM $job
ends
ok "SIGTERM also ends a job that chooses among hosts, which plenumctl job lists as waiting" all 'same $code 143' \
    'has "error: the job was ended by SIGTERM before it started$"' 'has_not "not ready"' \
    'grep -q "\"pid\": $job, .*\"state\": \"waiting\"" jobs' 'wait_for gone "$(cat left)"'
job --health-check 'exit 1' --no-host-check echo started
ok "--health-check needs the check of hosts" all 'same $code 2' 'has "contradict each other"'
job --health-check '[ ! -e started ] || exit 1' --max-restarts 1 sh -c ': >started; exit 3'
ok "the command runs again before a restart" all 'same $code 125' 'has "the job starts again"' \
    'has "health: --health-check exited with code 1$"'
rm -f started

# ---- on other hosts ----
printf '#!/bin/sh\ntest -z "$AWAY" || test -e "well-$AWAY" || { echo "$AWAY is ill"; exit 1; }\n' >check
chmod +x check
job --host h1,h2 --health-check ./check echo started
ok "a job that needs all of its hosts does not start if one is unhealthy, and names it" all 'same $code 125' \
    '[ ! -s out ]' 'has "  h1  *health  *--health-check exited with code 1: h1 is ill$"' 'has "  h2  *health "'
job --host h1,localhost --num-hosts 1 --health-check ./check echo started
ok "a spare replaces a host that is unhealthy" all 'same $code 0' 'same "$(cat out)" started' \
    'has "  h1  *health  *--health-check exited with code 1: h1 is ill$"' 'has "this start of the job has 1 host: localhost"'
job --host h1,localhost --min-hosts 1 --health-check ./check echo started
ok "a job that may have fewer hosts starts without the unhealthy one" all 'same $code 0' 'same "$(cat out)" started' \
    'has "this start of the job has 1 host: localhost"'
job --host h1,localhost --num-hosts 2 --health-check ./check echo started
ok "without enough healthy hosts, the job ends with code 96, and names the host and the reason" all 'same $code 96' \
    '[ ! -s out ]' 'has "error: 1 of the 2 hosts that the job needs (--num-hosts) is ready: h1: health: .*: h1 is ill$"'
job --host h1,localhost --num-hosts 2 --health-check '[ -n "$AWAY" ] || exit 1' echo started
ok "a job also ends with code 96 if this host is the unhealthy one" all \
    'same $code 96' '[ ! -s out ]' 'has "this host is not ready: health: "' \
    'has "is ready: localhost: health: --health-check exited with code 1$"'
job --host h1,localhost --num-hosts 2 --max-host-failures 1 --health-check ./check echo started
ok "status 1 is the host's fault" all 'same $code 96' 'has "host h1 is left out of this job, because it has failed 1 time"'
job --host h1,localhost --num-hosts 2 --max-host-failures 1 --health-check '[ -z "$AWAY" ] || exit 3' echo started
ok "statuses other than 1 are not the host's fault" all 'same $code 96' 'has_not "left out"' \
    'has "is ready: h1: health: --health-check exited with code 3$"'
job --host localhost,h1 --num-hosts 1 --max-restarts 1 --wait-hosts 0 \
    --health-check './check && { [ -n "$AWAY" ] || [ ! -e started ] || exit 1; }' sh -c ': >started; exit 3'
ok "a restart does not use a host that has become unhealthy" all 'same $code 96' 'has "the job starts again"' \
    'has "localhost: health: .*; h1: health: .*: h1 is ill$"'
finish
