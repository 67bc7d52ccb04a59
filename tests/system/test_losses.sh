#!/bin/bash
# SPDX-License-Identifier: MIT
# test_losses.sh - a job loses hosts, instances and its loaders at random, on five virtual hosts, and hosts join it: the
# samples of the whole run, in order, must be those of an undisturbed one, each exactly once. Prints TAP, and what the
# faults cost as a table. Needs root; a fault takes some seconds.
#
# LOSSES_RUNS=N runs (1), each with LOSSES_FAULTS=N faults (8); LOSSES_SEED=N and LOSSES_RUNS=1 repeat one.
# LOSSES_TRACES=FOLDER keeps the traces and the messages of the jobs.
num_hosts=5
. "$top_srcdir/tests/lib.sh"
. "$top_srcdir/tests/system/hosts.sh"
eval "$("$vhosts" env agent)"
plenumctl=$top_builddir/plenumctl
tools=$top_srcdir/tests/system
export PYTHONPATH=$top_srcdir/python PLENUM_LIBRARY=$top_builddir/.libs/libplenum.so
export PLENUM_PLENUMD=$top_builddir/plenumd
exec 3>&1

checkpoints() { find . -regex '\./run\.[0-9]+' -printf '%f %T@\n' | sort; } # changes with each checkpoint
starts() { grep -c '^start ' trace; }
alive() { kill -0 $job 2>/dev/null; }
has_started() { ! alive || [ "$(starts)" -gt "$1" ]; }
has_saved() { ! alive || [ "$(checkpoints)" != "$1" ]; }
list_hosts() { for h in $listed; do echo "$h slots=2"; done >hosts.new; mv hosts.new hosts; }
pick() { # WORD... - one of them
    shift $((RANDOM % $#))
    echo "$1"
}
without() { # HOST WORD... - the words without HOST
    local h=$1 w
    shift
    for w; do [ "$w" = "$h" ] || printf '%s ' "$w"; done
}
is_in() { case " $2 " in *" $1 "*) ;; *) false ;; esac; }
used() { # the hosts of the present start that can be reached; at least one
    for h in $("$plenumctl" job status --json | "$PYTHON" -c '
import json, sys
print(*sorted({instance["host"] for instance in json.load(sys.stdin)["instances"]}))'); do
        is_in "$h" "$crashed $dropped" || echo "$h"
    done
}
return_all() { # let all hosts that are away return
    for h in $crashed; do "$vhosts" boot "$h" 2>/dev/null; done
    for h in $dropped; do "$vhosts" undrop "$h"; done
    for h in $crashed $dropped; do on "$h" sh -c 'rm -rf /tmp/ompi.* /tmp/prte*'; done
    crashed='' dropped=''
}
kill_programs() { on "$1" pkill -KILL -f losses_run.py; }
change_list() { # one host leaves the list or joins it
    h=$(pick v1 v2 v3 v4 v5)
    if is_in "$h" "$listed"; then listed=$(without "$h" $listed); else listed="$listed $h"; fi
    [ -n "${listed// /}" ] || listed=v1
    list_hosts
}
inject() { # KIND HOST - returns whether the job starts again because of it
    case $1 in
    daemon) on "$2" pkill -KILL -x $daemon ;;
    programs) kill_programs "$2" ;;
    instance) on "$2" pkill -KILL --newest -f losses_run.py ;;
    shims) on "$2" pkill -KILL -f 'plenumrun --shim' ;;
    crash) "$vhosts" crash "$2"; crashed="$crashed $2" ;;
    drop) "$vhosts" drop "$2"; dropped="$dropped $2" ;;
    freeze) "$vhosts" freeze "$2" ;;
    loader) on "$2" pkill -KILL -x plenumd; false ;;
    list) change_list; kill_programs "$2" ;;
    return) return_all; kill_programs "$2" ;;
    grow) return_all; listed='v1 v2 v3 v4 v5' && list_hosts; "$plenumctl" job grow >grown 2>&1 ;;
    esac
}
fault() { # a random one
    local h up kind before
    before=$(starts)
    up=$(used)
    [ -n "$up" ] || return 0
    h=$(pick $up)
    kind=$(pick daemon programs instance shims crash drop freeze loader loader list return grow)
    [ "$(echo "$up" | wc -l)" -gt 1 ] || kind=$(pick daemon programs instance loader return grow)
    faults="$faults $kind:$h"
    echo "fault $(date +%s.%N) $kind $h" >>trace
    if inject $kind "$h"; then wait_for has_started "$before"; fi
    [ $kind != freeze ] || "$vhosts" thaw "$h"
}
keep() { # SEED
    [ -z "${LOSSES_TRACES:-}" ] || { cp trace "$LOSSES_TRACES/$1.trace"; cp err "$LOSSES_TRACES/$1.err"; }
    cp trace "trace.$1"
}
random_run() { # SEED
    local n saved
    RANDOM=$1 listed='v1 v2 v3' crashed='' dropped='' faults=''
    rm -f run.* result enough trace
    : >trace
    list_hosts
    "$run" --hostfile hosts --min-hosts 1 --replicas-per-host 2 --max-restarts 1000 --max-host-failures 1000 \
        --wait-hosts 5m --progress-file run --heartbeat-timeout 3 --grace 1 --start-timeout 60 \
        "$PYTHON" "$tools/losses_run.py" "$dir/data" run trace 0.05 >out 2>err &
    job=$!
    for ((n = 0; n < ${LOSSES_FAULTS:-8}; n++)); do
        saved=$(checkpoints)
        wait_for has_saved "$saved"
        alive || break
        fault
    done
    return_all
    saved=$(checkpoints)
    wait_for has_saved "$saved"
    : >enough
    wait $job
    code=$?
    keep "$1"
    for h in v1 v2 v3 v4 v5; do
        on $h sh -c 'rm -rf /tmp/ompi.* /tmp/prte*' # what killed shims leave
        # On a virtual host, the guard at the head can kill frozen shims; a real one is out of its reach.
        case $faults in *" freeze:$h"*) on $h sh -c 'rm -f /dev/shm/*_segment.*' ;; esac
    done
    echo "# seed $1:$faults; $(starts) starts, $(grep -c '^step ' trace) steps" >&3
    all 'same $code 0' '"$PYTHON" "$tools/losses_check.py" "$plenumctl" "$dir/data"' nothing_is_left
}

seed=${LOSSES_SEED:-$((1 + $(date +%s) % 30000))}
mpi=$top_builddir/.libs/libplenum-mpi.so
if [ "$PYTHON" = : ] || ! "$PYTHON" -c 'import numpy' 2>/dev/null || [ ! -e "$mpi" ]; then
    skip "random losses and joins" "Python, NumPy or libplenum-mpi is missing"
else
    "$plenumctl" make-sample data --images 60 --size 48 >/dev/null 2>&1
    for ((i = 0; i < ${LOSSES_RUNS:-1}; i++)); do
        ok "hosts are lost and join at random (LOSSES_SEED=$((seed + i))): each sample is shown once, in order" \
            random_run $((seed + i))
    done
    "$PYTHON" "$tools/losses_table.py" trace.* | sed 's/^/# /'
fi
finish
