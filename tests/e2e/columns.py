# SPDX-License-Identifier: MIT
"""columns.py FOLDER OUT - writes the pictures of a folder data set, in the same order, as Parquet files and MDS shards,
from the published formats without any of Plenum's code:

    hf.parquet                 as the library `datasets` writes it: images as struct<bytes, path>, names of classes
    flat-CODEC-VERSION.parquet images in a column of bytes, with each codec and both versions of data pages
    dict-CODEC.parquet         images in a dictionary, with each codec
    mds/ mds-zstd/ mds-gz/     MDS shards, uncompressed and compressed
"""

import gzip
import json
import os
import struct
import sys

# ---- compression ----


def varint(v):
    out = bytearray()
    while v > 127:
        out.append(v & 127 | 128)
        v >>= 7
    out.append(v)
    return bytes(out)


def literal(data):
    n = len(data) - 1
    if n < 60:
        return bytes([n << 2]) + data
    size = (n.bit_length() + 7) // 8
    return bytes([59 + size << 2]) + n.to_bytes(size, "little") + data


def copy(offset, length):
    if 4 <= length <= 11 and offset < 2048:
        return bytes([1 | length - 4 << 2 | offset >> 8 << 5, offset & 255])
    if offset < 65536:
        return bytes([2 | length - 1 << 2]) + struct.pack("<H", offset)
    return bytes([3 | length - 1 << 2]) + struct.pack("<I", offset)


def snappy(data):
    """Compress `data` with Snappy. Repeated sequences of at least four bytes become copies where it finds them."""
    out, seen, begin, at = bytearray(varint(len(data))), {}, 0, 0
    while at + 4 <= len(data):
        word = data[at:at + 4]
        before, seen[word] = seen.get(word), at
        if before is None:
            at += 1
            continue
        length = 4
        while length < 64 and at + length < len(data) and data[before + length] == data[at + length]:
            length += 1
        if at > begin:
            out += literal(data[begin:at])
        out += copy(at - before, length)
        at += length
        begin = at
    if begin < len(data):
        out += literal(data[begin:])
    return bytes(out)


def zstd(data):
    """Return a zstd frame of raw blocks."""
    out = struct.pack("<IBQ", 0xFD2FB528, 0xE0, len(data))
    pieces = [data[i:i + 100000] for i in range(0, len(data), 100000)] or [b""]
    for i, piece in enumerate(pieces):
        out += struct.pack("<I", (i == len(pieces) - 1) | len(piece) << 3)[:3] + piece
    return out


def members(data):
    """Return two gzip streams, one after the other."""
    half = len(data) // 2
    return gzip.compress(data[:half], mtime=0) + gzip.compress(data[half:], mtime=0)


CODECS = {"none": (0, lambda data: data), "snappy": (1, snappy), "gzip": (2, members), "zstd": (6, zstd)}

# ---- Thrift's compact protocol ----


class I64(int):
    """An integer of 64 bits; plain integers have 32."""


class Struct:
    """A Thrift struct: {number: value}, each an int, bool, bytes, str, Struct, or a list of one of these."""

    def __init__(self, fields):
        self.fields = fields


def zigzag(v):
    return varint((v << 1 ^ v >> 63) & (1 << 64) - 1)


def kind(v):
    if isinstance(v, bool):
        return 1 if v else 2
    if isinstance(v, int):
        return 6 if isinstance(v, I64) else 5
    return 8 if isinstance(v, (bytes, str)) else 9 if isinstance(v, list) else 12


def value(v):
    if isinstance(v, bool):
        return b""
    if isinstance(v, int):
        return zigzag(v)
    if isinstance(v, (bytes, str)):
        v = v.encode() if isinstance(v, str) else v
        return varint(len(v)) + v
    if isinstance(v, list):
        element = kind(v[0]) if v else 12
        head = bytes([len(v) << 4 | element]) if len(v) < 15 else bytes([0xF0 | element]) + varint(len(v))
        return head + b"".join(map(value, v))
    out, last = b"", 0
    for number, each in sorted(v.fields.items()):
        if each is None:
            continue
        delta = number - last
        out += bytes([delta << 4 | kind(each)]) if 0 < delta < 16 else bytes([kind(each)]) + zigzag(number)
        out += value(each)
        last = number
    return out + b"\0"


# ---- Parquet ----

BOOLEAN, INT32, INT64, FLOAT, DOUBLE, BYTES = 0, 1, 2, 4, 5, 6
PLAIN, DICTIONARY = 0, 8
FORMS = {INT32: "<i", INT64: "<q", FLOAT: "<f", DOUBLE: "<d"}


class Column:
    """A column of values, which may be None. `path` is a name, or the names of a struct and its member."""

    def __init__(self, path, form, values, codec="none", dictionary=False, text=False, required=False, kind=None):
        self.path, self.form, self.values = [path] if isinstance(path, str) else path, form, values
        self.codec, self.dictionary, self.text, self.required = codec, dictionary, text, required
        self.kind = kind or ({6: 0} if text else {})  # more members of its SchemaElement: what values mean

    @property
    def max_level(self):
        return 0 if self.required else len(self.path)


