#!/bin/bash
# SPDX-License-Identifier: MIT
# test_early.sh - on one host, an instance's program starts when its shim has connected, and waits for no other. A
# script replaces mpirun: it starts each shim only when the test lets it. Prints TAP.
. "$top_srcdir/tests/lib.sh"
run=$top_builddir/plenumrun
command -v timeout >/dev/null || skip_all "timeout is not installed"
unset PLENUM_LOADER PLENUM_PLENUMD TMPDIR
export LC_ALL=C
cd "$T" || exit 99

cat >agent <<'END'
#!/bin/bash
shift
exec bash -c "$*"
END
mkdir bin
cat >bin/mpirun <<'END'
#!/bin/bash
[ "$1" != --version ] || { echo "mpirun (Open MPI) 4.1.4"; exit; }
until [ "$1" = -n ]; do shift; done
for i in $order; do
    until [ -e "may.$i" ]; do sleep 0.02; done
    OMPI_COMM_WORLD_RANK=$i OMPI_COMM_WORLD_LOCAL_RANK=$i OMPI_COMM_WORLD_SIZE=$2 OMPI_COMM_WORLD_LOCAL_SIZE=$2 \
        "$run" --shim &
done
wait
END
chmod +x agent bin/mpirun
export run order OMPI_MCA_plm_rsh_agent=$T/agent PATH=$T/bin:$PATH
ended() { ! kill -0 $job 2>/dev/null; }
at_end() { ended || kill $job; }
same() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; false; }; }
has() { grep -q -e "$1" err || { echo "no '$1'"; false; }; }
all() { # all "TEST" "TEST"... - each holds; otherwise prints the failing ones and plenumrun's output
    for t; do eval "$t" || { echo "does not hold: $t"; ls; sed 's/^/standard error: /' err; return 1; }; done
}
start() { # OPTION... PROGRAM... - start a job of three instances in the background; $order: of the shims
    rm -f may.* ran.*
    "$run" --allow-run-as-root --loader none -n 3 -v "$@" >out 2>err &
    job=$!
}
none_starts() { ! grep 'planned, was' err; } # plans are sent in the same turn in which the shim is heard
connected() { [ "$(grep -c "instance $1 has connected" err)" = 1 ]; }
ends() {
    wait $job
    code=$?
}
program='echo $MASTER_PORT >new.$RANK && mv new.$RANK ran.$RANK; until [ -e may.end ]; do sleep 0.02; done'

order='0 1 2' start sh -c "$program"
touch may.0
ok "the program of an instance starts before other shims do" wait_for [ -e ran.0 ]
touch may.1
ok "... and so does the next one" wait_for [ -e ran.1 ]
touch may.end may.2
ends
ok "... and the job ends as usual" all 'same $code 0' '[ -e ran.2 ]' 'same "$(cat ran.1 ran.2)" "$(cat ran.0 ran.0)"'

order='2 1 0' start -vv sh -c "$program"
touch may.2 may.1
wait_for connected 2 && wait_for connected 1
ok "before instance 0 has connected, its port is unknown, and no program starts" none_starts
touch may.0 may.end
ends
ok "... but then all do" all 'same $code 0' 'same "$(cat ran.1 ran.2)" "$(cat ran.0 ran.0)"' '[ "$(cat ran.0)" -gt 0 ]'

order='0 1 2' start sh -c 'echo here >ran.$RANK; exit 7'
touch may.0
ends
ok "a failure ends the job while shims are missing" all 'same $code 7' '[ ! -e ran.1 ]' \
    'has "instance 0 on host .* exited with code 7"'

order='0 1 2' start sh -c 'echo here >ran.$RANK; [ $RANK = 0 ] || until [ -e may.end ]; do sleep 0.02; done'
touch may.0
wait_for [ -e ran.0 ]
touch may.1 may.2
wait_for [ -e ran.1 ] && wait_for [ -e ran.2 ]
ok "a program can end before the last shim connects" all '! ended'
touch may.end
ends
ok "... and the others are not disturbed" same $code 0

order='0 1 2' start --progress-timeout 10m -vv sh -c "$program"
touch may.0
wait_for connected 0
touch may.1
wait_for connected 1
ok "with --progress-timeout, no program waits for a late one" none_starts
touch may.2 may.end
ends
ok "... so all start together" all 'same $code 0' '[ -e ran.2 ]'

order='0 1 2' start --host here-a,here-b,here-c --no-host-check -vv sh -c "$program"
touch may.0 may.1
wait_for connected 1
ok "on several hosts, no program starts before all shims have connected" none_starts
touch may.2 may.end
ends
ok "... and then all do" all 'same $code 0' '[ -e ran.2 ]'
finish
