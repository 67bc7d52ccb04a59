#!/bin/bash
# SPDX-License-Identifier: MIT
# test_run.sh - plenumrun on this host: real jobs, real failures. Prints TAP.
. "$top_srcdir/tests/lib.sh"
run=$top_builddir/plenumrun
stub=$top_builddir/tests/launcher/stub_loader
mpi_sum=$top_builddir/tests/launcher/mpi_sum

for tool in mpirun pgrep ps timeout setsid; do
    command -v $tool >/dev/null || skip_all "$tool is not installed"
done
unset PLENUM_LOADER PLENUM_PLENUMD OMP_NUM_THREADS RANK WORLD_SIZE MASTER_ADDR MASTER_PORT
unset HWLOC_SYNTHETIC HWLOC_XMLFILE HWLOC_THISSYSTEM
export LC_ALL=C
id=$$ # part of a duration, which identifies this test's sleeping processes
cd "$T" || exit 99
host=$(hostname)
cpus=$(getconf _NPROCESSORS_ONLN)

# job ARGUMENT... - run plenumrun for at most 300 s: standard output in out, standard error in err, status
# in $code, milliseconds in $took.
job() {
    begin=$(date +%s%N)
    timeout -k 5 300 "$run" "$@" >out 2>err
    code=$?
    took=$((($(date +%s%N) - begin) / 1000000))
}
same() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; false; }; }
has() { grep -q -e "$2" "$1" || { echo "no '$2' in $1"; false; }; }
has_not() { ! grep -e "$2" "$1"; }
last_line_has() { tail -n 1 "$1" | grep -q -e "$2" || { echo "no '$2' at the end of $1"; false; }; }
below() { [ "$1" -lt "$2" ] || { echo "$1 is not below $2"; false; }; }
all() { # all "TEST" "TEST"... - each holds; otherwise prints the failing ones and plenumrun's output
    for t; do eval "$t" || { echo "does not hold: $t"; sed 's/^/standard error: /' err; return 1; }; done
}
sleeping() { [ "$(pgrep -cfx "sleep $1")" = "$2" ]; } # do exactly this many of them exist?

# ---- results and reports ----
job -n 4 --grace 90 sh -c '[ $RANK != 1 ] || { sleep 0.3; echo first >&2; echo second >&2; exit 3; }
                          exec sleep 1000.'$id
ok "the exit status is that of the first failed instance" same $code 3
ok "the report ends with the failed instance's name" last_line_has err "error: instance 1 on host $host exited with code 3"
ok "the failed instance's last lines precede the report's end" all 'has err "^  | first"' 'has err "^  | second"'
ok "the other instances have ended" sleeping 1000.$id 0
ok "they have ended before the grace period is over" below $took 60000

job -n 2 sh -c '[ $RANK = 0 ] || kill -KILL $$; exec sleep 1000.'$id
ok "the status of a killed instance is 128 plus the signal's number" same $code 137
ok "the report names the signal" last_line_has err "instance 1 on host $host was ended by signal 9 (Killed)"

job -n 3 true
ok "success is silent" all 'same $code 0' '[ ! -s out ]' 'has_not err error'

job -n 2 --grace 500ms \
    sh -c '[ $RANK = 0 ] || { until [ -e deaf ]; do sleep 0.1; done; exit 4; }; trap "" TERM; : >deaf; sleep 1001.'$id'; sleep 1001.'$id
ok "an instance that ignores SIGTERM is killed after the grace period" \
    all 'same $code 4' 'sleeping 1001.$id 0' '[ $took -ge 500 ]'

job -n 2 sh -c "setsid sleep 1002.$id & exit 0"
ok "processes left behind by a program are killed" all 'same $code 0' 'sleeping 1002.$id 0'

raise='echo "Traceback (most recent call last):" >&2; echo "ValueError: $RANK" >&2'
job -n 3 sh -c "[ \$RANK != 2 ] || { trap '' TERM; $raise; : >first; sleep 2; exit 1; }
    while [ ! -e first ]; do sleep 0.05; done; sleep 1; [ \$RANK = 0 ] || sleep 1; $raise; exit 4"
ok "an instance that failed first is reported as the cause even if others end before it" all 'same $code 4' \
    'last_line_has err "error: instance 2 on host $host failed first, according to its traceback; the first to end was instance 0 on host $host, which exited with code 4"' \
    'has err "last lines of instance 0"' 'same "$(grep "ValueError" err | tail -n 1)" "  | ValueError: 2"'

group=/sys/fs/cgroup/memory/plenum-test-$$
if mkdir $group 2>/dev/null && echo 128M >$group/memory.limit_in_bytes && [ "$PYTHON" != : ]; then
    (echo $BASHPID >$group/tasks && job -n 1 "$PYTHON" -c 'b"x" * 600000000' && echo $code >code)
    ok "a process that the kernel killed for lack of memory is reported as such" all 'same "$(cat code)" 137' \
        'last_line_has err "ended by signal 9 (Killed) after .*; meanwhile the kernel killed 1 process there because memory ran out"'
else
    skip "a process that the kernel killed for lack of memory is reported as such" "no control group can be made"
fi
rmdir $group 2>/dev/null

mkdir sealed
if mount -t tmpfs -o size=4k tmpfs sealed 2>/dev/null; then
    head -c 4096 /dev/zero >sealed/file
    TMPDIR=$T/sealed job -n 1 true
    umount sealed
    ok "a full folder for Open MPI's files causes a warning" \
        has err "warning: Open MPI.s files cannot be written here: $T/sealed: No space left on device; programs that use MPI"
else
    skip "a full folder for Open MPI's files causes a warning" "no file system can be mounted"
fi
mkdir masked
printf '#!/bin/sh\numask 077\nexec %s "$@"\n' "$(command -v mpirun)" >masked/mpirun
chmod +x masked/mpirun
(umask 027; PATH=$T/masked:$PATH job --starter mpirun -n 2 sh -c umask; echo $code >code)
ok "instances have plenumrun's umask, not that of their host's logins" all 'same "$(cat code)" 0' \
    'same "$(sort -u out)" 0027'

# A process that ignores SIGCHLD does not notice the end of its children: print what each ancestor ignores.
cat >ignored <<'EOF'
#!/bin/sh
pid=$$
while [ "$pid" -gt 1 ] && [ "$(cat /proc/$pid/comm)" != timeout ]; do # plenumrun runs below it
    sed -n 's/^SigIgn:\t*/0x/p' /proc/$pid/status
    pid=$(sed -n 's/^PPid:\t*//p' /proc/$pid/status)
done
EOF
chmod +x ignored
timeout -k 5 300 env --ignore-signal=CHLD "$run" -n 2 ./ignored >out 2>err
code=$?
ignores_17() { # does any line of the file have the bit of SIGCHLD?
    while read -r mask; do [ $((mask >> 16 & 1)) = 0 ] || return 0; done <"$1"
    return 1
}
ok "a job ends even if its parent ignores SIGCHLD" all 'same $code 0' '[ "$(wc -l <out)" -ge 6 ]' \
    '! ignores_17 out'

# ---- programs that never start ----
job -n 2 "$T/nothing-there"
ok "a missing program is reported" all 'same $code 127' 'same "$(cat err)" \
    "plenumrun: error: there is no program '"'$T/nothing-there'"'"'
