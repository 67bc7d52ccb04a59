# SPDX-License-Identifier: MIT
"""records.py - TFRecords and tf.train.Examples, written from their published formats, without any of Plenum's code."""

import struct

TABLE = []
for b in range(256):
    for _ in range(8):
        b = b >> 1 ^ (0x82F63B78 if b & 1 else 0)
    TABLE.append(b)


def masked_crc(data):
    crc = 0xFFFFFFFF
    for b in data:
        crc = crc >> 8 ^ TABLE[(crc ^ b) & 0xFF]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def varint(v):
    v &= (1 << 64) - 1
    data = b""
    while v > 127:
        data += bytes([v & 127 | 128])
        v >>= 7
    return data + bytes([v])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def feature(key, value):
    """Encode a feature of bytes, a string or an integer."""
    if isinstance(value, int):
        kind, value = 3, varint(value)
    else:
        kind, value = 1, value if isinstance(value, bytes) else value.encode()
    return field(1, field(1, key.encode()) + field(2, field(kind, field(1, value))))


def example(features):
    return field(1, b"".join(feature(k, v) for k, v in features.items()))


def header(length):
    length = struct.pack("<Q", length)
    return length + masked_crc(length)


def record(features):
    data = example(features)
    return header(len(data)) + data + masked_crc(data)
