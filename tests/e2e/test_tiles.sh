#!/bin/bash
# SPDX-License-Identifier: MIT
# test_tiles.sh - checks that a job gets the same pixels whatever JPEG entry points are cached and whatever decoder is
# used. Prints TAP.
. "$top_srcdir/tests/lib.sh"
. "$top_srcdir/tests/e2e/job.sh"

# json NAME FILE WHICH - prints the first or second number with that name
json() { grep -o "\"$1\": [0-9]*" "$2" | sed -n "$3s/.* //p"; }
notes() { ls cache/*.notes 2>/dev/null; }
"$ctl" make-sample data --classes 4 --images 5 --size 200 >/dev/null || exit 99
find data -exec touch -h -d '1 hour ago' {} +
stream="--pipeline rrc(48)flip(0.5) --seed 3 --epochs 4"
alone=$("$ctl" hash data $stream)

# ---- in jobs ---- A script replaces plenumd: it records PLENUM_DECODER, then starts the loader.
cat >plenumd <<END
#!/bin/sh
echo "\$PLENUM_DECODER" >>"$T/decoders"
exec "$top_builddir/plenumd" --threads 3 \$LOADER_ARGUMENTS "\$@"
END
chmod +x plenumd
export PLENUM_PLENUMD=$T/plenumd
job -n 2 -x LOADER_ARGUMENTS=--no-tiles "$feed" data $stream --micro-batch 2 --json
ok "--no-tiles: the same hash" delivered "$alone"
ok "--no-tiles: no entry points are written" test -z "$(notes)"
job -n 2 "$feed" data $stream --micro-batch 2 --json
ok "a job that writes entry points: the same hash" delivered "$alone"
ok "a job that writes entry points puts them beside the index" test -s "$(notes)"
before=$(cksum "$(notes)")
job -n 2 "$feed" data $stream --micro-batch 2 --json
ok "a job that uses entry points: the same hash" delivered "$alone"
ok "a job that uses entry points does not change them" test "$before" = "$(cksum "$(notes)")"

# ---- created in advance ----
rm cache/*
"$ctl" index data --tiles --json >tiles.json
ok "index --tiles writes entry points for most samples" test \
    "$(json samples tiles.json 1)" = 20 -a "$(json samples tiles.json 2)" -gt 10
size=$(json bytes tiles.json 2)
ok "they have at most 4 % of the samples' bytes" test "$size" -gt 0 -a $((size * 25)) -le "$(json bytes tiles.json 1)"
before=$(cksum "$(notes)")
progressive=$("$ctl" verify data --no-list --json | json progressive - 1)
ok "index --tiles counts the progressive JPEGs" test \
    "$progressive" -gt 0 -a "$(json progressive tiles.json 1)" = "$progressive"
"$ctl" index data --tiles --json >again.json
ok "index --tiles changes nothing when repeated" test \
    "$(cat tiles.json)" = "$(cat again.json)" -a "$before" = "$(cksum "$(notes)")"
job -n 2 "$feed" data $stream --micro-batch 2 --json
ok "a job that uses entry points created in advance: the same hash" delivered "$alone"
ok "a job does not change entry points created in advance" test "$before" = "$(cksum "$(notes)")"

# ---- damaged ----
for at in 70 300 1000 2500; do
    printf 'damage' | dd of="$(notes)" bs=1 seek=$at conv=notrunc status=none
done
job -n 2 "$feed" data $stream --micro-batch 2 --json
ok "damaged entry points: the same hash" delivered "$alone"
truncate -s 100 "$(notes)"
job -n 2 "$feed" data $stream --micro-batch 2 --json
ok "a truncated file of entry points: the same hash" delivered "$alone"
head -c 5000 /dev/urandom >"$(notes)"
job -n 2 "$feed" data $stream --micro-batch 2 --json
ok "random bytes as entry points: the same hash" delivered "$alone"

# ---- which decoder ----
for decoder in libjpeg plenum; do
    rm -f decoders
    PLENUM_DECODER=$decoder job -n 2 "$feed" data $stream --micro-batch 2 --json
    ok "PLENUM_DECODER=$decoder: the same hash" delivered "$alone"
    ok "PLENUM_DECODER=$decoder in plenumrun's environment reaches the loader" grep -qx $decoder decoders
    rm -f decoders
    job -n 2 -x PLENUM_DECODER=$decoder "$feed" data $stream --micro-batch 2 --json
    ok "-x PLENUM_DECODER=$decoder reaches the loader" grep -qx $decoder decoders
done
ok "an unknown PLENUM_DECODER is rejected" \
    sh -c '! PLENUM_DECODER=other "$0" --job >out 2>err && grep -q "PLENUM_DECODER must be one of auto, plenum, libjpeg, not .other." err' "$top_builddir/plenumd"
ok "verify --decoder both finds no difference" status 0 "$ctl" verify data --decoder both
cp -r data bad
for f in $(ls bad/*/*.jpg | head -n 3); do truncate -s -200 "$f"; done
"$ctl" verify bad --decoder both --no-list --json >bad.json
ok "verify --decoder both finds no difference between decoders in bad images" test \
    "$(grep -c '"kind": "bad"' bad.json)" = 3 -a "$(grep -c decoders-differ bad.json)" = 0
ok "verify rejects an unknown decoder" \
    sh -c '! "$0" verify data --decoder mine 2>err && grep -q "auto, plenum, libjpeg, both, not .mine." err' "$ctl"

# ---- rejected options ----
ok "index --tiles rejects generated images" \
    sh -c '! "$0" index --tiles generated:10 2>err && grep -q "generated: there are no JPEGs" err' "$ctl"
ok "index --tiles fails without a cache folder" \
    sh -c '! "$0" index --tiles data --cache-dir /proc/none 2>err && grep -q "cannot be written beside the index (there is no cache folder)" err' "$ctl"
finish