job -n 2 train.py
ok "a Python script given without ./ is reported" all 'same $code 127' 'same "$(cat err)" \
    "plenumrun: error: there is no program '"'train.py'"' in PATH: start a Python script with python3 train.py"'
echo 'pass' >script.py
job -n 2 ./script.py
ok "a script without #! is reported" all 'same $code 126' \
    'has err "cannot be executed.*Start Python scripts with python3 FILE"'
job nothing-there-either
ok "a program that is not in PATH is reported" all 'same $code 127' \
    'has err "no program .nothing-there-either. in PATH"'
echo data >data
job ./data
ok "a data file as the program is reported" all 'same $code 126' 'has err "cannot be executed"'
printf '#!/nonexistent/sh\n' >script
chmod +x script
job ./script
ok "a script whose interpreter is missing is reported" all 'same $code 127' 'same "$(wc -l <err)" 1' \
    'has err "program .\./script. needs the interpreter ./nonexistent/sh., which is missing: install it"'
printf '#!/usr/bin/env sh\r\n' >script
job -n 2 ./script
ok "a script with CR LF line ends is reported" all 'same $code 127' 'same "$(wc -l <err)" 1' \
    'has err "program .\./script. has lines that end with CR LF.*asks for .sh.r.: convert it"'
printf '\357\273\277#!/bin/sh\n' >script
job -n 2 ./script
ok "a script with a byte order mark is reported" all 'same $code 126' \
    'has err "program .\./script. has a byte order mark before"'
printf '#!/usr/bin/env plenum-python9\n' >script
job -n 2 ./script
ok "an interpreter that env does not find is reported" all 'same $code 127' \
    'has err "interpreter .plenum-python9., which is not in PATH"'
mkdir interpreters
ln -s /bin/sh interpreters/plenum-python9
job -x "PATH=$PWD/interpreters:$PATH" ./script
ok "an interpreter in the PATH given by -x is found" all 'same $code 0'
job --no-such-option true
ok "an unknown option is rejected in one line" all 'same $code 2' 'same "$(wc -l <err)" 1' \
    'has err "unknown option --no-such-option"'
job -n 2 --only-output-from-instance 2 true
ok "--only-output-from-instance rejects an instance that does not exist" all 'same $code 2' \
    'has err "--only-output-from-instance"'
job -n 2 --only-output-from-instance '' true
ok "--only-output-from-instance rejects an empty list" all 'same $code 2' \
    'has err "--only-output-from-instance: the list is empty"'

mkdir other
printf '#!/bin/sh\n[ "$1" != --version ] || { echo "HYDRA build details: Version: 4.0"; exit; }\necho "unknown option" >&2\nexit 255\n' >other/mpirun
chmod +x other/mpirun
hydra="$T/other/mpirun is 'HYDRA build details: Version: 4.0', not Open MPI 4 or 5"
PATH=$T/other:$PATH job -n 2 sh -c 'echo $RANK'
ok "one host needs no Open MPI: another MPI's mpirun is reported and not used" all 'same $code 0' \
    'same "$(sort out | tr "\n" ,)" 0,1,' \
    'has err "$hydra: plenumrun starts the instances itself"' 'same "$(wc -l <err)" 1'
PATH=$T/other:$PATH job -n 1 true
ok "with a single instance, another MPI's mpirun is not reported" all 'same $code 0' '[ ! -s err ]'
PATH=$T/other:$PATH job -n 2 --mpi-local-args '-x A' true
ok "options for mpirun are rejected if it belongs to another MPI" all 'same $code 125' 'same "$(wc -l <err)" 1' \
    'has err "mpi-local-args is for mpirun, and $hydra: leave it out"'
PATH=$T/other:$PATH job --no-host-check --host a,b true
ok "several hosts are rejected if mpirun belongs to another MPI" all 'same $code 125' 'same "$(wc -l <err)" 1' \
    'has err "$hydra: to start instances on other hosts, install Open MPI 4 or 5"'
chmod -x other/mpirun
(hide_mpirun; PATH=$T/other:$PATH; job -n 2 true; echo $code >code)
ok "one host needs no mpirun: one that cannot be executed is reported" all 'same $(cat code) 0' \
    'has err "$T/other/mpirun cannot be executed: plenumrun starts the instances itself"' 'same "$(wc -l <err)" 1'
(hide_mpirun; PATH=$T/other:$PATH; job --no-host-check --host a,b true; echo $code >code)
ok "several hosts are rejected if mpirun cannot be executed" all 'same $(cat code) 125' \
    'has err "$T/other/mpirun cannot be executed: to start instances on other hosts"'
rm -rf programs
chmod +x other/mpirun
printf '#!/bin/sh\n[ "$1" != --version ] || { echo "mpirun (Open MPI) 5.0.7"; exit; }\nulimit -c 0\nkill -SEGV $$\n' \
    >other/mpirun
PATH=$T/other:$PATH job -n 2 --instance-mpi-local-args '1:--display map' true
ok "the error explains that mpirun of Open MPI 5.0 crashes if an instance has its own arguments" all 'same $code 125' \
    'last_line_has err "(Segmentation fault).*: the mpirun of Open MPI 5.0 crashes if .* other than -x"'
PATH=$T/other:$PATH job -n 2 --instance-mpi-local-args '1:-x A=1' true
ok "variables for an instance are not blamed for a crash" all 'same $code 125' \
    'last_line_has err "(Segmentation fault) before all of them had started$"'
printf '#!/bin/sh\nsleep 1\n' >other/mpirun
PATH=$T/other:$PATH job -n 2 true
ok "an mpirun that prints no version is reported and not used" all 'same $code 0' \
    "has err \"'$T/other/mpirun --version' prints nothing: plenumrun starts the instances itself\"" \
    'same "$(wc -l <err)" 1'
printf '#!/bin/sh\necho "[h:1] opal_ifinit: no interfaces" >&2\n[ "$1" != --version ] || { echo "mpirun (Open MPI) 4.1.4"; exit; }\nexit 9\n' >other/mpirun
PATH=$T/other:$PATH job --starter mpirun -n 2 true
ok "Open MPI is recognised even if it first prints a warning" all 'same $code 125' \
    'has err "  | .*opal_ifinit"' 'has_not err "not Open MPI"'
PATH=$T/other:$PATH job -n 2 --result result sh -c 'echo $RANK'
ok "plenumrun's own starter replaces an mpirun that fails at once" all 'same $code 0' \
    'same "$(sort out | tr "\n" ,)" 0,1,' 'same "$(wc -l <err)" 1' 'has result "\"exit_status\": 0"' \
    'has err "warning: mpirun cannot start the instances here: \[h:1\] opal_ifinit: no interfaces: plenumrun starts them itself, and a program that uses MPI will end with an error"'
PATH=$T/other:$PATH job -n 2 --max-restarts 1 sh -c '[ $PLENUM_RESTART_COUNT = 1 ] || exit 3'
ok "the replacement does not count as a restart" all 'same $code 0' 'has err "starts again (1 of 1 times)"'
PATH=$T/other:$PATH job -n 2 --mpi-global-args=--report-bindings true
ok "plenumrun's own starter does not replace mpirun if there are options for mpirun" all 'same $code 125' 'has err "  | .*opal_ifinit"'
printf '#!/bin/sh\n[ "$1" != --version ] || { echo "mpirun (Open MPI) 4.1.4"; exit; }\nkill -SEGV $$\n' >other/mpirun
(ulimit -c 0; PATH=$T/other:$PATH job -n 1 echo there; echo $code >code)
ok "a crash of mpirun is reported; for a single instance, without a warning about MPI" all 'same "$(cat code)" 0' \
    'same "$(cat out)" there' \
    'last_line_has err "here: it was ended by signal 11 (Segmentation fault): plenumrun starts them itself$"'
