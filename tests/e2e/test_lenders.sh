#!/bin/bash
# SPDX-License-Identifier: MIT
# test_lenders.sh - tests plenumrun --loader-host on this host: an "agent" runs remote commands locally.
# tests/system/test_lenders.sh uses several hosts. Prints TAP.
. "$top_srcdir/tests/lib.sh"
. "$top_srcdir/tests/e2e/job.sh"
[ -r "/proc/$$/fd" ] || skip_all "/proc cannot be read"
[ -e "$top_builddir/.libs/libplenum-tls.so" ] || skip_all "built without TLS"

"$ctl" make-sample data --classes 4 --images 10 --size 96 >/dev/null || exit 99
stream="--pipeline rrc(48)flip(0.5) --seed 3 --micro-batch 4"
loader_threads 1

# The agent is called like ssh: [-p PORT] [-l USER] HOST SCRIPT
cat >agent <<END
#!/bin/sh
[ ! -e "$T/down" ] || { echo "the host is on fire" >&2; exit 255; }
END
cat >>agent <<'END'
while [ $# -gt 2 ]; do shift; done
[ "$1" != deaf ] || { echo "connection refused" >&2; exit 255; }
exec sh -c "$2"
END
chmod +x agent
export OMPI_MCA_plm_rsh_agent=$T/agent
# A host with a user or a port counts as a different host.
one=x@localhost two=localhost:2222:1
keepers() { pgrep -fx "$top_builddir/(.libs/)?(lt-)?plenumrun --lend-loader"; }
# Prints the keeper's first process. Its child may have a lower number, because numbers start over at the largest one.
keeper() {
    local all p
    all=$(keepers)
    for p in $all; do
        grep -qx "$(ps -o ppid= -p $p | tr -d ' ')" <<<"$all" || echo $p
    done
}
fields() { sed 's/^/# /' out err; }

alone=$("$ctl" hash data $stream --epochs 15)
job --loader none --loader-host $one -n 2 "$feed" data $stream --epochs 15 --json
ok "a loader host renders all batches" delivered "$alone"
ok "one loader was started" test "$(ls loaders | wc -l)" = 1
ok "that loader ended with the job" gone $(ls loaders)
ok "a job with a loader host prints no messages" test ! -s err
rm -f loaders/*
job --loader-host $one --loader-host $two -n 2 "$feed" data $stream --epochs 15 --pause 20 --json
ok "two loader hosts and the job's own loader deliver the same hash" delivered "$alone"
ok "three loaders were started" test "$(ls loaders | wc -l)" = 3
ok "the three loaders ended with the job" gone $(ls loaders)

# The key must not be in the environment, in a file system or on a command line.
cat >look <<'END'
#!/bin/sh
case $PLENUM_LOADER_KEY in /proc/*) ;; *) echo "PLENUM_LOADER_KEY is '$PLENUM_LOADER_KEY'"; exit 1 ;; esac
read -r word name key <"$PLENUM_LOADER_KEY"
[ "$word $name" = "plenum-client job" ] || { echo "the key is a loader's"; exit 2; }
[ ${#key} = 64 ] || { echo "a key of ${#key} characters"; exit 2; }
[ "$(stat -L -c '%a %u' "$PLENUM_LOADER_KEY")" = "600 $(id -u)" ] || { echo "others can read the key"; exit 3; }
[ -z "$(ls -l "$PLENUM_LOADER_KEY" | grep -e ' /[^ ]*[^)]$')" ] || { echo "the key is in a file"; exit 4; }
for p in /proc/[0-9]*; do
    ! tr '\0' '\n' <"$p/cmdline" 2>/dev/null | grep -q -e "$key" || { echo "the key is an argument of $p"; exit 5; }
    ! tr '\0' '\n' <"$p/environ" 2>/dev/null | grep -q -e "$key" || { echo "the environment of $p has it"; exit 6; }
done
echo "$key"
END
chmod +x look
job --loader-host $one ./look
first=$(cat out)
ok "programs receive the key, and other processes cannot see it" test "$code" = 0
[ "$code" = 0 ] || fields
job --loader-host $one ./look
ok "each job has a new key" test "$code" = 0 -a -n "$first" -a "$first" != "$(cat out)"
job ./look
ok "a job without loader hosts has no key" test "$code" = 1

# A program in its own PID namespace reads the key through the descriptor that it inherited. If a program in between
# closed that descriptor, the program gets an error.
if unshare --user --map-root-user --pid --fork --mount-proc true 2>/dev/null; then
    cat >apart <<'END'
#!/bin/sh
exec unshare --user --map-root-user --pid --fork --mount-proc "$@"
END
    cat >bare <<'END'
#!/bin/bash
for fd in /proc/self/fd/*; do [ ${fd##*/} -lt 3 ] || eval "exec ${fd##*/}>&-"; done
exec "$@"
END
    chmod +x apart bare
    rm -f loaders/*
    job --loader none --loader-host $one ./apart "$feed" data $stream --epochs 15 --json
    ok "a program in its own PID namespace can read the key" delivered "$alone"
    job --loader none --loader-host $one ./bare ./apart "$feed" data $stream --epochs 15 --json
    ok "if the key's descriptor was closed, the message gives the reason" says \
        'key file /proc/[0-9]*/fd/[0-9]*: .*in a container with its own PID namespace'
    unshare --user --map-root-user --pid --fork "$top_builddir/plenumrun" -n 1 true 2>err
    ok "plenumrun rejects a /proc of a different PID namespace" says \
        '/proc is not mounted, or belongs to a different PID namespace'
    unshare --user --map-root-user --pid --fork --mount-proc "$top_builddir/plenumrun" \
        --allow-run-as-root -x ASAN_OPTIONS="$asan_options_of_mpi" -n 2 "$feed" data $stream --epochs 15 --json >out \
        2>err
    code=$?
    ok "a job in a PID namespace with its own /proc delivers the same hash" delivered "$alone"
