# SPDX-License-Identifier: MIT
"""bad_archives.py FOLDER OUT - writes malformed archives, TFRecords and lists of the pictures below FOLDER; each is
named after its fault."""

import glob
import io
import os
import sys
import tarfile

from records import header, record

pictures = [open(p, "rb").read() for p in sorted(glob.glob(os.path.join(sys.argv[1], "*", "*.jpg")))][:6]
os.makedirs(sys.argv[2], exist_ok=True)
os.chdir(sys.argv[2])


def tar(name, members):
    with tarfile.open(name + ".tar", "w", encoding="utf-8", errors="surrogateescape") as t:
        for member, data in members:
            info = tarfile.TarInfo(member)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))


def good(key="{}"):
    return [m for k, data in enumerate(pictures)
            for m in ((key.format(k) + ".jpg", data), (key.format(k) + ".cls", str(k % 3).encode()))]


def write(name, data):
    with open(name, "wb") as f:
        f.write(data)


def replaced(members, name, data):
    return [(n, data if n == name else d) for n, d in members]


tar("good", good())
tar("no-label", [m for m in good() if m[0] != "4.cls"])
tar("twice", good() + good()[:2])
tar("too-large", replaced(good(), "3.cls", b"2147483647"))
tar("negative", replaced(good(), "3.cls", b"-2"))
tar("nothing", [("readme.txt", b"no image")])
tar("bad-images", replaced(replaced(good(), "2.jpg", pictures[2][:900]), "3.jpg", b""))
tar("names", good("\udcff\udcfe {}"))


def records(numbers=range(6), **changes):
    """Write TFRecords, with `changes` to the features of record 3."""
    data = []
    for k in numbers:
        features = {"image/encoded": pictures[k], "image/class/label": k % 3, "image/filename": f"{k}.jpg"}
        if k == 3:
            features.update({"image/" + key.replace("_", "/"): v for key, v in changes.items()})
        data.append(record({k: v for k, v in features.items() if v is not None}))
    return data


write("good.tfrecord", b"".join(records()))
flipped = records()
flipped[3] = flipped[3][:200] + bytes([flipped[3][200] ^ 1]) + flipped[3][201:]
write("wrong-crc.tfrecord", b"".join(flipped))
write("cut.tfrecord", b"".join(records())[:-5])
write("no-label.tfrecord", b"".join(records(class_label=None)))
write("too-large.tfrecord", b"".join(records(class_label=1 << 31)))
write("negative.tfrecord", b"".join(records(class_label=-2)))
write("nothing.tfrecord", b"")
write("bad-images.tfrecord", b"".join(records(encoded=pictures[3][:900])))
write("names.tfrecord", b"".join(records(filename=b"\xff\xfe.jpg")))
with open("huge.tfrecord", "wb") as f:  # a record of 5 GiB, which is a hole, and more records after it
    f.write(header(5 << 30))
    f.seek((5 << 30) + 4, 1)
    f.write(b"".join(records()))

for k, data in enumerate(pictures):
    write(f"{k}.jpg", data)
write(b"\xff\xfe.jpg", pictures[0])
write("cut.jpg", pictures[2][:900])
write("empty.jpg", b"")
os.symlink("loop.jpg", "loop.jpg")
lines = [f"{k}.jpg {k % 3}\n".encode() for k in range(6)]
write("good.txt", b"".join(lines))
write("no-label.txt", b"".join(lines) + b"2.jpg\n")
write("too-large.txt", b"".join(lines) + b"2.jpg 2147483648\n")
write("negative.txt", b"".join(lines) + b"2.jpg -2\n")
write("nothing.txt", b"# nothing\n")
write("bad-images.txt", b"".join(lines) + b"cut.jpg 0\nempty.jpg 1\n")
write("names.txt", b"".join(lines) + b"\xff\xfe.jpg 2\n")
write("loop.txt", b"".join(lines) + b"loop.jpg 2\n")
