#!/bin/bash
# SPDX-License-Identifier: MIT
# test_slurm.sh - tests plenumrun in allocations of a real Slurm: slurmctld, and munged and slurmd on each of three
# virtual hosts, with their own settings, keys and state. Prints TAP. Needs root, slurm-wlm and munge.
. "$top_srcdir/tests/lib.sh"
run=$top_builddir/plenumrun
vhosts=$top_srcdir/tests/system/vhosts.sh
mpi_sum=$top_builddir/tests/launcher/mpi_sum
PATH=$PATH:/usr/sbin

[ "$(id -u)" = 0 ] || skip_all "virtual hosts need root"
for tool in mpirun slurmctld slurmd munged salloc ip unshare nsenter pgrep; do
    command -v $tool >/dev/null || skip_all "$tool is not installed"
done
export VHOSTS_DIR=${VHOSTS_DIR:-$T/v} VHOSTS_NET=${VHOSTS_NET:-10.77.$((100 + $$ % 100))} VHOSTS_SHARE=$top_builddir
D=$VHOSTS_DIR
at_end() { "$vhosts" down; }
"$vhosts" up 3 >"$T/log" 2>&1 || { sed 's/^/# /' "$T/log"; skip_all "virtual hosts cannot be created here"; }
on() { "$vhosts" exec "$@"; }

dd if=/dev/urandom of="$D/etc/munge.key" bs=128 count=1 status=none
chmod 400 "$D/etc/munge.key"
cat >"$D/etc/slurm.conf" <<END
ClusterName=vhosts
SlurmctldHost=v1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=/run/munge.socket
StateSaveLocation=/run/slurm/ctld
SlurmdSpoolDir=/run/slurm/d
SlurmctldPidFile=/run/slurm/ctld.pid
SlurmdPidFile=/run/slurm/d.pid
SlurmctldLogFile=$D/log/slurmctld
SlurmdLogFile=$D/log/slurmd.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=10
KillWait=2
InactiveLimit=0
NodeName=v[1-3] CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
export SLURM_CONF=$D/etc/slurm.conf
for h in v1 v2 v3; do
    on $h sh -c 'mkdir -p /run/slurm/ctld /run/slurm/d /run/munge && umask 022 &&
        munged --force --socket=/run/munge.socket --key-file="$0/etc/munge.key" --pid-file=/run/munge/pid \
            --seed-file=/run/munge/seed --log-file=/run/munge/log --num-threads=2 &&
        { [ $1 != v1 ] || slurmctld -c; } && slurmd -N $1' "$D" $h >"$D/log/slurm.$h" 2>&1 || cat "$D/log/slurm.$h"
done
idle() { [ "$(on v1 sinfo -h -t idle -o %D)" = 3 ]; }
wait_for idle || { tail -n 5 "$D"/log/slurm* | sed 's/^/# /'; skip_all "Slurm does not start here"; }

cd "$D/shared" || exit 99
unset PLENUM_LOADER PLENUM_PLENUMD OMP_NUM_THREADS WORLD_SIZE HWLOC_SYNTHETIC HWLOC_XMLFILE HWLOC_THISSYSTEM
unset "${!OMPI_MCA_@}"
export LC_ALL=C
same() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; sed 's/^/standard error: /' err; false; }; }
has() { grep -q -e "$1" err || { echo "no '$1'"; sed 's/^/standard error: /' err; false; }; }
all() { for t; do eval "$t" || { echo "does not hold: $t"; return 1; }; done; }
# in_slurm COMMAND... - run the command on v1 for at most 5 minutes; sets the files out and err, and $code
in_slurm() {
    timeout -k 5 300 "$vhosts" exec v1 env PATH="$PATH" "$@" >out 2>err
    code=$?
}
no_step() { [ -z "$(on v1 squeue -h)" ] && ! pgrep -x "orted|prted" >/dev/null; }