PATH=$T/other:$PATH job --version-format full-text
ok "--version-format full-text shows mpirun's version" all 'has out "^mpirun  *mpirun (Open MPI) 4.1.4 "' \
    'has out "^ssh .*[0-9]\|not found"'
TMPDIR=/proc/self job --starter mpirun -n 1 true
ok "an error that mpirun prints is shown" all 'same $code 125' 'has err "  | .*/proc/self/\(ompi\|prterun\)"'
cat >other/mpirun <<'END'
#!/bin/bash
[ "$1" != --version ] || { echo "mpirun (Open MPI) 4.1.4"; exit; }
while [ $# -gt 0 ] && [ "$1" != --hostfile ]; do shift; done
echo "$(wc -l <"$2") hosts, $(sort -u "$2" | wc -l) of them"
exit 9
END
PATH=$T/other:$PATH job --no-host-check -vv --host 'ip-10-0-12-[100-499].us-west-2.compute.internal:8' true
ok "the hostfile for mpirun has all of 3200 slots" all 'same $code 125' 'has err "3200 hosts, 400 of them"'
cat >other/mpirun <<'END'
#!/bin/bash
[ "$1" != --version ] || { echo "mpirun (Open MPI) 4.1.4"; exit; }
while [ $# -gt 0 ] && [ "$1" != --hostfile ]; do shift; done
for host in $(sed -n '1p;$p' "$2"); do $OMPI_MCA_plm_rsh_agent $host orted; done
exit 9
END
printf '#!/bin/sh\necho "a login at $1"\nenv | grep "PLENUM_SHIM_AGENT"\n' >logs-in
chmod +x logs-in
long=a-host-with-a-name-that-is-as-long-as-those-of-some-clouds-are.us-west-2.compute.internal
OMPI_MCA_plm_rsh_agent=$T/logs-in PATH=$T/other:$PATH job --no-host-check -vv --host "$long-[0001-2000]" true
ok "mpirun's agent works with 2000 long host names" all 'same $code 125' 'has err "a login at $long-0001$"' \
    'has err "a login at $long-2000$"' \
    'has_not err PLENUM_SHIM_AGENT'
TMPDIR=/proc/self job -n 2 true
ok "without --starter, plenumrun replaces an mpirun that cannot write its files" all 'same $code 0' \
    'has err "here: .*unable to create.*directory"'
if [ -x "$mpi_sum" ]; then
    export ASAN_OPTIONS="$asan_options_of_mpi"
    TMPDIR=/proc/self job -n 2 "$mpi_sum"
    ok "an MPI program of 2 instances fails instead of running as separate worlds" all '[ $code != 0 ]' \
        'has_not out sum'
    job --starter own -n 2 "$mpi_sum"
    ok "an MPI program of 2 instances fails under plenumrun's own starter" all '[ $code != 0 ]' 'has_not out sum'
    job --starter own -n 1 "$mpi_sum"
    ok "an MPI program of 1 instance works under plenumrun's own starter" all 'same $code 0' \
        'same "$(cat out)" "rank 0 sum 1"'
    job --starter own -n 2 mpirun -n 1 "$mpi_sum"
    ok "mpirun works inside each instance of plenumrun's own starter" all 'same $code 0' \
        'same "$(cat out)" "rank 0 sum 1
rank 0 sum 1"'
    # A launcher inside a launcher, inside mpirun, and inside a program that has called MPI_Init().
    job -n 1 "$run" -n 2 "$mpi_sum"
    ok "plenumrun works inside an instance" all 'same $code 0' 'same "$(sort out)" "rank 0 sum 2
rank 1 sum 2"'
    job --starter own -n 2 "$run" -n 2 "$mpi_sum"
    ok "plenumrun works inside instances of its own starter" all 'same $code 0' 'same "$(grep -c "sum 2" out)" 4'
    mpirun --oversubscribe -n 2 "$run" -n 2 "$mpi_sum" >out 2>err
    code=$?
    ok "plenumrun works inside mpirun" all 'same $code 0' 'same "$(grep -c "sum 2" out)" 4'
    PMIX_NAMESPACE=1 PMIX_RANK=0 PMIX_SERVER_URI2='1.0;tcp4://127.0.0.1:1' OMPI_MCA_ess_base_jobid=1 \
        OMPI_MCA_orte_hnp_uri='1.0;tcp://127.0.0.1:1' OMPI_UNIVERSE_SIZE=1 job -n 2 "$mpi_sum"
    ok "plenumrun works inside a program that has called MPI_Init()" all 'same $code 0' \
        'same "$(grep -c "sum 2" out)" 2'
    # Scheduler variables that belong to another job, to a finished one, or to a step.
    SLURM_JOB_ID=7 SLURM_JOBID=7 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 SLURM_JOB_NODELIST=$host \
        SLURM_JOB_NUM_NODES=1 SLURM_NODELIST=elsewhere SLURM_TASKS_PER_NODE=1 job -n 2 "$mpi_sum"
    ok "plenumrun works inside a Slurm step on this host" all 'same $code 0' 'same "$(grep -c "sum 2" out)" 2'
    PE_HOSTFILE=$T/nothing SGE_ROOT=/ ARC=x JOB_ID=1 job --host localhost:2 "$mpi_sum"
    ok "plenumrun ignores an SGE host file that no longer exists" all 'same $code 0' 'same "$(grep -c "sum 2" out)" 2'
    export ASAN_OPTIONS="${asan_options_of_mpi%:detect_leaks=0}"
else
    skip "MPI programs and launchers in launchers" "built without MPI"
fi
job --starter own -n 2 -v sh -c 'echo ${OMPI_COMM_WORLD_RANK-own}'
ok "--starter own starts the instances without mpirun" all 'same $code 0' 'same "$(sort -u out)" own' \
    'has err "by plenumrun itself: --starter own"'
job --starter own --mpi-local-args '-x A' true
ok "--starter own rejects options for mpirun" all 'same $code 125' \
    'has err "mpi-local-args is for mpirun, which --starter own does not use"'
job --starter own --no-host-check --host a,b true
ok "--starter own rejects other hosts" all 'same $code 125' 'has err "--starter own starts instances only on this host"'
job --starter his true
ok "--starter rejects an unknown value" all 'same $code 2' 'has err "--starter must be auto, mpirun or own, not .his."'
(hide_mpirun; job --starter mpirun true; echo $code >code)
ok "--starter mpirun fails if there is no mpirun" all 'same $(cat code) 125' \
    'has err "error: --starter mpirun: mpirun was not found in PATH"'
rm -rf programs
mkdir no-ssh && for tool in mpirun orted prted prte sh echo; do
    ! command -v $tool >/dev/null || ln -s "$(readlink -f "$(type -P $tool)")" no-ssh/$tool
done
PATH=$T/no-ssh "$run" -n 2 sh -c 'echo $RANK' >out 2>err
code=$?
ok "one host needs no ssh" all 'same $code 0' 'same "$(sort out | tr "\n" ,)" 0,1,' 'has_not err mpirun'
mkdir empty
for tool in env sh true; do ln -s "$(type -P $tool)" empty/; done
PATH=$T/empty "$run" -n 2 true >out 2>err
code=$?
ok "one host needs neither ssh nor mpirun" all 'same $code 0' '[ ! -s err ]'
PATH=$T/empty "$run" --no-host-check --host a,b true >out 2>err
code=$?
ok "several hosts need mpirun" all 'same $code 125' \
    'last_line_has err "mpirun was not found in PATH: to start instances on other hosts, install Open MPI"'

# ---- environment ----
job -n 3 --num-replicas 6 --devices-per-replica 2 -x GREETING='a b' --loader none sh -c \
    'echo $PLENUM_INSTANCE_INDEX/$PLENUM_NUM_INSTANCES $PLENUM_LOCAL_INSTANCE_INDEX/$PLENUM_NUM_LOCAL_INSTANCES $PLENUM_REPLICA_OFFSET+$PLENUM_NUM_LOCAL_REPLICAS/$PLENUM_NUM_REPLICAS $PLENUM_DEVICES_PER_REPLICA $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK $PLENUM_RESTART_COUNT ${PLENUM_LOADER-none} $GREETING'
ok "each instance has its rank, its counts and a variable from -x" same "$(sort out)" \
    "0/3 0/3 0+2/6 2 0/3 0/3 0 0 none a b
1/3 1/3 2+2/6 2 1/3 1/3 0 0 none a b
2/3 2/3 4+2/6 2 2/3 2/3 0 0 none a b"
job -n 2 sh -c 'echo $PLENUM_JOB_ID $MASTER_ADDR $MASTER_PORT'
ok "all instances have the same job ID, master address and port" all 'same "$(sort -u out | wc -l)" 1' \
    'has out "^[0-9a-f]* 127.0.0.1 [1-9][0-9]*$"'
(ulimit -Sn 64; job -n 2 sh -c 'ulimit -Sn'; echo $code >code)
ok "instances have the limit on open files that plenumrun was started with" all 'same "$(cat code)" 0' \
    'same "$(sort -u out)" 64'
job -n 1 env
ok "the job's secret is not in the environment" has_not out PLENUM_SHIM
WORLD_SIZE=7 job -n 2 sh -c 'echo $WORLD_SIZE'
ok "an inherited WORLD_SIZE is replaced, with a warning" all 'same "$(sort -u out)" 2' 'has err "warning: WORLD_SIZE=7"'
mkdir "sub dir"
cd "sub dir" && timeout 300 "$run" -n 2 sh -c 'pwd; echo "$@"' sh : '*' ' x ' >../out 2>../err
cd "$T" || exit 99
ok "the working directory and arguments are passed on" same "$(sort -u out)" "$T/sub dir
: *  x "

mkdir -p tools && printf '#!/bin/sh\necho the tool\n' >tools/only-there && chmod +x tools/only-there
job -n 1 -x "PATH=$T/tools:$PATH" only-there
ok "-x PATH=... is also used to find the program" all 'same $code 0' 'same "$(cat out)" "the tool"'
export THIS_1=one THIS_2='two words' OTHER=no
job -n 1 -x 'THIS_*' sh -c 'echo $THIS_1 "$THIS_2"'
ok "-x PREFIX* passes matching variables" same "$(cat out)" "one two words"
printf '# comment\nFROM_FILE="a b"\n' >env-file
job -n 1 --env-file env-file sh -c 'echo "$FROM_FILE"'
ok "--env-file sets variables" same "$(cat out)" "a b"
CUDA_VISIBLE_DEVICES=4,5,6,7 job -n 2 --num-replicas 4 --device-env cuda sh -c 'echo $RANK $CUDA_VISIBLE_DEVICES'
ok "devices are divided among the instances" same "$(sort out)" "0 4,5
1 6,7"
CUDA_VISIBLE_DEVICES=4,5,6,7 job -n 2 sh -c 'echo $CUDA_VISIBLE_DEVICES'
ok "devices are not divided without --device-env" same "$(sort -u out)" 4,5,6,7
CUDA_VISIBLE_DEVICES=4 job -n 2 --device-env cuda true
ok "too few devices are rejected" all 'same $code 2' \
    'has err "host $host: 2 replicas of 1 devices are more than the 1 that CUDA_VISIBLE_DEVICES names"'
job -n 2 --num-replicas 3 \
    --allow-uneven sh -c 'echo $PLENUM_REPLICA_OFFSET+$PLENUM_NUM_LOCAL_REPLICAS/$PLENUM_NUM_REPLICAS'
ok "--allow-uneven accepts uneven replicas" same "$(sort out)" "0+2/3
2+1/3"
job -n 2 --num-replicas 3 true
ok "uneven replicas are rejected otherwise" all 'same $code 2' 'has err "--allow-uneven"'
job -n 1 --instance-mpi-local-args '0:-x ONLY_ZERO=1' sh -c 'echo $ONLY_ZERO'
ok "--instance-mpi-local-args applies to the only instance" same "$(cat out)" 1
job -n 2 --instance-mpi-local-args '1:-x ONLY_ONE=1' sh -c 'echo $RANK $OMPI_COMM_WORLD_RANK $ONLY_ONE'
ok "--instance-mpi-local-args applies to one of two instances" same "$(sort out)" "0 0
1 1 1"
job -n 2 --instance-mpi-local-args '2:-x A=1' true
ok "--instance-mpi-local-args rejects an instance that does not exist" all 'same $code 2' \
    'has err "there is no instance 2"'

# ---- hosts ----
job --host "localhost:1,127.0.0.1,$host" sh -c 'echo $LOCAL_RANK/$LOCAL_WORLD_SIZE'
ok "several names of this host are one host" same "$(sort out)" "0/3
1/3
2/3"
job --host 'a[1-3],b' --exclude 'a[2-3],b' --topology synthetic:'core:2 pu:1' --print-topology=json
ok "--exclude removes hosts" all 'has out "\"name\": \"a1\", \"first_instance\": 0, \"num_instances\": 1"' \
    'has_not out "\"name\": \"[b]"' 'has_not out "a[23]"'
job --host a --exclude a true
ok "--exclude of every host is rejected" all 'same $code 2' 'has err "leaves no host"'
SLURM_JOB_NODELIST='n[1-3]' SLURM_NTASKS=5 SLURM_TASKS_PER_NODE='2(x2),1' job --dry-run -v
ok "a Slurm allocation gives hosts and instances" all 'has out "^5 instances on 3 hosts"' 'has out "^n3 .* 4  "' \
    'has err "3 hosts, from Slurm"'
SLURM_JOB_NODELIST='n[1-3]' SLURM_NTASKS=5 SLURM_TASKS_PER_NODE='2(x2),1' job -n 6 --dry-run
ok "more instances than a Slurm allocation's slots are rejected" all 'same $code 2' \
    'has err "have 5 slots: raise them (--host n1:3)"'

# An agent. The beginning of a host's name decides how that host behaves.
cat >agent <<'END'
#!/bin/bash
host=$1
shift
case $host in
silent*) exec sleep 1000 ;;
stopped*) : >"${0%/*}/asked"; while [ ! -e "${0%/*}/answer" ]; do sleep 0.1; done; exec bash -c "$*" ;;
stays*) bash -c "$*" </dev/null; exec >/dev/null 2>&1; exec sleep 1000 ;;
*) [ -z "${ASKED:-}" ] || echo $host >>"$ASKED"; exit 7 ;;
esac
END
chmod +x agent
export OMPI_MCA_plm_rsh_agent=$T/agent
job --start-timeout 16 --host 'silent[001-100],last' true
ok "silent hosts do not delay the checks of other hosts" all 'same $code 125' \
    'has err "silent100  *log in  *no answer"' 'has_not err "no time left"' \
    'last_line_has err "last .* ended without any output"'