else
    skip "programs in their own PID namespaces" "PID namespaces cannot be created here"
fi

# A program is given at most 16 loader addresses. With more loader hosts, instances get different subsets.
for n in {1..20}; do echo "user$n@localhost"; done >many
job --loader none --loader-host "$(paste -sd, many)" -n 3 sh -c 'echo $RANK $PLENUM_LOADER'
used() { sed -n "s/^$1 //p" out | tr , '\n' | sort -u; }
ok "with twenty loader hosts, each instance gets sixteen" test "$code" = 0 -a "$(used 0 | wc -l)" = 16 -a \
    "$(used 2 | wc -l)" = 16
ok "each of the twenty loaders is used by an instance" test "$( (used 0 && used 1 && used 2) | sort -u | wc -l)" = 20

# ---- failures of loader hosts ----
job_while_loaders_die 2 --loader none --loader-host $one -n 2 "$feed" data $stream --epochs 15 --pause 50 --json
ok "a job whose loader host's loader is killed twice delivers the same hash" delivered "$alone"
ok "the killed loader was restarted twice" loaders 3
ok "the reason of each restart was reported" test \
    "$(grep -c "host localhost: .*the loader $T/plenumd on host .* was ended by signal 9 (Killed).*is being restarted" err)" = 2

rm -f loaders/*
plenumrun --loader none --loader-host $one -n 2 "$feed" data $stream --epochs 15 --pause 70 --json >out 2>err &
job=$!
wait_for loaders 1
sleep 0.4 # at any moment
touch down
kill -KILL $(keeper)
ok "a loader host that cannot be restarted is reported with the reason" wait_for grep -q \
    'host localhost: its loader cannot be restarted: the host is on fire' err
rm down
wait $job
code=$?
ok "a job whose loader's keeper is killed delivers the same hash, from a new loader at the same address" delivered "$alone"
ok "a second loader was started after the first one's keeper was killed" loaders 2
ok "the loader's loss was reported" says 'host localhost: its loader is gone (the login .*); the job continues without it'
ok "the loader's recovery was reported" says 'host localhost: its loader is available again'

rm -f loaders/*
"$top_builddir/plenumrun" --loader none --loader-host $one -n 2 "$feed" data $stream --epochs 1000 --pause 20 >out \
    2>err &
job=$!
wait_for loaders 1
kill -KILL $job
wait $job 2>/dev/null
ok "a loader ends when plenumrun is killed" wait_for gone $(ls loaders)
no_keepers() { ! keepers; }
ok "the loader's keeper ends when plenumrun is killed" wait_for no_keepers

rm -f loaders/*
plenumrun --heartbeat-timeout 2 --loader none --loader-host $one -n 2 "$feed" data $stream --epochs 15 --pause 50 \
    --json >out 2>err &
job=$!
wait_for loaders 1
kill -STOP $(ls loaders)
sleep 1 # an outage shorter than the limit
kill -CONT $(ls loaders)
wait $job
code=$?
ok "a job whose loader is stopped for a second delivers the same hash" delivered "$alone"

# This plenumd exists but cannot run.
cat >broken <<'END'
#!/bin/sh
echo "no licence for today" >&2
exit 3
END
chmod +x broken
why='exited with code 3 while it was starting; its last message: no licence for today'
PLENUM_PLENUMD=$T/broken job -x PLENUM_PLENUMD --loader none --loader-host $one -n 1 "$feed" data $stream --epochs 1
ok "if the loader cannot start, the program fails at once" test "$code" != 0
ok "the program's message gives the reason" says "feed: .*the loader $T/broken on host $(hostname) $why"
ok "plenumrun's message gives the reason, too" says "host localhost: .*the loader $T/broken on host $(hostname) $why"

# ---- errors before the start ----
fault() { # SENTENCE STATUS PATTERN ARGUMENT...
    local sentence=$1 want=$2 pattern=$3
    shift 3
    job "$@" -- "$feed" data $stream --epochs 1
    ok "$sentence is rejected with status $want" test "$code" = "$want"
    ok "$sentence is rejected with the right message" says "$pattern"
}
here=$(hostname)
fault "a loader host that also runs instances" 2 "--loader-host $here: instances run there" --loader-host "$here"
fault "a malformed list" 2 "--loader-host: .*'a\[1'" --loader-host 'a[1'
fault "a loader with a different key" 2 "loader tcp:127.0.0.1:7 cannot be used" --loader tcp:127.0.0.1:7 \
    --loader-host $one
fault "a host that refuses logins" 125 "deaf *log in *connection refused" --loader-host deaf
fault "a host that refuses logins, without the host check," 125 \
    "loader-host deaf: its loader cannot be started: connection refused" \
    --no-host-check --loader-host deaf
if [ -z "${PLENUM_SANITIZED:-}" ] && strace -o /dev/null -e inject=sendmsg:error=EPIPE true 2>/dev/null; then
    timeout -k 5 300 strace -o trace -e trace=sendmsg -e inject=sendmsg:error=EPIPE:when=1 "$top_builddir/plenumrun" \
        --no-host-check --loader none --loader-host deaf -n 1 true >out 2>err
    ok "a login that ends before its input is written: the message has the reason" eval \
        'grep -q INJECTED trace && grep -q "loader-host deaf: its loader cannot be started: connection refused" err'
else
    skip "a login that ends before its input is written: the message has the reason" "strace is not available here"
fi
PLENUM_PLENUMD=$T/nowhere fault "a host without plenumd" 125 \
    "loader-host localhost: its loader cannot be started: .*PLENUM_PLENUMD names '$T/nowhere'" \
    -x PLENUM_PLENUMD --loader-host $one
job --dry-run --loader-host a,b -n 2 true
ok "--dry-run prints the loader hosts" grep -q "Loaders on 2 more hosts: a, b" out
job --dry-run --print-topology=json --loader-host a,b -n 2 true
ok "--print-topology=json lists the loader hosts" grep -q '"loader_hosts": *\["a", *"b"\]' out
"$top_builddir/plenumrun" --lend-loader </dev/null >out 2>err
ok "plenumrun --lend-loader ends at the end of its input" test $? = 0
echo "GET / HTTP/1.0 and much more than that" | "$top_builddir/plenumrun" --lend-loader >out 2>err
ok "plenumrun --lend-loader rejects input that is not from plenumrun" says "for plenumrun's own use"
finish
