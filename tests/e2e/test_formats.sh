#!/bin/bash
# SPDX-License-Identifier: MIT
# test_formats.sh - checks that the same pictures have the same labels, pixels and hash in every format. Also tests jobs
# with parts of data sets, jobs whose instances have different data sets, and plenumctl order and sample. Prints TAP.
. "$top_srcdir/tests/lib.sh"
. "$top_srcdir/tests/e2e/job.sh"
[ -n "${PYTHON:-}" ] && [ "$PYTHON" != : ] || skip_all "no Python to write archives with"

"$ctl" make-sample data --classes 4 --images 6 --size 64 >/dev/null || exit 99
"$PYTHON" "$top_srcdir/tests/e2e/archives.py" data . || exit 99
stream="--pipeline rrc(32)flip(0.5) --seed 5"
alone=$("$ctl" hash data $stream)
(cd data && tar --sort=name -cf ../gnutar.tar ./*/)
mkdir folder && cp pax-*.tar folder/
here=$PWD

loader_threads 2
same() { # SENTENCE DATASET
    is "$alone" "$1: plenumctl hash prints the same hash" "$ctl" hash "$2" $stream
    job -n 2 --num-replicas 4 "$feed" "$2" $stream --micro-batch 2 --json
    ok "$1: a job delivers samples with the same hash" delivered "$alone"
}
same "a list, format detected" list.txt
same "a list as CSV, with column names" "list,base=$here/data,label-offset=-1:list.csv"
same "a list as TSV" "list,base=$here/data:list.tsv"
same "WebDataset, ustar" "ustar-{000..002}.tar"
same "WebDataset, GNU" "tar:gnu-*.tar"
same "WebDataset, pax" folder
same "labels in JSON" "tar,label=json.meta.class:json.tar"
same "an archive of the folder by GNU tar" "tar,label=folder:gnutar.tar"
if command -v bsdtar >/dev/null; then
    (cd data && bsdtar -cf ../bsdtar.tar $(ls -d */*))
    same "an archive of the folder by bsdtar" "tar,label=folder:bsdtar.tar"
else
    skip "an archive of the folder by bsdtar" "bsdtar is not installed"
fi
same "an archive by WebDataset's own writer" "wds-{000..002}.tar"
same "TFRecords" "tfrecord,label-offset=-1:records-*-of-00003"
# Written by an independent library, if it is installed.
cat >write.py <<'PY'
import os
import tfrecord
classes = sorted(os.listdir("data"))
out = tfrecord.TFRecordWriter("foreign.tfrecord")
for label, name in enumerate(classes):
    for file in sorted(os.listdir(f"data/{name}")):
        with open(f"data/{name}/{file}", "rb") as f:
            out.write({"image/encoded": (f.read(), "byte"), "image/class/label": (label, "int"), "image/height": (3.5, "float")})
out.close()
PY
if "$PYTHON" -c 'import tfrecord' 2>/dev/null; then
    ok "the Python package tfrecord can write a file" "$PYTHON" write.py
    same "TFRecords by the Python package tfrecord" foreign.tfrecord
else
    skip "TFRecords by the Python package tfrecord" "tfrecord is not installed"
fi
# Columns are stored uncompressed, and with each compression and encoding.
mkdir columns
"$PYTHON" "$top_srcdir/tests/e2e/columns.py" data columns || exit 99
same "Parquet, as the library datasets writes it" columns/hf.parquet
same "Parquet, two files" "parquet:columns/files/train-*.parquet"
same "MDS" mds:columns/mds
for form in dict-none dict-snappy flat-{none,snappy}-{1,2}; do
    is "$alone" "Parquet, $form" "$ctl" hash columns/$form.parquet $stream
done
is "$alone" "MDS, snappy" "$ctl" hash mds:columns/mds-snappy $stream
if grep -q "HAVE_ZSTD 1" "$top_builddir/config.h"; then
    same "Parquet, zstd" columns/flat-zstd-2.parquet
    same "MDS, zstd" columns/mds-zstd
    for form in dict-zstd flat-zstd-1; do
        is "$alone" "Parquet, $form" "$ctl" hash columns/$form.parquet $stream
    done