job --start-timeout 90 --host stays1,gone true
ok "a login that stays open after its answer does not delay the check" all 'same $code 125' \
    'has err "1 of 2 other hosts are not ready"' 'last_line_has err "gone "' 'below $took 60000'
(ulimit -Sn 64; job --start-timeout 30 --host 'h[001-130]' true; echo $code >code)
ok "more hosts than file descriptors can be checked" all 'same "$(cat code)" 125' \
    'has err "130 of 130 other hosts are not ready"' \
    'has_not err "no time\|no answer\|cannot be queried"'
printf '#!/bin/bash\n[ "$1" != --version ] || { echo "mpirun (Open MPI) 4.1.4"; exit; }\nexec sleep 30\n' >other/mpirun
PATH=$T/other:$PATH job --no-host-check --start-timeout 3 --host 'a-host-with-a-name-[001-040]' true
ok "a list of missing instances is cut after a whole name" all 'same $code 125' \
    'has err "no response from instance 0 on host a-host-with-a-name-001, .* on host a-host-with-a-name-0[0-9][0-9], \.\.\.$"'
# plenumrun is stopped for longer than a host may take to answer. If that time counted, mpirun would exceed its limit,
# too.
printf '#!/bin/bash\n[ "$1" != --version ] || { echo "mpirun (Open MPI) 4.1.4"; exit; }\nsleep 6\nexit 9\n' \
    >other/mpirun
