# SPDX-License-Identifier: MIT
# job.sh - functions that run plenumrun jobs with feed, and check their results. Source it after lib.sh.
ctl=$top_builddir/plenumctl feed=$top_builddir/examples/feed
for tool in mpirun timeout; do
    command -v $tool >/dev/null || skip_all "$tool is not installed"
done
unset PLENUM_LOADER
export LC_ALL=C
cd "$T" || exit 99

# loader_threads N - gives the loader of each job after this call N decoding threads. Each loader that starts creates a
# file in loaders/, named after its process id.
loader_threads() {
    rm -rf loaders
    mkdir loaders
    cat >plenumd <<END
#!/bin/sh
echo \$\$ >"$T/loaders/\$\$"
exec "$top_builddir/plenumd" --threads $1 "\$@"
END
    chmod +x plenumd
    export PLENUM_PLENUMD=$T/plenumd
}
plenumrun() { timeout -k 5 300 "$top_builddir/plenumrun" -x ASAN_OPTIONS="$asan_options_of_mpi" "$@"; }
# job ARGUMENT... - run plenumrun for at most 300 s: output in out and err, status in $code
job() {
    plenumrun "$@" >out 2>err
    code=$?
}
loaders() { [ "$(ls loaders | wc -l)" -ge "$1" ]; } # succeeds if at least $1 have been started
# job_while_loaders_die TIMES ARGUMENT... - like job, but kills its loader TIMES times
job_while_loaders_die() {
    local times=$1 n job
    shift
    rm -f loaders/*
    plenumrun "$@" >out 2>err &
    job=$!
    for ((n = 1; n <= times; n++)); do
        wait_for loaders $n
        sleep 0.4 # at any moment
        kill -KILL $(ls loaders) 2>/dev/null
    done
    code=0
    wait $job || code=$?
}
# field NAME - prints a field of feed's result (--json) in out
field() { sed -n "s/.*\"$1\": \"\{0,1\}\([^,\"}]*\).*/\1/p" out; }
# delivered HASH - checks that the job succeeded, with this hash
delivered() {
    [ "$code" = 0 ] && [ "$(field hash)" = "$1" ] ||
        { echo "wanted status 0 and hash $1, got $code and $(field hash)"; cat err; return 1; }
}
says() { grep -q -e "$1" err || { echo "no '$1' in:"; cat err; return 1; }; }
gone() { for p; do case $(ps -o stat= -p "$p") in '' | Z*) ;; *) echo "process $p still runs"; return 1 ;; esac; done; }
