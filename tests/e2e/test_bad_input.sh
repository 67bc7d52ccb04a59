#!/bin/bash
# SPDX-License-Identifier: MIT
# test_bad_input.sh - streams malformed folders, tar archives, TFRecords and lists, and checks which samples are
# substituted and counted, which errors end the stream, which data sets are rejected when they are opened, and the
# messages. test_columns.py tests Parquet and MDS. Prints TAP.
. "$top_srcdir/tests/lib.sh"
. "$top_srcdir/tests/e2e/job.sh"
[ -n "${PYTHON:-}" ] && [ "$PYTHON" != : ] || skip_all "no Python to write archives with"

"$ctl" make-sample data --classes 2 --images 4 --size 64 >/dev/null || exit 99
"$PYTHON" "$top_srcdir/tests/e2e/bad_archives.py" data x || exit 99
stream="--pipeline rrc(32)flip(0.5) --seed 5"
here=$PWD
loader_threads 2
old() { find "$1" -exec touch -h -d '1 hour ago' {} +; } # old enough for its index to be kept

feeds() { # ARGUMENT... - run feed: output in out and err, status in $code
    timeout -k 5 300 "$feed" $stream "$@" >out 2>err
    code=$?
}
refused() { [ "$code" = 1 ] && says "$1"; }
# refuses WHAT SENTENCE DATASET [OPTION...]: the stream does not open, or fails later, with this message
refuses() {
    local what=$1 sentence=$2
    shift 2
    feeds "$@"
    ok "$what: rejected" refused "$sentence"
}
# substitutes WHAT COUNT REASON DATASET: bad samples are substituted and counted; with --bad fail, the stream fails
substitutes() {
    feeds "$4" --json
    ok "$1: substituted" delivered "$("$ctl" hash "$4" $stream 2>/dev/null)"
    is "$2" "$1: counted" field substituted
    refuses "$1, bad = fail" "$3" "$4" --bad fail
}

# ---- bad samples ----
cp -r data folder
head -c 900 data/clouds/clouds-00001.jpg >folder/clouds/cut.jpg
: >folder/clouds/empty.jpg
head -c 2000 /dev/urandom >folder/clouds/noise.jpg
truncate -s 5G folder/bricks/huge.jpg 2>/dev/null || : >folder/bricks/huge.jpg
substitutes "folder with four bad files" 4 "$here/folder/\(clouds\|bricks\)/\(cut\|empty\|noise\|huge\)\.jpg: " folder
substitutes "tar with two bad members" 2 "$here/x/bad-images.tar: [23]\.jpg: " x/bad-images.tar
substitutes "TFRecord with a bad image" 1 "$here/x/bad-images.tfrecord.*3\.jpg.*: " x/bad-images.tfrecord
substitutes "TFRecord with a wrong checksum" 1 "$here/x/wrong-crc.tfrecord.* is damaged: its checksum is wrong" \
    x/wrong-crc.tfrecord
substitutes "list with two bad files" 2 "$here/x/\(cut\|empty\)\.jpg: " x/bad-images.txt
substitutes "TFRecord with a huge record, and others beyond 4 GiB" 1 \
    "$here/x/huge.tfrecord.*larger than 256 MiB" x/huge.tfrecord
feeds x/huge.tfrecord --subset 1:7 --json
ok "TFRecord with a huge record: the others are delivered" delivered "$("$ctl" hash x/good.tfrecord $stream)"
feeds folder --epochs 3 --json
is 12 "substituted samples are counted in every epoch" field substituted

# ---- rejected when opened ----
refuses "tar: a member without a label" "$here/x/no-label.tar.*'4.jpg' has no label" x/no-label.tar
refuses "tar: a member twice" "$here/x/twice.tar.*'0.jpg' occurs twice" x/twice.tar
refuses "tar: a label too large" \
    "too-large.tar: '3.cls': label '2147483647' is out of range: class numbers are 0 to 2147483646" x/too-large.tar
refuses "tar: a label below 0" "negative.tar: '3.cls': label '-2' is out of range" x/negative.tar
refuses "tar: no samples" "$here/x/nothing.tar.*contains no images" x/nothing.tar
refuses "TFRecord: truncated" "$here/x/cut.tfrecord ends in the middle of the record that begins at byte" x/cut.tfrecord
refuses "TFRecord: no label" "$here/x/no-label.tfrecord: the record at byte .* has no label" x/no-label.tfrecord
refuses "TFRecord: a label too large" \
    "too-large.tfrecord: the label of the record at byte [0-9]*: label '2147483648' is out of range" \
    x/too-large.tfrecord