PATH=$T/other:$PATH env --default-signal=INT "$run" --start-timeout 20 --host stopped1 true >out 2>err &
job=$!
wait_for test -e asked
kill -STOP $job
sleep 14 # longer than a host may take to answer
: >answer
kill -CONT $job
wait $job
code=$?
ok "a plenumrun that was stopped during the host check does not count that time" all 'same $code 125' \
    'has_not err "not ready\|no sign"' \
    'last_line_has err "mpirun, which starts the instances, exited with code 9"'
unset OMPI_MCA_plm_rsh_agent

# ---- plans for other machines ----
begin=$(date +%s%N)
job --host 'h[01-64]' -n 256 --num-replicas 512 --topology 'synthetic:package:2 numa:2 core:8 pu:2' \
    --print-topology=json
ok "256 instances on 64 hosts are planned" all 'same $code 0' 'same "$(grep -c "\"index\"" out)" 256' \
    'has out "\"index\": 255, \"host\": \"h64\", \"local_index\": 3, \"cpus\": \"48-63\", \"numa_nodes\": \"3\", \"memory_policy\": \"bind\", \"replica_offset\": 510, \"num_local_replicas\": 2, \"devices\": \[\], \"oversubscribed\": false"'
job --host a,b --topology synthetic:'core:2 pu:1' --topology synthetic:'core:4 pu:1'
ok "each host has its own topology" all 'has out "^a  *1  *2  *2 "' 'has out "^b  *1  *4  *4 "'
job --host a,b,c --topology synthetic:'core:2 pu:1' --topology synthetic:'core:4 pu:1'
ok "a number of topologies that does not match the hosts is rejected" all 'same $code 2' \
    'has err "--topology is given 2 times for 3 hosts"'
job -n 2 --topology "$T/nothing.xml"
ok "a missing topology file is rejected" all 'same $code 2' 'has err "$T/nothing.xml: No such file"'
job -n 2 --topology data
ok "a file that is not a topology is rejected" all 'same $code 2' 'has err "data is not a topology in XML"'

# ---- files of options ----
job --export-config options -n 2 --tag-output='%i: ' -x "A=b c"
ok "--export-config writes the options" all 'same $code 0' '[ ! -s out ]' 'has options "^num-instances = 2$"'
job --import-config options sh -c 'echo $RANK $A'
ok "--import-config reads the options" same "$(sort out)" "0: 0 b c
1: 1 b c"
job --import-config options -n 1 sh -c 'echo $RANK $A'
ok "the command line overrides --import-config" same "$(sort out)" "0: 0 b c"
job --export-config options -n 3
ok "--export-config does not overwrite a file" all 'same $code 2' 'has err "--overwrite-config"' \
    'has options "^num-instances = 2$"'
job --export-config options --overwrite-config -n 3
ok "--overwrite-config overwrites a file" has options "^num-instances = 3$"
job --version-format full-json
ok "the versions of all dependencies are printed as JSON" all 'same $code 0' \
    'has out "\"plenumrun\": {\"version\": \"[0-9]"' \
    'has out "\"mpirun\": {\"version\": \"mpirun (Open MPI) "'

# ---- input and output ----
echo hello | timeout 300 "$run" -n 2 sh -c 'echo $RANK: $(cat)' 2>err | sort >out
ok "standard input goes to instance 0" same "$(cat out)" "0: hello
1:"
head -c 8000000 /dev/urandom >bytes
timeout 300 "$run" -n 1 cat <bytes >out 2>err
ok "8 MB pass through standard input and output" cmp bytes out
echo hello | timeout 300 "$run" --stdin none -n 1 cat >out 2>err
ok "--stdin none gives an empty input" test ! -s out

job -n 4 --tag-output='%i:' sh -c 'seq -f "$RANK line %.0f" 200000'
cat >check.awk <<'EOF'
$0 !~ /^[0-3]: [0-3] line [0-9]+$/ || substr($1, 1, 1) != $2 || $4 != last[$2] + 1 { bad++ }
{ last[$2] = $4 }
END { print bad + 0, last[0], last[1], last[2], last[3] }
EOF
ok "200,000 lines of each of 4 instances are complete, in order, tagged and not mixed" \
    same "$(awk -f check.awk out)" "0 200000 200000 200000 200000"

job -n 1 printf 'no newline'
ok "nothing is added to the output of a single instance" same "$(od -c <out)" "$(printf 'no newline' | od -c)"
job -n 3 printf x
ok "unfinished last lines are delivered on lines of their own" same "$(sort out | tr '\n' ,)" x,x,x,
job -n 2 sh -c '[ $RANK = 0 ] || exit 0; head -c 3000000 /dev/zero | tr "\0" z; echo'
ok "a line of 3 MB is delivered" same "$(wc -lc <out | tr -s ' ' | sed 's/^ //')" "1 3000001"

timeout 300 "$run" -n 2 --heartbeat-timeout 4 seq 200000 2>err | { sleep 6; wc -l; } >out
ok "a slow reader loses no output and causes no timeout" all 'same "$(cat out)" 400000' 'has_not err error'
timeout 300 "$run" -n 2 sh -c 'echo pid $$; yes' 2>err | head -n 1 >out
ok "a job ends when the reader of its output exits" all 'has err "the reader of its"' 'sleeping 1003.$id 0'

