#!/bin/bash
# SPDX-License-Identifier: MIT
# test_local.sh - plenumrun without mpirun: a short version of test_run.sh for jobs on this host. Prints TAP.
. "$top_srcdir/tests/lib.sh"
run=$top_builddir/plenumrun
stub=$top_builddir/tests/launcher/stub_loader

for tool in pgrep ps timeout setsid; do
    command -v $tool >/dev/null || skip_all "$tool is not installed"
done
unset PLENUM_LOADER PLENUM_PLENUMD OMP_NUM_THREADS RANK WORLD_SIZE MASTER_ADDR MASTER_PORT
unset HWLOC_SYNTHETIC HWLOC_XMLFILE HWLOC_THISSYSTEM
export LC_ALL=C
id=$$ # part of a duration, which identifies this test's sleeping processes
cd "$T" || exit 99
host=$(hostname)
hide_mpirun
command -v mpirun && exit 99

job() {
    timeout -k 5 300 "$run" "$@" >out 2>err
    code=$?
}
same() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; false; }; }
has() { grep -q -e "$2" "$1" || { echo "no '$2' in $1"; false; }; }
has_not() { ! grep -e "$2" "$1"; }
last_line_has() { tail -n 1 "$1" | grep -q -e "$2" || { echo "no '$2' at the end of $1"; false; }; }
all() { # all "TEST" "TEST"... - each holds; otherwise prints the failing ones and plenumrun's output
    for t; do eval "$t" || { echo "does not hold: $t"; sed 's/^/standard error: /' err; return 1; }; done
}
sleeping() { [ "$(pgrep -cfx "sleep $1")" = "$2" ]; }

for sign in PBS_JOBID=7 LSB_JOBID=7 PJM_NODE=2 _CONDOR_NPROCS=2; do
    env "$sign" "$run" -n 1 true 2>err
    ok "$sign without a list of hosts: a warning says that only this host is used" \
        has err "$sign: this .* job may have several hosts, of which only this one is used"
done
PJM_NODE=1 job -n 1 true
ok "a job of one host causes no such warning" has_not err "may have several hosts"
PBS_JOBID=7 job --host localhost -n 1 true
ok "--host silences the warning" has_not err "may have several hosts"

# With these variables of an enclosing mpirun, instances would remove that mpirun's folders.
OMPI_MCA_orte_jobfam_session_dir=$T OMPI_MCA_ess_base_jobid=7 OMPI_MCA_btl_vader_backing_directory=$T PMIX_RANK=1 job \
    -n 2 env
ok "variables of an enclosing mpirun are not passed to instances" all 'same $code 0' 'has out RANK=1' \
    'has_not out "jobfam_session_dir\|ess_base_jobid\|backing_directory\|PMIX_RANK"'

# ---- how instances are started ----
job -n 2 -v true
ok "--verbose reports that plenumrun starts them itself" all 'same $code 0' 'has err "started by plenumrun itself"'
job -n 2 --dry-run
ok "--dry-run reports that plenumrun starts the instances itself" all 'same $code 0' 'has out "started by: plenumrun$"' '[ ! -s err ]'
job -n 2 --dry-run --print-topology=json
ok "--dry-run also reports that as JSON" has out '"started_by": "plenumrun"'
job --host a,b --dry-run
ok "--dry-run warns that a job on other hosts needs mpirun" all 'same $code 0' \
    'has err "could not be started now: mpirun was not found in PATH"' 'has out "^b "'
job --no-host-check --host a,b true
ok "several hosts are rejected without mpirun" all 'same $code 125' 'same "$(wc -l <err)" 1' \
    'has err "mpirun was not found in PATH: to start instances on other hosts, install Open MPI"'
for option in '--mpi-global-args=--report-bindings' '--mpi-local-args=-x A' '--instance-mpi-local-args=1:-x A=1'; do
    job -n 2 "$option" true
    ok "${option%%=*} is rejected without mpirun" all 'same $code 125' 'same "$(wc -l <err)" 1' \
        'has err "${option%%=*} is for mpirun, and mpirun was not found in PATH"'
done
# Such a child was started before the exec of plenumrun, or is an orphan in a container where plenumrun is process 1.
mkfifo go
timeout -k 5 300 sh -c 'sh -c "read -r x" <go & echo $! >child; exec "$@"' sh "$run" -n 1 sh -c \
    'echo >go; while [ -e /proc/$(cat child) ]; do sleep 0.05; done' 2>err
