#!/bin/bash
# SPDX-License-Identifier: MIT
# test_agent.sh - logins to other hosts that print, read or exit when they should stay silent. A script replaces ssh: it
# runs what the other host's ~/.bashrc would run, then the command. Prints TAP.
. "$top_srcdir/tests/lib.sh"
run=$top_builddir/plenumrun
command -v timeout >/dev/null || skip_all "timeout is not installed"
unset PLENUM_LOADER PLENUM_PLENUMD
export LC_ALL=C
cd "$T" || exit 99

cat >agent <<'EOF'
#!/bin/bash
shift # the host's name
. "${0%/*}/bashrc"
exec bash -c "$*"
EOF
# Calls its agent like Open MPI's mpirun, and prints what a daemon would find there.
mkdir bin
cat >bin/mpirun <<'EOF'
#!/bin/bash
[ "$1" != --version ] || { echo "mpirun (Open MPI) 4.1.4"; exit; }
# Or, if SHIM is set, starts the shim of one instance.
[ -z "${SHIM:-}" ] || exec env OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_RANK=0 "$SHIM" --shim
[ -z "${DAEMON:-}" ] || { $OMPI_MCA_plm_rsh_agent h1 "$DAEMON" 2>&1; exit 9; }
$OMPI_MCA_plm_rsh_agent h1 'echo "daemon: ${#PLENUM_SHIM_TOKEN} bytes; input: $(wc -c)"; echo "$PLENUM_SHIM_TOKEN" >>token' 2>&1
exit 9
EOF
chmod +x agent bin/mpirun
export OMPI_MCA_plm_rsh_agent=$T/agent PATH=$T/bin:$PATH

job() { # BASHRC ARGUMENT... - run a job whose logins first run BASHRC
    echo "$1" >bashrc
    shift
    rm -f token
    timeout -k 5 300 "$run" --allow-run-as-root "$@" >out 2>err
    code=$?
}
same() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; false; }; }
has() { grep -q -e "$2" "$1" || { echo "no '$2' in $1"; false; }; }
has_not() { ! grep -e "$2" "$1"; }
all() { # all "TEST" "TEST"... - each holds; otherwise prints the failing ones and plenumrun's output
    for t; do eval "$t" || { echo "does not hold: $t"; sed 's/^/standard error: /' err; return 1; }; done
}
secret_is_hidden() { # does no output contain the secret, with or without the marker for TLS?
    grep . token | sort -u >tokens
    [ -s tokens ] || { echo "no secret arrived"; return 1; }
    ! sed 's/^tls://' tokens | grep -F -f - out err
}
came='has err "daemon: [0-9][0-9]* bytes; input: 0"'

