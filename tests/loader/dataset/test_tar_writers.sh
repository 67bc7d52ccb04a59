#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks that archives by other programs have the samples of the folder that they were made from: the same bytes and
# labels, in the same order.
. "$top_srcdir/tests/lib.sh"
plenumctl=$top_builddir/plenumctl

# content DATASET: print the hash over all bytes and labels
content() {
    "$plenumctl" verify "$1" --content | sed -n 's/^content  *//p'
}

cd "$T" || exit 99
ok "a sample data set" "$plenumctl" make-sample data -c 3 -n 7 --size 48
# Writers differ in these: names of more than 100 bytes, names that are not ASCII, a file with holes, a hard link.
long=data/$(printf '%0130d' 0)
mkdir "$long"
cp data/bricks/bricks-00000.jpg "$long/a long name.jpg"
cp data/bricks/bricks-00001.jpg "data/bricks/ünïcode-名前.jpg"
cp data/bricks/bricks-00002.jpg data/bricks/holes.jpg
truncate -s 1M data/bricks/holes.jpg
printf x >>data/bricks/holes.jpg
truncate -s 2M data/bricks/holes.jpg
ln data/bricks/bricks-00003.jpg data/bricks/twice.jpg
want=$(content data)
ok "verify --content prints a hash" test -n "$want"
(cd data && find . -type f | sed 's|^\./||' | LC_ALL=C sort) >list

# by TITLE COMMAND...: check that the archive a.tar that COMMAND writes has the expected content
by() {
    what=$1
    shift
    rm -f a.tar
    if (cd data && "$@") >.log 2>&1; then
        is "$want" "$what" content tar,label=folder:a.tar
    else
        result 1 "$what: it was not written" .log
    fi
}

if tar --version 2>/dev/null | grep -q GNU; then
    by "GNU tar, its own form" tar --format=gnu -cf ../a.tar -T ../list
    by "GNU tar, its own form, with holes" tar --format=gnu --sparse -cf ../a.tar -T ../list
    by "GNU tar, pax" tar --format=posix -cf ../a.tar -T ../list
    for version in 0.0 0.1 1.0; do
        by "GNU tar, pax, with holes as of version $version" \
            tar --format=posix --sparse --sparse-version=$version -cf ../a.tar -T ../list
    done
    by "GNU tar, links followed" tar --hard-dereference -cf ../a.tar -T ../list
    by "GNU tar, with folders" tar --sort=name -cf ../a.tar .
    (cd data && tar -cf ../a.tar -T ../list && gzip -k ../a.tar)
    ok "a compressed archive is rejected, with the remedy" \
        sh -c '! "$0" index a.tar.gz 2>why && grep -q "gzip -d" why' "$plenumctl"
else
    skip "archives by GNU tar" "GNU tar is not installed"
fi
if command -v bsdtar >/dev/null; then
    by "bsdtar, pax with holes" bsdtar --format=pax -cf ../a.tar -T ../list
    by "bsdtar, ustar" bsdtar --format=ustar -cf ../a.tar -T ../list
    by "bsdtar, GNU's form" bsdtar --format=gnutar -cf ../a.tar -T ../list
    LC_ALL=C.UTF-8 by "bsdtar, with names in UTF-8" bsdtar --format=pax -cf ../a.tar -T ../list
else
    skip "archives by bsdtar" "bsdtar is not installed"
fi
for format in USTAR GNU PAX; do
    by "Python's tarfile, $format" "$PYTHON" -c "
import tarfile
with tarfile.open('../a.tar', 'w', format=tarfile.${format}_FORMAT) as t:
    for name in open('../list', encoding='utf-8').read().split('\n')[:-1]:
        t.add(name)"
done

# WebDataset's own layout: a label beside each image.
cat >write.py <<'PY'
import os, sys
import webdataset
classes = sorted(os.listdir("data"), key=os.fsencode)
with webdataset.TarWriter("a.tar") as out:
    for i, name in enumerate(open("list", encoding="utf-8").read().split("\n")[:-1]):
        out.write({"__key__": f"{i:06d}", os.path.splitext(name)[1][1:]: open("data/" + name, "rb").read(),
                   "cls": classes.index(name.split("/")[0])})
PY
if "$PYTHON" -c 'import webdataset' 2>/dev/null; then
    ok "webdataset writes an archive" "$PYTHON" write.py
    is "$want" "an archive by webdataset's own writer" content a.tar
else
    skip "an archive by webdataset's own writer" "the Python package webdataset is not installed"
fi

# An archive whose samples lie beyond 4 GiB: a member of 5 GiB, which is a hole, comes first.
cat >huge.py <<'PY'
import tarfile
with open("a.tar", "wb") as out:
    big = tarfile.TarInfo("big.bin")
    big.size = 5 << 30
    out.write(big.tobuf(tarfile.GNU_FORMAT))
    out.seek(big.size, 1)
    with tarfile.open(fileobj=out, mode="w") as t:
        for name in open("list", encoding="utf-8").read().split("\n")[:-1]:
            t.add("data/" + name, arcname=name)
PY
if "$PYTHON" huge.py 2>.log; then
    is "$want" "samples beyond 4 GiB" content tar,label=folder:a.tar
else
    skip "samples beyond 4 GiB" "a file of 5 GiB cannot be created here"
fi
rm -f a.tar

# The reverse: other programs read the archives that Plenum writes.
ok "pack" "$plenumctl" pack data packed -n 1000
"$plenumctl" verify packed --json >packed.json
for reader in "tar --version" "bsdtar --version"; do
    tar=${reader%% *}
    command -v "$tar" >/dev/null || { skip "$tar reads packed archives" "it is not installed"; continue; }
    mkdir -p "by-$tar"
    ok "$tar unpacks a packed archive" "$tar" -xf packed/archive-000000.tar -C "by-$tar"
    is "$(wc -l <list)" "$tar unpacks all images" sh -c "find by-$tar -name '*.jpg' -o -name '*.png' | wc -l"
    is "$("$plenumctl" verify packed --content | sed -n 's/^content  *//p')" "$tar unpacks the same bytes" content \
        "by-$tar"
done
cat >read.py <<'PY'
import sys
import webdataset
classes = open("packed/classes.txt", encoding="utf-8").read().split("\n")
for s in webdataset.WebDataset("packed/archive-000000.tar", shardshuffle=False):
    image = next(v for k, v in s.items() if k in ("jpg", "png"))
    print(classes[int(s["cls"])], len(image))
PY
if "$PYTHON" -c 'import webdataset' 2>/dev/null; then
    is "$("$PYTHON" -c '
import tarfile
for m in tarfile.open("packed/archive-000000.tar"):
    if not m.name.endswith(".cls"):
        print(m.name.split("/")[0], m.size)')" "webdataset reads packed archives" "$PYTHON" read.py
else
    skip "webdataset reads packed archives" "the Python package webdataset is not installed"
fi
finish
