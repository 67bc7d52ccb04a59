#!/bin/sh
# Collectives: comm_world.c in worlds of several sizes, and where there is no world.
. "$top_srcdir/tests/lib.sh"
command -v mpirun >/dev/null || skip_all "mpirun is not installed"
world=$top_builddir/tests/libdist/comm_world
export ASAN_OPTIONS=$asan_options_of_mpi

ok "all collectives, 1 instance, no launcher" "$world"
for n in 2 3 4; do
    ok "all collectives, $n instances" mpi -n $n "$world"
done
ok "a program that uses MPI itself" mpi -n 2 "$world" own-mpi
ok "a program that does not close its job" mpi -n 2 "$world" forgetful
for level in single thread; do
    ok "a program that initialised MPI with too low a thread level ($level) is refused" mpi -n 2 "$world" $level
done
timed_out() { # ARGUMENT... - do both others name the one that stays away?
    mpi -n 3 "$world" "$@" >"$T/late" 2>"$T/late.err"
    [ "$(grep -c "timed out" "$T/late")" = 2 ] || { cat "$T/late.err"; return 1; }
}
ok "notices to one that is late are received" mpi -n 3 "$world" straggler
ok "an instance that does not come is named by both others when the time is up" timed_out late
ok "so it is in a small broadcast" timed_out away 100
ok "so it is in a large one" timed_out away 3000000
if grep -q "define HAVE_PMIX" "$top_builddir/config.h"; then
    ok "so is one that never came to any collective" timed_out never
else
    skip "so is one that never came to any collective" "built without PMIx"
fi

torch() { RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 "$@"; }
ok "under torchrun a collective is refused, not done alone" torch status 3 "$world"
torch "$world" 2>"$T/err"
ok "and the sentence says what to do" grep -q "torch.distributed" "$T/err"
slurm() {
    SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=0 SLURM_NODEID=0 \
        SLURM_STEP_TASKS_PER_NODE=2 "$@"
}
ok "a world of another size than the job is refused" slurm status 3 "$world"
slurm "$world" 2>"$T/err"
ok "and the sentence says both" grep -q "instance 0 of 2 of its job, but rank 0 of 1" "$T/err"

if [ -n "${PLENUM_SANITIZED:-}" ]; then
    skip "2 GiB and one byte broadcast arrive" "not under a sanitizer"
elif [ "$(awk '/MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)" -lt 7 ]; then
    skip "2 GiB and one byte broadcast arrive" "less than 7 GiB of memory is free"
else
    ok "2 GiB and one byte broadcast arrive" mpi -n 2 "$world" big
fi
finish
