#!/bin/sh
# SPDX-License-Identifier: MIT
# plenumctl pack and verify: no samples are lost, killed runs can be continued, and errors are detected.
. "$top_srcdir/tests/lib.sh"
plenumctl=$top_builddir/plenumctl
PYTHON=${PYTHON:-python3}
cd "$T" || exit 99

# field NAME <JSON: print a number or text from plenumctl's JSON
field() {
    "$PYTHON" -c '
import functools, json, sys
print(functools.reduce(lambda v, k: v[k], sys.argv[1].split("."), json.load(sys.stdin)))' "$1"
}

# hashes DATASET: print the hash of two epochs and the number of substituted samples, for training and for evaluation
hashes() {
    for pipeline in train eval 'exif rrc(96,scale=0.02:0.3) flip(0.5)'; do
        "$plenumctl" hash "$1" --shuffle none --seed 3 -e 2 -p "$pipeline" --json || return
    done
}

ok "make-sample creates a data set" "$plenumctl" make-sample data -n 12 --size 160
# Add odd files, as in a real data set.
cp data/bricks/bricks-00000.jpg data/bricks/a.b.jpg
cp data/bricks/bricks-00001.jpg data/bricks/a_b.jpg # the same key as the one above
cp data/bricks/bricks-00002.jpg data/bricks/a.b.png # a JPEG with the extension of a PNG
head -c 3000 data/bricks/bricks-00003.jpg >data/bricks/cut.jpg
: >data/bricks/empty.jpg
echo "no image" >data/bricks/text.jpg
mkdir data/"zz an empty class"
samples=$(find data -name '*.*g' | wc -l)

"$plenumctl" pack data packed -n 10 --json >packed.json
ok "pack" test -s packed.json
is "$samples" "all samples are packed" field samples <packed.json
is "$(((samples + 9) / 10))" "there is an archive for each 10 samples" sh -c 'ls packed/archive-*.tar | wc -l'
is 3 "bad samples are kept and reported" field kept.bad <packed.json
ok "pack prints the reason why a sample is bad" grep -q 'cut.jpg.*is cut off' packed.json
ok "progressive JPEGs were converted" test "$(field converted <packed.json)" -gt 0
ok "CMYK is kept" test "$(field kept.cmyk <packed.json)" -gt 0
ok "PNG is kept" test "$(field kept.png <packed.json)" -gt 0
ok "the files are not larger" "$PYTHON" -c '
import json
j = json.load(open("packed.json"))
assert j["bytes_after"] <= 1.01 * j["bytes_before"], j'
ok "the folder contains no other files" \
    sh -c '[ "$(LC_ALL=C ls packed | grep -v "^archive-.*tar$" | tr "\n" " ")" = "DATASET.json classes.txt plenum-pack.txt " ]'
hashes data >want
ok "bad samples were substituted" grep -q '"substituted": [1-9]' want
is "$(cat want)" "the packed set renders the same stream" hashes packed
is "$(cat want)" "the packed set renders the same stream if its archives are named" hashes \
    "packed/archive-{000000..$(printf %06d $(((samples - 1) / 10)))}.tar"
is "$("$plenumctl" index data --json | field classes)" "the packed set has as many classes" \
    sh -c '"$0" index packed --json | sed "s/.*classes\": \([0-9]*\).*/\1/"' "$plenumctl"
ok "class names are kept" sh -c '[ "$(tail -n 1 packed/classes.txt)" = "zz an empty class" ]'

