#!/bin/bash
# SPDX-License-Identifier: MIT
# test_install.sh - checks that scripts/packages names missing packages on a system without apt, that all lists of
# packages agree, and that scripts/demo compares hashes. Prints TAP.
. "$top_srcdir/tests/lib.sh"
cd "$T" || exit 99
. "$top_srcdir/scripts/packages"

# ---- a system without apt ----
mkdir bin
for program in autoreconf libtoolize make cc protoc-c mpirun ssh pgrep; do printf '#!/bin/sh\n' >bin/$program; done
printf '#!/bin/sh\nfor l in $LACKS; do [ "$l" != "$2" ] || exit 1; done\n' >bin/pkg-config
chmod +x bin/*
sh=$(command -v sh)
needed() {
    env PATH="$T/bin" LACKS="${lacks:-}" "$sh" -c '. "$0/scripts/packages"; need "$@" && echo went on' \
        "$top_srcdir" "$@" 2>&1
}
names() { # exactly these parts are reported as missing
    needed build >out && return 1
    grep '^  ' out | sed 's/^  //; s/ (.*//' | diff - <(printf '%s\n' "$@") && ! grep -q "went on" out &&
        ! grep -q "not found" out
}
is "went on" "if everything is installed, the script continues" needed build
lacks="libuv ompi-c"
ok "missing libraries are named by their common names" names "Open MPI" libuv
ok "a missing Open MPI is named with Fedora's command for it" grep -q "module load mpi/openmpi-x86_64" out
lacks=
rm bin/protoc-c
ok "missing programs are named" names "the compiler of protobuf-c"

# ---- the lists ----
lists() { # FILE PACKAGE...: the file lists each of the packages
    local file=$1 p
    shift
    for p in "$@"; do grep -qE "(^|[^a-z0-9-])$p([^a-z0-9-]|\$)" "$file" ||
        { echo "$file does not name $p"; return 1; }; done
}
libraries=$(tr ' ' '\n' <<<"$packages_build" | grep -E -- '-dev$|^openmpi-bin|^protobuf-c-' | grep -v libc6-dev)
ok "docs/install.md lists all packages of scripts/packages" lists "$top_srcdir/docs/install.md" $packages_build \
    $packages_python $packages_example libcriterion-dev
ok "README.md lists all libraries" lists "$top_srcdir/README.md" $libraries
[ ! -e "$top_srcdir/debian/control" ] || ok "debian/control lists all libraries" lists \
    "$top_srcdir/debian/control" $libraries libcriterion-dev procps systemd-dev
ok "the training image's Containerfile lists all libraries" lists \
    "$top_srcdir/examples/containers/Containerfile.training" $libraries

# ---- the demo ----
mkdir -p demo/scripts demo/build demo/examples
cp "$top_srcdir/scripts/demo" demo/scripts/
{ cat "$top_srcdir/scripts/packages" && echo 'need() { :; }'; } >demo/scripts/packages
printf '#!/bin/sh\n' >demo/configure
printf '#!/bin/sh\n[ "$1" != hash ] || echo 0123456789abcdef\n' >demo/build/plenumctl
cp demo/build/plenumctl demo/build/config.status
printf 'all:\n' >demo/build/Makefile
chmod +x demo/configure demo/build/*
touch demo/examples/train.py demo/configure
# The demo rebuilds configure unless it is newer than configure.ac; files touched together can have the same age.
touch -d yesterday demo/configure.ac
demo() { printf '#!/bin/sh\n%s\n' "$1" >demo/build/plenumrun && chmod +x demo/build/plenumrun &&
    demo/scripts/demo "$T/demo/build" >out 2>&1; }
ends_with() { local code=0; demo "$1" || code=$?; [ $code = "$2" ] && grep -q "$3" out; }
ok "a failed job ends the demo with its status" ends_with 'exit 17' 17 \
    'failed with status 17'
ok "the demo says nothing about hashes when the job fails" sh -c '! grep -q "hashes differ" out'
ok "the demo reports different hashes" ends_with 'echo "hash 1111111111111111"' 1 \
    'the hashes differ, 1111111111111111 and 0123456789abcdef'
ok "equal hashes end the demo successfully" ends_with 'echo "hash 0123456789abcdef"' 0 'The contact sheet'
finish
