#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compare bilinear rotations, affine maps and perspectives with Pillow: 99.9 % of values differ by 1 level at most.

Pillow truncates where we round to the nearest level. With torchvision (PLENUM_TEST_TORCHVISION_PYTHON names an
interpreter that has it), its results on uint8 tensors are compared as well, except for the outermost pixels, which it
blends with the fill. The draws are computed here from docs/pixels.md, 10.1. Prints TAP.
"""

import math
import os
import random
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
PYTHON = os.environ.pop("PLENUM_TEST_TORCHVISION_PYTHON", None)
if PYTHON:
    os.execv(PYTHON, [PYTHON, os.path.abspath(sys.argv[0])])
from rendered import Dump, finish, np, result, windows  # noqa: E402
from PIL import Image  # noqa: E402

try:
    import torch
    import torchvision.transforms.functional as functional
except ImportError:
    functional = None


def philox(key, counter):
    """Compute Philox4x32-10 (docs/order.md, 1)."""
    k, c = [key & 0xFFFFFFFF, key >> 32], list(counter)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def drawn_corners(seed, position, distortion, side):
    """Return where perspective(distortion), as the only operation, moves the corners."""
    words = [w for t in range(3) for w in philox(seed, (position, 0, 16, t))][1:9]
    k = int(distortion * (side // 2))
    start = [0, 0, side - 1 - k, 0, side - 1 - k, side - 1 - k, 0, side - 1 - k]
    values = [s + (w * (k + 1) >> 32) for s, w in zip(start, words)]
    return [values[i:i + 2] for i in range(0, 8, 2)]


def coefficients(corners, side):
    """Compute torchvision's _get_perspective_coeffs()."""
    rows, right = [], []
    for (x, y), (u, v) in zip(corners, [(0, 0), (side - 1, 0), (side - 1, side - 1), (0, side - 1)]):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        right += [u, v]
    return np.linalg.solve(np.array(rows, float), np.array(right, float))


def tensor(image):
    return torch.from_numpy(np.asarray(image).transpose(2, 0, 1).copy())


def by_tensor(call):
    """Return torchvision's result, and which of its pixels come from inside the source."""
    def judge(image):
        mode = functional.InterpolationMode.BILINEAR
        inside = torch.full((3, image.height, image.width), 255, dtype=torch.uint8)
        return [call(v, mode).numpy().transpose(1, 2, 0) for v in (tensor(image), inside)]
    return judge


def maps(rng, side):
    """Yield (name, text, position, Pillow's result, torchvision's result)."""
    for _ in range(3):
        d = rng.randrange(-360 << 11, 360 << 11)
        yield ("rotate", f"rotate({d}/2048:{d}/2048,interpolation=bilinear)", 0,
               lambda image, d=d: image.rotate(d / 2048, Image.BILINEAR),
               lambda v, mode, d=d: functional.rotate(v, d / 2048, mode))
        s, k = rng.randrange(2048, 9000), rng.randrange(-30, 31)
        rot, t = math.radians(d / 2048), math.tan(math.radians(k))
        m = [v * 4096 / s for v in (math.cos(rot) - math.sin(rot) * t, math.sin(rot) + math.cos(rot) * t,
                                    -math.sin(rot), math.cos(rot))]
        h = side / 2
        matrix = [m[0], m[1], h - h * (m[0] + m[1]), m[2], m[3], h - h * (m[2] + m[3])]
        yield ("affine", f"affine({d}/2048:{d}/2048,scale={s}/4096:{s}/4096,shear={k}:{k},interpolation=bilinear)", 0,
               lambda image, matrix=matrix: image.transform(image.size, Image.AFFINE, matrix, Image.BILINEAR),
               lambda v, mode, d=d, s=s, k=k: functional.affine(v, d / 2048, [0, 0], s / 4096, [k, 0], mode))
        position, distortion = rng.randrange(1000), rng.choice([0.25, 0.5])
        corners = drawn_corners(1, position, distortion, side)
        found = coefficients(corners, side)
        starts = [[0, 0], [side - 1, 0], [side - 1, side - 1], [0, side - 1]]
        for name, mode in (("perspective", Image.BILINEAR), ("perspective, nearest", Image.NEAREST)):
            text = f"perspective({distortion},interpolation={'bilinear' if mode == Image.BILINEAR else 'nearest'})"
            yield (name, text, position,
                   lambda image, found=found, mode=mode: image.transform(image.size, Image.PERSPECTIVE, found, mode),
                   None if mode == Image.NEAREST else lambda v, mode, corners=corners: functional.perspective(
                       v, starts, corners, mode))


def main():
    dump = Dump()
    counts = {}

    def tally(name, got, want, where=None):
        apart = np.abs(got.astype(int) - want)
        if where is not None:
            apart = apart[where]
        counts[name] = counts.get(name, 0) + np.bincount(apart.ravel(), minlength=256)

    with tempfile.TemporaryDirectory() as folder:
        for number, (path, crop) in enumerate(windows(folder)):
            _, plain = dump.render(path, crop, 1, 0)
            image = Image.fromarray(plain)
            for name, text, position, pillow, torchvision in maps(random.Random(number), image.width):
                _, got = dump.render(path, f"{crop} {text}", 1, position)
                tally(name, got, np.asarray(pillow(image)))
                if functional and torchvision:
                    want, inside = by_tensor(torchvision)(image)
                    tally(name + " (torchvision's tensors)", got, want, inside == 255)
    for name, values in sorted(counts.items()):
        share = 100 * values / values.sum()
        result(share[2:].sum() <= 0.1, f"{name} is Pillow's to 1 level" if "(" not in name else f"{name}, to 1 level",
               f" ({share[0]:.3f} % equal, {share[1]:.3f} % 1 level apart, {share[2:].sum():.4f} % more)")
    finish()


main()