code=$?
ok "plenumrun reaps a child that it did not start" same $code 0
job --start 2
ok "the starter's option is rejected for users" all 'same $code 2' 'has err "for plenumrun.s own use"'

# ---- a job ----
OMPI_COMM_WORLD_RANK=7 PMIX_RANK=7 job -n 3 -x GREETING='a b' --loader none sh -c \
    'echo $PLENUM_INSTANCE_INDEX/$PLENUM_NUM_INSTANCES $PLENUM_LOCAL_INSTANCE_INDEX/$PLENUM_NUM_LOCAL_INSTANCES $RANK/$WORLD_SIZE $GREETING ${OMPI_COMM_WORLD_RANK-} ${PMIX_RANK-}'
ok "each instance has its rank, its counts and the arguments" same "$(sort out)" "0/3 0/3 0/3 a b
1/3 1/3 1/3 a b
2/3 2/3 2/3 a b"
job -n 2 env
ok "an instance gets the address of the collectives, but not the job's secret" all 'has_not out PLENUM_SHIM' \
    'has out "^PLENUM_COLLECTIVES=unix:@plenumrun-"'
PLENUM_COLLECTIVES=unix:@plenumrun-0-collectives job -n 1 env
ok "a PLENUM_COLLECTIVES variable from another job is not passed on" has_not out PLENUM_COLLECTIVES
(ulimit -f 1; timeout 300 "$run" -n 2 true 2>&1 | cat >err; exit ${PIPESTATUS[0]})
code=$?
ok "a job without collectives runs under a file size limit" all 'same $code 0' '[ ! -s err ]'
printf 'line\n' |
    job -n 2 --tag-output=%i: --output-dir files sh -c '[ $RANK != 0 ] || cat; printf "no newline %s" $RANK'
job_out=$(printf 'line\n' | timeout 300 "$run" -n 2 --tag-output=%i: sh -c '[ $RANK != 0 ] || cat; echo out $RANK' |
    sort)
ok "each line is tagged with its instance; instance 0 reads standard input" same "$job_out" "0: line
0: out 0
1: out 1"
ok "output files hold the output of their instance" same "$(cat files/instance-1.out)" "no newline 1"
job -n 2 seq 100000
ok "no line of a large output is lost" same "$(wc -l <out)" 200000
job -n 4 --grace 5 --result result.json \
    sh -c '[ $RANK != 1 ] || { sleep 0.3; echo first >&2; exit 3; }; exec sleep 1000.'$id
ok "the exit status is that of the first failed instance, which is named" all 'same $code 3' 'has err "^  | first"' \
    'last_line_has err "instance 1 on host $host exited with code 3"' 'sleeping 1000.$id 0'
ok "--result gives the failed instance's exit code" all 'has result.json "\"index\": 1.*\"exit_code\": 3"' \
    'has result.json "\"ended_by\": \"plenumrun\""'
job -n 2 sh -c "setsid sleep 1002.$id & exit 0"
ok "processes left behind by a program are killed" all 'same $code 0' 'sleeping 1002.$id 0'
job -n 2 "$T/nothing-there"
ok "a missing program is reported in one line, with status 127" all 'same $code 127' 'same "$(wc -l <err)" 1'
job -n 2 --max-restarts 3 \
    sh -c 'echo $RANK $PLENUM_RESTART_COUNT >>restarts; [ $PLENUM_RESTART_COUNT != 1 ] || exit 0
           until [ "$(grep -c " $PLENUM_RESTART_COUNT$" restarts)" = 2 ]; do sleep 0.02; done; exit 5'
ok "a failed job is restarted" all 'same $code 0' 'same "$(sort -u restarts | tr "\n" ,)" "0 0,0 1,1 0,1 1,"'
cp "$run" installed
timeout -k 5 300 ./installed -n 2 --max-restarts 1 --loader none sh -c '
    [ $PLENUM_RESTART_COUNT = 0 ] || { echo again; exit; }
    [ $RANK = 0 ] || exec sleep 1000.'$id'
    cp installed new; mv new installed; exit 5' >out 2>err
