#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the checks of collectives, comm_world.c, in worlds of several sizes, over MPI and over memory shared by instances
# on one host, and without a world.
. "$top_srcdir/tests/lib.sh"
world=$top_builddir/tests/libdist/collectives/comm_world
export ASAN_OPTIONS=$asan_options_of_mpi
[ -e "$top_builddir/libplenum-mpi.la" ] && command -v mpirun >/dev/null && have_mpi=yes || have_mpi=
export MARKS=$T/marks

timed_out() { # WAY ARGUMENT... - do both other instances name the missing one?
    way=$1
    shift
    rm -rf "$MARKS" && mkdir "$MARKS" || return 1
    $way -n 3 "$world" "$@" >"$T/late" 2>"$T/late.err"
    [ "$(grep -c "timed out" "$T/late")" = 2 ] || { cat "$T/late.err"; return 1; }
}
all_of() { # WAY HOW
    for n in 2 3 4; do
        ok "all collectives $2, $n instances" $1 -n $n "$world"
    done
    ok "a program that does not close its job ends normally" $1 -n 2 "$world" forgetful
    ok "an instance that does not call a collective is named by the others after the time limit" timed_out $1 late
    ok "an instance missing from a small broadcast is named" timed_out $1 away 100
    ok "an instance missing from a large broadcast is named" timed_out $1 away 3000000
}
big() { # WAY HOW
    if [ -n "${PLENUM_SANITIZED:-}" ]; then
        skip "a broadcast of 2 GiB and one byte arrives $2" "not under a sanitizer"
    elif [ "$(awk '/MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)" -lt 7 ]; then
        skip "a broadcast of 2 GiB and one byte arrives $2" "less than 7 GiB of memory is free"
    else
        ok "a broadcast of 2 GiB and one byte arrives $2" $1 -n 2 "$world" big
    fi
}

ok "all collectives, 1 instance, no launcher" "$world"
# Over MPI and over memory: an instance that is out of step gets an error, never wrong data.
in_step() { # WAY HOW
    for what in ends silent leaves; do
        ok "an instance that has ended ($what) is named at once $2" $1 -n 3 "$world" $what
    done
    ok "no sum is wrong if one instance makes one call fewer $2" $1 -n 3 "$world" uneven
    ok "an instance that calls a different collective gets an error $2, and all can continue" $1 -n 3 "$world" differ
    ok "NaN in any instance gives NaN in all instances $2" $1 -n 3 "$world" nan
}
there() {
    timeout 300 "$top_builddir/plenumrun" --starter mpirun -x ASAN_OPTIONS --loader none --grace 1 "$@"
}
both() { # programs are started by mpirun, and have MPI, but their collectives use memory
    timeout 300 "$top_builddir/plenumrun" -x ASAN_OPTIONS --loader none --grace 1 "$@"
}
carriers() { # WAY - what carries the collectives of two instances
    $1 -n 2 "$world" carrier | sort -u | tr '\n' ' '
}
if [ -n "$have_mpi" ]; then
    all_of mpi "by MPI"
    in_step there "by MPI"
    ok "an instance that ends in MPI_Finalize() is named at once" there -n 3 "$world" finalizes
    ok "also if it waits for memory" both -n 3 "$world" finalizes
    ok "collectives use memory on one host, even if mpirun starts the instances" \
        [ "$(carriers both)" = "memory " ]
    ok "collectives use MPI with --starter mpirun" [ "$(carriers there)" = "MPI " ]
    in_step both "by memory, under mpirun"
    there -n 3 "$world" improper 2>"$T/err"
    is 125 "a job that uses only MPI is ended if an instance leaves without MPI_Finalize()" echo $?
    ok "the message names the instance" grep -q "instance 2 on host .* ended with status 0 while others were in MPI" \
        "$T/err"
    ok "a program that uses MPI itself works" mpi -n 2 "$world" own-mpi
    for level in single thread; do
        ok "an MPI thread level that is too low ($level) is rejected" mpi -n 2 "$world" $level
    done
    ok "an instance that enters a collective late receives the others' notices" mpi -n 3 "$world" straggler
    if grep -q "define HAVE_PMIX" "$top_builddir/config.h"; then
        ok "an instance that has called no collective is named" timed_out mpi never
    else
        skip "an instance that has called no collective is named" "built without PMIx"
    fi
    big mpi "by MPI"
else
    skip "all collectives by MPI" "there is no mpirun, or Plenum was built without MPI"
fi

# Like plenumrun without mpirun.
here() {
    (hide_mpirun && timeout 300 "$top_builddir/plenumrun" --grace 1 "$@")
    status=$?
    rm -rf "$T/programs"
    return $status
}
all_of here "by memory"
ok "an instance that has called no collective is named" timed_out here never
in_step here "by memory"
ok "a script can run several programs in turn" here -n 3 sh -c '"$0" program 3 && "$0" program 100 && "$0"' \
    "$world"
rm -rf "$MARKS" && mkdir "$MARKS" || exit 99
ok "two programs cannot be the same instance at once" here -n 2 sh -c \
    '"$0" program 1 || exit 1
    "$0" holds &
    until [ -e "$MARKS/1$RANK" ]; do sleep 0.02; done
    "$0" 2>&1 | grep -q "is already using the collectives of instance"
    status=$?
    : >"$MARKS/2$RANK"
    wait
    exit $status' "$world"
big here "by memory"

torch() { RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 "$@"; }
ok "under torchrun, a collective is rejected" torch status 3 "$world"
torch "$world" 2>"$T/err"
ok "the message names torch.distributed" grep -q "torch.distributed" "$T/err"
slurm() {
    SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=0 SLURM_NODEID=0 \
        SLURM_STEP_TASKS_PER_NODE=2 "$@"
}
if [ -n "$have_mpi" ]; then
    ok "an MPI world and a job of different sizes are rejected" slurm status 3 "$world"
    slurm "$world" 2>"$T/err"
    ok "the message gives both sizes" grep -q "instance 0 of 2 of its job, but rank 0 of 1" "$T/err"
fi
finish
