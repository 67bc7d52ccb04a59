#!/bin/bash
# SPDX-License-Identifier: MIT
# plenumctl pack --longest and --shortest: sizes, files that stay unchanged, the same bytes with any number of threads
# and after any interruption, and errors. tests/loader/image/pack/test_pack_resize tests the pixels.
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

ok "a sample data set" "$plenumctl" make-sample data -n 12 --size 160
cp data/bricks/bricks-00001.jpg data/bricks/renamed.png # a JPEG with the extension of a PNG
head -c 3000 data/bricks/bricks-00003.jpg >data/bricks/cut.jpg
: >data/bricks/empty.jpg
echo "no image" >data/bricks/text.jpg
samples=$(find data -name '*.*g' | wc -l)

"$plenumctl" pack data small -n 10 --longest 200 --threads 1 --json >small.json
ok "pack --longest" test -s small.json
is "$samples" "all samples are packed" field samples <small.json
is 3 "bad samples are kept" field kept.bad <small.json
ok "some images are reduced" test "$(field resized <small.json)" -gt 40
ok "others are only packed" test "$(field packed <small.json)" -gt 3
is "$samples" "each sample is counted once" "$PYTHON" -c '
import json
j = json.load(open("small.json"))
print(j["resized"] + j["packed"] + sum(j["kept"].values()))'
ok "the total size is smaller" "$PYTHON" -c '
import json
j = json.load(open("small.json"))
assert j["bytes_after"] < 0.8 * j["bytes_before"], j'
is "classes.txt DATASET.json plenum-pack.txt" "the folder's other files" \
    sh -c 'echo $(LC_ALL=C ls small | grep -v "tar$" | LC_ALL=C sort -f)'
ok "the summary counts" sh -c '"$0" pack data small -n 10 --longest 200 >said &&
    grep -q "^image files  .* -> " said &&
    grep -q "^resized      '"$(field resized <small.json)"' by --longest 200 --quality 90 --subsampling 420; " said' \
    "$plenumctl"
is "$samples" "the folder is a data set, without DATASET.json as a sample" sh -c \
    '"$0" index small --json | tee index.json |
    sed "s/.*\"samples\": \([0-9]*\).*/\1/"' "$plenumctl"
is "$("$plenumctl" index data --json | field classes)" "the folder has the same number of classes" \
    field classes <index.json