timeout 300 "$run" -n 2 sh -c 'while sleep 0.05; do echo line >&2; done' 2>&1 >/dev/null | head -n 1 >out
codes="${PIPESTATUS[*]}"
ok "a job ends when the reader of its standard error exits" all 'same "$codes" "141 0"'
if [ -e /dev/full ]; then
    timeout 300 "$run" -n 2 --result full.json sh -c 'echo $RANK' >/dev/full 2>err
    code=$?
    ok "a full standard output gives status 123" all 'same $code 123' \
        'has err "cannot write to standard output: No space"' 'has full.json "\"exit_status\": 123"'
fi
job -n 3 --only-output-from-instance 0,2 \
    sh -c 'echo from $RANK; : >said-$RANK; [ $RANK = 1 ] || exit 0; echo hidden cause >&2
           until [ -e said-0 ] && [ -e said-2 ]; do sleep 0.02; done; exit 5'
ok "--only-output-from-instance hides other instances' output" all 'same $code 5' \
    'same "$(sort out | tr "\n" ,)" "from 0,from 2,"'
ok "--only-output-from-instance does not hide the cause of a failure" has err "^  | hidden cause"

job -n 2 --output-dir files --only-output-from-instance 1 sh -c 'echo out $RANK; printf "err %s" $RANK >&2'
ok "--output-dir also has output that is not shown" all 'same "$(cat out)" "out 1"' \
    'same "$(cat files/instance-0.out files/instance-1.out)" "out 0
out 1"' 'same "$(cat files/instance-0.err files/instance-1.err)" "err 0err 1"'
job -n 2 --output-dir files seq 200000
ok "--output-dir has all of 200,000 lines" all 'same "$(cksum <files/instance-1.out)" "$(seq 200000 | cksum)"' \
    'same "$(wc -l <out)" 400000'
job -n 2 --output-dir data/files true
ok "--output-dir rejects a folder that cannot be created" all 'same $code 125' \
    'has err "--output-dir: cannot make the folder data/files: Not a directory"'
if [ -e /dev/full ]; then
    timeout 300 "$run" -n 2 --result full.json sh -c 'echo $RANK; echo lost >&2' >out 2>/dev/full
    code=$?
    ok "a full standard error gives status 123" all 'same $code 123' 'has full.json "\"exit_status\": 123"' \
        'same "$(sort out | tr "\n" ,)" 0,1,'
else
    skip "a full standard error gives status 123" "no /dev/full"
fi
printf '%s' "$(printf 'a\rb\rc')" >bars
job -n 2 --tag-output=%i: sh -c 'printf "10%%\r20%%\r"; sleep 0.3; printf "100%%\n"'
ok "a progress bar in a file is one complete line" same \
    "$(sort out | od -c)" "$(printf '0: 10%%\r20%%\r100%%\n1: 10%%\r20%%\r100%%\n' | od -c)"

job -n 3 --result result.json --grace 1 \
    sh -c 'echo $$ >pid-$RANK; [ $RANK != 0 ] || exit 0; [ $RANK = 1 ] || exec sleep 1007.'$id'
           until [ -s pid-2 ] && [ -s pid-0 ] && ! kill -0 $(cat pid-0) 2>/dev/null; do sleep 0.02; done; exit 3'
ok "--result has each instance's state" all 'same $code 3' 'has result.json "\"exit_status\": 3"' \
    'has result.json "\"first_failed_instance\": 1"' \
    'has result.json "\"index\": 0.*\"state\": \"exited\".*\"exit_code\": 0, \"signal\": null, \"ended_by\": \"itself\""' \
    'has result.json "\"index\": 1.*\"exit_code\": 3"' \
    'has result.json "\"index\": 2.*\"state\": \"killed\".*\"signal\": 15, \"ended_by\": \"plenumrun\""' \
    'has result.json "\"cause\": \"instance 1 on host $host exited with code 3 after"'
[ "$PYTHON" = : ] || ok "--result is valid JSON" "$PYTHON" -m json.tool result.json
job --result result.json ./no-such-program
ok "--result of a job that did not start has its status" all 'has result.json "\"exit_status\": 127"' \
    'has result.json "\"state\": \"not started\""'

# ---- restarts ----
job -n 2 --max-restarts 3 \
    sh -c 'echo $RANK $PLENUM_RESTART_COUNT >>restarts; [ $PLENUM_RESTART_COUNT != 2 ] || exit 0
           until [ "$(grep -c " $PLENUM_RESTART_COUNT$" restarts)" = 2 ]; do sleep 0.02; done; exit 5'
ok "a failed job is restarted until it succeeds" all 'same $code 0' \
    'same "$(sort -u restarts | tr "\n" ,)" "0 0,0 1,0 2,1 0,1 1,1 2,"' 'has err "starts again (2 of 3 times)"'
job -n 2 --max-restarts 1 sh -c 'exit 6'
ok "--max-restarts limits the restarts" all 'same $code 6' 'same "$(grep -c "starts again" err)" 1' \
    'last_line_has err "exited with code 6"'
job -n 1 --max-restarts 2 "$T/nothing-there"
ok "a job whose program cannot be started is not restarted" all 'same $code 127' 'has_not err "starts again"'
job -n 1 --max-restarts 2 --timeout 1 sleep 1008.$id
ok "a job ended by --timeout is not restarted" all 'same $code 124' 'has_not err "starts again"'
cat >prog <<'END'
#!/bin/sh
[ $PLENUM_RESTART_COUNT != 0 ] || { mv prog gone; sleep 0.2; exit 5; }
END
chmod +x prog
{ wait_for grep -q 'trying again in 5 s' err && mv gone prog; } &
job -n 1 --max-restarts 2 --timeout 30 ./prog
wait $!
ok "a restart waits until the program is there, and each attempt counts" all 'same $code 0' \
    'has err "there is no program"' 'has err "starts again (2 of 2 times)"'
rm -f err
cat >prog <<'END'
#!/bin/sh
mv prog gone
sleep 0.2
exit 5
END
chmod +x prog
env --default-signal=INT,USR1 "$run" -n 1 --max-restarts 9 --result ended.json ./prog >out 2>err &
job=$!
wait_for grep -q 'trying again in 5 s' err
kill -USR1 $job
wait_for grep -q 'trying again in 10 s' err
kill -TERM $job
wait $job
code=$?
ok "a signal while plenumrun waits to restart ends the job at once, and is reported" all 'same $code 143' \
    'has ended.json "\"exit_status\": 143"' \
    'has ended.json "the job was ended by SIGTERM before it started again"' 'same "$(grep -c "trying again" err)" 2'
job -n 1 --max-restarts 2 --output-dir again sh -c 'echo $PLENUM_RESTART_COUNT; [ $PLENUM_RESTART_COUNT = 1 ]'
ok "a restarted job appends to its output files" same "$(cat again/instance-0.out | tr '\n' ,)" 0,1,

# ---- limits and signals ----
job -n 2 --timeout 1 --grace 1 sleep 1004.$id
ok "--timeout ends the job" all 'same $code 124' 'last_line_has err "--timeout"' 'sleeping 1004.$id 0'

