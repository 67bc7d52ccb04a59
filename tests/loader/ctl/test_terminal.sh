#!/bin/bash
# SPDX-License-Identifier: MIT
# test_terminal.sh - plenumctl sends no commands to the terminal, whatever the names of files and folders are. Prints
# TAP.
. "$top_srcdir/tests/lib.sh"
. "$top_srcdir/tests/e2e/job.sh"

evil=$'\e[2J\302\233m\r'
odd="odd $evil set"
"$ctl" make-sample "$odd" --classes 2 --images 2 --size 48 >/dev/null || exit 99
cp -r "$odd" other
mv other/bricks "other/other $evil"
mkdir "$odd/empty $evil"
find "$odd" other -exec touch -h -d '1 hour ago' {} +
for set in "$odd" other; do
    mv "$set/clouds/clouds-00001.jpg" "$set/clouds/$evil.jpg"
done
head -c 700 "$odd/clouds/$evil.jpg" >"$odd/clouds/cut $evil.jpg"

shown() { # TITLE STATUS COMMAND...: the command ends with this status, and prints no control characters
    local sentence=$1 want=$2 got=0
    shift 2
    "$@" >shown.txt 2>&1 || got=$?
    { echo "status $got:"; cat -v shown.txt; } >why.txt
    [ "$got" = "$want" ] && [ -s shown.txt ] && ! LC_ALL=C grep -q $'[\001-\010\013-\037]\|\302\233' shown.txt
    result $? "$sentence" why.txt
}

"$ctl" index other --cache-dir there >/dev/null || exit 99
shown "index" 0 "$ctl" index "$odd"
ok "index warns about the empty class" grep -q "warning.*empty" shown.txt
shown "index --compare" 1 "$ctl" index "$odd" --compare "$(ls there/*.index)"
ok "index --compare names a sample of each data set" grep -q "differ: sample .* here and .* there" shown.txt
shown "verify" 1 "$ctl" verify "$odd"
shown "sample" 0 "$ctl" sample "$odd" 0 1 2 3 4
shown "order" 0 "$ctl" order "$odd"
shown "preview" 0 "$ctl" preview "$odd" sheet.jpg
shown "hash" 0 "$ctl" hash "$odd"
shown "pack" 0 "$ctl" pack "$odd" packed
shown "an error" 1 "$ctl" index "$odd/nothing"
finish