def plain(form, values):
    if form == BYTES:
        return b"".join(struct.pack("<I", len(v)) + v for v in values)
    if form == BOOLEAN:
        bits = sum(bool(v) << i for i, v in enumerate(values))
        return bits.to_bytes((len(values) + 7) // 8, "little")
    return b"".join(struct.pack(FORMS[form], v) for v in values)


def runs(values, width):
    """Encode values as runs of equal ones, and as packed groups of eight where they differ."""
    out, at, size = b"", 0, (width + 7) // 8
    while at < len(values):
        n = 1
        while at + n < len(values) and values[at + n] == values[at]:
            n += 1
        if n >= 8 or at + n == len(values):
            out += varint(n << 1) + values[at].to_bytes(size, "little")
            at += n
            continue
        group = values[at:at + 8]
        bits = sum(v << i * width for i, v in enumerate(group))
        out += varint(1 << 1 | 1) + bits.to_bytes(width, "little")
        at += 8
    return out


def page(column, header, levels, body, version):
    number, compress = CODECS[column.codec]
    if version == 2 and 8 in header:
        header[8].fields.update({5: len(levels), 6: 0})
        packed = levels + (compress(body) if number else body)
        size = len(levels) + len(body)
    else:
        body = (struct.pack("<I", len(levels)) + levels if levels and 5 in header else b"") + body
        packed = compress(body) if number else body
        size = len(body)
    return value(Struct({**header, 2: size, 3: len(packed)})) + packed


def chunk(column, rows, at, version, page_rows):
    """Return the pages of some rows, for byte `at` of the file, and the metadata of the column chunk."""
    out, data_at, dictionary_at, table = b"", None, None, []
    if column.dictionary:
        table = list(dict.fromkeys(v for v in rows if v is not None))
        dictionary_at = at
        header = {1: 2, 7: Struct({1: len(table), 2: PLAIN, 3: False})}
        out += page(column, header, b"", plain(column.form, table), version)
    for i in range(0, len(rows), page_rows):
        data_at = data_at or at + len(out)
        part = rows[i:i + page_rows]
        there = [v for v in part if v is not None]
        levels = b""
        if column.max_level:
            levels = runs([column.max_level if v is not None else column.max_level - 1 for v in part],
                          column.max_level.bit_length())
        if column.dictionary:
            width = max(len(table) - 1, 1).bit_length()
            body = bytes([width]) + runs([table.index(v) for v in there], width)
        else:
            body = plain(column.form, there)
        encoding = DICTIONARY if column.dictionary else PLAIN
        header = {1: 0, 5: Struct({1: len(part), 2: encoding, 3: 3, 4: 3})} if version == 1 else \
            {1: 3, 8: Struct({1: len(part), 2: len(part) - len(there), 3: len(part), 4: encoding,
                              7: column.codec != "none"})}
        out += page(column, header, levels, body, version)
    meta = {1: column.form, 2: [encoding], 3: column.path, 4: CODECS[column.codec][0], 5: I64(len(rows)),
            6: I64(len(out)), 7: I64(len(out)), 9: I64(data_at), 11: I64(dictionary_at) if dictionary_at else None}
    return out, Struct({2: I64(at), 3: Struct(meta)})


def schema(columns):
    tree = {}
    for c in columns:
        tree.setdefault(c.path[0], []).append(c)
    out = [Struct({4: "schema", 5: sum(1 if len(group[0].path) == 2 else len(group) for group in tree.values())})]
    for name, group in tree.items():
        if len(group[0].path) == 2:
            out.append(Struct({3: 1, 4: name, 5: len(group)}))
        out += [Struct({1: c.form, 3: 0 if c.required else 1, 4: c.path[-1], **c.kind}) for c in group]
    return out


def empty_group(columns):
    """Return a row group without rows, whose chunks are at byte 0, as pyarrow writes it."""
    zero = I64(0)
    meta = [Struct({1: c.form, 2: [PLAIN], 3: c.path, 4: CODECS[c.codec][0], 5: zero, 6: zero, 7: zero, 9: zero})
            for c in columns]
    return Struct({1: [Struct({2: zero, 3: m}) for m in meta], 2: zero, 3: zero})


def parquet(path, columns, version=1, group_rows=10, page_rows=4, keys=None, empty=()):
    """Write a Parquet file. `empty` lists the rows that follow a row group without rows."""
    out, groups, rows = b"PAR1", [], len(columns[0].values)
    for i in range(0, rows, group_rows):
        if i in empty:
            groups.append(empty_group(columns))
        chunks = []
        for c in columns:
            pages, meta = chunk(c, c.values[i:i + group_rows], len(out), version, page_rows)
            out += pages
            chunks.append(meta)
        groups.append(Struct({1: chunks, 2: I64(len(out)), 3: I64(min(group_rows, rows - i))}))
    if rows in empty:
        groups.append(empty_group(columns))
    meta = value(Struct({1: 2, 2: schema(columns), 3: I64(rows), 4: groups,
                         5: [Struct({1: k, 2: v}) for k, v in (keys or {}).items()] or None}))
    with open(path, "wb") as f:
        f.write(out + meta + struct.pack("<I", len(meta)) + b"PAR1")


def huggingface(features):
    return {"huggingface": json.dumps({"info": {"features": features}})}


# ---- MDS ----

SIZES = {"int": ("<q", 8), "uint8": ("<B", 1), "float32": ("<f", 4)}
PACKED = {"zstd": ("zstd", zstd), "gz": ("gz", gzip.compress), "snappy": ("snappy", snappy)}


def mds_value(encoding, v):
    return struct.pack(SIZES[encoding][0], v) if encoding in SIZES else v.encode() if isinstance(v, str) else v


def mds(folder, columns, samples, shard_samples=7, compression=None, keep_raw=False):
    """Write a folder of MDS shards. `columns` is {name: encoding}, and `samples` are dicts."""
    os.makedirs(folder, exist_ok=True)
    names, shards = sorted(columns), []
    for i in range(0, len(samples), shard_samples):
        bodies = []
        for sample in samples[i:i + shard_samples]:
            data = [mds_value(columns[n], sample[n]) for n in names]
            sizes = [len(d) for n, d in zip(names, data) if columns[n] not in SIZES]
            bodies.append(struct.pack(f"<{len(sizes)}I", *sizes) + b"".join(data))
        config = json.dumps({"column_names": names}).encode()
        at = 4 * (len(bodies) + 2) + len(config)
        offsets = [at]
        for body in bodies:
            offsets.append(offsets[-1] + len(body))
        raw = struct.pack(f"<{len(offsets) + 1}I", len(bodies), *offsets) + config + b"".join(bodies)
        base, zipped = f"shard.{len(shards):05d}.mds", None
        if compression:
            extension, compress = PACKED[compression]
            packed = compress(raw)
            zipped = {"basename": f"{base}.{extension}", "bytes": len(packed), "hashes": {}}
            with open(os.path.join(folder, zipped["basename"]), "wb") as f:
                f.write(packed)
        if not compression or keep_raw:
            with open(os.path.join(folder, base), "wb") as f:
                f.write(raw)
        shards.append({"format": "mds", "version": 2, "samples": len(bodies), "column_names": names,
                       "column_encodings": [columns[n] for n in names],
                       "column_sizes": [SIZES[columns[n]][1] if columns[n] in SIZES else None for n in names],
                       "compression": f"{compression}:3" if compression == "zstd" else compression, "hashes": [],
                       "raw_data": {"basename": base, "bytes": len(raw), "hashes": {}}, "zip_data": zipped})
    with open(os.path.join(folder, "index.json"), "w") as f:
        json.dump({"version": 2, "shards": shards}, f)


# ---- all forms of a folder ----


def pictures(root):
    classes = sorted(d for d in os.listdir(root) if os.path.isdir(os.path.join(root, d)))
    files = [(label, name) for label, c in enumerate(classes) for name in sorted(os.listdir(os.path.join(root, c)))]
    return classes, [(open(os.path.join(root, classes[n], name), "rb").read(), n, name) for n, name in files]


def main(root, out):
    classes, all_of_them = pictures(root)
    images, labels = [p[0] for p in all_of_them], [p[1] for p in all_of_them]
    paths = [p[2].encode() for p in all_of_them]
    captions = [b"a picture of " + classes[n].encode() for n in labels]
    keys = huggingface({"image": {"_type": "Image"}, "label": {"names": classes, "_type": "ClassLabel"}})
    parquet(os.path.join(out, "hf.parquet"),
            [Column(["image", "bytes"], BYTES, images),
             Column(["image", "path"], BYTES, paths, "snappy", True, text=True),
             Column("label", INT64, labels, "snappy", True),
             Column("caption", BYTES, captions, "zstd", True, text=True),
             Column("score", DOUBLE, [n / 4 for n in range(len(labels))], "gzip")], keys=keys)
    for codec in CODECS:
        for version in 1, 2:
            parquet(os.path.join(out, f"flat-{codec}-{version}.parquet"),
                    [Column("image", BYTES, images, codec),
                     Column("label", INT32, labels, codec, required=True)], version)
        parquet(os.path.join(out, f"dict-{codec}.parquet"),
                [Column("label", BYTES, [str(n).encode() for n in labels], codec, text=True),
                 Column("image", BYTES, images, codec, True, required=True)])
    half = len(images) // 2
    os.makedirs(os.path.join(out, "files"), exist_ok=True)
    for i, part in enumerate((slice(0, half), slice(half, None))):
        parquet(os.path.join(out, "files", f"train-0000{i}-of-00002.parquet"),
                [Column(["image", "bytes"], BYTES, images[part]), Column("label", INT64, labels[part])], keys=keys)
    samples = [{"image": i, "label": n, "caption": c.decode()} for i, n, c in zip(images, labels, captions)]
    columns = {"image": "jpeg", "label": "int", "caption": "str"}
    mds(os.path.join(out, "mds"), columns, samples)
    for compression in PACKED:
        mds(os.path.join(out, f"mds-{compression}"), columns, samples, compression=compression)


if __name__ == "__main__":
    main(*sys.argv[1:3])