# start ARGUMENT... - start a job in the background and wait for its two sleepers 1005: $job is plenumrun's process
start() {
    env --default-signal=INT "$run" --grace 500ms -n 2 \
        sh -c "trap 'exit 6' USR1; ${1:-} setsid sleep 1006.$id & sleep 1005.$id & wait; wait" >out 2>err &
    job=$!
    wait_for sleeping 1005.$id 2
}
# await_end - wait at most ten seconds for the job to end: $code
await_end() {
    tries=0
    while kill -0 $job 2>/dev/null && [ $tries -lt 200 ]; do
        tries=$((tries + 1))
        sleep 0.05
    done
    kill -0 $job 2>/dev/null && { echo "plenumrun is still there"; kill -KILL $job; }
    wait $job 2>/dev/null
    code=$?
}
# tree PID - print the process and all of its descendants
tree() {
    echo $1
    for child in $(pgrep -P $1); do tree $child; done
}
dead() { for p; do case $(ps -o stat= -p $p) in '' | Z*) ;; *) return 1 ;; esac; done; }
# find_parts - set $guard, $mpirun, $outer (the first outer shim) and $inner (its inner shim)
find_parts() {
    guard=$(pgrep -P $job)
    mpirun=$(pgrep -P $guard)
    outer=$(pgrep -P $mpirun | head -n 1)
    inner=$(pgrep -P $outer)
    tree=$(tree $job)
}
nothing_is_left() { wait_for dead $tree && sleeping 1005.$id 0 && sleeping 1006.$id 0; }

start "trap '' TERM;"
kill -TERM $job
await_end
ok "SIGTERM ends a program that ignores it" all 'same $code 143' 'sleeping 1005.$id 0' 'sleeping 1006.$id 0'
start
kill -USR1 $job
await_end
ok "SIGUSR1 is forwarded" same $code 6
start "trap ': >interrupted' INT; trap '' TERM;"
kill -INT $job
wait_for test -e interrupted
kill -INT $job
await_end
ok "the second SIGINT kills the job" all 'same $code 130' 'sleeping 1005.$id 0'

# wait_job [OPTION]... - start a background job whose program counts SIGUSR1 in got and waits for the file go
wait_job() {
    rm -f up go got
    "$run" "$@" -n 1 \
        sh -c "trap 'echo got >>got' USR1; : >up; while [ ! -e go ]; do sleep 0.05; done; grep SigIgn /proc/self/status" >out 2>err &
    job=$!
    wait_for test -e up
}
end_job() {
    : >go
    await_end
}
lines_in() { [ "$(wc -l <"$1")" = "$2" ]; }
wait_job
find_parts
for part in outer inner; do
    rm -f got
    kill -USR1 ${!part}
    wait_for test -e got
    ok "SIGUSR1 to the $part shim reaches the program" lines_in got 1
    sleep 1.2 # a different signal, rather than the same one by another route
done
rm -f got
kill -USR1 $job $guard $mpirun $outer $inner
wait_for test -e got
sleep 0.5 # to see that no second signal arrives
ok "SIGUSR1 to all processes reaches the program once" lines_in got 1
sleep 1.2 # a different signal, rather than the same one by another route
rm -f got
for part in outer mpirun inner job; do
    kill -USR1 ${!part}
    sleep 0.1 # routes of one signal
done
wait_for test -e got
sleep 0.5 # to see that no second signal arrives
ok "SIGUSR1 to all processes, in any order, reaches the program once" lines_in got 1
for part in guard outer inner; do
    for signal in QUIT PIPE ALRM VTALRM PROF IO PWR STKFLT TSTP TTIN TTOU WINCH RTMAX; do kill -$signal ${!part}; done
done
end_job
ok "other signals do not affect the guard and the shims" all 'same $code 0' 'has_not err error'

(trap '' HUP && wait_job && kill -HUP $job && kill -INT $job && sleep 0.2 && end_job && echo $code >code)
ok "signals that are ignored at the start (nohup, background job) stay ignored" all 'same "$(cat code)" 0' \
    '[ ! -s err ]'
ok "signals that are ignored at the start are also ignored in the program" has out \
    '^SigIgn:.*0007$' # the C library may ignore one of its own signals

wait_job --heartbeat-timeout 5
find_parts
kill -STOP $tree
sleep 9 # longer than --heartbeat-timeout
kill -CONT $tree
sleep 2 # to see that the job continues
end_job
ok "a job that was frozen as a whole continues" all 'same $code 0' 'has_not err error'

start "trap '' TERM;"
find_parts
kill -STOP $outer $inner
sleep 6 # longer than the heartbeat
kill -KILL $mpirun
await_end
ok "a host that was silent when mpirun ended the job is named" all nothing_is_left \
    'last_line_has err "host $host has been silent for [0-9.]* s, and mpirun ended the job"'

for part in plenumrun guard mpirun outer inner; do
    start "trap '' TERM;"
    find_parts
    case $part in
    plenumrun) kill -KILL $job ;;
    guard) kill -KILL $guard ;;
    mpirun) kill -KILL $mpirun ;;
    outer) kill -KILL $outer ;;
    inner) kill -KILL $inner ;;
    esac
    await_end
    ok "kill -9 of $part leaves no processes" nothing_is_left
    [ $part = plenumrun ] || ok "kill -9 of $part is reported" all \
        'same $code 125' 'last_line_has err "killed\|Killed\|Open MPI"'
done

sessions() { # list the session folders of Open MPI 4 and 5
    (cd "${TMPDIR:-/tmp}" && ls -A -d ompi.*."$(id -u)/pid.$mpirun" prterun.*."$mpirun.$(id -u)" 2>/dev/null) | grep .
}
no_session() { [ -z "$(sessions)" ]; }
start
find_parts
ok "mpirun has its own folder for the job" sessions
kill -STOP $guard $mpirun
kill -TERM $job
await_end
ok "a job ends even if mpirun and its guard are stopped" all 'same $code 143' nothing_is_left no_session