# The extension of a member is that of its format, whatever the file's name was. An AVIF's first brand may be mif1.
mkdir -p kinds/class
"$top_builddir/tests/loader/image/dump" --kinds kinds/class >/dev/null
for file in kinds/class/*.avif; do
    [ ! -e "$file" ] || printf mif1 | dd of="$file" bs=1 seek=8 conv=notrunc status=none
done
extensions=$(ls kinds/class | sed 's/.*[.]//; s/pgm/ppm/' | sort | uniq -c)
(cd kinds/class && for file in *; do mv "$file" "${file%.*}-${file##*.}.jpg"; done)
"$plenumctl" pack kinds kinds.packed >/dev/null
is "$extensions" "members have their format's extension" \
    sh -c 'tar -tf kinds.packed/archive-000000.tar | grep -v "[.]cls$" | sed "s/.*[.]//" | sort | uniq -c'

# Packing a packed data set changes nothing; packing archives gives the same as packing the folder.
"$plenumctl" pack packed again -n 10 --json >again.json
is "$(field packed <packed.json)" "packed files are kept as they are" field kept.packed <again.json
is "$("$plenumctl" verify packed --content | grep content)" "packing again does not change a byte of the contents" \
    sh -c '"$0" verify again --content | grep content' "$plenumctl"
(cd data && find . -name '*.*g' | LC_ALL=C sort | tar -cf ../data.tar -T -)
"$plenumctl" pack tar,label=folder:data.tar third -n 10 --json >third.json
is "$(cat want)" "packing an archive of the folder gives the same stream" hashes third

# Other programs see the same pixels.
if "$PYTHON" -c 'import PIL' 2>/dev/null; then
    ok "Pillow sees the same pixels and orientation" "$PYTHON" -c '
import io, os, sys, tarfile, warnings
from PIL import Image
want = sorted((os.path.join(d, f) for d, _, fs in os.walk("data") for f in fs), key=os.fsencode)
got = []
for name in sorted(n for n in os.listdir("packed") if n.endswith(".tar")):
    with tarfile.open("packed/" + name) as t:
        got += [(m.name, t.extractfile(m).read()) for m in t if not m.name.endswith(".cls")]
assert len(want) == len(got)
compared = 0
for path, (name, data) in zip(want, got):
    try:
        a = Image.open(path); a.load()
    except Exception:
        assert open(path, "rb").read() == data, path
        continue
    b = Image.open(io.BytesIO(data))
    assert a.mode == b.mode and a.tobytes() == b.tobytes(), (path, name)
    assert a.getexif().get(0x112, 1) == b.getexif().get(0x112, 1), path
    compared += 1
assert compared > 80'
else
    skip "Pillow sees the same pixels and orientation" "Pillow is not installed"
fi

# --- runs that are killed ---

# Everything except plenum-pack.txt, which may list an archive twice.
archives() { (cd "$1" && ls && sha256sum -- *.tar classes.txt); }
archives packed >want.archives

killed=0
rm -rf torn
for delay in 0.004 0.008 0.012 0.016 0.02 0.03 0.05 0.08 0.11 0.14 0.17 0.2 0.25 0.3; do
    "$plenumctl" pack data torn -n 10 --threads 2 >torn.out 2>&1 &
    pid=$!
    sleep $delay # any moment
    kill -9 $pid 2>/dev/null && killed=$((killed + 1))
    wait $pid 2>/dev/null
done
ok "some runs were killed" test $killed -ge 2
ok "the next run continues" "$plenumctl" pack data torn -n 10
is "$(cat want.archives)" "the run after killed ones leaves the same archives" archives torn

# After a kill at any of these system calls, the next run completes the same archives.
if command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null; then
    export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" # leak detection does not work under strace
    for call in fsync rename ftruncate write; do
        killed=0
        for when in 1 2 3 4 5 8; do # counted in each thread
            rm -rf torn
            status=0
            { strace -f -qq -o /dev/null -e trace=$call -e inject=$call:signal=KILL:when=$when \
                "$plenumctl" pack data torn -n 10 --threads 1 >torn.out 2>&1 || status=$?; } 2>/dev/null
            [ $status = 0 ] || killed=$((killed + 1))
            "$plenumctl" pack data torn -n 10 >torn.out 2>&1
            archives torn >torn.archives 2>&1
            cmp -s torn.archives want.archives && continue
            cat torn.out torn.archives >"$T/.why"
            result 1 "killed at $call number $when" "$T/.why"
        done
        ok "runs killed at $call ($killed of them) continue to the same archives" test $killed -ge 1
    done
    # A full disk is reported, and the archives that are complete are kept.
    rm -rf torn
    ok "a full disk is reported, with what to do" sh -c '! strace -f -qq -o /dev/null -e trace=fsync \
        -e inject=fsync:error=ENOSPC:when=5 "$0" pack data torn -n 10 --threads 1 2>why &&
        grep -q "archive-000002.*No space left" why && grep -q "continues from there" why' "$plenumctl"
    ok "the incomplete archive is removed" sh -c '! ls torn | grep partial'
    ok "the next run continues when there is space" "$plenumctl" pack data torn -n 10
    is "$(cat want.archives)" "the run after a full disk leaves the same archives" archives torn
else
    skip "runs killed at certain system calls" "strace cannot be used here"
fi

# A missing archive is written again; one that was changed is not touched.
rm torn/archive-000002.tar
ok "an archive that was removed is written again" "$plenumctl" pack data torn -n 10
is "$(cat want.archives)" "the archive that is written again is the same" archives torn
printf x >>torn/archive-000001.tar
ok "an archive that was changed is reported" \
    sh -c '! "$0" pack data torn -n 10 2>why && grep -q "archive-000001.tar has changed since it was written" why' "$plenumctl"

# --- errors ---
no() { # TITLE PATTERN ARGUMENT...: pack fails with a message that matches PATTERN
    sentence=$1 pattern=$2
    shift 2
    if "$plenumctl" pack "$@" >"$T/.out" 2>&1 || ! grep -q "$pattern" "$T/.out"; then
        result 1 "$sentence" "$T/.out"
    else
        result 0 "$sentence"
    fi
}
no "continuing with a different number of samples per archive" "begun with --samples-per-archive 10" data packed -n 11
no "continuing with a different prefix" "begun with --prefix archive" data packed -n 10 --prefix x
no "continuing with a different data set" "belongs to another data set" packed torn -n 10
no "a folder that is not empty" "not empty and was not written by plenumctl pack (it holds" data again/.. -n 10
no "a folder inside the data set" "is inside the data set" data data/bricks/packed
no "a file" "is not a folder" data want
no "a path that cannot be created" "cannot make the folder" data not/there
no "a prefix that is a path" "beginning of a file name" data x --prefix a/b
rm -rf data/bricks/packed
mkdir other && touch other/archive-000000.tar
no "a folder with an archive that pack did not write" "not empty" data other
mkdir busy
"$PYTHON" -c '
import fcntl, sys, time
f = open("busy/plenum-pack.txt", "a"); fcntl.flock(f, fcntl.LOCK_EX); print("held", flush=True); time.sleep(60)' >held &
holder=$!
at_end() { kill $holder 2>/dev/null; }
wait_for grep -q held held
no "two runs at the same time" "another plenumctl pack is running" data busy
kill $holder
cp -r packed damaged
sed -i 's/^archive	1	/archixe	1	/' damaged/plenum-pack.txt
no "a damaged plenum-pack.txt" "is damaged in line" data damaged -n 10

# --- verify ---
ok "verify finds the bad samples" status 1 "$plenumctl" verify data
is "bad bad bad" "verify finds all three bad samples" sh -c '"$0" verify data --json | "$1" -c "
import json, sys
print(*(p[\"kind\"] for p in json.load(sys.stdin)[\"problems\"]))"' "$plenumctl" "$PYTHON"
rm data/bricks/cut.jpg data/bricks/empty.jpg data/bricks/text.jpg
"$plenumctl" pack data good -n 40 --json >good.json
ok "verify reports no problem in a good data set" "$plenumctl" verify good
is "$(field packed <good.json)" "verify checks all packed samples" \
    sh -c '"$0" verify good --json | sed -n "s/.*\"packed\": \([0-9]*\).*/\1/p"' "$plenumctl"
