# SPDX-License-Identifier: MIT
"""Makes files for data sets: PNGs, arrays and archives."""

import io
import struct
import tarfile
import zlib

import numpy as np


def png(pixels, palette=False):
    """Return a PNG of greys [H, W], uint8 or uint16, or of colours [H, W, 3], uint8."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = pixels.shape[:2]
    depth, colour = 8 * pixels.itemsize, 2 if pixels.ndim == 3 else 3 if palette else 0
    rows = b"".join(b"\0" + row.astype(f">u{pixels.itemsize}").tobytes() for row in pixels)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)) +
            (chunk(b"PLTE", bytes(range(256)) * 3) if palette else b"") + chunk(b"IDAT", zlib.compress(rows)) +
            chunk(b"IEND", b""))


def npy(array):
    f = io.BytesIO()
    np.save(f, array)
    return f.getvalue()


def write_tar(path, samples):
    with tarfile.open(path, "w") as archive:
        for name, parts in samples:
            for extension, data in parts.items():
                if isinstance(data, tarfile.TarInfo):
                    data.name = f"{name}.{extension}"
                    archive.addfile(data)
                    continue
                info = tarfile.TarInfo(f"{name}.{extension}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
