# SPDX-License-Identifier: MIT
"""archives.py FOLDER OUT - writes a folder's pictures as lists, tar archives and TFRecords, in the same order:

    list.txt list.csv list.tsv           lists
    ustar-*.tar gnu-*.tar pax-*.tar      WebDataset archives by Python's tarfile, with a .cls beside each image
    wds-*.tar                            archives as webdataset's TarWriter makes them: a stream, keys in byte order,
                                         times with fractions (which become pax headers), a user called bigdata
    json.tar                             labels in .json
    records-?????-of-?????               TFRecords, written from the published format without any of Plenum's code
"""

import io
import json
import os
import sys
import tarfile

from records import record

root, out = sys.argv[1:3]
classes = sorted(d for d in os.listdir(root) if os.path.isdir(os.path.join(root, d)))
pictures = [(os.path.join(root, c, f), label, f"{c}/{f}")
            for label, c in enumerate(classes) for f in sorted(os.listdir(os.path.join(root, c)))]
ARCHIVES = 3


def part(i):
    return [p for k, p in enumerate(pictures) if k * ARCHIVES // len(pictures) == i]


with open(os.path.join(out, "list.txt"), "w") as f:
    for path, label, name in pictures:
        f.write(f"{os.path.abspath(path)} {classes[label]}\n")
with open(os.path.join(out, "list.csv"), "w") as f:
    f.write("number,label,path\n")
    for k, (path, label, name) in enumerate(pictures):
        f.write(f'{k},{label + 1},"{name}"\r\n')
with open(os.path.join(out, "list.tsv"), "w") as f:
    for path, label, name in pictures:
        f.write(f"{name}\t{label}\n")


def add(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


for kind, form in (("ustar", tarfile.USTAR_FORMAT), ("gnu", tarfile.GNU_FORMAT), ("pax", tarfile.PAX_FORMAT)):
    # Each of the three formats stores a long name differently.
    prefix = "deep/" + "d" * (60 if kind == "ustar" else 120) + "/" + "x" * (60 if kind == "ustar" else 90)
    for i in range(ARCHIVES):
        with tarfile.open(os.path.join(out, f"{kind}-{i:03d}.tar"), "w", format=form) as tar:
            for k, (path, label, name) in enumerate(part(i)):
                key = f"{prefix}{k:06d}" if k % 2 else f"{k:06d}"
                add(tar, key + ".cls", str(label).encode())
                add(tar, key + ".jpg", open(path, "rb").read())
for i in range(ARCHIVES):
    with open(os.path.join(out, f"wds-{i:03d}.tar"), "wb") as f, tarfile.open(fileobj=f, mode="w|") as tar:
        for k, (path, label, name) in enumerate(part(i)):
            sample = {"__key__": f"{name.split('.')[0]}", "jpg": open(path, "rb").read(), "cls": str(label).encode()}
            for key in sorted(sample):
                if key.startswith("__"):
                    continue
                info = tarfile.TarInfo(f"{sample['__key__']}.{key}")
                info.size, info.mtime, info.mode = len(sample[key]), 1700000000.25 + k, 0o444
                info.uname = info.gname = "bigdata"
                tar.addfile(info, io.BytesIO(sample[key]))
with tarfile.open(os.path.join(out, "json.tar"), "w") as tar:
    for k, (path, label, name) in enumerate(pictures):
        add(tar, f"{k:06d}.jpg", open(path, "rb").read())
        add(tar, f"{k:06d}.json", json.dumps({"meta": {"class": classes[label]}}).encode())

for i in range(ARCHIVES):
    with open(os.path.join(out, f"records-{i:05d}-of-{ARCHIVES:05d}"), "wb") as f:
        for path, label, name in part(i):
            f.write(record({"image/class/label": label + 1, "image/filename": name,
                            "image/encoded": open(path, "rb").read()}))
