#!/bin/bash
# SPDX-License-Identifier: MIT
# test_containers.sh - the images of examples/containers: built by buildah without an engine (chroot isolation) on a folder made by debootstrap
# (PLENUM_DEBIAN=DIR, to which nothing is written), and what is in them run. Minutes; asks a mirror of Debian for packages. Speaks TAP.
. "$top_srcdir/tests/lib.sh"

[ -n "${PLENUM_DEBIAN:-}" ] || skip_all "PLENUM_DEBIAN does not name a folder made by debootstrap"
[ "$(id -u)" = 0 ] || skip_all "buildah's chroot isolation needs root"
command -v buildah >/dev/null || skip_all "buildah is missing"
command -v git >/dev/null && git -C "$top_srcdir" rev-parse --git-dir >/dev/null 2>&1 || skip_all "the sources are no checkout, whose files could be listed"

ctl=$top_builddir/plenumctl
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
b() { buildah --root "$T/storage" --runroot "$T/run" "$@"; }
at_end() { b rm -a >/dev/null 2>&1; b rmi -af >/dev/null 2>&1; }
run() { b run "$@" >out; }
build() { b bud --network host --build-arg BASE=localhost/base -t "localhost/$1" -f "src/examples/containers/Containerfile.${1#plenum-}" src >"$1.log" 2>&1; }

cd "$T" || exit 99
mkdir src && git -C "$top_srcdir" ls-files -z -co --exclude-standard | tar -C "$top_srcdir" --null -T - -cf - | tar xf - -C src || exit 99
base=$(b from scratch) && b add -q "$base" "$PLENUM_DEBIAN" / >/dev/null && b commit -q "$base" localhost/base >/dev/null || exit 99
"$ctl" make-sample data --classes 4 --images 10 --size 96 >/dev/null && chmod -R a+rX . || exit 99

ok "the loader's image is built" build plenum-loader
tail -n 20 plenum-loader.log | sed 's/^/# /'
c=$(b from localhost/plenum-loader)
ok "its programs run" run "$c" -- plenumd --version
ok "by a user who is no root" run "$c" -- test "$(b run "$c" -- id -u)" = 10001
ok "the compiler was left behind" eval '! run "$c" -- sh -c "command -v gcc"'
ok "keys can be used" run "$c" -- sh -c 'umask 077; head -c 32 /dev/urandom >/tmp/key; timeout 1 plenumd --socket unix:/tmp/s --listen 127.0.0.1:0 --tls-key /tmp/key; [ $? = 0 -o $? = 124 ]'
ok "and it feeds a stream" run -v "$T/data:/data:ro" "$c" -- sh -c '
    plenumd --root /data --socket unix:/run/plenum/plenumd.sock & p=$!
    until plenumctl status unix:/run/plenum/plenumd.sock >/dev/null 2>&1; do sleep 0.1; kill -0 $p || exit 1; done
    plenumctl bench stream /data --pipeline "resize(32) center_crop(32)" --sources real --seconds 1s --rounds 1 --loader unix:/run/plenum/plenumd.sock; r=$?
    kill $p; wait $p || exit 1; exit $r'

ok "the image of jobs is built" build plenum-training
tail -n 20 plenum-training.log | sed 's/^/# /'
c=$(b from localhost/plenum-training)
cat >feed.py <<'END'
import pyplenum
job = pyplenum.job()
stream = pyplenum.Stream("/data", pipeline="rrc(48)flip(0.5)", seed=3, micro_batch=4, epochs=2)
print(job.instance_index, sum(batch.num_valid for batch in stream))
END
chmod a+r feed.py
ok "a job of two instances runs in it, as no root" run -v "$T/data:/data:ro" -v "$T/feed.py:/feed.py:ro" "$c" -- plenumrun -n 2 python3 /feed.py
ok "and each has its samples" test "$(sort out)" = "0 40
1 40"
finish
