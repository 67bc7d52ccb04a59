#!/bin/bash
# SPDX-License-Identifier: MIT
# test_faults.sh - tests jobs whose loaders die or hang, or whose trainers die, and jobs with malformed input. Prints
# TAP.
. "$top_srcdir/tests/lib.sh"
. "$top_srcdir/tests/e2e/job.sh"

"$ctl" make-sample data --classes 4 --images 10 --size 96 >/dev/null || exit 99
stream="--pipeline rrc(48)flip(0.5) --seed 3 --micro-batch 4"
loader_threads 2

# ---- loaders ----
alone=$("$ctl" hash data $stream --epochs 15)
job_while_loaders_die 3 -n 2 --num-replicas 4 "$feed" data $stream --epochs 15 --pause 100 --json
ok "a job whose loader is killed three times delivers the same hash" delivered "$alone"
ok "the loader was restarted each time" loaders 4
ok "feed counted the incidents" test "$(field incidents)" -ge 3
ok "all loaders have ended" gone $(ls loaders)

has_begun() { says 'feed: batch'; } # with --verbose: a batch has arrived
# job_while_the_loader_hangs ARGUMENT... - like job, but stops its loader and never continues it
job_while_the_loader_hangs() {
    local job
    rm -f loaders/*
    plenumrun "$@" >out 2>err &
    job=$!
    wait_for has_begun
    kill -STOP $(ls loaders)
    code=0
    wait $job || code=$?
}
job_while_the_loader_hangs -n 2 --num-replicas 4 "$feed" data $stream --epochs 15 --pause 100 --verbose --json
ok "a job whose loader hangs delivers the same hash" delivered "$alone"
ok "the loader was replaced" loaders 2
ok "feed counted the incident" test "$(field incidents)" -ge 1
ok "the loader that hung has ended" gone $(ls loaders)

# A trainer that dies ends the job, including the loader.
rm -f loaders/*
plenumrun --grace 1 -n 2 "$feed" data $stream --epochs 1000 --pause 20 >out 2>err &
job=$!
wait_for loaders 1
sleep 0.5 # at any moment
feeds=$(pgrep -f "^$feed data .*--epochs 1000 --pause 20") # not those of other tests
memory=$(find /dev/shm -mindepth 1 -user "$(id -u)" -name 'plenum*' | wc -l)
kill -KILL $(echo "$feeds" | head -n 1)
wait $job
code=$?
ok "a job with a killed trainer exits with 128 plus the signal's number" test $code = 137
ok "the other trainers and the loader have ended" gone $feeds $(ls loaders)
ok "nothing was in /dev/shm during the job" test "$memory" = 0

# ---- input ----
wrong() { # SENTENCE PATTERN ARGUMENT... - feed with these arguments fails with a message that matches PATTERN
    local sentence=$1 pattern=$2
    shift 2
    job -n 2 "$feed" $stream "$@"
    ok "$sentence is rejected" test "$code" = 1
    ok "$sentence is rejected with the right message" says "$pattern"
}
wrong "a data set that does not exist" "$T/nowhere.*No such file or directory" nowhere
mkdir empty
wrong "a folder without images" "$T/empty.*no images" empty
wrong "an invalid pipeline" "pipeline: a ')' is missing, in 'rrc(48'" data --pipeline 'rrc(48'

mkdir -p bad/good bad/zero bad/cut
cp data/*/*1.jpg bad/good/
: >bad/zero/nothing.jpg
head -c 1500 "$(ls data/*/*.jpg | head -n 1)" >bad/cut/half.jpg
job -n 2 "$feed" bad $stream --json
ok "bad images are substituted" delivered "$("$ctl" hash bad $stream --replicas 2)"
ok "both bad images are counted" test "$(field substituted)" = 2
mixed="--pipeline rrc(48)mixup(1) --seed 3 --micro-batch 4"
job -n 2 "$feed" bad $mixed --json
ok "bad images are substituted where images are mixed" delivered "$("$ctl" hash bad $mixed --replicas 2)"
ok "each bad image is counted once where images are mixed" test "$(field substituted)" = 2
rm bad/cut/half.jpg
wrong "a file of zero bytes, under --bad fail" "$T/bad/zero/nothing.jpg.*the file is empty" bad --bad fail
rm bad/zero/nothing.jpg
head -c 1500 "$(ls data/*/*.jpg | head -n 1)" >bad/cut/half.jpg
stream=$mixed wrong "a truncated JPEG, alone or mixed into another, under --bad fail" "$T/bad/cut/half.jpg.*\(cut off\|ends\)" \
    bad --bad fail
wrong "a truncated JPEG, under --bad fail" "$T/bad/cut/half.jpg.*\(premature\|Premature\|ends\)" bad --bad fail
finish