else
    skip "Parquet and MDS, zstd" "built without libzstd"
fi
if grep -q "HAVE_ZLIB 1" "$top_builddir/config.h"; then
    for form in dict-gzip flat-gzip-{1,2}; do
        is "$alone" "Parquet, $form" "$ctl" hash columns/$form.parquet $stream
    done
    is "$alone" "MDS, gzip" "$ctl" hash mds:columns/mds-gz $stream
else
    skip "Parquet and MDS, gzip" "built without zlib"
fi

is "$("$ctl" hash records-00001-of-00003 $stream)" "TFRecords, format detected" "$ctl" hash \
    tfrecord:records-00001-of-00003 $stream

"$ctl" pack data packed -n 7 >/dev/null || exit 99
same "packed, a folder of archives" packed
same "packed, by the archives' names" "$here/packed/archive-{000000..000003}.tar"
"$ctl" pack data raw -n 7 --raw >/dev/null || exit 99
same "packed as raw pixels" raw
"$ctl" pack data half -n 7 --raw-share 50 >/dev/null || exit 99
same "packed as raw pixels, every second sample" half
"$ctl" pack "tfrecord,label-offset=-1:records-*-of-00003" repacked -n 10 >/dev/null || exit 99
same "packed from TFRecords" repacked
"$ctl" pack columns/flat-snappy-1.parquet unpacked -n 10 >/dev/null || exit 99
same "packed from compressed Parquet" unpacked
for set in list.txt "ustar-{000..002}.tar" "tfrecord,label-offset=-1:records-*-of-00003" packed \
    columns/hf.parquet columns/mds; do
    is "$("$ctl" order data --positions 0: $stream | awk 'NR > 1 { print $2, $3 }')" \
        "the same samples and labels at the same positions: $set" \
        sh -c '"$@" | awk "NR > 1 { print \$2, \$3 }"' sh "$ctl" order "$set" --positions 0: $stream
done

# ---- positions of each instance ----
is "0 1 2 0 1 2 0 1 2" "--deal round-robin assigns positions to three replicas in turn" \
    sh -c '"$@" | awk "NR > 1 { printf \"%s%s\", sep, \$5; sep = \" \" }"' sh "$ctl" order data --positions 0:9 \
    $stream --repeat 3 -r 3 -m 2 --deal round-robin
ok "a step of more than 2^32 samples is rejected" \
    sh -c '! "$1" order data -r 1048576 -m 1048576 2>err && grep -q "is too large" err' sh "$ctl"

# ---- parts of a data set ----
for choice in "--subset 5:17" "--repeat 3" "--subset :9 --repeat 2 --shuffle block:2" "--shuffle none --subset 20:"; do
    job -n 2 "$feed" ustar-{000..002}.tar $stream $choice --micro-batch 2 --json 2>/dev/null
    job -n 2 "$feed" "ustar-{000..002}.tar" $stream $choice --micro-batch 2 --epochs 2 --json
    ok "feed $choice: the same hash" delivered "$("$ctl" hash data $stream $choice --epochs 2)"
    job -n 2 --num-replicas 4 "$feed" data $stream $choice --micro-batch 3 --deal round-robin --epochs 2 --json
    ok "feed $choice, dealt round-robin: the same hash" delivered "$("$ctl" hash data $stream $choice --epochs 2)"
done
job -n 2 "$feed" data $stream --subset 5:25
ok "a subset beyond the data set is rejected" says "subset 5:25 goes beyond the 24 samples of the data set"