# ---- a daemon that is not there ----
for case in '127 orted-is-not-here --and arguments' "126 $T/agent.txt"; do
    : >agent.txt
    DAEMON=${case#* } job : --host h1 true
    ok "the message names the host on which $case cannot be executed" all 'same $code 125' \
        'tail -n 1 err | grep -q "error: Open MPI.s daemon cannot be executed on host h1 (status ${case%% *}): install the"'
done
DAEMON='exit 3' job : --host h1 true
ok "a daemon that fails for a different reason gets a different message" all 'same $code 125' \
    'has_not err "cannot be executed"'

# ---- a login that ends before its daemon ----
# Like sshd, it reads all of the daemon's output, and leaves the daemon running when it ends.
cat >lost <<'EOF'
#!/bin/bash
shift
exec 4<&0 3< <(exec setsid bash -c "$*" <&4 2>&1)
exec cat <&3
EOF
chmod +x lost
daemon_ended() { ! kill -0 "$(cat daemon)" 2>/dev/null; }
lose_login() { # SHELL COMMAND - the login ends once the command, run by this shell, has written its process id
    rm -f daemon
    SHELL=$1 PLENUM_SHIM_AGENT=$T/lost PLENUM_SHIM_AGENT_HOSTS0=h1 PLENUM_SHIM_TOKEN=secret \
        "$run" --agent h1 "$2" >/dev/null 2>err &
    wait_for test -s daemon
    kill -KILL $!
}
for trap in ':' 'trap "" TERM HUP'; do
    lose_login bash "$trap; echo \$\$ >$T/daemon; exec sleep 600"
    ok "a daemon ends with its login, even after '$trap'" wait_for daemon_ended
    daemon_ended || kill -KILL "$(cat daemon)"
    # Not every shell replaces itself by its last command.
    lose_login sh "sh -c 'echo \$\$ >$T/daemon; $trap; exec sleep 600'; exit 3"
    ok "a daemon also ends with its login if it is a child of the login's shell" wait_for daemon_ended
    daemon_ended || kill -KILL "$(cat daemon)"
done
# Names that Open MPI 4.1, 5.0, and 5.0.11 would use, and the folder of another job.
sessions=$T/sessions
mine=ompi.$(hostname).$(id -u)/jf.1234 other=ompi.$(hostname).$(id -u)/jf.1235
for name in "$mine" "prted.$(hostname).\$\$.$(id -u)" 'prted.$$'; do
    made="mkdir -p \"$sessions/$name/0\""
    start="$made; : -mca ess_base_jobid 80871424; echo \$\$ >$T/daemon; exec sleep 600"
    # With the last command, the shell survives SIGTERM, and would reap the daemon if both received the signal.
    for command in "$start" "sh -c '$start'; exit 3" "trap : TERM; sh -c '$start'; exit 3"; do
        rm -rf "$sessions"
        mkdir -p "$sessions/$other"
        TMPDIR=$sessions lose_login sh "$command"
        ok "the daemon's session files are removed (${command/$made/mkdir ${name}})" wait_for \
            eval '[ "$(cd "$sessions" && find . -mindepth 2)" = "./$other" ]'
        daemon_ended || kill -KILL "$(cat daemon)"
    done
done
# The daemon may be killed between its removals of its job's folder and of the one above it.
rm -rf "$sessions"
TMPDIR=$sessions lose_login sh "mkdir -p \"$sessions/${mine%/*}\"; : -mca ess_base_jobid 80871424; echo \$\$ >$T/daemon; exec sleep 600"
ok "the folder above the daemon's session files is removed if these are gone" wait_for eval '[ -z "$(ls "$sessions")" ]'
daemon_ended || kill -KILL "$(cat daemon)"

# Shared memory of programs whose shims were killed, too: of this job in Open MPI 4.1 (1234 is 4d2 in base 16) and of
# one that its program started, and of this job in 5 (whose hash is 1d4a); and files of others.
vader=vader_segment.$(hostname).$(id -u) sm=sm_segment.$(hostname).$(id -u)
others="$vader.4d30001.0 $vader.4d20001.0.new $vader.1d4a0001.0 ${vader}0.4d20001.0 $sm.4d20001.0"
mkdir memory
(cd memory && touch "$vader.4d20001.0" "$vader.4d20001.17" "$vader.4d20002.0" "$sm.1d4a0001.0" $others)
export OMPI_MCA_btl_vader_backing_directory=$T/memory
lose_login sh "echo \$\$ >$T/daemon; : -mca ess_base_jobid 80871424; exec sleep 600"
ok "the shared memory of the daemon's programs is removed" wait_for \
    eval '[ "$(cd memory && echo *)" = "$(printf "%s\n" $others $sm.1d4a0001.0 | sort | tr "\n" " " | sed "s/ $//")" ]'
daemon_ended || kill -KILL "$(cat daemon)"
lose_login sh "echo \$\$ >$T/daemon; : --prtemca ess_base_nspace \"prterun-head-77@0\"; exec sleep 600"
ok "... and so is that of Open MPI 5" wait_for \
    eval '[ "$(cd memory && echo *)" = "$(printf "%s\n" $others | sort | tr "\n" " " | sed "s/ $//")" ]'
daemon_ended || kill -KILL "$(cat daemon)"
unset OMPI_MCA_btl_vader_backing_directory

# ---- output ----
for bytes in 100 16000 16380 20000 1000000; do
    job "head -c $bytes /dev/zero | tr '\0' x; echo" --host h1 true
    ok "$bytes bytes on standard output before the answer are skipped" all 'has_not err "not ready"' 'same $code 125'
    job "yes 'a banner of many lines' | head -c $bytes >&2" --host h1 true
    ok "$bytes bytes on standard error are skipped" all 'has_not err "not ready"'
done
job 'yes "a banner" | head -n 5000; echo "Welcome to zsh"; exit 0' --host h1 true
ok "a login that ends with status 0 but no answer is reported with its last line" all 'same $code 125' \
    'has err "h1  *log in  *the login printed .Welcome to zsh. and ended with 0: does a file like ~/.bashrc there exit"'
job 'exit 0' --host h1 true
ok "a login that prints nothing is reported" has err \
    "log in  *the login printed nothing and ended with 0: does a file like ~/.bashrc there exit"
job 'exec cat' --host h1 true
ok "a shell replaced by another program is reported" has err "log in  *the login printed nothing and ended with 0"
job 'yes "a banner" | head -n 5000; echo "No space left" >&2; exit 4' --host h1 true
ok "the last line is shown even after much output" has err "log in  *No space left"
job 'echo "Which project?"; exec sleep 600' --start-timeout 4 --host h1 true
ok "a login that waits for input is reported after the time limit" has err \
    "log in  *no answer within 2 s; last, the login printed .Which project?."

# ---- programs there ----
printf '#!/usr/bin/env sh\r\n' >script
chmod +x script
job '' --host h1 ./script
ok "a script with CR LF line ends is reported" all 'same $code 127' \
    'has err "h1  *program  *program .\./script. has lines that end with CR LF.*asks for .sh.r.: convert it"'
printf '#!/nonexistent/sh\n' >script
job '' --host h1 ./script
ok "a script whose interpreter is missing is reported" all 'same $code 127' \
    'has err "h1  *program  *program .\./script. needs the interpreter ./nonexistent/sh., which is missing"'

# Without the check in advance, the shim gives the same messages.
refused() { # NAME SCRIPT - the message about a program with these contents
    printf "$2" >"$1"
    chmod +x "$1"
    job '' --host h1 "./$1"
    sed -n 's/^ *h1  *program  *//p' err >with
    with=$code
    SHIM=$run job '' --no-host-check --host h1 "./$1"
    sed -n 's/.*instance 0 on host h1 cannot be started: //p' err >without
    [ -s with ] && cmp with without && same "$with" "$code"
}
while IFS='|' read -r name script; do
    ok "without the check in advance, '$script' in $name is rejected with the same message" refused "$name" "$script"
done <<'EOF'
script|#!/usr/bin/env sh\r\n
script|#!/nonexistent/sh\n
script|#!/usr/bin/env nonexistent\n
script|#!/usr/bin/env python3 -u\n
script|#!sh\n
script|\xef\xbb\xbf#!/bin/sh\n
train.py|import sys\n
EOF
rm script
for program in ./script ./train.py nowhere nowhere.py; do
    [ ! -e "$program" ] || chmod -x "$program"
    job '' --host h1 "$program"
    sed -n 's/^ *h1  *program  *//p' err >with
    with=$code
    SHIM=$run job '' --no-host-check --host h1 "$program"
    sed -n 's/.*instance 0 on host h1 cannot be started: //p' err >without
    ok "$program is rejected with the same message" all '[ -s with ]' 'cmp with without' 'same $with $code'
done
SHIM=$run job '' --no-host-check --host h1 sh -c 'exit 3'
ok "a program that can be executed is started" all 'same $code 3' 'has err "instance 0 on host h1 exited with code 3"'

# ---- input ----
job '' --host h1 true
ok "the secret arrives on standard input" all "$came" secret_is_hidden
job 'read -r x; echo "read: <$x>"' --host h1 true
ok "a login that reads a line gets no part of the secret" all "$came" 'has err "read: <>"' secret_is_hidden
job 'read -r x; read -r y; read -n 1 z; echo "read: <$x$y$z>"' --host h1 true
ok "a login that reads several lines gets no part of the secret" all "$came" 'has err "read: <>"' secret_is_hidden
job 'echo "$PLENUM_SHIM_TOKEN"; while read -r x; do echo "read: <$x>"; echo "${x#*=}" >>token; done' --host h1 true
ok "a login that reads all of its input is reported, without printing the secret" all 'same $code 125' \
    'has err "nothing arrived on standard input: does the agent (ssh) have the argument -n, or does a file like ~/.bashrc read it"' \
    'has err "read: <plenum-secret=.*\*\*\*"' secret_is_hidden
for verbosity in -v -vv -vvv; do
    job 'while read -r x; do echo "read: <$x>"; echo "${x#*=}" >>token; done' $verbosity --mpi-global-args=--x --host h1 true
    ok "with $verbosity and arguments for mpirun, the secret is hidden" all \
        'has err "read: <plenum-secret=.*\*\*\*"' secret_is_hidden
done

# ---- logins for loaders ----
lend="--starter own --loader none --loader-host h1"
for bashrc in 'head -c 20000 /dev/zero | tr "\0" x' 'read -r x; read -r y; echo "read: <$x$y>" >&2' 'seq 10000'; do
    job "$bashrc" -v $lend true
    ok "a loader starts despite a ~/.bashrc with '$bashrc'" all 'same $code 0' \
        'has err "host h1: its loader listens on"'
done
job 'case $* in *lend*) seq 10000; echo "no more logins today"; exit 0; esac' $lend true
ok "a loader's login that ends is reported with its last line" all 'same $code 125' \
    'has err "loader-host h1: its loader cannot be started: the login printed .no more logins today. and ended"'
job 'case $* in *lend*) head -c 140 | grep -aoE "[0-9a-f]{64}" | tee -a token >&2; exit 3; esac' -vvv $lend true
ok "if a login prints the loader's key, the key is hidden" all 'same $code 125' 'has err "host h1: \*\*\*\*"' \
    secret_is_hidden
finish
