#!/bin/bash
# SPDX-License-Identifier: MIT
# test_verify.sh - plenumctl verify: what it finds, the list of bad samples that it stores, and how streams and cursors
# use that list. Speaks TAP.
. "$top_srcdir/tests/lib.sh"
. "$top_srcdir/tests/e2e/job.sh"

json() { # NAME FILE: a number or text at the top level of plenumctl's JSON
    sed -n "s/.*\"$1\": \"\{0,1\}\([^,\"}]*\).*/\1/p" "$2" | head -n 1
}
kinds() { sed -n 's/.*"kind": "\([^"]*\)".*/\1/p' "$1" | sort | uniq -c | tr -s ' \n' ' '; }
old() { find "$1" -exec touch -h -d '1 hour ago' {} +; } # old enough for its index to be stored

"$ctl" make-sample data --classes 4 --images 6 --size 96 >/dev/null || exit 99
stream="--pipeline rrc(32)flip(0.5) --seed 5"
here=$PWD

# ---- a good data set ----
"$ctl" index data --json >index.json
ok "nothing is wrong: status 0" status 0 "$ctl" verify data --json
"$ctl" verify data --json --content >good.json
is "24 null" "all are good, and no list is needed" echo "$(($(json jpeg good.json) + $(json png good.json)))" \
    "$(json bad_list good.json)"
is "$(json fingerprint index.json)" "the fingerprint stays" json fingerprint good.json
ok "no list is there" sh -c '! ls cache/*.bad 2>/dev/null'

# Progressive JPEGs are slow until they are packed.
mkdir -p kinds/a
cp "$top_srcdir"/tests/loader/image/golden/{progressive,420,grey,arithmetic}.jpg kinds/a/
"$ctl" verify kinds --no-list --json >kinds.json
is "4 1" "progressive ones are counted" echo "$(json jpeg kinds.json) $(json progressive kinds.json)"
ok "... and it is said what to do" \
    sh -c '"$1" verify kinds --no-list | grep -q "^progressive  1 of the JPEGs.*plenumctl pack"' sh "$ctl"
"$ctl" pack kinds faster >/dev/null || exit 99
ok "... which is true" test "$("$ctl" verify faster --no-list --json | json progressive -)" = 0

