#!/bin/bash
# SPDX-License-Identifier: MIT
# test_tarball.sh - checks that the source package of make dist can be built and installed without autoconf, automake
# and libtoolize, and that the installed programs work. Prints TAP; takes minutes.
. "$top_srcdir/tests/lib.sh"
cd "$T" || exit 99

mkdir stubs
for tool in autoconf automake aclocal autoheader autoreconf autom4te libtoolize; do
    printf '#!/bin/sh\necho "%s was called" >>"%s"\nexit 77\n' $tool "$T/called" >stubs/$tool
    chmod +x stubs/$tool
    ln -s $tool stubs/$tool-1.16
done
# Other tests run in the build folder at the same time, so use a separate one.
ok "configure creates a build folder for the tarball" \
    sh -c 'mkdir from && cd from && "$top_srcdir/configure" -q PYTHON="$PYTHON"'
ok "make dist succeeds" make -s -C from dist
ok "the tarball is unpacked" sh -c 'mkdir to && tar xf from/plenum-*.tar.* -C to --strip-components=1'
export PATH=$T/stubs:$PATH
ok "configure succeeds" sh -c 'mkdir to/build && cd to/build && ../configure -q --prefix=/opt/plenum PYTHON="$PYTHON"'
ok "make succeeds" make -s -j2 -C to/build
ok "make install succeeds" make -s -C to/build install DESTDIR="$T/root"
ok "no autotool was called" test ! -e called
prefix=$T/root/opt/plenum
export LD_LIBRARY_PATH=$prefix/lib PLENUM_LIBRARY=$prefix/lib/libplenum.so.1 PLENUM_PLENUMD=$prefix/bin/plenumd
export PYTHONPATH
PYTHONPATH=$(dirname "$(find "$prefix" -name pyplenum -type d | head -n 1)")
ok "the installed plenumctl creates a data set" "$prefix/bin/plenumctl" make-sample photos --classes 2 --images 6 \
    --size 64
sed -n '/^# first.py - /,/^```$/p' "$top_srcdir/docs/guide.md" | sed '$d' >first.py
is "$("$prefix/bin/plenumctl" hash photos --pipeline 'rrc(48) flip(0.5)' --seed 7 --epochs 2)" \
    "the installed library and loader render the same pixels as plenumctl" \
    sh -c '"$PYTHON" first.py photos | sed -n "s/^hash //p"'
for page in plenumrun.1 plenumctl.1 plenumd.8 plenumd.conf.5 plenum.7 libplenum.3 plenum_stream_next.3; do
    ok "the manual page $page is installed" test -n "$(find "$prefix/share/man" -name "$page")"
done
ok "make uninstall succeeds" make -s -C to/build uninstall DESTDIR="$T/root"
is "" "make uninstall leaves no files" find "$T/root" -type f
finish
