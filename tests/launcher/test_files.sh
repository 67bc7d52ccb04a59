#!/bin/bash
# SPDX-License-Identifier: MIT
# test_files.sh - plenumrun's --result and --output-dir: paths that cannot be written, and files left by an earlier job.
# Prints TAP.
. "$top_srcdir/tests/lib.sh"
run=$top_builddir/plenumrun
unset PLENUM_LOADER PLENUM_PLENUMD RANK WORLD_SIZE
export LC_ALL=C
cd "$T" || exit 99

job() {
    timeout -k 5 300 "$run" --starter own --allow-run-as-root "$@" >out 2>err
    code=$?
}
same() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; false; }; }
has() { grep -q -e "$2" "$1" || { echo "no '$2' in $1"; false; }; }
all() { for t; do eval "$t" || { echo "does not hold: $t"; sed 's/^/standard error: /' err; return 1; }; done; }

# ---- --result ----
job --result nowhere/r.json sh -c ': >started'
ok "if the result cannot be written, the job does not start" all 'same $code 125' '[ ! -e started ]' \
    'same "$(cat err)" "plenumrun: error: --result: cannot write nowhere/r.json: No such file or directory"'
mkdir folder
job --result '' sh -c ': >started'
ok "an empty name is rejected" all 'same $code 125' '[ ! -e started ]' 'has err "result: cannot write"'
job --result folder sh -c ': >started'
ok "a folder is rejected" all 'same $code 125' '[ ! -e started ]' 'has err "folder: Is a directory"'
mkfifo fifo
job --result fifo sh -c ': >started'
ok "a FIFO without a reader is rejected" all 'same $code 125' '[ ! -e started ]' \
    'has err "fifo: it is a FIFO without a reader"'
cat fifo >read.json & reader=$!
exec 7>fifo # to keep the reader alive
job --result fifo true
exec 7>&-
wait $reader
ok "a FIFO with a reader receives the result" all 'same $code 0' 'has read.json "\"exit_status\": 0"'
job --result /dev/full true
ok "a result that cannot be written at the end gives status 123" all 'same $code 123' \
    'has err "/dev/full: No space left on device"'
job --result /dev/full sh -c 'exit 3'
ok "a failed job keeps its own status" same $code 3
echo '{"exit_status": 0}' >stale
job --result stale sh -c 'cp stale seen; kill -9 $PPID'
ok "an earlier job's result is removed when this job starts" all '[ ! -e seen ]' 'has stale "\"exit_status\": [1-9]"'
echo '{"exit_status": 0}' >stale
job --result stale no-such-program
ok "an earlier job's result is also replaced if this job's program cannot be started" all 'same $code 127' 'has stale "\"exit_status\": 127"'
echo '{"exit_status": 0}' >stale
job --result stale sh -c 'rm -f stale; mkdir stale'
ok "an earlier job's result is also removed if this job's result cannot be written" all 'same $code 123' '[ -d stale ]' 'has err "cannot write stale"'

# ---- --output-dir ----
job -n 3 --output-dir logs echo first
job -n 2 --output-dir logs echo second
ok "an earlier job's files are moved to a folder" all 'same $code 0' 'same "$(ls logs | tr "\n" " ")" \
    "earlier-1 instance-0.err instance-0.out instance-1.err instance-1.out "' 'same "$(cat logs/*.out)" "second
second"' 'same "$(cat logs/earlier-1/*.out)" "first
first
first"' 'has err "warning: --output-dir: 6 files of an earlier job are now in logs/earlier-1"'
echo mine >logs/instance-x.out
job -n 1 --output-dir logs echo third
ok "the second job's files are moved to a new folder, but no other file" all 'same $code 0' \
    'same "$(cat logs/earlier-2/instance-0.out)" second' \
    'same "$(cat logs/instance-0.out)" third' 'same "$(cat logs/instance-x.out)" mine'
job -n 1 --max-restarts 2 --output-dir restarts sh -c 'echo $PLENUM_RESTART_COUNT; [ $PLENUM_RESTART_COUNT = 2 ]'
ok "a restarted job appends to its files" all 'same $code 0' \
    'same "$(cat restarts/instance-0.out | tr "\n" " ")" "0 1 2 "' \
    '[ ! -e restarts/earlier-1 ]'
mkdir pipes && mkfifo pipes/instance-1.err
job -n 2 --output-dir pipes sh -c ': >started'
ok "a FIFO is rejected by name, without waiting for a reader" all 'same $code 125' '[ ! -e started ]' \
    'same "$(cat err)" "plenumrun: error: --output-dir: pipes/instance-1.err is not a regular file: remove it"' \
    '[ -p pipes/instance-1.err ]'
mkdir links && ln -s /dev/null links/instance-0.out
job --output-dir links true
ok "a link to a device is rejected" all 'same $code 125' 'has err "links/instance-0.out is not a regular file"'
mkdir later
job -n 2 --output-dir later sh -c '[ $RANK = 1 ] || { rm later/instance-1.err; exit 0; }
    until [ ! -e later/instance-1.err ]; do sleep 0.05; done; echo last >&2'
ok "a job continues if an output file is removed" same $code 0
(ulimit -f 1; trap '' XFSZ; exec timeout 300 "$run" --starter own --allow-run-as-root -n 3 --output-dir small \
    sh -c 'head -c 100000 /dev/zero | tr "\0" x; echo $RANK >&2' >/dev/null 2>err)
code=$?
ok "each truncated file is named" all 'same $code 123' 'has err small/instance-0.out' 'has err small/instance-1.out' \
    'has err small/instance-2.out' 'same "$(grep -c small/instance-0.out: err)" 1'
if [ "$(id -u)" != 0 ]; then
    mkdir closed && chmod a-w closed
    job --output-dir closed sh -c ': >started'
    ok "a folder without write permission is rejected" all 'same $code 125' '[ ! -e started ]' \
        'has err "Permission denied"'
fi
rm -f started
job --output-dir fifo true
ok "a path that is not a folder is rejected" all 'same $code 125' 'has err "fifo: Not a directory"'
finish