code=$?
ok "a job restarts after an upgrade has replaced plenumrun" all 'same $code 0' 'same "$(cat out)" "again
again"'
timeout -k 5 300 ./installed -n 1 --max-restarts 1 --loader none sh -c 'rm -f installed; exit 5' >out 2>err
code=$?
ok "if plenumrun was removed, the job ends with one clear sentence" all 'same $code 125' \
    'last_line_has err "error: plenumrun.s own file $T/installed has been removed .*: install it again$"'
for ending in 126 127; do
    job -n 1 --max-restarts 3 sh -c "exit $ending"
    ok "a job that ended with $ending is not restarted" all 'same $code $ending' 'has_not err "starts again"'
done
job -n 1 --max-restarts 2 false
ok "there is a pause before the second restart" all 'same $code 1' 'same "$(grep -c "starts again" err)" 2' \
    'same "$(grep "trying again" err)" "plenumrun: warning: not yet: trying again in 1 s"'
rm -f steps run.pt*
job -n 1 --max-restarts 50 --max-restarts-without-progress 3 --progress-file run.pt sh -c '
    echo >>steps; [ "$(wc -l <steps)" != 3 ] || echo x >run.pt.1; exit 5'
ok "a job that makes no progress ends: two starts, one with progress, three more" all 'same $code 93' \
    'same "$(wc -l <steps)" 6' \
    'last_line_has err "3 starts in a row made no progress .*: run.pt has not changed; the job is not restarted"'
job -n 1 --max-restarts 2 --max-restarts-without-progress 1 false
ok "a job whose progress is unknown is restarted, with one warning" all 'same $code 1' \
    'same "$(grep -c "starts again" err)" 2' \
    'same "$(grep -c "has no effect: the program does not report its steps" err)" 1'
job -n 1 --max-restarts 2 --max-restarts-without-progress 1 --progress-file steps/run.pt false
ok "a job is restarted if its checkpoint's folder cannot be read" all \
    'same $code 1' 'same "$(grep -c "starts again" err)" 2' \
    'same "$(grep -c "progress-file steps/run.pt: its folder cannot be read, so it is unknown" err)" 1'
job -n 1 --max-restarts 2 --max-restarts-without-progress 1 --progress-file no/run.pt false
ok "a folder that does not exist holds no checkpoint" all 'same $code 93' \
    'last_line_has err "no/run.pt is in a folder that does not exist"'
for option in --progress-file --stop-command; do
    job -n 1 $option '' true
    ok "an empty $option is refused" all 'same $code 2' 'last_line_has err "$option is empty: give it a value"'
done
job -n 1 --max-restarts 2 --max-restarts-without-progress 1 --progress-file run.pt sh -c 'exit 126'
ok "a job that is not restarted anyway keeps its status" same $code 126
job -n 2 --timeout 1 --grace 1 sleep 1004.$id
ok "--timeout ends the job" all 'same $code 124' 'sleeping 1004.$id 0'
CUDA_VISIBLE_DEVICES=4,5,6,7 job -n 2 --num-replicas 4 --device-env cuda \
    sh -c 'echo $RANK $CUDA_VISIBLE_DEVICES $PLENUM_REPLICA_OFFSET'
