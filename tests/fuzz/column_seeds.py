# SPDX-License-Identifier: MIT
"""column_seeds.py OUT - seeds for fuzz_columns: small Parquet files and MDS data sets of all forms."""

import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "e2e"))
from columns import (BOOLEAN, BYTES, CODECS, DOUBLE, INT32, INT64, Column, Struct, huggingface, mds,  # noqa: E402
                     parquet)

out, seeds = sys.argv[1], []
images = [b"an image", None, b"another", b"an image", b"four" * 20, b"x"]
labels = [0, 1, 2, 0, 1, 2]
captions = [b"cat", b"dog", None, b"cat", b"cat", b"bird"]
keys = huggingface({"image": {"_type": "Image"}, "label": {"names": ["a", "b", "c"], "_type": "ClassLabel"}})
decimal = {6: 5, 7: 2, 8: 5, 10: Struct({5: Struct({1: 2, 2: 5})})}
date = {6: 6, 10: Struct({6: Struct({})})}
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "a.parquet")
    for codec in CODECS:
        for version in 1, 2:
            for dictionary in False, True:
                parquet(path, [Column(["image", "bytes"], BYTES, images, codec, dictionary),
                               Column("label", INT64 if dictionary else INT32, labels, codec, dictionary,
                                      required=True),
                               Column("caption", BYTES, captions, codec, dictionary, text=True),
                               Column("score", DOUBLE, [1.5, None, 2, 3, 4, 5]),
                               Column("new", BOOLEAN, [True, False] * 3),
                               Column("price", INT32, labels, kind=decimal), Column("day", INT32, labels, kind=date)],
                        version, 4, 3, keys)
                with open(path, "rb") as f:
                    seeds.append(bytes([len(seeds) % 5 * 4]) + f.read())
    samples = [{"image": i or b"", "label": n, "caption": (c or b"").decode()}
               for i, n, c in zip(images, labels, captions)]
    for compression in None, "snappy":
        mds(folder, {"image": "jpeg", "label": "int", "caption": "str"}, samples, 100, compression)
        with open(os.path.join(folder, "index.json"), "rb") as f:
            index = f.read()
        with open(os.path.join(folder, "shard.00000.mds" + ("." + compression if compression else "")), "rb") as f:
            shard = f.read()
        for setting in range(5):
            seeds.append(bytes([setting * 4 + (2 if compression else 0) + 1, len(index) & 255, len(index) >> 8])
                         + index + shard)
os.makedirs(out, exist_ok=True)
for i, seed in enumerate(seeds):
    with open(os.path.join(out, str(i)), "wb") as f:
        f.write(seed)
