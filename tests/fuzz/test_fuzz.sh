#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs each fuzz target on its seeds, and on seeds with some bytes changed. libFuzzer finds more: HACKING.md explains
# how to use it.
. "$top_srcdir/tests/lib.sh"
here=$top_builddir/tests/fuzz

# Sanitizers report more than crashes, so builds with sanitizers run more mutations.
share=10
[ -z "$PLENUM_SANITIZED" ] || share=3

# fuzz TARGET MUTATIONS: run the target on each seed in $T/TARGET, and on MUTATIONS / $share mutations of each seed
fuzz() {
    if inputs=$("$here/fuzz_$1" --mutate "$(($2 / share))" "$T/$1" 2>"$T/.errors"); then
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
ln -s image "$T/png"
fuzz png 500
ln -s image "$T/picture_size"
fuzz picture_size 2000
mkdir "$T/pack"
ok "seeds for fuzz_pack" "$top_builddir/tests/loader/image/dump" --packed "$T/pack"
fuzz pack 100
for target in badlist coco comm_header hint_cache index json launcher list npy settings store text tfrecord wire \
    yolo; do
    ok "seeds for fuzz_$target" "$here/seeds" $target "$T/$target"
    fuzz $target 5000
done

ok "seeds for fuzz_shelf" "$here/seeds" shelf "$T/shelf"
fuzz shelf 100

if [ -n "${PYTHON:-}" ] && [ "$PYTHON" != : ]; then
    ok "seeds for fuzz_columns" "$PYTHON" "$top_srcdir/tests/fuzz/column_seeds.py" "$T/columns"
    fuzz columns 500
else
    skip "fuzz_columns" "there is no Python to write seeds with"
fi

# Add archives that installed programs write. The byte after each makes the target use folders as classes.
ok "seeds for fuzz_tar" "$here/seeds" tar "$T/tar"
mkdir -p "$T/data/a/$(printf '%0110d' 0)"
printf image >"$T/data/a/1.jpg"
ln "$T/data/a/1.jpg" "$T/data/a/2.jpg"
truncate -s 100K "$T/data/a/3.jpg"
printf x >>"$T/data/a/3.jpg"
printf image >"$T/data/a/$(printf '%0110d' 0)/4.jpg"
seed() {
    (cd "$T/data" && "$@") >/dev/null 2>&1 && printf '\003' >>"$T/seed.tar" &&
        mv "$T/seed.tar" "$T/tar/$(ls "$T/tar" | wc -l)"
    rm -f "$T/seed.tar"
}
for version in 0.0 0.1 1.0; do
    seed tar --format=posix --sparse --sparse-version=$version -b 2 -cf ../seed.tar a
done
seed tar --format=gnu --sparse -b 2 -cf ../seed.tar a
seed tar --format=v7 -b 2 -cf ../seed.tar a/1.jpg
seed bsdtar --format=pax -b 2 -cf ../seed.tar a
fuzz tar 500
finish
