#!/bin/bash
# SPDX-License-Identifier: MIT
# test_copies.sh - checks that pixels are not copied after the resize: loader and client of a stream run under
# valgrind's DHAT, which counts the bytes that memcpy() and similar functions copy, and where. Prints TAP. Takes about
# ten seconds; needs valgrind and Python.
. "$top_srcdir/tests/lib.sh"
command -v valgrind >/dev/null || skip_all "valgrind is not installed"
[ -z "${PLENUM_SANITIZED:-}" ] || skip_all "valgrind does not run programs built with sanitizers"
[ -n "${PYTHON:-}" ] && [ "$PYTHON" != : ] || skip_all "no Python to read valgrind's report"
address=unix:@plenum-copies-$$
at_end() { [ -z "${loader:-}" ] || kill "$loader" 2>/dev/null; }

dhat=(valgrind -q --tool=dhat --mode=copy --num-callers=12)

# copied FILE SKIP...: prints how many bytes were copied, except below functions whose names contain SKIP
copied() {
    "$PYTHON" - "$@" <<'END'
import json, sys
report = json.load(open(sys.argv[1]))
print(sum(point["tb"] for point in report["pps"]
          if not any(skip in report["ftbl"][frame] for frame in point["fs"] for skip in sys.argv[2:])))
END
}

"$top_builddir/plenumctl" make-sample "$T/data" --classes 2 --images 8 >/dev/null || exit 99
"${dhat[@]}" --dhat-out-file="$T/loader.json" "$top_builddir/plenumd" --socket "$address" --threads 1 \
    --quiet 2>"$T/loader.err" &
loader=$!
for _ in $(seq 600); do
    grep -q "${address#unix:}" /proc/net/unix && break
    sleep 0.1
done
# Read 20 batches of 8 images of 224 x 224 in each of two formats.
images=0 status=0
for store in "int8 nhwc" "uint8 nchw"; do
    # shellcheck disable=SC2086
    set -- $store
    timeout 300 "$top_builddir/libtool" --mode=execute "${dhat[@]}" --dhat-out-file="$T/client.$2.json" \
        "$top_builddir/examples/feed" "$T/data" --loader "$address" --micro-batch 8 --batches 20 --epochs 100 \
        --silence 60000 --dtype "$1" --layout "$2" >"$T/feed.out" 2>&1 || status=$?
    images=$((images + 160))
done
ok "a stream runs under valgrind" [ $status = 0 ]
[ $status = 0 ] || sed 's/^/# /' "$T/feed.out"
kill -TERM "$loader"
wait "$loader"
loader=
pixels=$((images * 224 * 224 * 3))

below() { # BYTES LIMIT
    echo "$1 bytes copied, $pixels bytes of pixels delivered"
    [ "$1" -gt 0 ] && [ "$1" -lt "$2" ]
}
# The loader copies compressed bytes into the decoder, which are not counted here, and sometimes the last row of a strip
# before the resize, a tenth of the pixels in total. One copy of all pixels would be 100 %.
ok "the loader copies less than a quarter of what it delivers" \
    below "$(copied "$T/loader.json" image_self_test unstuff)" $((pixels / 4))
# The example hashes its batches, and the hash copies into its own buffer.
for layout in nhwc nchw; do
    ok "the client copies less than a thousandth ($layout)" \
        below "$(copied "$T/client.$layout.json" plenum_batch_hash)" $((pixels / 1000))
done
finish