is 3 "verify finds only the bad samples" sh -c '"$0" verify small --no-list --json | "$1" -c "
import json, sys
print(len(json.load(sys.stdin)[\"problems\"]))"' "$plenumctl" "$PYTHON"
"$plenumctl" pack data shortest -n 10 --shortest 128 --quality 70 --subsampling 444 --json >shortest.json
ok "pack --shortest" test "$(field resized <shortest.json)" -gt 40

# DATASET.json
is "$("$plenumctl" index data --json | field fingerprint)" "DATASET.json has the source's fingerprint" \
    field source.fingerprint <small/DATASET.json
is "folder:$PWD/data" "DATASET.json has the source's name" field source.name <small/DATASET.json
is "200 None 90 420 10 archive" "DATASET.json has the options" "$PYTHON" -c '
import json
o = json.load(open("small/DATASET.json"))["options"]
print(o["longest"], o["shortest"], o["quality"], o["subsampling"], o["samples_per_archive"], o["prefix"])'
is "$(field bytes_before <small.json) $(field bytes_after <small.json) $(field resized <small.json)" \
    "DATASET.json has the numbers of bytes and resized images" \
    "$PYTHON" -c '
import json
d = json.load(open("small/DATASET.json"))
print(d["bytes_before"], d["bytes_after"], d["resized"])'
is "$("$plenumctl" --version | sed 's/.* //')" "DATASET.json has the version" field version <small/DATASET.json

# --- each file ---
if "$PYTHON" -c 'import PIL' 2>/dev/null; then
    ok "sizes, names, orientation, and pixels like Pillow's Lanczos" "$PYTHON" - <<'PY'
import io, os, tarfile
from PIL import Image, ImageChops, ImageStat


def members(folder):
    for name in sorted(n for n in os.listdir(folder) if n.endswith(".tar")):
        with tarfile.open(f"{folder}/{name}") as t:
            yield from [(m.name, t.extractfile(m).read()) for m in t if not m.name.endswith(".cls")]


def scaled(side, part, whole):
    return max(1, (2 * side * part + whole) // (2 * whole))


paths = sorted((os.path.join(d, f) for d, _, fs in os.walk("data") for f in fs), key=os.fsencode)
for folder, pick, wanted, sampling in (("small", max, 200, 2), ("shortest", min, 128, 0)):
    got = list(members(folder))
    assert len(got) == len(paths)
    resized = 0
    for path, (name, data) in zip(paths, got):
        try:
            a = Image.open(path)
            a.load()
        except Exception:
            assert data == open(path, "rb").read(), path
            continue
        b = Image.open(io.BytesIO(data))
        assert name.endswith(".jpg" if b.format == "JPEG" else ".png"), (path, name)
        assert a.getexif().get(0x112, 1) == b.getexif().get(0x112, 1), path
        side = pick(a.size)
        if side <= wanted:
            assert a.format == b.format and a.size == b.size, path
            assert a.mode == b.mode and a.tobytes() == b.tobytes(), path
            continue
        assert b.format == "JPEG" and b.size == tuple(scaled(s, wanted, side) for s in a.size), (path, b.size)
        assert b.mode == ("L" if a.mode == "L" else "RGB"), (path, a.mode, b.mode)
        resized += 1
        if a.mode in ("RGB", "L"):
            difference = ImageChops.difference(a.resize(b.size, Image.LANCZOS), b)
            assert max(ImageStat.Stat(difference).mean) < 12, (path, ImageStat.Stat(difference).mean)
            if a.mode == "RGB":
                from PIL import JpegImagePlugin
                assert JpegImagePlugin.get_sampling(b) == sampling, path
    assert resized > 40, resized
PY
else
    skip "sizes, names, orientation, and pixels like Pillow's Lanczos" "Pillow is not installed"
fi

# --- the same bytes ---
archives small >want
"$plenumctl" pack data threads -n 10 --longest 200 --threads 4 >/dev/null
is "$(cat want)" "four threads write the same files as one" archives threads
killed=0
for delay in 0.01 0.02 0.03 0.05 0.08 0.12 0.16 0.2 0.3; do
    "$plenumctl" pack data torn -n 10 --longest 200 --threads 2 >torn.out 2>&1 &
    pid=$!
    sleep $delay # any moment
    kill -9 $pid 2>/dev/null && killed=$((killed + 1))
    wait $pid 2>/dev/null
done
ok "some runs were killed" test $killed -ge 2
ok "the next run continues" "$plenumctl" pack data torn -n 10 --longest 200
is "$(cat want)" "the run after killed ones leaves the same files" archives torn
rm torn/DATASET.json
ok "DATASET.json is written again if it is missing" "$plenumctl" pack data torn -n 10 --longest 200
is "$(cat want)" "the DATASET.json that is written again is the same" archives torn
"$plenumctl" pack data all -n 10 --longest 4000 --json >all.json
"$plenumctl" pack data packed -n 10 >/dev/null
is 0 "images that are not larger are not resized" field resized <all.json
is "$(cd packed && sha256sum -- *.tar)" "their archives equal those of pack without a size" \
    sh -c 'cd all && sha256sum -- *.tar'

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
no 2 "both --longest and --shortest" "cannot be used together" data x --longest 200 --shortest 100
no 2 "a quality without a size" "for the JPEGs of shrunk images" data x --quality 90
no 2 "a subsampling without a size" "for the JPEGs of shrunk images" data x --subsampling 420
no 2 "an unknown subsampling" "--subsampling must be 420 or 444, not '422'" data x --longest 200 --subsampling 422
for n in 0 15 65501 2x; do
    no 2 "--longest $n" "--longest" data x --longest $n
    no 2 "--shortest $n" "--shortest" data x --shortest $n
done
no 2 "--quality 0" "--quality" data x --longest 200 --quality 0
no 2 "--quality 101" "--quality" data x --longest 200 --quality 101
ok "rejected command lines create no folder" test ! -e x
no 1 "continuing with a different size" "was begun with --longest 200 --quality 90 --subsampling 420, not --longest 201" \
    data small -n 10 --longest 201
no 1 "continuing with --shortest instead of --longest" "not --shortest 200 --quality 90" data small -n 10 --shortest 200
no 1 "continuing with a different quality" "not --longest 200 --quality 91" data small -n 10 --longest 200 --quality 91
no 1 "continuing with a different subsampling" "--subsampling 444: continue with the same options, or pack into a new folder" \
    data small -n 10 --longest 200 --subsampling 444
no 1 "continuing without a size" "not images as they are" data small -n 10
no 1 "continuing with a size where there was none" "was begun with images as they are, not --longest" data packed -n 10 --longest 200
ok "rejected continuations change no file" sh -c '[ "$0" = "$1" ]' "$(cat want)" "$(archives small)"

# A cursor of one data set is not valid for the other.
ok "a stream of the original data set stores a cursor" "$feed" data --micro-batch 4 --batches 2 --checkpoint cursor
ok "the original data set accepts its cursor" "$feed" data --micro-batch 4 --batches 1 --resume cursor
ok "the reduced data set rejects the original's cursor" sh -c '! "$0" small --micro-batch 4 --resume cursor \
    >why 2>&1 && grep -q "another data set\|other data" why || { cat why; false; }' "$feed"
finish
