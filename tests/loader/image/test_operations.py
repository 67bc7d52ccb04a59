#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The operations behind the crop against Pillow, bit for bit; autocontrast where Pillow's doubles are exact.

Each is done to the same window by both. Factors are multiples of 2^-14, which Pillow's floats hold exactly. Speaks TAP.
"""

import os
import random
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rendered import Dump, finish, np, result, windows  # noqa: E402
from PIL import Image, ImageEnhance, ImageOps  # noqa: E402


def exact_autocontrast(image):
    """Pillow's rule without its rounding of doubles."""
    planes = []
    for plane in np.asarray(image).astype(int).transpose(2, 0, 1):
        low, high = plane.min(), plane.max()
        planes.append(plane if high <= low else 255 * (plane - low) // (high - low))
    return np.stack(planes, axis=2)


def grey(image):
    return image.convert("L").convert("RGB")


def operations(rng):
    """(text, what Pillow makes of an image)"""
    def factor(high=3):
        return rng.randrange(0, high * 16384 + 1)
    for enhance, name in [(ImageEnhance.Brightness, "brightness"), (ImageEnhance.Contrast, "contrast"),
                          (ImageEnhance.Color, "saturation"), (ImageEnhance.Sharpness, "sharpness")]:
        for f in [0, 16384, 3 * 16384, factor(), factor(2), factor(1)]:
            yield f"{name}({f}/16384:{f}/16384)", lambda image, e=enhance, f=f: e(image).enhance(f / 16384)
    yield "grayscale(1)", grey
    yield "invert(1)", ImageOps.invert
    yield "equalize(1)", ImageOps.equalize
    yield "autocontrast(1)", exact_autocontrast
    for threshold in [0, 1, 128, 255, 256, rng.randrange(256)]:
        yield f"solarize({threshold})", lambda image, t=threshold: ImageOps.solarize(image, t)
    for bits in range(1, 9):
        yield f"posterize({bits})", lambda image, b=bits: ImageOps.posterize(image, b)
    yield "vertical_flip(1)", ImageOps.flip
    yield "invert(1) flip(1)", lambda image: ImageOps.mirror(ImageOps.invert(image))


def main():
    dump = Dump()
    failed = {}
    count = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (path, crop) in enumerate(windows(folder)):
            _, plain = dump.render(path, crop, 1, 0)
            image = Image.fromarray(plain)
            for text, pillow in operations(random.Random(number)):
                _, got = dump.render(path, f"{crop} {text}", 1, 0)
                name = text.split("(")[0] if text.count("(") == 1 else text
                count[name] = count.get(name, 0) + 1
                want = np.asarray(pillow(image)).astype(int)
                if not np.array_equal(got, want):
                    failed.setdefault(name, f"{path}, {text}: {np.abs(got.astype(int) - want).max()}")
    for name in sorted(count):
        if name in failed:
            print("# " + failed[name])
        result(name not in failed, f"{name} is Pillow's", f" ({count[name]} windows)")
    finish()


main()
