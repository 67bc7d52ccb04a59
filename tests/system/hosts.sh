# SPDX-License-Identifier: MIT
# hosts.sh - creates virtual hosts v1, v2 and so on ($num_hosts of them, 3 by default), or skips the test if that is
# impossible. Source it after lib.sh. The rest of the test runs at the head, in a folder that all hosts share.
run=$top_builddir/plenumrun
vhosts=$top_srcdir/tests/system/vhosts.sh
mpi_sum=$top_builddir/tests/launcher/mpi_sum

if [ "${1:-}" != --at-head ]; then
    [ "$(id -u)" = 0 ] || skip_all "virtual hosts need root"
    for tool in mpirun ssh ssh-keygen /usr/sbin/sshd ip unshare nsenter pgrep; do
        command -v $tool >/dev/null || skip_all "$tool is not installed"
    done
    export VHOSTS_DIR=${VHOSTS_DIR:-$T/v} VHOSTS_NET=${VHOSTS_NET:-10.77.$((100 + $$ % 100))} VHOSTS_SHARE=$top_builddir
    at_end() { "$vhosts" down; }
    "$vhosts" up "${num_hosts:-3}" >"$T/log" 2>&1 || { sed 's/^/# /' "$T/log"; skip_all "virtual hosts cannot be created here"; }
    "$vhosts" head bash "$0" --at-head
    exit
fi

# The name of Open MPI's daemon on other hosts
case $(mpirun --version) in *"(Open MPI) 4."*) daemon=orted ;; *) daemon=prted ;; esac
dir=$VHOSTS_DIR/shared
cd "$dir" || exit 99
# PATH may have a different Open MPI from the one that configure found: PATH=/opt/ompi5/bin:$PATH make check-system.
[ ! -x "$mpi_sum" ] || ! mpicc "$top_srcdir/tests/launcher/mpi_sum.c" -o mpi_sum >log 2>&1 || mpi_sum=$dir/mpi_sum
id=$$ # part of a duration, which identifies this test's sleeping processes
unset PLENUM_LOADER PLENUM_PLENUMD OMP_NUM_THREADS WORLD_SIZE HWLOC_SYNTHETIC HWLOC_XMLFILE HWLOC_THISSYSTEM
unset "${!OMPI_MCA_@}"
export LC_ALL=C

on() { "$vhosts" exec "$@"; }
# job ARGUMENT... - run plenumrun for at most 5 minutes; sets the files out and err, $code (status) and $took (ms)
job() {
    begin=$(date +%s%N)
    timeout -k 5 300 "$run" "$@" >out 2>err
    code=$?
    took=$((($(date +%s%N) - begin) / 1000000))
}
same() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; sed 's/^/standard error: /' err; false; }; }
has() { grep -q -e "$1" err || { echo "no '$1'"; sed 's/^/standard error: /' err; false; }; }
has_not() { ! grep -e "$1" err; }
last_line_has() { tail -n 1 err | grep -q -e "$1" ||
    { echo "no '$1' at the end"; sed 's/^/standard error: /' err; false; }; }
below() { [ "$1" -lt "$2" ] || { echo "$1 ms is not below $2"; false; }; }
all() { for t; do eval "$t" || { echo "does not hold: $t"; return 1; }; done; }

# ---- nothing may be left on any host ----
nothing_runs() { [ -z "$("$vhosts" ps)" ] && ! pgrep -fx "(sleep|yes) 200[0-9]\.$id" >/dev/null; }
files() { # lists Open MPI's files at the head and on all hosts that are up
    for h in $(cat "$VHOSTS_DIR/hosts"); do
        on "$h" sh -c 'ls -A /tmp /dev/shm | grep -e ompi -e prte -e _segment' 2>/dev/null | sed "s/^/$h: /"
    done
    ls -A "$TMPDIR" | grep -e ompi -e prte
    ls /dev/shm | grep _segment.vhead
}
no_files() { [ -z "$(files)" ]; }
nothing_is_left() {
    wait_for nothing_runs || { "$vhosts" ps; return 1; }
    wait_for no_files || { files; return 1; }
}
