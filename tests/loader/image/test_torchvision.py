#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compare the operations for which Pillow has no integer definition with torchvision's on uint8 tensors.

At least 99.9 % of the values must differ by at most 1 level.

PLENUM_TEST_TORCHVISION_PYTHON names an interpreter that has torchvision. Without one, the formulas of
torchvision.transforms.v2.functional (0.29) are computed with NumPy, in float32. Prints TAP.
"""

import os
import random
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
PYTHON = os.environ.pop("PLENUM_TEST_TORCHVISION_PYTHON", None)
if PYTHON:
    os.execv(PYTHON, [PYTHON, os.path.abspath(sys.argv[0])])
from rendered import Dump, finish, np, result, windows  # noqa: E402

try:
    import torch
    import torchvision
    from torchvision.transforms.v2 import functional
    JUDGE = f"torchvision {torchvision.__version__}"
except ImportError:
    functional = None
    JUDGE = "torchvision's formulas in NumPy"


def by_torchvision(call):
    """Turn an operation on tensors into one on arrays."""
    return lambda image: call(torch.from_numpy(image.transpose(2, 0, 1).copy())).numpy().transpose(1, 2, 0)


def numpy_hue(image, turns):
    """Compute adjust_hue_image()."""
    v = image.astype(np.float32) / np.float32(255)
    r, g, b = v[..., 0], v[..., 1], v[..., 2]
    most, least = v.max(2), v.min(2)
    d = most - least
    safe = np.where(d == 0, np.float32(1), d)
    rc, gc, bc = [(most - c) / safe for c in (r, g, b)]
    h = np.where(most == r, bc - gc, np.where(most == g, 2 + rc - bc, 4 + gc - rc))
    h = np.mod(np.mod(h / np.float32(6) + 1, 1) + np.float32(turns), 1).astype(np.float32)
    s = d / np.where(d == 0, np.float32(1), most)
    sector = np.floor(h * 6)
    f = h * 6 - sector
    p, q, t = most * (1 - s), most * (1 - s * f), most * (1 - s * (1 - f))
    table = [(most, t, p), (q, most, p), (p, most, t), (p, q, most), (t, p, most), (most, p, q)]
    made = [np.choose(sector.astype(int) % 6, [row[c] for row in table]) for c in range(3)]
    return (np.stack(made, axis=2) * np.float32(255.999)).astype(np.uint8)


def numpy_blur(image, size, sigma):
    """Compute gaussian_blur_image(), but across and then down instead of both at once."""
    x = np.linspace(-1, 1, size) * (size - 1) / 8 ** 0.5 if size > 1 else np.zeros(1)
    kernel = np.exp(-np.square(x / sigma))
    kernel /= kernel.sum()
    v = image.astype(float)
    for axis in range(2):
        padded = np.pad(v, [(size // 2, size // 2) if a == axis else (0, 0) for a in range(3)], mode="reflect")
        length = v.shape[axis]
        v = sum(k * padded.take(range(i, i + length), axis) for i, k in enumerate(kernel))
    return np.rint(v).astype(np.uint8)


def operations(rng):
    """Yield (text, a function that applies the operation with torchvision)."""
    for k in [24576, -24576, 0, 8192, rng.randrange(-24576, 24577), rng.randrange(-24576, 24577)]:
        turns = k / 49152
        yield f"hue({k}/49152:{k}/49152)", (by_torchvision(lambda v, f=turns: functional.adjust_hue(v, f))
                                            if functional else lambda v, f=turns: numpy_hue(v, f))
    for size, s in [(23, 2 << 14), (23, rng.randrange(1639, 2 << 14)), (23, rng.randrange(1639, 2 << 14)), (3, 9000),
                    (9, rng.randrange(1639, 5 << 14)), (49, 8 << 14), (87, 60 << 14)]:
        sigma = s / 16384
        yield f"blur({size},{s}/16384:{s}/16384)", (
            by_torchvision(lambda v, k=size, s=sigma: functional.gaussian_blur(v, [k, k], [s, s]))
            if functional else lambda v, k=size, s=sigma: numpy_blur(v, k, s))


class Tally:
    """The differences of one operation."""

    def __init__(self):
        self.renderings = 0
        self.counts = np.zeros(256, int)

    def add(self, got, want):
        self.renderings += 1
        self.counts += np.bincount(np.abs(got.astype(int) - want).ravel(), minlength=256)

    def note(self):
        share = 100 * self.counts / self.counts.sum()
        return (f" ({JUDGE}; {self.renderings} windows: {share[0]:.3f} % of values equal, {share[1]:.3f} % 1 level"
                f" apart, {share[2:].sum():.4f} % more, at most {np.nonzero(self.counts)[0].max()})")


def main():
    dump = Dump()
    tallies = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (path, crop) in enumerate(windows(folder)):
            _, plain = dump.render(path, crop, 1, 0)
            for text, judge in operations(random.Random(number)):
                _, got = dump.render(path, f"{crop} {text}", 1, 0)
                tallies.setdefault(text.split("(")[0], Tally()).add(got, judge(plain))
    for name, tally in tallies.items():
        result(tally.counts[2:].sum() <= tally.counts.sum() / 1000, f"{name} is torchvision's to 1 level", tally.note())
    finish()


main()