# ---- placement ----
job --dry-run -n 2 --print-topology=json
cp out plan.json
job -n 2 sh -c 'echo $RANK $(sed -n "s/^Cpus_allowed_list:\s*//p" /proc/self/status) $OMP_NUM_THREADS'
ok "the instances are bound to the planned CPUs" same \
    "$(sed -n 's/.*"index": \([0-9]*\).*"cpus": "\([^"]*\)".*/\1 \2/p' plan.json)" \
    "$(sort out | cut -d' ' -f1,2)"
job -n 2 --process-placement disabled sh -c 'sed -n "s/^Cpus_allowed_list:\s*//p" /proc/self/status'
ok "--process-placement disabled binds nothing" same "$(sort -u out)" \
    "$(sed -n 's/^Cpus_allowed_list:\s*//p' /proc/self/status)"
job -n $((cpus + 1)) --print-topology true
ok "more instances than cores cause a warning" all 'same $code 0' \
    'has err "warning: host $host: $((cpus + 1)) instances share"' 'has out oversubscribed'
job -n 1 --print-topology=json true
ok "--print-topology=json prints the table before the run" has out '"instances": \['
if [ "$cpus" -ge 2 ]; then
    export HWLOC_THISSYSTEM=1 HWLOC_SYNTHETIC='package:2 [numa] core:1 pu:1'
    job -n 2 sh -c 'echo $RANK $(sed -n "s/^Cpus_allowed_list:\s*//p" /proc/self/status)'
    unset HWLOC_THISSYSTEM HWLOC_SYNTHETIC
    ok "with two NUMA nodes, CPUs are bound" same "$(sort out)" "0 0
1 1"
    if [ -d /sys/devices/system/node/node1 ]; then
        skip "memory of a NUMA node that does not exist causes a warning" "there is a second node"
    else
        ok "memory of a NUMA node that does not exist causes a warning" has err \
            "instance 1 .* memory of NUMA node 1: Invalid argument"
    fi
else
    skip "with two NUMA nodes, CPUs are bound" "one CPU"
    skip "memory of a NUMA node that does not exist causes a warning" "one CPU"
fi

first=$(sed -n 's/^Cpus_allowed_list:\s*\([0-9]*\).*/\1/p' /proc/self/status)
job -n 1 --cpus $first sh -c 'sed -n "s/^Cpus_allowed_list:\s*//p" /proc/self/status; echo $OMP_NUM_THREADS'
ok "--cpus restricts the instances" same "$(tr '\n' ' ' <out)" "$first 1 "
job -n 1 --cpus 8000 true
ok "--cpus rejects CPUs that do not exist" all 'same $code 125' \
    'last_line_has err "host $host: --cpus 8000: CPU 8000 does not exist"'
job -n 1 --reserve-cores 1000 true
ok "--reserve-cores rejects more cores than there are" all 'same $code 125' \
    'has err "--reserve-cores 1000 leaves nothing"'
HWLOC_SYNTHETIC='core:2 pu:1' job -n 1 true
ok "a topology that does not match the machine causes a warning" all 'same $code 0' \
    'has err "warning: host $host: its topology does not match the machine"'
HWLOC_SYNTHETIC='core:2 pu:1' job -n 1 --strict-binding true
ok "--strict-binding rejects a topology that does not match the machine" all \
    'same $code 125' 'last_line_has err "--strict-binding"'
if [ -z "${PLENUM_SANITIZED:-}" ] && command -v strace >/dev/null &&
    strace -f -o /dev/null -e inject=set_mempolicy:error=EPERM true 2>/dev/null; then
    export HWLOC_THISSYSTEM=1 HWLOC_SYNTHETIC='package:2 [numa] core:1 pu:1'
    if [ "$cpus" -ge 2 ]; then
        timeout 300 strace -f -o trace -e trace=set_mempolicy -e inject=set_mempolicy:error=EPERM "$run" -n 2 true >out \
            2>err
        ok "a kernel that refuses to bind memory causes a warning with the reason" all \
            'has err "warning: instance 0 .* memory of NUMA node 0: Operation not permitted (is this a container"' \
            'same "$(grep -c "set_mempolicy(MPOL_BIND, \[0x0*[12]," trace)" 2'
        timeout 300 strace -f -o trace -e trace=set_mempolicy -e inject=set_mempolicy:error=EPERM "$run" -n 2 \
            --strict-binding true >out 2>err
        code=$?
        ok "--strict-binding makes a refused memory binding an error" all 'same $code 125' \
            'last_line_has err "cannot be started: binding to memory (--strict-binding): Operation not permitted"'
        timeout 300 strace -f -o trace -e trace=set_mempolicy -e inject=set_mempolicy:retval=0 "$run" -n 2 \
            --mem-policy preferred true >out 2>err
        ok "--mem-policy preferred sets that policy" same \
            "$(grep -c 'set_mempolicy(\(0x5\|MPOL_PREFERRED\|MPOL_PREFERRED_MANY\)[^,]*, \[0x0*[12],' trace)" 2
    fi
    unset HWLOC_THISSYSTEM HWLOC_SYNTHETIC
else
    skip "a kernel that refuses to bind memory causes a warning with the reason" "no strace here"
fi

# ---- the job's loader ----
export PLENUM_PLENUMD="$stub"
job -n 2 "$stub" ask
ok "both instances use one loader" all 'same $code 0' 'same "$(sort -u out | wc -l)" 1' 'has out "^loader [0-9]"' \
    'has err "stub_loader: started"'
loader=$(sed -n '1s/loader //p' out)
ok "the loader ends with the job" dead $loader
job -n 2 sh -c '[ $RANK = 0 ] || { sleep 0.3; exec "$0" ask; }' "$stub"
ok "the loader does not end with instance 0" all 'same $code 0' 'has out "^loader [0-9]"'
if [ "$cpus" -ge 2 ]; then
    job -n 1 --reserve-cores 1 \
        sh -c 'loader=$("$0" ask) && for p in self ${loader#loader }; do sed -n "s/^Cpus_allowed_list:\s*//p" /proc/$p/status; done' "$stub"
    ok "--reserve-cores gives the loader cores of its own" all 'same $code 0' 'same "$(sort -u out | wc -l)" 2' \
        '! comm -12 <(sed -n 1p out | tr , "\n" | sort) <(sed -n 2p out | tr , "\n" | sort) | grep .'
else
    skip "--reserve-cores gives the loader cores of its own" "one CPU"
fi
job -n 1 --loader none "$stub" ask
ok "--loader none starts no loader" same "$(cat out)" "no loader"
PLENUM_LOADER=unix:/somewhere job -n 1 printenv PLENUM_LOADER
ok "an inherited PLENUM_LOADER is used" same "$(cat out)" unix:/somewhere
PLENUM_PLENUMD=/nonexistent job -n 1 "$stub" ask
ok "if plenumd is missing, the job runs without a loader" all 'same $code 0' 'same "$(cat out)" "no loader"'

# ---- MPI ----
if [ -x "$mpi_sum" ]; then
    if [ "$cpus" -ge 2 ]; then
        # Its processes have the environment of Open MPI's daemon.
        ASAN_OPTIONS=$asan_options_of_mpi job -n 1 "$mpi_sum" spawn
        ok "a program can start another one (MPI_Comm_spawn)" all 'same $code 0' 'has out "from the other: 42"'
    else
        skip "a program can start another one (MPI_Comm_spawn)" "one CPU"
    fi
    job -n 3 -x ASAN_OPTIONS="$asan_options_of_mpi" "$mpi_sum"
    ok "an MPI program has a world of all instances" same "$(sort out)" "rank 0 sum 3
rank 1 sum 3
rank 2 sum 3"
    # Stopped processes do not notice each other's ends, so none of the killed ones cleans up.
    mkdir memory
    OMPI_MCA_btl_vader_backing_directory=$T/memory OMPI_MCA_btl_sm_backing_directory=$T/memory \
        "$run" -n 2 -x ASAN_OPTIONS="$asan_options_of_mpi" "$mpi_sum" wait >out 2>err &
    job=$!
    wait_for eval '[ "$(ls memory | wc -l)" = 2 ]'
    find_parts
    shims=$(for outer in $(pgrep -P $mpirun); do echo $outer; pgrep -P $outer; done)
    kill -STOP $mpirun $shims
    kill -KILL $mpirun $shims
    wait $job
    ok "if mpirun and the shims are killed, the programs' shared memory is removed" all '[ -z "$(ls memory)" ]' \
        'wait_for dead $tree'
    job -n 3 -x ASAN_OPTIONS="$asan_options_of_mpi" "$mpi_sum" abort
    ok "MPI_Abort() ends the job with its code" all 'same $code 9' \
        'last_line_has err "instance 1 on host $host exited with code 9"'
else
    skip "an MPI program has a world of all instances" "built without MPI"
    skip "if mpirun and the shims are killed, the programs' shared memory is removed" "built without MPI"
    skip "MPI_Abort() ends the job with its code" "built without MPI"
fi

finish