# --content depends on every byte, including those that the fingerprint does not cover.
cp -r data flipped
victim=$(ls flipped/*/*.jpg | head -n 1)
head -c 100000 /dev/zero >>"$victim"
cp -r flipped padded
printf 'x' | dd of="padded/${victim#flipped/}" bs=1 seek=$(($(stat -c %s "$victim") - 1)) conv=notrunc status=none
"$ctl" verify flipped --content --json >one.json
"$ctl" verify padded --content --json >two.json
is "$(json fingerprint one.json)" "a byte behind the first 64 KiB is not in the fingerprint" json fingerprint two.json
ok "... but in the hash over all" test "$(json content one.json)" != "$(json content two.json)"
ok "... which does not depend on threads" test \
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
is 3 "before: of an image cut in its last rows, others are shown" echo "$before"
loader_threads 2
job -n 2 "$feed" bad $stream --micro-batch 2 --batches 2 --checkpoint unverified --json
ok "a run before" test "$code" = 0

"$ctl" index bad --json >before.json
ok "something is wrong: status 1" status 1 "$ctl" verify bad --no-list --json
"$ctl" verify bad --no-list --json >look.json
is " 4 bad " "four samples are bad" kinds look.json
is "null null" "--no-list keeps no list" echo "$(json bad_list look.json)" "$(json fingerprint look.json)"
is "$(json fingerprint before.json)" "... and the data set as it was" \
    sh -c '"$0" index bad --json | sed "s/.*\"fingerprint\": \"//;s/\".*//"' "$ctl"

"$ctl" pack bad packed -n 10 >/dev/null
"$ctl" verify bad >told
ok "it says where the list is and what it does" \
    grep -q "^bad list     $here/cache/.*\.bad: applies to streams that are opened from now on, which reject older cursors" told
"$ctl" verify bad --json >bad.json
ok "again: as it was" sh -c '"$0" verify bad | grep -q "^bad list .*: unchanged"' "$ctl"
ok "the list is text with reasons" \
    sh -c 'grep -q "^bad [0-9]* .*the file is empty" "$0" && grep -q "^bad [0-9]* .*not a JPEG, PNG, WebP, AVIF or PPM" "$0"' \
    "$(json bad_list bad.json)"
"$ctl" index bad --json >after.json
is "4 $(json bad_list bad.json)" "index tells how many are known" echo "$(json known_bad after.json)" \
    "$(json bad_list after.json)"
is "$(json fingerprint bad.json)" "the fingerprint is what verify said" json fingerprint after.json
bad=$(sed -n 's/^bad \([0-9]*\) .*the file is empty$/\1/p' "$(json bad_list bad.json)")
ok "sample tells why one is bad" sh -c '"$0" sample bad $1 | grep -q "^  known to be bad: the file is empty$"' "$ctl" \
    "$bad"
ok "... and in JSON" sh -c '"$0" sample bad $1 --json | grep -q "\"known_bad\": \"the file is empty\"" &&
    "$0" sample bad 0 --json | grep -q "\"known_bad\": null"' "$ctl" "$bad"
ok "... and another than before" test "$(json fingerprint before.json)" != "$(json fingerprint after.json)"
is 4 "now the one that is cut in its last rows is bad, too" \
    sh -c '"$@" --json | sed -n "s/.*\"substituted\": \([0-9]*\).*/\1/p"' sh "$ctl" hash bad $top

"$ctl" pack bad packed2 -n 10 >pack.txt
ok "it says what becomes of them" \
    grep -q "4 do not decode completely: loaders replace them, or show the part above the damage$" \
    pack.txt
ok "packing keeps bad files as they are, known or not" \
    sh -c 'for a in packed/*.tar; do cmp "$a" "packed2/${a#*/}" || exit 1; done'
"$ctl" verify packed --json >packed.json
is " 4 bad " "... which are bad there, too" kinds packed.json
is "$("$ctl" hash bad $stream)" "... so that both, verified, are the same stream" "$ctl" hash packed $stream

# ---- streams ----
job -n 2 "$feed" bad $stream --micro-batch 2 --json
ok "a job goes by the list" delivered "$("$ctl" hash bad $stream)"
is 4 "... and counts what is substituted" field substituted
job -n 1 "$feed" bad $stream --bad fail --shuffle none --micro-batch 1 # one file per batch: the first bad one is named
ok "bad = fail: file and reason" says "$here/bad/bricks/empty.jpg is known to be bad: the file is empty"
job -n 2 "$feed" bad $stream --micro-batch 2 --resume unverified
ok "a cursor from before is refused with the reason" says \
    "the cursor was made before samples of $here/bad became known to be bad (plenumctl verify)"
ok "... and the job fails" test "$code" != 0
job -n 2 "$feed" bad $stream --micro-batch 2 --batches 2 --checkpoint verified --json
job -n 1 --num-replicas 4 "$feed" bad $stream --micro-batch 1 --resume verified --json
ok "a cursor from after goes on" test "$code $(field images)" = "0 20" # of 28

mkdir elsewhere
cp -r bad elsewhere/train
is 4 "the same data in another place has the list" \
    sh -c '"$0" index elsewhere/train --json | sed -n "s/.*\"known_bad\": \([0-9]*\).*/\1/p"' "$ctl"
"$top_builddir/plenumd" --socket "unix:$here/service" --root "$here" --threads 1 2>service.log &
service=$!
wait_for 20 test -S service
is 4 "a service with roots heeds it" sh -c '"$@" --json | sed -n "s/.*\"substituted\": \([0-9]*\).*/\1/p"' sh \
    "$feed" bad $stream --loader "unix:$here/service"
kill $service
wait $service

# ---- the list changes ----
rm "$(json bad_list bad.json)"
job -n 2 "$feed" bad $stream --micro-batch 2 --resume verified
ok "the list is gone: cursors that were made with it are refused" says \
    "or with another list of bad samples (plenumctl verify)"
job -n 2 "$feed" bad $stream --micro-batch 2 --resume unverified --json
ok "... and those from before go on" test "$code $(field images)" = "0 20"

# ---- a file that changed since it was indexed ----
"$ctl" verify bad >/dev/null
"$ctl" index bad >/dev/null
truncate -s 500 "$(ls bad/*/*-00001.jpg | tail -n 1)"
ok "a file that changed: status 1" status 1 sh -c '"$0" verify bad --json >anew.json' "$ctl"
is " 5 bad " "... is verified as it lies there now" kinds anew.json
ok "... with a list of its own" test "$(json bad_list anew.json)" != "$(json bad_list bad.json)"

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
ok "junk: without the word they are bad" test "$("$ctl" hash junk $stream)" != "$("$ctl" hash clean $stream)"
is "$("$ctl" hash clean $stream)" "... and with it they are as without the junk" "$ctl" hash junk "${word[@]}"
"$ctl" verify junk --json >junk.json
"$ctl" verify clean >/dev/null
is " 1 bad 2 junk " "verify tells them from bad ones" kinds junk.json
ok "... and what to say" \
    grep -q '"4 bytes before the first scan belong to no segment; a pipeline that begins with .* tolerates them"' \
    junk.json
ok "the list has them with a mark" grep -q "^bad 2 junk: 4 bytes before the first scan belong to no segment; " \
    "$(json bad_list junk.json)"
is "$("$ctl" hash clean $stream)" "with the word they are not bad for being on the list" "$ctl" hash junk "${word[@]}"
"$top_builddir/plenumd" --socket "unix:$here/service2" --root "$here" --threads 1 2>service2.log &
service=$!
wait_for 20 test -S service2
job -n 2 "$feed" junk "${word[@]}" --loader "unix:$here/service2" --micro-batch 1 --json
ok "... nor for a stream" delivered "$("$ctl" hash clean $stream)"
job -n 2 "$feed" junk $stream --loader "unix:$here/service2" --micro-batch 1 --json
ok "a stream without the word, of the same loader, shows others" delivered "$("$ctl" hash junk $stream)"
is 3 "... and counts them" field substituted
kill $service
wait $service
"$ctl" verify junk --no-list --decoder both --json >both.json
is " 1 bad 2 junk " "both decoders say so" kinds both.json
"$ctl" pack junk junkpacked >junkpacked.txt
is "$("$ctl" hash clean $stream)" "packed, they are kept as they are" "$ctl" hash junkpacked "${word[@]}"
ok "... for the reason that is told" \
    grep -q "2.*4 bytes before the first scan belong to no segment; .* with the word junk" junkpacked/plenum-pack.txt
"$ctl" pack junk junkgone --junk >junkgone.txt
"$ctl" verify junkgone --json >gone.json
is " 1 bad " "pack --junk packs them without it" kinds gone.json
is "$("$ctl" hash clean $stream)" "... so that every pipeline shows them" "$ctl" hash junkgone $stream
ok "... which goes on with the same option alone" sh -c '! "$0" pack junk junkgone 2>why &&
    grep -q "was begun with --junk, not images as they are" why' "$ctl"

# ---- errors ----
ok "generated: there is nothing to verify" sh -c \
    '! "$0" verify generated:10 2>why && grep -q "generated:10 has no files: there is nothing to verify" why' "$ctl"
ok "no cache folder: the report comes all the same" \
    sh -c '! "$0" verify bad --cache-dir /proc/none >report 2>why && grep -q "^problems     5" report &&
    grep -q "the list of bad samples cannot be saved: there is no cache folder" why' "$ctl"
echo damaged >"$(json bad_list anew.json)"
job -n 1 "$feed" bad $stream
ok "a damaged list is refused and named" says \
    "$(json bad_list anew.json): the list of bad samples is damaged: remove it, or rebuild it"
ok "verify makes it anew" status 1 "$ctl" verify bad
job -n 1 "$feed" bad $stream
ok "... and streams go on" test "$code" = 0
finish