ok "devices and replicas are divided among the instances" same "$(sort out)" "0 4,5 0
1 6,7 2"
job --dry-run -n 2 --print-topology=json
cp out plan.json
job -n 2 sh -c 'echo $RANK $(sed -n "s/^Cpus_allowed_list:\s*//p" /proc/self/status)'
ok "the instances are bound to the planned CPUs" same \
    "$(sed -n 's/.*"index": \([0-9]*\).*"cpus": "\([^"]*\)".*/\1 \2/p' plan.json)" "$(sort out)"
PLENUM_PLENUMD=$stub job -n 2 "$stub" ask
ok "both instances use one loader" all 'same $code 0' 'same "$(sort -u out | wc -l)" 1' 'has out "^loader [0-9]"'
(trap '' CHLD; job -n 2 true; echo $code >code)
ok "a job ends even if its parent ignores SIGCHLD" same "$(cat code)" 0

# ---- limits ----
for i in $(seq 180); do printf 'BIG%d=%0100000d\n' "$i" 0; done >variables
"$run" -n 2 --env-file variables touch started >out 2>err
code=$?
ok "with too many variables for an instance, nothing is started, and one message says why" all 'same $code 125' \
    'last_line_has err "arguments and variables take 17 MiB, but an instance can be given at most 16 MiB"' \
    'last_line_has err "16 MiB: pass fewer arguments or variables (-x, --env-file)"' \
    '[ ! -e started ]' 'same "$(wc -l <err)" 1'
"$run" -n 1 --loader-host elsewhere --no-host-check --env-file variables touch started >out 2>err
code=$?
ok "with too many variables for a loader host, nothing is started" all 'same $code 125' '[ ! -e started ]' \
    'last_line_has err "variables take more than 16 MiB, the most that a loader host can be given: pass fewer"'
printf '#!/bin/sh\nprintf "\\033]0;owned\\007\\033[2J" >&2; exit 7\n' >agent
chmod +x agent
OMPI_MCA_plm_rsh_agent=$PWD/agent "$run" --loader-host elsewhere -n 1 true >out 2>err
code=$?
ok "control characters in a login's output are not printed" all 'same $code 125' 'has err "log in  ?]0;owned??\[2J"' \
    '! grep -q "[[:cntrl:]]" err'
if "$run" --version >/dev/null && (ulimit -s 96 && "$run" --version) >/dev/null 2>&1; then
    (ulimit -s 96 && exec "$run" -n 2 echo ran) >out 2>err
    ok "plenumrun works with a small stack" same "$(cat out)" "ran
ran"
else
    skip "plenumrun works with a small stack" "nothing starts with so small a stack"
fi

# ---- faults ----
start() {
    env --default-signal=INT "$run" --grace 500ms "$@" -n 2 \
        sh -c "trap 'exit 6' USR1; trap '' TERM; setsid sleep 1006.$id & sleep 1005.$id & wait; wait" >out 2>err &
    job=$!
    wait_for sleeping 1005.$id 2
    guard=$(pgrep -P $job)
    starter=$(pgrep -P $guard)
    outer=$(pgrep -P $starter | head -n 1)
    inner=$(pgrep -P $outer)
    tree=$(tree $job)
}
tree() {
    echo $1
    for child in $(pgrep -P $1); do tree $child; done
}
dead() { for p; do case $(ps -o stat= -p $p) in '' | Z*) ;; *) return 1 ;; esac; done; }
gone() { ! kill -0 $job 2>/dev/null; }
await_end() {
    wait_for dead $job || { echo "plenumrun is still there"; kill -KILL $job; }
    wait $job 2>/dev/null
    code=$?
}
nothing_is_left() { wait_for dead $tree && sleeping 1005.$id 0 && sleeping 1006.$id 0; }

start
kill -USR1 $job $guard $starter $outer $inner
await_end
ok "SIGUSR1 is forwarded" all 'same $code 6' nothing_is_left
start
kill -INT $job
sleep 0.2 # two signals, not one that is pending
kill -INT $job
await_end
ok "the second SIGINT kills the job" all 'same $code 130' nothing_is_left
start
kill -TERM $starter
await_end
ok "a terminated starter is reported" all 'same $code 125' nothing_is_left 'last_line_has err "the starter"'
for part in job guard starter outer inner; do
    start
    kill -KILL ${!part}
    await_end
    ok "kill -9 of $part leaves no processes" nothing_is_left
    [ $part = job ] || ok "kill -9 of $part is reported" all \
        'same $code 125' 'last_line_has err "killed\|Killed\|started it on host .* is gone"'
done
start
kill -STOP $guard $starter
kill -TERM $job
await_end
ok "a job ends even if the starter and its guard are stopped (SIGSTOP)" all 'same $code 143' nothing_is_left
start
kill -STOP $outer
kill -KILL $guard
await_end
ok "even a stopped outer shim ends when its guard is killed" all 'same $code 125' nothing_is_left
start
kill -STOP $guard
kill -KILL $job
await_end
ok "even a stopped guard ends when plenumrun is killed" nothing_is_left
start
kill -STOP $inner
kill -TERM $guard
await_end
ok "if an inner shim is stopped, its program still ends with the guard" all 'same $code 125' nothing_is_left
start --heartbeat-timeout 2
kill -STOP $outer $inner
await_end
kill -CONT $outer $inner
ok "an instance whose shims are frozen is reported as lost" all 'same $code 125' \
    'has err "was lost: host $host has been silent"' nothing_is_left
finish
