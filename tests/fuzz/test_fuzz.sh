#!/bin/sh
# Each fuzz target on its seeds, and on seeds of which some bytes were changed. libFuzzer finds more: HACKING.md says how.
. "$top_srcdir/tests/lib.sh"
here=$top_builddir/tests/fuzz

# fuzz TARGET MUTATIONS: of each seed in $T/TARGET
fuzz() {
    if inputs=$("$here/fuzz_$1" --mutate "$2" "$T/$1" 2>"$T/.errors"); then
        result 0 "fuzz_$1: $inputs"
    else
        result 1 "fuzz_$1" "$T/.errors"
    fi
}

mkdir "$T/image"
ok "seeds for fuzz_image" "$top_builddir/tests/loader/image/dump" --seeds "$T/image"
fuzz image 0
ln -s image "$T/jpeg"
fuzz jpeg 2000
for target in wire text index launcher settings; do
    ok "seeds for fuzz_$target" "$here/seeds" $target "$T/$target"
    fuzz $target 5000
done
finish
