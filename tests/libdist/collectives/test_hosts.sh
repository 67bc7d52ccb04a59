#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs the checks of collectives, comm_world.c, in jobs of plenumrun --collectives tcp on two and three hosts. These are
# all this machine: scripts replace ssh and mpirun. Nothing but TCP connects the hosts. Prints TAP.
. "$top_srcdir/tests/lib.sh"
run=$top_builddir/plenumrun world=$top_builddir/tests/libdist/collectives/comm_world
command -v timeout >/dev/null || skip_all "timeout is not installed"
[ -e "$top_builddir/libplenum-tls.la" ] || skip_all "Plenum was built without TLS"
ip -o addr show up scope global 2>/dev/null | grep -q inet || skip_all "this machine has no address that hosts could use"
export LC_ALL=C ASAN_OPTIONS=$asan_options_of_mpi

here=$(cd "$top_srcdir/tests/launcher/hosts_here" && pwd)
export OMPI_MCA_plm_rsh_agent=$here/agent PATH=$here:$PATH SHIM=$run

# on "COUNT..." ARGUMENT... - run a job with these numbers of instances on hosts h1, h2 ...
on() {
    local hosts="" size=0 count
    export COUNTS=$1 WORLD_HOSTS=0
    shift
    for count in $COUNTS; do
        WORLD_HOSTS=$((WORLD_HOSTS + 1)) size=$((size + count))
        hosts=$hosts${hosts:+,}h$WORLD_HOSTS:$count
    done
    timeout -k 5 300 "$run" --allow-run-as-root --loader none --grace 1 --host "$hosts" -n "$size" -x WORLD_HOSTS \
        -x ASAN_OPTIONS --collectives tcp "$@"
}
carriers() { on "$1" "$world" carrier | sort -u; }

is memory "collectives use memory on each host" carriers "2 2"
for counts in "1 1" "2 2" "3 1" "1 2 1"; do
    ok "all collectives on hosts with $counts instances" on "$counts" "$world"
done
for counts in "2 1" "1 2" "1 1 1"; do
    for what in ends silent leaves; do
        ok "on hosts with $counts, an instance that has ended ($what) is named at once" on "$counts" "$world" $what
    done
    ok "on hosts with $counts, no sum is wrong if one instance makes one call fewer" on "$counts" "$world" uneven
    ok "on hosts with $counts, an instance that calls a different collective gets an error, and all can continue" \
        on "$counts" "$world" differ
done
ok "on two hosts, NaN in any instance gives NaN in all instances" on "2 1" "$world" nan

# The upper half of the range is for programs.
ports() {
    on "2 1" --port-range 21000-21999 sh -c 'echo "hosts $PLENUM_COLLECTIVES_HOSTS" && exec "$0"' "$world" >"$T/ports" &&
        grep -o '^hosts .*' "$T/ports" | grep -o ':[0-9]*\(;\|$\)' |
        awk '{ p = substr($0, 2) + 0; n++; if (p < 21500 || p > 21999) bad++ } END { print n, bad + 0 }'
}
is "6 0" "programs listen on ports of --port-range" ports
none() { on "5 4" --port-range 22000-22015 true 2>&1 | grep "no port on host .* is free .*: give a larger --port-range"; }
ok "a --port-range with fewer ports than instances is refused" none
ok "a script can run several programs in turn" on "2 1" sh -c '"$0" program 3 && "$0" program 100 && "$0"' "$world"
finish
