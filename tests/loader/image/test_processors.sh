#!/bin/bash
# SPDX-License-Identifier: MIT
# test_processors.sh - on other x86 processors, emulated by qemu, the loader chooses the right loops and renders the
# same pixels.
. "$top_srcdir/tests/lib.sh"

qemu=$(command -v qemu-x86_64 || command -v qemu-x86_64-static) ||
    skip_all "qemu-x86_64 is missing (package qemu-user-static)"
file=$top_builddir/plenumctl
[ "$(od -An -tu2 -j18 -N2 "$file" | tr -d ' ')" = 62 ] && [ "$(uname -m)" = x86_64 ] ||
    skip_all "this is not an x86 processor"
[ -z "${PLENUM_SANITIZED:-}" ] || skip_all "sanitizers do not run in qemu"
"$qemu" -cpu Haswell "$file" --version >/dev/null 2>&1 || skip_all "$qemu does not run $file"

images=$top_srcdir/tests/loader/image/golden
mkdir "$T/photos" && cp "$images"/*.jpg "$T/photos"
mkdir "$T/photos/class" && mv "$T"/photos/*.jpg "$T/photos/class"

hash_on() { # CPU [OPTION...]: print the hash of everything that is rendered there
    local cpu=$1
    shift
    "$qemu" -cpu "$cpu" "$file" hash "$T/photos" --pipeline 'rrc(32)flip(0.5)' --micro-batch 7 --epochs 1 "$@" \
        2>"$T/err"
}

# Print the loops that the first line of a loader's log names.
loops_on() { # CPU
    "$qemu" -cpu "$1" "$top_builddir/plenumd" --socket "unix:$T/$1.sock" --threads 1 --pin none 2>"$T/$1.log" &
    local pid=$!
    wait_for grep -q 'threads\? decodes\? for\|could be served' "$T/$1.log"
    kill "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    sed -n 's/.*(loops: \(.*\)).*/\1/p' "$T/$1.log"
}

want=$("$file" hash "$T/photos" --pipeline 'rrc(32)flip(0.5)' --micro-batch 7 --epochs 1 2>/dev/null)
ok "this processor renders the images" test -n "$want"
for cpu in qemu64 Nehalem SandyBridge Haswell max; do # the first three have no AVX2
    case $cpu in
    # Processors have AVX2 and BMI2 since Haswell; newer versions of qemu emulate both.
    Haswell | max) loops='avx2, JPEGs by Plenum' ;;
    *) loops='portable, JPEGs by libjpeg-turbo' ;;
    esac
    got=$(loops_on "$cpu")
    # If this processor has AVX2 and BMI2, our choice there is tested anyway; then qemu is at fault.
    if [ "$loops" != "${loops#avx2}" ] && [ "$got" != "$loops" ] && grep -q 'avx2.*bmi2' /proc/cpuinfo; then
        skip "$cpu: the right loops" "$("$qemu" --version | head -n 1) does not emulate AVX2 correctly"
        continue
    fi
    is "$loops" "$cpu: the loader's log names the right loops" echo "$got"
    is "$want" "$cpu: the same pixels" hash_on "$cpu"
    is "$want" "$cpu: the same pixels by Plenum's own decoder" hash_on "$cpu" --decoder plenum
done
# Processors with AVX-512 also have AVX2: there is no set of loops for AVX-512 (bench/README.md explains why).
if grep -qs avx512bw /proc/cpuinfo; then
    "$top_builddir/plenumd" --socket "unix:$T/here.sock" --threads 1 --pin none 2>"$T/here.log" &
    pid=$!
    wait_for grep -q 'threads\? decodes\? for' "$T/here.log"
    ok "a processor with AVX-512 uses the loops for AVX2" grep -q 'loops: avx2, JPEGs by Plenum' "$T/here.log"
    kill $pid
    wait $pid 2>/dev/null
else
    skip "a processor with AVX-512 uses the loops for AVX2" "neither this processor nor qemu has AVX-512"
fi
finish