in_slurm salloc -N2 "$run" sh -c 'echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $(hostname)'
ok "salloc -N2 starts one instance on each host" same "$(sort out)" "0/2 0/1 v1
1/2 0/1 v2"
in_slurm salloc -N3 -n5 "$run" sh -c 'echo $RANK $LOCAL_RANK/$LOCAL_WORLD_SIZE $(hostname)'
ok "salloc -N3 -n5 starts one instance per task" same "$(sort out)" "0 0/2 v1
1 1/2 v1
2 0/2 v2
3 1/2 v2
4 0/1 v3"
in_slurm salloc -N2 --ntasks-per-node=2 "$run" -n 2 sh -c 'echo $RANK $(hostname)'
ok "-n 2 with four slots starts one instance on each host" same "$(sort out)" "0 v1
1 v2"
in_slurm salloc -N2 --ntasks-per-node=1 "$run" -n 4 true
ok "more instances than slots are rejected" all 'same $code 2' 'has "have 2 slots: raise them (--host v1:3)"'
in_slurm salloc -N3 "$run" --exclude v1 sh -c 'echo $RANK $(hostname)'
ok "--exclude removes a host of the allocation" same "$(sort out)" "0 v2
1 v3"
in_slurm salloc -N3 "$run" --host v3,v2 sh -c 'echo $RANK $(hostname)'
ok "--host selects hosts of the allocation" same "$(sort out)" "0 v3
1 v2"
if [ -e "$top_builddir/.libs/libplenum-tls.so" ]; then
    export PLENUM_CACHE_DIR=$PWD/cache LD_LIBRARY_PATH=$top_builddir/.libs
    "$top_builddir/plenumctl" make-sample data --classes 2 --images 20 --size 96 >log 2>&1
    want=$("$top_builddir/plenumctl" hash data --epochs 5)
    in_slurm salloc -N3 "$run" --loader none --loader-host v3 sh -c 'echo $(hostname) >>where; exec "$@"' - \
        "$top_builddir/examples/feed" data --epochs 5 --json
    ok "--loader-host starts a loader in a step" all 'same $code 0' 'same "$(sort where)" "v1
v2"' 'grep -q "$want" out' 'wait_for no_step'
else
    skip "--loader-host starts a loader in a step" "built without TLS"
fi
if [ -x "$mpi_sum" ]; then
    in_slurm salloc -N3 --ntasks-per-node=2 "$run" "$mpi_sum"
    ok "MPI works in an allocation" same "$(grep -c 'sum 6' out)" 6
else
    skip "MPI" "built without MPI"
fi
# Without plenumrun and mpirun, Slurm's PMIx wires up MPI, and libplenum's collectives go through it.
world=$top_builddir/tests/libdist/collectives/comm_world
if ! [ -x "$mpi_sum" ] || ! [ -e "$top_builddir/libplenum-mpi.la" ]; then
    skip "srun --mpi=pmix" "built without MPI"
elif ! on v1 srun --mpi=list 2>&1 | grep -q pmix; then
    skip "srun --mpi=pmix" "this Slurm has no plugin for PMIx"
else
    in_slurm srun --mpi=pmix -N3 --ntasks-per-node=2 "$mpi_sum"
    ok "srun --mpi=pmix: MPI works on three hosts" all 'same $code 0' 'same "$(grep -c "sum 6" out)" 6' 'wait_for no_step'
    in_slurm srun --mpi=pmix -N1 -n2 "$world"
    ok "srun --mpi=pmix: libplenum's collectives work" all 'same $code 0' 'wait_for no_step'
fi
in_slurm salloc -N2 "$run" --grace 1 sh -c '[ $RANK = 0 ] || { sleep 0.3; echo reason >&2; exit 9; }; exec sleep 1000'
ok "a failing instance is reported" all 'same $code 9' 'has "^  | reason"' 'has "instance 1 on host v2 exited with code 9"' \
    'wait_for no_step'
in_slurm salloc -N2 srun -N1 -n1 "$run" sh -c 'echo $RANK $(hostname)'
ok "plenumrun works inside a step" same "$(sort out)" "0 v1
1 v2"
# ---- where plenumrun can be started: each line has an allocation, what starts plenumrun in it, options for its hosts,
# and where the instances must run ----
what='echo $RANK $(hostname)'
while IFS='|' read -r allocation by options want <&9; do
    in_slurm salloc $allocation $by "$run" $options sh -c "$what"
    ok "salloc $allocation $by plenumrun $options: runs instances on $want" all 'same $code 0' 'same "$(sort out | tr "\n" " ")" "$want "' \
        'wait_for no_step'
    [ -x "$mpi_sum" ] || continue
    in_slurm salloc $allocation $by "$run" $options "$mpi_sum"
    ok "salloc $allocation $by plenumrun $options: MPI works" all 'same $code 0' 'same "$(grep -c "sum $(wc -w <<<"$want" | awk "{print \$1 / 2}")" out)" \
        "$(($(wc -w <<<"$want") / 2))"' 'wait_for no_step'
