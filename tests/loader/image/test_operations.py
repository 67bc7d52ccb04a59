#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compare the operations after the crop with Pillow, bit for bit; autocontrast only where Pillow's doubles are exact.

Both apply each operation to the same window. Factors are multiples of 2^-14, which Pillow's floats hold exactly.
Prints TAP.
"""

import math
import os
import random
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rendered import Dump, finish, np, result, windows  # noqa: E402
from PIL import Image, ImageEnhance, ImageOps  # noqa: E402


def exact_autocontrast(image):
    """Apply Pillow's rule without its rounding of doubles."""
    planes = []
    for plane in np.asarray(image).astype(int).transpose(2, 0, 1):
        low, high = plane.min(), plane.max()
        planes.append(plane if high <= low else 255 * (plane - low) // (high - low))
    return np.stack(planes, axis=2)


def grey(image):
    return image.convert("L").convert("RGB")


def inverse_affine(size, degrees, scale, shear_x, shear_y):
    """Return the matrix of torchvision's affine(), about the centre."""
    rot, sx, sy = (math.radians(v) for v in (degrees, shear_x, shear_y))
    a, c = math.cos(rot - sy) / math.cos(sy), math.sin(rot - sy) / math.cos(sy)
    b, d = -a * math.tan(sx) - math.sin(rot), -c * math.tan(sx) + math.cos(rot)
    x, y = (v / 2 for v in size)
    back = [v / scale for v in (d, -b, -c, a)]
    return [back[0], back[1], x - back[0] * x - back[1] * y, back[2], back[3], y - back[2] * x - back[3] * y]


def maps(rng):
    """Yield what operations() does, for operations that move pixels."""
    def by(name, matrix, fill):
        return name, lambda image: image.transform(image.size, Image.AFFINE, matrix(image.size), Image.NEAREST,
                                                   fillcolor=fill)
    for degrees in [0, 45, 90, 180, 270, -30, *(rng.randrange(-360 << 11, 360 << 11) / 2048 for _ in range(6))]:
        k = int(degrees * 2048)
        fill = tuple(rng.randrange(256) for _ in range(3))
        text = f"rotate({k}/2048:{k}/2048,fill={fill[0]}:{fill[1]}:{fill[2]})"
        yield text, lambda image, d=degrees, f=fill: image.rotate(d, fillcolor=f)
    for _ in range(6):
        k = rng.randrange(-40 * 4096, 40 * 4096)
        m = rng.randrange(-40 * 4096, 40 * 4096)
        yield by(f"shear({k}/4096:{k}/4096:{m}/4096:{m}/4096)",
                 lambda size, k=k, m=m: inverse_affine(size, 0, 1, k / 4096, m / 4096), 0)
        d, s = rng.randrange(-180 * 4096, 180 * 4096), rng.randrange(2048, 12000)
        yield by(f"affine({d}/4096:{d}/4096,scale={s}/4096:{s}/4096,shear={k}/4096:{k}/4096:{m}/4096:{m}/4096,fill=3)",
                 lambda size, k=k, m=m, d=d, s=s: inverse_affine(size, d / 4096, s / 4096, k / 4096, m / 4096),
                 (3, 3, 3))


def operations(rng):
    """Yield (text, a function that applies the operation with Pillow)."""
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
    yield from maps(rng)
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