refuses "TFRecord: a label below 0" \
    "negative.tfrecord: the label of the record at byte [0-9]*: label '-2' is out of range" x/negative.tfrecord
refuses "TFRecord: no samples" "$here/x/nothing.tfrecord.* contains no samples" tfrecord:x/nothing.tfrecord
refuses "list: no label" "$here/x/no-label.txt: line 7 ('2.jpg') has no label" x/no-label.txt
refuses "list: a label too large" "too-large.txt, line 7: label '2147483648' is out of range" x/too-large.txt
refuses "list: a label below 0" "negative.txt, line 7: label '-2' is out of range" x/negative.txt
refuses "list: no samples" "$here/x/nothing.txt contains no samples" list:x/nothing.txt
refuses "list: a symbolic link loop" "$here/x/loop.txt, line 7: $here/x/loop.jpg: Too many levels of symbolic links" \
    x/loop.txt
refuses "tar: a symbolic link loop" "x/loop.jpg.*Too many levels of symbolic links" tar:x/loop.jpg
refuses "tar: a symbolic link loop among several archives" "x/loop.jpg: Too many levels of symbolic links" \
    "tar:x/{good.tar,loop.jpg}"
refuses "TFRecord: a symbolic link loop" "x/loop.jpg.*Too many levels of symbolic links" "tfrecord:x/loop.jpg"
mkfifo pipe
for format in tar tfrecord list; do
    refuses "$format: a pipe (without waiting for a writer)" "$here/pipe.* is not a file" $format:pipe
done
mkdir -p circle/a none/a
cp data/clouds/clouds-00001.jpg circle/a
ln -s .. circle/a/up
refuses "folder: a link to a parent folder" "$here/circle/a/up: a symbolic link leads back into a folder above" circle
refuses "folder: no samples" "$here/none contains no images" none
refuses "a path that does not exist" "data set '$here/nowhere': No such file or directory" nowhere

# ---- files that change while a stream runs ----
# changes WHAT SENTENCE DATASET COMMAND...: the command runs during a stream of many epochs
changes() {
    local what=$1 sentence=$2 set=$3
    shift 3
    rm -f err # it may show a batch of the previous stream
    timeout -k 5 300 "$feed" $stream "$set" --epochs 100000 --batches 100000 --pause 20 --verbose >out 2>err &
    local feed=$!
    wait_for grep -q "batch 0" err
    "$@"
    wait $feed
    code=$?
    ok "$what: the stream fails with that message" refused "$sentence"
}
mkdir live
cp x/good.tar x/good.tfrecord live
cp x/?.jpg x/good.txt live
cp -r data live/folder
old live
changes "an archive shrinks under the loader" \
    "$here/live/good.tar has changed since the data set was indexed: start the job again, or put the file back" \
    live/good.tar truncate -s 3000 live/good.tar
changes "a TFRecord file shrinks under the loader" "$here/live/good.tfrecord has changed since" live/good.tfrecord \
    truncate -s 3000 live/good.tfrecord
changes "a listed file is overwritten" "$here/live/3.jpg has changed since" live/good.txt cp live/2.jpg live/3.jpg
changes "a file of a folder shrinks" "$here/live/folder/clouds/clouds-00002.jpg has changed since" live/folder \
    truncate -s 100 live/folder/clouds/clouds-00002.jpg
changes "a listed file becomes a pipe" "$here/live/4.jpg has changed since" live/good.txt \
    sh -c 'mkfifo live/pipe && mv live/pipe live/4.jpg' # mv replaces the file in one step
changes "a file of a folder is removed" "$here/live/folder/clouds/clouds-00003.jpg: No such file or directory" \
    live/folder rm live/folder/clouds/clouds-00003.jpg
refuses "the next stream reads the changed files: a truncated archive" "$here/live/good.tar" live/good.tar
refuses "the next stream reads the changed files: a truncated TFRecord file" \
    "$here/live/good.tfrecord ends in the middle" live/good.tfrecord
feeds live/folder --json
ok "the next stream reads the changed files: a folder with one file fewer" test "$code $(field images)" = "0 7"

