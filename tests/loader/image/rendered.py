# SPDX-License-Identifier: MIT
"""What the tests of the renderer against Pillow share: the program that renders, and TAP."""

import os
import subprocess
import sys

try:
    import numpy as np
    from PIL import Image
except ImportError as e:
    # Configure may have found a Python other than the distribution's, which has these modules.
    if os.environ.get("PLENUM_TEST_PYTHON") is None and os.path.exists("/usr/bin/python3"):
        os.environ["PLENUM_TEST_PYTHON"] = "tried"
        os.execv("/usr/bin/python3", ["/usr/bin/python3", os.path.abspath(sys.argv[0])])
    print(f"1..0 # SKIP {e} (Debian: python3-pil, python3-numpy)")
    sys.exit(0)

Image.MAX_IMAGE_PIXELS = None
TOP = os.environ.get("top_builddir", ".")
DUMP = os.path.join(TOP, "tests/loader/image/dump")
IMAGES = os.environ.get("PLENUM_TEST_IMAGES") or os.path.join(
    os.environ.get("top_srcdir", "."), "..", "shared", "images")

count = 0


def result(ok, name, note=""):
    global count
    count += 1
    print(f"{'ok' if ok else 'not ok'} {count} - {name}{note}", flush=True)


class Dump:
    """A running `dump` process."""

    def __init__(self):
        self.process = subprocess.Popen([DUMP], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def render(self, path, pipeline, seed, position):
        """Return geometry and pixels."""
        self.process.stdin.write(f"{path}\t{pipeline}\t{seed}\t{position}\n".encode())
        self.process.stdin.flush()
        answer = self.process.stdout.readline().decode().rstrip("\n")
        if not answer.startswith("ok "):
            raise ValueError(f"{path}: {answer}")
        numbers = [int(n) for n in answer.split()[1:]]
        width, height = numbers[8:10]
        pixels = self.process.stdout.read(height * width * 3)
        return numbers, np.frombuffer(pixels, np.uint8).reshape(height, width, 3)


def windows(folder):
    """Yield (path, pipeline) of images whose middle 48 x 48 pixels have values of every kind."""
    rng = np.random.default_rng(7)
    made = {
        "noise": rng.integers(0, 256, (48, 48, 3)),
        "dark": rng.integers(3, 40, (48, 48, 3)),
        "two": rng.integers(0, 2, (48, 48, 3)) * 9 + 100,
        "flat": np.full((48, 48, 3), 77),
        "steps": np.indices((48, 48, 3)).sum(0) * 2 % 256,
    }
    for name, pixels in made.items():
        path = os.path.join(folder, name + ".png")
        Image.fromarray(pixels.astype(np.uint8), "RGB").save(path)
        yield path, "resize(48) center_crop(48)"
    found = [os.path.join(at, file) for at, _, files in sorted(os.walk(IMAGES)) for file in sorted(files)]
    for path in found[::9]:
        yield path, "resize(96) center_crop(90)"


def finish():
    print(f"1..{count}")