is "$("$plenumctl" verify good --content --threads 1 | grep content)" \
    "--content does not depend on the number of threads" \
    sh -c '"$0" verify good --content --threads 3 | grep content' "$plenumctl"

# Flip a bit of a packed JPEG after its header; then a bit of its checksum, which changes no pixel.
"$PYTHON" - <<'PY'
import os, tarfile
name = "good/archive-000000.tar"
with tarfile.open(name) as t:
    members = [m for m in t if b"Plenum\0" in t.extractfile(m).read(100)]
data = bytearray(open(name, "rb").read())
for m, offset in ((members[3], -20), (members[5], None)):
    at = m.offset_data + m.size + offset if offset else data.index(b"Plenum\0", m.offset_data) + 10
    data[at] ^= 4
open(name, "wb").write(data)
PY
"$plenumctl" verify good --json >verify.json
ok "damage is found" test $? = 1
is "2" "damage is found in both samples" \
    "$PYTHON" -c 'import json; print(len(json.load(open("verify.json"))["problems"]))'
ok "one is reported as not-as-packed" grep -q '"kind": "not-as-packed".*checksum is wrong' verify.json
ok "verify rejects a data set that does not exist" status 1 "$plenumctl" verify nowhere
ok "verify rejects a missing argument" status 2 "$plenumctl" verify
finish