# ---- names that are not UTF-8 ----
mkdir -p $'names/\xff\xfe'
cp data/clouds/clouds-00001.jpg $'names/\xff\xfe/\xe4 b.jpg'
cp data/bricks/bricks-00001.jpg $'names/\xff\xfe/c.jpg'
for set in names x/names.tar x/names.tfrecord x/names.txt; do
    feeds "$set" --json
    ok "names that are not UTF-8: $set" delivered "$("$ctl" hash "$set" $stream)"
    for command in index verify "order --positions 0:" order preview sample; do
        case $command in
        preview) "$ctl" preview "$set" sheet.jpg >/dev/null 2>err ;;
        sample) "$ctl" sample "$set" 0 1 --json >json.out 2>err ;;
        "order --positions 0:") "$ctl" $command "$set" --positions 0: >text.out 2>err ;;
        *) "$ctl" $command "$set" --json >json.out 2>err ;;
        esac
        status=$?
        case $command in index | verify | order | sample)
            "$PYTHON" -c 'import json, sys; [json.loads(l) for l in ([sys.stdin.read()] if sys.argv[1] != "sample" else sys.stdin)]' \
                $command <json.out 2>>err || status=99 ;;
        esac
        [ $status = 0 ] || break
    done
    ok "names that are not UTF-8: plenumctl $command $set succeeds" sh -c 'cat err; [ $0 = 0 ]' $status
done
mkdir $'\xff names'
cp -r data/* $'\xff names/'
feeds $'\xff names' --json
ok "a data set whose own name is not UTF-8 has the same hash" delivered "$("$ctl" hash data $stream)"

# ---- files without read permission ---- Root may read everything, so as root this runs programs as another user.
user=
[ "$(id -u)" != 0 ] || user="setpriv --reuid 65534 --regid 65534 --clear-groups"
mkdir secret cache2
cp -r data secret/folder
cp x/good.tar x/good.tfrecord secret
cp x/?.jpg x/good.txt secret
chmod 755 .
chmod 777 cache2
plain_feed() { # the program starts the loader itself, as the same user
    PLENUM_PLENUMD=$top_builddir/plenumd PLENUM_CACHE_DIR=$here/cache2 timeout -k 5 300 $user "$feed" $stream "$@" \
        >out 2>err
    code=$?
}
denied() { # WHAT SENTENCE DATASET FILE: opening DATASET fails without permission to read FILE
    chmod 0 "$4"
    plain_feed "$3"
    ok "$1: rejected" refused "$2"
    chmod 755 "$4"
}
plain_feed "$here/data"
if [ "$code" = 0 ]; then
    denied "a data set without search permission" "$here/secret/folder.*: Permission denied" "$here/secret/folder" \
        secret/folder
    denied "a class without read permission" "$here/secret/folder/clouds: Permission denied" "$here/secret/folder" \
        secret/folder/clouds
    denied "a file without read permission" "$here/secret/folder/clouds/clouds-00002.jpg: Permission denied" \
        "$here/secret/folder" secret/folder/clouds/clouds-00002.jpg
    denied "an unreadable archive" "$here/secret/good.tar.*: Permission denied" "$here/secret/good.tar" secret/good.tar
    denied "an unreadable TFRecord file" "$here/secret/good.tfrecord.*: Permission denied" \
        "tfrecord:$here/secret/good.tfrecord" secret/good.tfrecord
    denied "an unreadable list" "$here/secret/good.txt.*: Permission denied" "$here/secret/good.txt" secret/good.txt
    denied "an unreadable listed file" "$here/secret/4.jpg: Permission denied" "$here/secret/good.txt" secret/4.jpg
    mkdir cache3
    chmod 777 cache3
    "$ctl" index data --cache-dir cache3 >/dev/null
    rm -f cache3/*.index # but not its lock, which is this user's
    ok "a user can write an index beside another user's lock" \
        sh -c '"$@" index "$0/data" --cache-dir "$0/cache3" --json | grep -q "\"index\": \"$0/cache3"' \
        "$here" $user "$ctl"
    chmod 0 cache2
    plain_feed "$here/data" --json
    ok "a stream works with a cache folder that cannot be written" delivered "$("$ctl" hash data $stream)"
else
    cat err >&2
    skip "files without read permission" "no other user can run the programs here"
fi
finish
