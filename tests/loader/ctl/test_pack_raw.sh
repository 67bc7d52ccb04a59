#!/bin/bash
# SPDX-License-Identifier: MIT
# plenumctl pack --raw and --raw-share: PPMs that other programs can read, the same stream as before, the same bytes
# with any number of threads and after any interruption, and errors. tests/loader/image/pack/test_pack_resize tests the
# pixels.
. "$top_srcdir/tests/lib.sh"
plenumctl=$top_builddir/plenumctl feed=$top_builddir/examples/feed
PYTHON=${PYTHON:-python3}
export PLENUM_PLENUMD=$top_builddir/plenumd
cd "$T" || exit 99

field() { # NAME <JSON
    "$PYTHON" -c '
import functools, json, sys
print(functools.reduce(lambda v, k: v[k], sys.argv[1].split("."), json.load(sys.stdin)))' "$1"
}
archives() { (cd "$1" && ls && sha256sum -- *.tar *.txt DATASET.json | grep -v plenum-pack.txt); }
# DATASET: print the hash of two epochs and the number of substituted samples, for training and for evaluation
hashes() {
    for pipeline in train eval 'exif rrc(96,scale=0.02:0.3) flip(0.5)' 'letterbox(64)'; do
        "$plenumctl" hash "$1" --shuffle none --seed 3 -e 2 -p "$pipeline" --json || return
    done
}
# FOLDER EXTENSION: print the number of members with this extension
members() { cat "$1"/*.tar | tar -tif - | grep -c "\.$2\$"; }

ok "make-sample creates a data set" "$plenumctl" make-sample data -n 12 --size 160
cp data/bricks/bricks-00001.jpg data/bricks/renamed.png # a JPEG with the extension of a PNG
{ # its EXIF orientation is 6: it is stored sideways
    head -c 2 data/bricks/bricks-00002.jpg
    printf '\377\341\000\042Exif\000\000II*\000\010\000\000\000'
    printf '\001\000\022\001\003\000\001\000\000\000\006\000\000\000\000\000\000\000'
    tail -c +3 data/bricks/bricks-00002.jpg
} >data/bricks/turned.jpg
head -c 3000 data/bricks/bricks-00003.jpg >data/bricks/cut.jpg
: >data/bricks/empty.jpg
echo "no image" >data/bricks/text.jpg
samples=$(find data -name '*.*g' | wc -l)

# --- all samples ---
"$plenumctl" pack data raw -n 10 --raw --threads 1 --json >raw.json
ok "pack --raw" test -s raw.json
is "$samples" "all samples are packed" field samples <raw.json
is 3 "bad samples are kept" field kept.bad <raw.json
is $((samples - 3)) "all others are raw" field raw <raw.json
is "0 0" "none is resized, and none is a packed JPEG" echo "$(field resized <raw.json) $(field packed <raw.json)"
is $((samples - 3)) "raw members are named *.ppm" members raw ppm
is 3 "bad members keep their extension" members raw jpg
is "$samples" "each member has a label" members raw cls
hashes data >want
ok "bad samples were substituted" grep -q '"substituted": [1-9]' want
is "$(cat want)" "raw pixels render a bit-identical stream" hashes raw
ok "the fingerprint of raw pixels differs" \
    sh -c '[ "$("$0" index data --json | "$1" -c "$2")" != "$("$0" index raw --json |
    "$1" -c "$2")" ]' "$plenumctl" "$PYTHON" 'import json, sys; print(json.load(sys.stdin)["fingerprint"])'
is "3 $((samples - 3)) 0 0" "verify decodes PPMs completely" sh -c '"$0" verify raw --no-list --json | "$1" -c "
import json, sys
j = json.load(sys.stdin)
print(len(j[\"problems\"]), j[\"ppm\"], j[\"jpeg\"], j[\"png\"])"' "$plenumctl" "$PYTHON"
ok "verify reports the number of PPMs" sh -c \
    '"$0" verify raw --no-list | grep -q " 0 WebPs, 0 AVIFs and '$((samples - 3))' PPMs decode completely"' \
    "$plenumctl"
ok "index --tiles accepts a data set without JPEGs" "$plenumctl" index raw --tiles
ok "preview shows PPMs" sh -c '"$0" preview raw sheet.jpg && test -s sheet.jpg' "$plenumctl"
"$feed" raw --pipeline 'exif rrc(96) flip(0.5)' --seed 5 --json >fed.json
is "$("$plenumctl" hash data -p 'exif rrc(96) flip(0.5)' --seed 5 --json | field hash)" \
    "a loader renders the same stream from the raw copy" field hash <fed.json
ok "the summary gives the number of raw samples" sh -c '"$0" pack data raw -n 10 --raw >said &&
    grep -q "^raw          '$((samples - 3))' are raw pixels" said' "$plenumctl"
is "100 False" "DATASET.json has the options" "$PYTHON" -c '
import json
o = json.load(open("raw/DATASET.json"))["options"]
print(o["raw_share"], "quality" in o)'

# --- smaller images, and a share ---
"$plenumctl" pack data small -n 10 --longest 100 --raw --json >small.json
ok "pack --longest --raw shrinks images" test "$(field resized <small.json)" -gt 40
is $((samples - 3)) "all are raw" field raw <small.json
"$plenumctl" pack data half -n 10 --longest 100 --quality 80 --raw-share 50 --json >half.json
ok "pack --raw-share reports its result" test -s half.json
is "$(field resized <small.json)" "--raw-share changes nothing about which images are resized" field resized <half.json
is "$(members half ppm)" "raw members are named *.ppm" field raw <half.json
ok "raw members are half of the good samples" sh -c \
    '[ "$0" -ge '$((samples / 2 - 3))' ] && [ "$0" -le '$((samples / 2 + 1))' ]' \
    "$(members half ppm)"
is $((samples - 3)) "the others are JPEGs" echo $(($(members half ppm) + $(members half jpg) - 3))
is "50 80" "DATASET.json has both options" "$PYTHON" -c '
import json
o = json.load(open("half/DATASET.json"))["options"]
print(o["raw_share"], o["quality"])'

# Pack raw pixels again, with --raw and without.
"$plenumctl" pack raw again -n 10 --raw >/dev/null
is "$(cd raw && sha256sum -- *.tar)" "packing raw pixels with --raw gives the same archives" \
    sh -c 'cd again && sha256sum -- *.tar'
"$plenumctl" pack raw kept -n 10 --json >kept.json
is "$(cd raw && sha256sum -- *.tar)" "packing raw pixels without --raw keeps them" sh -c 'cd kept && sha256sum -- *.tar'
is $((samples - 3)) "the summary counts raw pixels as files that are not JPEGs" field kept.png <kept.json

# --- other programs can read them ---
if "$PYTHON" -c 'import PIL' 2>/dev/null; then
    ok "Pillow reads the PPMs and sees the originals' pixels" "$PYTHON" - <<'PY'
import io, os, tarfile
from PIL import Image

paths = sorted((os.path.join(d, f) for d, _, fs in os.walk("data") for f in fs), key=os.fsencode)
got = []
for name in sorted(n for n in os.listdir("raw") if n.endswith(".tar")):
    with tarfile.open("raw/" + name) as t:
        got += [(m.name, t.extractfile(m).read()) for m in t if not m.name.endswith(".cls")]
assert len(got) == len(paths)
compared = turned = 0
for path, (name, data) in zip(paths, got):
    try:
        a = Image.open(path)
        a.load()
    except Exception:
        assert data == open(path, "rb").read(), path
        continue
    b = Image.open(io.BytesIO(data))
    assert name.endswith(".ppm") and b.format == "PPM" and b.mode == "RGB" and b.size == a.size, (path, name)
    orientation = a.getexif().get(0x112, 1)
    assert (b"# EXIF orientation %d\n" % orientation in data[:64]) == (orientation > 1), path
    turned += orientation > 1
    if a.format == "JPEG" and a.mode == "RGB":
        assert a.tobytes() == b.tobytes(), path
        compared += 1
assert compared > 40 and turned > 0, (compared, turned)
PY
else
    skip "Pillow reads the PPMs and sees the originals' pixels" "Pillow is not installed"
fi

# --- the same bytes ---
archives raw >archives
"$plenumctl" pack data threads -n 10 --raw --threads 4 >/dev/null
is "$(cat archives)" "four threads write the same files as one" archives threads
killed=0
for delay in 0.01 0.02 0.03 0.05 0.08 0.12 0.16 0.2 0.3; do
    "$plenumctl" pack data torn -n 10 --raw --threads 2 >torn.out 2>&1 &
    pid=$!
    sleep $delay # any moment
    kill -9 $pid 2>/dev/null && killed=$((killed + 1))
    wait $pid 2>/dev/null
done
ok "some runs were killed" test $killed -ge 2
ok "the next run continues" "$plenumctl" pack data torn -n 10 --raw
is "$(cat archives)" "the run after killed ones leaves the same files" archives torn

# --- errors ---
no() { # STATUS TITLE PATTERN ARGUMENT...: pack fails with this status and a message that matches PATTERN
    local want=$1 sentence=$2 pattern=$3 got=0
    shift 3
    "$plenumctl" pack "$@" >"$T/.out" 2>&1 || got=$?
    if [ $got != "$want" ] || ! grep -q -e "$pattern" "$T/.out"; then
        result 1 "$sentence" "$T/.out"
    else
        result 0 "$sentence"
    fi
}
no 2 "both --raw and --raw-share" "either all images become raw pixels, or a share" data x --raw --raw-share 50
no 2 "a quality for raw pixels" "--raw turns all images into raw pixels" data x --longest 100 --raw --quality 90
no 2 "a subsampling for raw pixels" "--raw turns all images into raw pixels" data x --longest 100 --raw --subsampling 444
no 2 "a quality with --raw-share but no size" "for the JPEGs of shrunk images" data x --raw-share 50 --quality 90
for share in 0 100 -1 0.5 x; do
    no 2 "--raw-share $share" "raw-share" data x --raw-share $share
done
ok "rejected command lines create no folder" test ! -e x
no 1 "continuing without --raw" "was begun with --raw, not images as they are" data raw -n 10
no 1 "continuing with a different share" "--raw-share 50, not --longest 100 --quality 80 --subsampling 420 --raw-share 51" \
    data half -n 10 --longest 100 --quality 80 --raw-share 51
ok "rejected continuations change no file" sh -c '[ "$0" = "$1" ]' "$(cat archives)" "$(archives raw)"
ok "a stream of the original data set stores a cursor" "$feed" data --micro-batch 4 --batches 2 --checkpoint cursor
ok "a stream of the raw pixels rejects the original's cursor" sh -c '! "$0" raw --micro-batch 4 --resume cursor \
    >why 2>&1 && grep -q "another data set\|other data" why || { cat why; false; }' "$feed"
finish
