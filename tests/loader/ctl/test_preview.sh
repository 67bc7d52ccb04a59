#!/bin/bash
# SPDX-License-Identifier: MIT
# test_preview.sh - plenumctl preview: the space below the pictures of a sheet fits their text. Prints TAP.
. "$top_srcdir/tests/lib.sh"
ctl=$top_builddir/plenumctl
cd "$T" || exit 99

"$ctl" make-sample photos --classes 2 --images 4 --size 48 >/dev/null || exit 99
height() { # SET PIPELINE: print the height of a row of 4 pictures
    "$ctl" preview "$1" sheet.jpg --pipeline "$2" --count 4 --columns 4 | sed 's/.* x \([0-9]*\) pixels.*/\1/'
}
taller() { # LINES SET SIDE OPERATIONS TITLE: these operations make a row taller by LINES lines of small letters
    is "$((10 * $1))" "$5" echo $(($(height "$2" "rrc($3) $4") - $(height "$2" "rrc($3)")))
}

taller 0 photos 64 "flip(0)" "no operation, no line"
taller 1 photos 64 "invert(1)" "one word takes one line"
taller 1 photos 96 "invert(1) flip(1)" "two short words are one line"
taller 2 photos 96 "grayscale(1) equalize(1)" "two long words are two lines"
taller 2 photos 32 "autocontrast(1) invert(1)" "a word longer than a line takes one line"
twelve=$(for i in 1 2 3 4 5 6; do printf 'grayscale(1) equalize(1) '; done)
taller 8 photos 64 "$twelve" "twelve lines are cut to eight"
taller 3 photos 64 "mixup(1)" "a mixed sample has a second label, twice as high, and a word"
taller 0 generated:8 64 "invert(1)" "generated images have no operations"
finish