done 9<<END
-N1|||0 v1
-N1 -n2|||0 v1 1 v1
-N1 -n1|srun -n1||0 v1
-N1 -n2|srun -n1||0 v1
-N1 -n2|srun -n1|-n 2|0 v1 1 v1
-N1 -n2|srun -n1 --overlap|-n 2|0 v1 1 v1
-N1 -n2|srun -n1 --pty|-n 2|0 v1 1 v1
-N2|srun -N1 -n1||0 v1 1 v2
-N2|srun -N1 -n1 --overlap||0 v1 1 v2
-N2 -n4|srun -N1 -n1 --overlap|-n 2 --host v1|0 v1 1 v1
-N2 -n4|srun -N1 -n1 --overlap|--host v2|0 v2
-N2 -n4|srun -N1 -n1 --overlap|-n 2 --host v2:2|0 v2 1 v2
-N2|srun -N1 -n1 -w v2||0 v1 1 v2
-N2|srun -N1 -n1 -w v2|--host v1|0 v1
-N3|srun -N1 -n1|--host v1,v3|0 v1 1 v3
-N3|srun -N1 -n1|--exclude v2,v3|0 v1
END
while IFS='|' read -r step options want <&9; do
    in_slurm srun $step "$run" $options sh -c "$what"
    ok "srun $step plenumrun $options" all 'same $code 0' 'same "$(sort out | tr "\n" " ")" "$want "'
done 9<<END
-N1 -n1||0 v1
-N1 -n1|-n 2|0 v1 1 v1
-N1 -n1 -c2|-n 2|0 v1 1 v1
END
in_slurm salloc -N1 -n2 srun -n2 "$run" true
ok "srun -n2 plenumrun is rejected" all '[ $code != 0 ]' 'has "srun has started plenumrun 2 times"'
for line in '-N1 -n2|||0 v1 1 v1' '-N1 -n2|srun -n1|-n 2|0 v1 1 v1' '-N2|srun -N1 -n1 --overlap||0 v1 1 v2'; do
    IFS='|' read -r size by options want <<<"$line"
    printf '#!/bin/sh\nexec %s "%s" %s sh -c '"'%s'"'\n' "$by" "$run" "$options" "$what" >script
    in_slurm sbatch -W $size -o "$PWD/batch" script
    ok "sbatch $size: $by plenumrun $options" all 'same "$(sort batch | tr "\n" " ")" "$want "'
done

# ---- variables that a site or another job has left in the environment ----
in_slurm salloc -N2 env SLURM_EXPORT_ENV=NONE "$run" sh -c "$what"
ok "SLURM_EXPORT_ENV=NONE does no harm" all 'same $code 0' 'same "$(sort out | tr "\n" " ")" "0 v1 1 v2 "'
in_slurm salloc -N2 env SLURM_MEM_PER_CPU=10 SLURM_MEM_PER_NODE=20 "$run" sh -c "$what"
ok "contradictory memory variables do no harm" all 'same $code 0' 'same "$(sort out | tr "\n" " ")" "0 v1 1 v2 "'
in_slurm env SLURM_JOB_ID=99999 SLURM_JOBID=99999 SLURM_JOB_NODELIST=v1 SLURM_NODELIST=v1 SLURM_NNODES=1 \
    SLURM_JOB_NUM_NODES=1 SLURM_TASKS_PER_NODE=1 "$run" -n 2 --host v1 sh -c "$what"
ok "variables of an ended job do no harm on this host" all 'same $code 0' 'same "$(sort out | tr "\n" " ")" "0 v1 1 v1 "'
in_slurm env SLURM_JOB_ID=99999 SLURM_JOBID=99999 SLURM_JOB_NODELIST='v[1-2]' SLURM_NODELIST='v[1-2]' SLURM_NNODES=2 \
    SLURM_JOB_NUM_NODES=2 SLURM_TASKS_PER_NODE='1(x2)' "$run" true
ok "variables of an ended job with several hosts: srun's own message is shown" all 'same $code 125' 'has "  | srun: error: .*Invalid job id"'

# ---- nodes on which Open MPI's daemon cannot run ----
case $(mpirun --version) in *"(Open MPI) 4."*) daemon=orted ;; *) daemon=prted ;; esac
daemon=$(readlink -f "$(command -v $daemon)")
library=$(ldd "$daemon" | awk '/lib(open-rte|prrte)\./ { print $3 }')
plugins=$(dirname "$(readlink -f "$library")")/openmpi
last_line_has() { grep -v ^salloc: err | tail -n 1 | grep -q -e "$1" || { echo "no '$1' at the end"; sed 's/^/standard error: /' err; false; }; }
hide() { on v2 mount -n --bind "$1" "$2"; } # WITH FILE: v2 sees WITH in place of FILE
unhide() { on v2 umount -n "$1"; }
mkdir -p empty
hide /dev/null "$daemon"
for hosts in 2 3; do
    in_slurm salloc -N$hosts "$run" true
    ok "a daemon that cannot be executed on one of $hosts hosts is reported" all 'same $code 125' 'wait_for no_step' \
        'last_line_has "error: Open MPI.s daemon cannot be executed on host v2 (.*: Permission denied): install the same Open MPI"'
