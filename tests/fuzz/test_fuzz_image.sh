#!/bin/sh
# The fuzz target on its seeds: one small file of every kind of image. Speaks TAP.
seeds=$(mktemp -d) || exit 99
trap 'rm -rf "$seeds"' EXIT
echo 1..1
if ! "$top_builddir/tests/loader/image/dump" --seeds "$seeds" >/dev/null; then
    echo "not ok 1 - seeds cannot be written"
    exit 1
fi
if inputs=$("$top_builddir/tests/fuzz/fuzz_image" "$seeds" 2>"$seeds/.errors"); then
    echo "ok 1 - fuzz_image on its seeds ($inputs)"
else
    sed 's/^/# /' "$seeds/.errors"
    echo "not ok 1 - fuzz_image on its seeds"
fi