for last in pad drop; do
    for shape in 1:2 2:2 3:3; do
        instances=${shape%:*} replicas=${shape#*:}
        for set in "ustar-{000..002}.tar" "tfrecord:$here/records-0000{0..2}-of-00003"; do
            job -n $instances --num-replicas $replicas "$feed" "$set" $stream --split file --last $last \
                --micro-batch 3 --epochs 3 --json
            ok "split = file, $instances instances, last = $last: the same hash as plenumctl" delivered \
                "$("$ctl" hash "$set" $stream --parts $instances \
                --replicas $replicas --last $last --micro-batch 3 --epochs 3)"
        done
    done
done
ok "--split file delivers as many images as the archives have" test \
    "$(job -n 3 "$feed" "ustar-{000..002}.tar" $stream --split file --json; field images)" = 24
job -n 4 "$feed" "ustar-{000..002}.tar" $stream --split file
ok "--split file rejects more instances than archives" says "has 3 files, which cannot be split into 4 parts"
job -n 2 "$feed" data $stream --split file
ok "--split file rejects a data set without archives" says "folder: there is no setting 'part'"
job -n 3 "$feed" "tar,label=folder:{gnutar,json,gnutar}.tar" $stream --split file
ok "--split file rejects an archive given twice" says "gnutar.tar is given twice"

# ---- data sets that differ ----
cp -r data other
mv other/clouds/clouds-00002.jpg other/clouds/clouds-00002a.jpg
cat >each.sh <<'END'
#!/bin/sh
# each.sh NAME0 NAME1 FEED ARGUMENT... - instance 0 streams NAME0, all others NAME1
[ "$PLENUM_INSTANCE_INDEX" = 0 ] && name=$1 || name=$2
shift 2
feed=$1
shift
exec "$feed" "$name" "$@"
END
chmod +x each.sh
job -n 2 ./each.sh data other "$feed" $stream
ok "instances with different data sets are rejected" test "$code" = 1
ok "the message names both instances, and how their data sets differ" says \
    "the data sets of instance 0 (host .*) and instance 1 (host .*) differ: the names of samples differ, first at sample"
job -n 2 ./each.sh data list.txt "$feed" $stream --bad substitute
ok "the same pictures under different names are rejected as different" says "differ: the names of samples differ"
job -n 2 ./each.sh data nowhere "$feed" $stream
ok "if one instance cannot open the data set, the message names it" says \
    "instance 1 (host .*): data set '$here/nowhere': No such file or directory"
is 1 "index --compare reports that data sets differ" \
    sh -c '"$1" index data --compare "$("$1" index other --json | sed "s/.*\"index\": \"//;s/\".*//")" 2>differ >/dev/null; echo $?' sh "$ctl"
ok "index --compare names the first sample that differs" \
    grep -qE "sample [0-9]*(, *)? is clouds/clouds-00002.jpg here and clouds/clouds-00002a.jpg there" differ
is 0 "index --compare reports no difference from the same data set" \
    sh -c '"$1" index data --compare "$("$1" index data --json | sed "s/.*\"index\": \"//;s/\".*//")" >/dev/null; echo $?' sh "$ctl"

# ---- plenumctl order and sample ----
ok "order --positions prints one line per position" test "$("$ctl" order data $stream --positions 3:9 | wc -l)" = 7
"$ctl" order data $stream --positions 0: | awk 'NR > 1 { print $2 }' | sort -n | uniq -c |
    awk '{ print $1 }' | sort | uniq -c >counts
is "24 1" "order has each sample once per epoch" sh -c 'echo $(cat counts)'
"$ctl" order data $stream --replicas 6 --micro-batch 3 --instances 4 --hosts 2 >out 2>err
ok "order rejects replicas that cannot be shared evenly" grep -q "6 replicas cannot be shared evenly by 4 instances" err
"$ctl" order data $stream --replicas 4 --micro-batch 5 --hosts 2 --json >order.json
is "2 16 40 40" "order counts steps and padding, and assigns each sample to a host" "$PYTHON" -c '
import json
d = json.load(open("order.json"))
print(d["steps"], d["padded"], sum(h["samples"] for h in d["hosts"]), d["steps"] * d["step_samples"])'
bytes=$(cat data/*/* | wc -c)
is "$bytes" "order: together, the hosts read all bytes once" \
    sh -c '"$@" | sed -n "s/.*\"bytes\": \([0-9]*\).*/\1/p" | awk "{ s += \$1 } END { print s }"' sh \
    "$ctl" order data $stream --replicas 4 --micro-batch 3 --hosts 2 --json
ok "sample prints file, label and fields" \
    sh -c '"$@" | grep -q "\"name\": \".*clouds-00001.jpg\", \"label\": 1, \"class\": null.*\"fields\": {\"number\": \"7\"}"' sh \
    "$ctl" sample "list,base=$here/data,label-offset=-1:list.csv" 7 --json
finish