done
unhide "$daemon"
hide /dev/null "$(readlink -f "$library")"
in_slurm salloc -N3 "$run" true
ok "a daemon without its library is reported" all 'same $code 125' 'wait_for no_step' \
    'last_line_has "error: Open MPI.s daemon cannot be executed on host v2 (.*error while loading shared libraries: "'
unhide "$(readlink -f "$library")"
if [ -d "$plugins" ]; then
    hide "$PWD/empty" "$plugins"
    in_slurm salloc -N3 "$run" true
    ok "a daemon without its plugins is reported" all 'same $code 125' 'wait_for no_step' \
        'last_line_has "error: Open MPI.s daemon on host v2 ended before it connected to mpirun (srun: Exited with exit code "'
    unhide "$plugins"
else
    skip "a daemon without its plugins" "$daemon has none"
fi
in_slurm salloc -N3 "$run" --exclude v2 --mpi-global-args --leave-session-attached sh -c "$what"
ok "a job that excludes the host without the daemon works" all 'same $code 0' 'same "$(sort out | tr "\n" " ")" "0 v1 1 v3 "'
in_slurm salloc -N1 -n1 : -N2 -n2 "$run" true
ok "a heterogeneous job is rejected" all 'same $code 2' 'has "SLURM_HET_SIZE=2) with the hosts v1 and v\[2-3\]"'
in_slurm salloc -N1 -n1 : -N2 -n2 "$run" --host v1:2 sh -c "$what"
ok "in a heterogeneous job, --host can select this host" all 'same $code 0' 'same "$(sort out | tr "\n" " ")" "0 v1 1 v1 "'

cat >script <<END
#!/bin/sh
#SBATCH -N3 --ntasks-per-node=2 -o $PWD/batch
exec "$run" --tag-output=%i: hostname
END
in_slurm sbatch -W script
ok "sbatch starts a job" same "$(sort batch)" "0: v1
1: v1
2: v2
3: v2
4: v3
5: v3"
cat >script <<END
#!/bin/sh
#SBATCH -N3 -o $PWD/batch
exec "$run" --grace 1 sh -c 'trap "" TERM; echo up; sleep 1000; sleep 1000'
END
in_slurm sbatch script
number=$(sed -n 's/Submitted batch job //p' out)
three_up() { [ "$(grep -c up batch)" = 3 ]; }
wait_for three_up
on v1 scancel "$number"
gone() { no_step && ! pgrep -fx 'sleep 1000' >/dev/null; }
ok "scancel leaves nothing" wait_for gone
cat >script <<END
#!/bin/sh
#SBATCH -N3 -o $PWD/batch
exec "$run" sh -c 'trap "echo got >>got.\$RANK" USR1; : >up.\$RANK; until [ -e go ]; do sleep 0.1; done 2>/dev/null; echo end'
END
in_slurm sbatch script
number=$(sed -n 's/Submitted batch job //p' out)
wait_for test -e up.0 -a -e up.1 -a -e up.2
on v1 scancel -s USR1 "$number"
ok "scancel -s USR1 reaches the programs of the other hosts" wait_for test -e got.1 -a -e got.2
on v1 scancel -f -s USR1 "$number"
wait_for test -e got.0
: >go
wait_for no_step
ok "scancel -f -s USR1 reaches the program of this host, too, and the job continues" all '[ -e got.0 ]' 'same "$(sort -u batch)" end'
# ---- which share of the samples a process gets ----
if [ "$PYTHON" != : ] && "$PYTHON" -c 'import numpy' 2>/dev/null; then
    timeout -k 5 300 "$vhosts" exec v1 env PATH="$PATH" PLENUM_TEST_SRUN=1 salloc -N1 -n2 \
        "$PYTHON" "$top_srcdir/tests/python/test_launchers.py" >out 2>err
    ok "launchers within launchers work with a real srun" all '! grep "^not ok" out' 'grep -q "^ok.*a real srun" out' \
        'same "$(grep "^#" out)" ""' 'wait_for no_step'
else
    skip "launchers within launchers, with a real srun" "NumPy is not installed for $PYTHON"
fi
in_slurm env SLURM_JOB_NODELIST='v[1-' "$run" true
ok "a malformed SLURM_JOB_NODELIST is rejected" all 'same $code 2' 'has "SLURM_JOB_NODELIST"'

finish
