#!/bin/bash
# SPDX-License-Identifier: MIT
# test_models.sh - checks models of small, concurrent parts of the code in all interleavings: spin finds no error, but
# finds each bug that a macro introduces on purpose (which shows that the check works). Prints TAP.
#
# The comment at the top of a model names the code that it models. When you change that code, change the model too.
. "$top_srcdir/tests/lib.sh"
[ -z "${PLENUM_SANITIZED:-}" ] || skip_all "the ordinary build checks the models"
command -v spin >/dev/null || skip_all "no spin (package spin)"
cd "$T" || exit 99

# verify MODEL [-DNAME...]: explores all states; succeeds if none breaks an assertion or is a deadlock.
verify() {
    local model=$top_srcdir/tests/models/$1.pml
    shift
    rm -f pan pan.* *.trail
    spin "$@" -a "$model" && ${CC:-cc} -O2 -w -DSAFETY -DVECTORSZ=4096 -o pan pan.c &&
        timeout 300 ./pan -m1000000 >said || return 2
    cat said
    ! grep -qE 'max search depth too small|out of memory' said && grep -q 'errors: 0' said
}
mistake_is_found() { verify "$@" && return 1; grep -q 'errors: 1' said; }

for path in "$top_srcdir"/tests/models/*.pml; do
    model=$(basename "$path" .pml)
    ok "$model: no error in any interleaving" verify "$model"
    for name in $(sed -n 's/^#ifdef //p' "$path" | sort -u); do
        ok "$model: the bug $name is found" mistake_is_found "$model" "-D$name"
    done
done
finish
