# SPDX-License-Identifier: MIT
# lib.sh - prints TAP for shell tests: source it, call ok and is, and end with finish.
#
#     ok "a sentence that must be true" command...
#     is "what it must print" "a sentence" command...
#     skip_all "why nothing can be tested here"
#
# The output of a failing command is shown. Every test script gets its own folder, $T, which is removed at the end.
set -u
: "${top_srcdir:?run this by make check}" "${top_builddir:?run this by make check}"
tap_count=0 tap_failed=0
T=$(mktemp -d "${TMPDIR:-/tmp}/plenum-test-XXXXXX")
export PLENUM_CACHE_DIR=$T/cache
at_end() { :; }
trap 'at_end; rm -rf "$T"' EXIT
trap 'exit 99' INT TERM

result() { # STATUS SENTENCE [FILE of explanation]
    tap_count=$((tap_count + 1))
    if [ "$1" = 0 ]; then
        echo "ok $tap_count - $2"
    else
        tap_failed=$((tap_failed + 1))
        echo "not ok $tap_count - $2"
        [ -z "${3:-}" ] || head -n 60 "$3" | sed 's/^/#   /'
    fi
}

ok() {
    local sentence=$1 status=0
    shift
    "$@" >"$T/.out" 2>&1 || status=$?
    [ $status = 0 ] || echo "status $status of: $*" >>"$T/.out"
    result $status "$sentence" "$T/.out"
}

is() {
    local want=$1 sentence=$2 got
    shift 2
    got=$("$@" 2>"$T/.err")
    if [ "$got" = "$want" ]; then
        result 0 "$sentence"
    else
        { echo "wanted: $want"; echo "got:    $got"; echo "by:     $*"; cat "$T/.err"; } >"$T/.out"
        result 1 "$sentence" "$T/.out"
    fi
}

# status N COMMAND...: succeeds if the command exits with this status
status() {
    local want=$1 got=0
    shift
    "$@" || got=$?
    [ "$got" = "$want" ] || { echo "wanted status $want, got $got"; return 1; }
}

skip() { # SENTENCE WHY
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}

finish() {
    echo "1..$tap_count"
    exit 0
}

# wait_for COMMAND...: retry the command until it succeeds, for at most five minutes
wait_for() {
    local end=$((SECONDS + 300))
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.02
    done
}

# Remove mpirun from PATH: plenumrun then starts instances on this host itself.
hide_mpirun() {
    local dir IFS=:
    mkdir "$T/programs"
    for dir in $PATH; do
        ln -s -t "$T/programs" "$dir"/* 2>/dev/null
    done
    rm -f "$T/programs/mpirun"
    PATH=$T/programs
}

# Programs that use MPI leave many allocations behind, in components that have been unloaded by the time leaks are
# checked.
asan_options_of_mpi=${ASAN_OPTIONS:-}:detect_leaks=0

# Keep Open MPI on this host: allow it to run as root and with more ranks than cores, and use no network fabric.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpi() {
    local daemons=""
    # newer versions find lo by themselves
    case $(mpirun --version) in *"(Open MPI) 4."*) daemons="--mca oob_tcp_if_include lo" ;; esac
    timeout 100 mpirun --oversubscribe $daemons --mca pml ob1 --mca btl self,vader \
        --mca mpi_yield_when_idle 1 --bind-to none "$@"
}
