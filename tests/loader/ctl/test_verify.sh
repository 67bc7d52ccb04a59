#!/bin/bash
# SPDX-License-Identifier: MIT
# test_verify.sh - plenumctl verify: what it finds, the list of bad samples that it stores, and how streams and cursors
# use that list. Prints TAP.
. "$top_srcdir/tests/lib.sh"
. "$top_srcdir/tests/e2e/job.sh"

json() { # NAME FILE: print a number or text at the top level of plenumctl's JSON
    sed -n "s/.*\"$1\": \"\{0,1\}\([^,\"}]*\).*/\1/p" "$2" | head -n 1
}
kinds() { sed -n 's/.*"kind": "\([^"]*\)".*/\1/p' "$1" | sort | uniq -c | tr -s ' \n' ' '; }
old() { find "$1" -exec touch -h -d '1 hour ago' {} +; } # make a data set old enough for its index to be stored

"$ctl" make-sample data --classes 4 --images 6 --size 96 >/dev/null || exit 99
stream="--pipeline rrc(32)flip(0.5) --seed 5"
here=$PWD

# ---- a good data set ----
"$ctl" index data --json >index.json
ok "a good data set: status 0" status 0 "$ctl" verify data --json
"$ctl" verify data --json --content >good.json
is "24 null" "all samples are good, and there is no list" echo "$(($(json jpeg good.json) + $(json png good.json)))" \
    "$(json bad_list good.json)"
is "$(json fingerprint index.json)" "the fingerprint is unchanged" json fingerprint good.json
ok "no list is written" sh -c '! ls cache/*.bad 2>/dev/null'

# Progressive JPEGs are slow until they are packed.
mkdir -p kinds/a
cp "$top_srcdir"/tests/loader/image/golden/{progressive,420,grey,arithmetic}.jpg kinds/a/
"$ctl" verify kinds --no-list --json >kinds.json
is "4 1" "progressive JPEGs are counted" echo "$(json jpeg kinds.json) $(json progressive kinds.json)"
ok "verify advises to pack progressive JPEGs" \
    sh -c '"$1" verify kinds --no-list | grep -q "^progressive  1 of the JPEGs.*plenumctl pack"' sh "$ctl"
"$ctl" pack kinds faster >/dev/null || exit 99
ok "packing leaves no progressive JPEG" test "$("$ctl" verify faster --no-list --json | json progressive -)" = 0

# --content depends on every byte, including those that the fingerprint does not cover.
cp -r data flipped
victim=$(ls flipped/*/*.jpg | head -n 1)
head -c 100000 /dev/zero >>"$victim"
cp -r flipped padded
printf 'x' | dd of="padded/${victim#flipped/}" bs=1 seek=$(($(stat -c %s "$victim") - 1)) conv=notrunc status=none
"$ctl" verify flipped --content --json >one.json
"$ctl" verify padded --content --json >two.json
is "$(json fingerprint one.json)" "the fingerprint does not cover a byte after the first 64 KiB" json fingerprint \
    two.json
ok "--content covers a byte after the first 64 KiB" test "$(json content one.json)" != "$(json content two.json)"
ok "--content does not depend on the number of threads" test \
    "$("$ctl" verify padded --content --json -t 5 | json content -)" = "$(json content two.json)"

# ---- bad samples ----
mkdir bad
cp -r data/* bad/
tall=bad/clouds/tall.jpg
cp bad/clouds/clouds-00003.jpg "$tall"
truncate -s -40 "$tall" # damaged only in its last rows
head -c 900 data/clouds/clouds-00001.jpg >bad/clouds/cut.jpg
echo "no image" >bad/bricks/text.jpg
: >bad/bricks/empty.jpg
old bad
top="--pipeline resize(64)center_crop(8) --seed 5 --shuffle none" # needs only the middle
before=$("$ctl" hash bad $top --json | json substituted -)
is 3 "before verify, an image with damage only in its last rows is shown" echo "$before"
loader_threads 2
job -n 2 "$feed" bad $stream --micro-batch 2 --batches 2 --checkpoint unverified --json
ok "a run without the list" test "$code" = 0

"$ctl" index bad --json >before.json
ok "bad samples: status 1" status 1 "$ctl" verify bad --no-list --json
"$ctl" verify bad --no-list --json >look.json
is " 4 bad " "four samples are bad" kinds look.json
is "null null" "--no-list writes no list" echo "$(json bad_list look.json)" "$(json fingerprint look.json)"
is "$(json fingerprint before.json)" "--no-list leaves the fingerprint unchanged" \
    sh -c '"$0" index bad --json | sed "s/.*\"fingerprint\": \"//;s/\".*//"' "$ctl"

"$ctl" pack bad packed -n 10 >/dev/null
"$ctl" verify bad >told
ok "verify prints the list's path and its effect" \
    grep -q "^bad list     $here/cache/.*\.bad: applies to streams that are opened from now on, which reject older cursors" told
"$ctl" verify bad --json >bad.json
ok "a second run leaves the list unchanged" sh -c '"$0" verify bad | grep -q "^bad list .*: unchanged"' "$ctl"
ok "the list is text, with reasons" \
    sh -c 'grep -q "^bad [0-9]* .*the file is empty" "$0" && grep -q "^bad [0-9]* .*not a JPEG, PNG, WebP, AVIF or PPM" "$0"' \
    "$(json bad_list bad.json)"
"$ctl" index bad --json >after.json
is "4 $(json bad_list bad.json)" "index prints the number of bad samples and the list" echo \
    "$(json known_bad after.json)" \
    "$(json bad_list after.json)"
is "$(json fingerprint bad.json)" "index and verify print the same fingerprint" json fingerprint after.json
bad=$(sed -n 's/^bad \([0-9]*\) .*the file is empty$/\1/p' "$(json bad_list bad.json)")
ok "sample prints why a sample is bad" sh -c '"$0" sample bad $1 | grep -q "^  known to be bad: the file is empty$"' \
    "$ctl" \
    "$bad"
ok "sample prints in JSON why a sample is bad" \
    sh -c '"$0" sample bad $1 --json | grep -q "\"known_bad\": \"the file is empty\"" &&
    "$0" sample bad 0 --json | grep -q "\"known_bad\": null"' "$ctl" "$bad"
ok "the fingerprint differs from that without the list" test "$(json fingerprint before.json)" != \
    "$(json fingerprint after.json)"
is 4 "with the list, the image with damage only in its last rows is substituted" \
    sh -c '"$@" --json | sed -n "s/.*\"substituted\": \([0-9]*\).*/\1/p"' sh "$ctl" hash bad $top

"$ctl" pack bad packed2 -n 10 >pack.txt
ok "pack prints what loaders will do with bad samples" \
    grep -q "4 do not decode completely: loaders replace them, or show the part above the damage$" \
    pack.txt
ok "packing keeps bad files as they are, known or not" \
    sh -c 'for a in packed/*.tar; do cmp "$a" "packed2/${a#*/}" || exit 1; done'
"$ctl" verify packed --json >packed.json
is " 4 bad " "verify finds the bad files in a packed data set" kinds packed.json
is "$("$ctl" hash bad $stream)" "the original and the packed data set, both verified, give the same stream" \
    "$ctl" hash packed $stream

# ---- streams ----
job -n 2 "$feed" bad $stream --micro-batch 2 --json
ok "a job uses the list" delivered "$("$ctl" hash bad $stream)"
is 4 "a job that uses the list counts substituted samples" field substituted
job -n 1 "$feed" bad $stream --bad fail --shuffle none --micro-batch 1 # one file per batch: the first bad one is named
ok "--bad fail names the file and the reason" says "$here/bad/bricks/empty.jpg is known to be bad: the file is empty"
job -n 2 "$feed" bad $stream --micro-batch 2 --resume unverified
ok "a cursor from before the list is rejected with the reason" says \
    "the cursor was made before samples of $here/bad became known to be bad (plenumctl verify)"
ok "a job whose cursor is rejected fails" test "$code" != 0
job -n 2 "$feed" bad $stream --micro-batch 2 --batches 2 --checkpoint verified --json
job -n 1 --num-replicas 4 "$feed" bad $stream --micro-batch 1 --resume verified --json
ok "a cursor made with the list works" test "$code $(field images)" = "0 20" # of 28

mkdir elsewhere
cp -r bad elsewhere/train
is 4 "a copy of the data set uses the list" \
    sh -c '"$0" index elsewhere/train --json | sed -n "s/.*\"known_bad\": \([0-9]*\).*/\1/p"' "$ctl"
"$top_builddir/plenumd" --socket "unix:$here/service" --root "$here" --threads 1 2>service.log &
service=$!
wait_for test -S service
is 4 "a service with roots uses the list" sh -c '"$@" --json | sed -n "s/.*\"substituted\": \([0-9]*\).*/\1/p"' sh \
    "$feed" bad $stream --loader "unix:$here/service"
kill $service
wait $service

# ---- the list changes ----
rm "$(json bad_list bad.json)"
job -n 2 "$feed" bad $stream --micro-batch 2 --resume verified
ok "without the list, cursors made with it are rejected" says \
    "or with another list of bad samples (plenumctl verify)"
job -n 2 "$feed" bad $stream --micro-batch 2 --resume unverified --json
ok "without the list, cursors from before it work" test "$code $(field images)" = "0 20"

# ---- a file that changed since it was indexed ----
"$ctl" verify bad >/dev/null
"$ctl" index bad >/dev/null
truncate -s 500 "$(ls bad/*/*-00001.jpg | tail -n 1)"
ok "a file that changed since the index: status 1" status 1 sh -c '"$0" verify bad --json >anew.json' "$ctl"
is " 5 bad " "verify judges the new content of a changed file" kinds anew.json
ok "verify writes a new list for a changed file" test "$(json bad_list anew.json)" != "$(json bad_list bad.json)"

# ---- junk before the first scan ----
mkdir -p junk/a clean/a
for i in 0 1 2 3 4 5; do
    cp "$(find data -name '*.jpg' | sort | sed -n "$((i + 1))p")" clean/a/$i.jpg
    if [ $i = 2 ] || [ $i = 4 ]; then
        { head -c 2 clean/a/$i.jpg && printf 'junk' && tail -c +3 clean/a/$i.jpg; } >junk/a/$i.jpg
    else
        cp clean/a/$i.jpg junk/a/
    fi
done
truncate -s -40 clean/a/5.jpg # damaged only in its last rows
cp clean/a/5.jpg junk/a/
old junk
old clean
word=(--pipeline "junk rrc(32) flip(0.5)" --seed 5)
ok "without the word junk, samples with junk are bad" test "$("$ctl" hash junk $stream)" != \
    "$("$ctl" hash clean $stream)"
is "$("$ctl" hash clean $stream)" "with it, they render as without the junk" "$ctl" hash junk "${word[@]}"
"$ctl" verify junk --json >junk.json
"$ctl" verify clean >/dev/null
is " 1 bad 2 junk " "verify reports junk and bad samples separately" kinds junk.json
ok "verify names the word that tolerates junk" \
    grep -q '"4 bytes before the first scan belong to no segment; a pipeline that begins with .* tolerates them"' \
    junk.json
ok "the list marks samples with junk" grep -q "^bad 2 junk: 4 bytes before the first scan belong to no segment; " \
    "$(json bad_list junk.json)"
is "$("$ctl" hash clean $stream)" "with the word junk, these entries of the list do not apply" "$ctl" hash junk \
    "${word[@]}"
"$top_builddir/plenumd" --socket "unix:$here/service2" --root "$here" --threads 1 2>service2.log &
service=$!
wait_for test -S service2
job -n 2 "$feed" junk "${word[@]}" --loader "unix:$here/service2" --micro-batch 1 --json
ok "with the word junk, these entries do not apply to a stream either" delivered "$("$ctl" hash clean $stream)"
job -n 2 "$feed" junk $stream --loader "unix:$here/service2" --micro-batch 1 --json
ok "a stream without the word from the same loader substitutes them" delivered "$("$ctl" hash junk $stream)"
is 3 "a stream without the word counts the substituted samples" field substituted
kill $service
wait $service
"$ctl" verify junk --no-list --decoder both --json >both.json
is " 1 bad 2 junk " "both decoders agree" kinds both.json
"$ctl" pack junk junkpacked >junkpacked.txt
is "$("$ctl" hash clean $stream)" "pack keeps samples with junk unchanged" "$ctl" hash junkpacked "${word[@]}"
ok "pack gives the reason why it keeps samples with junk" \
    grep -q "2.*4 bytes before the first scan belong to no segment; .* with the word junk" junkpacked/plenum-pack.txt
"$ctl" pack junk junkgone --junk >junkgone.txt
"$ctl" verify junkgone --json >gone.json
is " 1 bad " "pack --junk removes the junk" kinds gone.json
is "$("$ctl" hash clean $stream)" "without the junk, every pipeline renders the samples" "$ctl" hash junkgone $stream
ok "pack --junk can be continued only with --junk" sh -c '! "$0" pack junk junkgone 2>why &&
    grep -q "was begun with --junk, not images as they are" why' "$ctl"

# ---- errors ----
ok "verify rejects generated images" sh -c \
    '! "$0" verify generated:10 2>why && grep -q "generated:10 has no files: there is nothing to verify" why' "$ctl"
ok "without a cache folder, verify still prints its report" \
    sh -c '! "$0" verify bad --cache-dir /proc/none >report 2>why && grep -q "^problems     5" report &&
    grep -q "the list of bad samples cannot be saved: there is no cache folder" why' "$ctl"
echo damaged >"$(json bad_list anew.json)"
job -n 1 "$feed" bad $stream
ok "a damaged list is rejected by name" says \
    "$(json bad_list anew.json): the list of bad samples is damaged: remove it, or rebuild it"
ok "verify writes a new list" status 1 "$ctl" verify bad
job -n 1 "$feed" bad $stream
ok "with the new list, streams work again" test "$code" = 0
finish
